//! What a gateway client is told at its start.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zeroize::Zeroizing;

use super::endpoint::{Endpoint, EndpointScheme};
use super::tls::EtcdTls;

/// The most endpoints.
pub const ENDPOINTS_MAX: usize = 16;

/// The most bytes of a password's file.
const PASSWORD_FILE_BYTES_MAX: u64 = 64 << 10;

/// What a gateway client is told at its start.
#[derive(Clone, Debug)]
pub struct GatewaySettings {
    /// The members of etcd, as many as are known: at least one, and [`ENDPOINTS_MAX`] at most.
    pub endpoints: Vec<Endpoint>,
    /// The certificates, for endpoints with TLS.
    pub tls: Option<EtcdTls>,
    /// Who the node is for etcd, if etcd has users.
    pub user: Option<EtcdUser>,
    /// How long the client waits.
    pub times: CallTimes,
    /// A random number. It says which endpoint is asked first, so that nodes spread over the members.
    pub seed: u64,
}

/// How long the client waits for an endpoint before it tries the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallTimes {
    /// For most answers.
    pub call: Duration,
    /// For the renewal of a lease. It is short, so that another endpoint can be tried before the lease ends.
    pub renewal: Duration,
    /// For a token. etcd takes some tenths of a second of processor time to check a password.
    pub login: Duration,
    /// How long a watch may be silent before another one takes its place.
    pub silence: Duration,
}

impl Default for CallTimes {
    fn default() -> CallTimes {
        CallTimes {
            call: Duration::from_secs(3),
            renewal: Duration::from_secs(1),
            login: Duration::from_secs(5),
            silence: Duration::from_secs(60),
        }
    }
}

/// A user of etcd.
#[derive(Clone)]
pub struct EtcdUser {
    /// The name.
    pub name: String,
    /// The password. It is wiped when the client ends.
    pub password: Zeroizing<String>,
}

/// The password is not shown.
impl fmt::Debug for EtcdUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdUser")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Credentials that were read anew. Those of `None` stay as they are.
#[derive(Default)]
pub struct RenewedCredentials {
    /// The certificates.
    pub tls: Option<EtcdTls>,
    /// The password of the user that the settings name.
    pub password: Option<Zeroizing<String>>,
}

/// Why a client cannot work with its settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatewaySettingsError {
    /// There is no endpoint, or there are too many.
    #[error("{0} addresses of etcd; name one to {ENDPOINTS_MAX} of its members")]
    Count(usize),
    /// The endpoint speaks TLS, and nobody says whom to trust.
    #[error("{0} speaks TLS; name the file with the authority that signed etcd's certificates")]
    NoAuthority(Endpoint),
    /// The password would travel in clear text.
    #[error(
        "a password would travel to {0} in clear text; give etcd a certificate and write https://"
    )]
    PasswordInClear(Endpoint),
}

/// Why a password's file is not used.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// It cannot be read.
    #[error("cannot read the password in {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Its first line is empty.
    #[error("{path} has no password in its first line; write it there")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl GatewaySettings {
    /// Checks what the client cannot do without.
    pub(super) fn check(&self) -> Result<(), GatewaySettingsError> {
        let count = self.endpoints.len();
        if count == 0 || count > ENDPOINTS_MAX {
            return Err(GatewaySettingsError::Count(count));
        }
        for endpoint in &self.endpoints {
            let is_clear = endpoint.scheme() == EndpointScheme::Http;
            if !is_clear && self.tls.is_none() {
                return Err(GatewaySettingsError::NoAuthority(endpoint.clone()));
            }
            if is_clear && self.user.is_some() && !endpoint.is_loopback() {
                return Err(GatewaySettingsError::PasswordInClear(endpoint.clone()));
            }
        }
        Ok(())
    }
}

/// Reads the password in the first line of a file. It waits some seconds if the file is a pipe.
///
/// # Errors
///
/// The file cannot be read, or has no password.
pub fn read_password(path: &Path) -> Result<Zeroizing<String>, PasswordError> {
    let text = sublet_tls::read_text(path, PASSWORD_FILE_BYTES_MAX);
    let text = Zeroizing::new(text.map_err(|source| PasswordError::Unreadable {
        path: path.to_owned(),
        source,
    })?);
    let password = text.lines().next().unwrap_or_default();
    match password.is_empty() {
        true => Err(PasswordError::Empty {
            path: path.to_owned(),
        }),
        false => Ok(Zeroizing::new(password.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(endpoints: &[&str]) -> GatewaySettings {
        let endpoints = endpoints.iter().map(|text| text.parse().expect(text));
        GatewaySettings {
            endpoints: endpoints.collect(),
            tls: None,
            user: None,
            times: CallTimes::default(),
            seed: 0,
        }
    }

    #[test]
    fn endpoints_are_counted_and_tls_needs_an_authority() {
        assert_eq!(settings(&[]).check(), Err(GatewaySettingsError::Count(0)));
        let crowd = ["http://a"; ENDPOINTS_MAX + 1];
        assert_eq!(
            settings(&crowd).check(),
            Err(GatewaySettingsError::Count(crowd.len()))
        );
        assert_eq!(settings(&crowd[1..]).check(), Ok(()));
        let secure = settings(&["https://a"]).check();
        assert!(matches!(secure, Err(GatewaySettingsError::NoAuthority(_))));
    }

    #[test]
    fn a_password_travels_in_clear_text_on_this_host_only() {
        let with_user = |endpoints| GatewaySettings {
            user: Some(EtcdUser {
                name: "sublet".to_owned(),
                password: Zeroizing::new("secret".to_owned()),
            }),
            ..settings(endpoints)
        };
        assert_eq!(with_user(&["http://127.0.0.1:1"]).check(), Ok(()));
        let refused = with_user(&["http://127.0.0.1:1", "http://b:1"]).check();
        assert!(matches!(
            refused,
            Err(GatewaySettingsError::PasswordInClear(_))
        ));
        let shown = format!("{:?}", with_user(&["http://127.0.0.1:1"]));
        assert!(!shown.contains("secret"), "{shown}");
    }

    #[test]
    fn a_password_is_the_first_line_of_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("password");
        std::fs::write(&path, "of this\nnot that\n").expect("written");
        assert_eq!(
            read_password(&path).expect("a password").as_str(),
            "of this"
        );
        std::fs::write(&path, "\n").expect("written");
        assert!(matches!(
            read_password(&path),
            Err(PasswordError::Empty { .. })
        ));
        assert!(read_password(&folder.path().join("none")).is_err());
    }
}
