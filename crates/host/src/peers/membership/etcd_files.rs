//! The files by which this host and etcd know each other: certificates, and a password. They are read when the host
//! registers, and again on SIGHUP.

use std::path::PathBuf;
use std::sync::Arc;

use sublet_etcd::gateway::{
    EtcdTls, EtcdUser, GatewayClient, PasswordError, RenewedCredentials, TlsFiles, TlsFilesError,
    read_password,
};

use crate::config::{EtcdConfig, EtcdUserConfig};

/// Why files for etcd cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EtcdFilesError {
    /// A certificate is wrong.
    #[error(transparent)]
    Tls(#[from] TlsFilesError),
    /// The password's file is wrong.
    #[error(transparent)]
    Password(#[from] PasswordError),
}

/// Files that belong together, and whether they can be used.
pub struct RereadFiles {
    /// The files.
    pub files: Vec<PathBuf>,
    /// If they cannot be used, what was read of them before is in use.
    pub outcome: Result<(), EtcdFilesError>,
}

/// The files of a member, and the client that uses what was read of them.
#[derive(Clone)]
pub struct EtcdFiles {
    etcd: EtcdConfig,
    client: Arc<GatewayClient>,
}

impl EtcdFiles {
    /// The files that the config names. The client was made with what stands in them.
    pub(super) fn new(etcd: EtcdConfig, client: Arc<GatewayClient>) -> EtcdFiles {
        EtcdFiles { etcd, client }
    }

    /// All files, those together that belong together.
    pub fn list(&self) -> Vec<Vec<PathBuf>> {
        let certificates = self.etcd.tls.as_ref().map(certificate_files);
        let user = self.etcd.user.as_ref();
        let password = user.map(|user| vec![user.password_file.clone()]);
        certificates.into_iter().chain(password).collect()
    }

    /// Reads all files anew. The client connects anew with what can be used. A file that is a pipe may take some seconds.
    pub fn reread(&self) -> Vec<RereadFiles> {
        let mut fresh = RenewedCredentials::default();
        let mut reread = Vec::new();
        if let Some(tls) = &self.etcd.tls {
            let outcome = EtcdTls::read(tls).map(|tls| fresh.tls = Some(tls));
            reread.push(RereadFiles {
                files: certificate_files(tls),
                outcome: outcome.map_err(EtcdFilesError::from),
            });
        }
        if let Some(EtcdUserConfig { password_file, .. }) = &self.etcd.user {
            let password = read_password(password_file);
            let outcome = password.map(|password| fresh.password = Some(password));
            reread.push(RereadFiles {
                files: vec![password_file.clone()],
                outcome: outcome.map_err(EtcdFilesError::from),
            });
        }
        if reread.iter().any(|each| each.outcome.is_ok()) {
            self.client.renew_credentials(fresh);
        }
        reread
    }
}

fn certificate_files(tls: &TlsFiles) -> Vec<PathBuf> {
    let own = tls.certificate.as_ref();
    let own = own.map(|own| [own.chain.clone(), own.key.clone()]);
    let authority = std::iter::once(tls.authority.clone());
    authority.chain(own.into_iter().flatten()).collect()
}

/// Reads the certificates, if etcd speaks TLS.
pub(super) fn read_tls(etcd: &EtcdConfig) -> Result<Option<EtcdTls>, EtcdFilesError> {
    Ok(etcd.tls.as_ref().map(EtcdTls::read).transpose()?)
}

/// Reads the password, if etcd has users.
pub(super) fn read_user(etcd: &EtcdConfig) -> Result<Option<EtcdUser>, EtcdFilesError> {
    let user = etcd.user.as_ref().map(|user| {
        Ok(EtcdUser {
            name: user.name.clone(),
            password: read_password(&user.password_file)?,
        })
    });
    user.transpose()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::path::Path;
    use std::sync::mpsc::{Receiver, channel};
    use std::thread;
    use std::time::Duration;

    use sublet_etcd::gateway::{CallTimes, GatewaySettings};
    use sublet_etcd::store::ClusterStore;

    use super::*;

    /// How long a login may take to be heard.
    const LOGIN_MAX: Duration = Duration::from_secs(60);

    /// An etcd that says which passwords it was told, and refuses each.
    fn etcd_that_tells() -> (String, Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (tell, told) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Some(body) = stream.ok().and_then(answer_login) else {
                    continue;
                };
                if tell.send(body).is_err() {
                    return;
                }
            }
        });
        (format!("http://{address}"), told)
    }

    /// Reads the one request of a connection, and refuses it. Returns its body.
    fn answer_login(stream: TcpStream) -> Option<String> {
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let refusal = r#"{"code":3,"message":"etcdserver: authentication failed"}"#;
        let head = "HTTP/1.1 400 X\r\nconnection: close\r\ncontent-length";
        let text = format!("{head}: {}\r\n\r\n{refusal}", refusal.len());
        reader.get_mut().write_all(text.as_bytes()).ok()?;
        String::from_utf8(body).ok()
    }

    fn config(endpoint: &str, folder: &Path) -> EtcdConfig {
        EtcdConfig {
            endpoints: vec![endpoint.parse().expect("an endpoint")],
            tls: Some(TlsFiles {
                authority: folder.join("ca"),
                certificate: None,
            }),
            user: Some(EtcdUserConfig {
                name: "sublet".to_owned(),
                password_file: folder.join("password"),
            }),
        }
    }

    fn authority() -> String {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut params = rcgen::CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
        params.self_signed(&key).expect("a certificate").pem()
    }

    /// The password that etcd is told next.
    fn password_shown(client: &GatewayClient, told: &Receiver<String>) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let read = runtime.expect("a runtime").block_on(client.read("/"));
        assert!(read.is_err(), "each password is refused");
        let login = told.recv_timeout(LOGIN_MAX).expect("a login");
        let login: serde_json::Value = serde_json::from_str(&login).expect("JSON");
        login["password"].as_str().expect("a password").to_owned()
    }

    #[test]
    fn each_file_is_read_anew_by_itself_and_one_that_is_wrong_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |file: &str, text: &str| {
            fs::write(folder.path().join(file), text).expect("written");
        };
        let (endpoint, told) = etcd_that_tells();
        let etcd = config(&endpoint, folder.path());
        write("ca", &authority());
        write("password", "first\n");
        let client = GatewayClient::new(GatewaySettings {
            endpoints: etcd.endpoints.clone(),
            tls: read_tls(&etcd).expect("certificates"),
            user: read_user(&etcd).expect("a user"),
            times: CallTimes::default(),
            seed: 0,
        });
        let client = Arc::new(client.expect("settings that work"));
        assert_eq!(password_shown(&client, &told), "first");

        write("ca", "no certificate");
        write("password", "second\n");
        let files = EtcdFiles::new(etcd, Arc::clone(&client));
        let reread_now = || {
            let reread = files.reread();
            let outcomes: Vec<String> = reread
                .iter()
                .map(|each| {
                    each.outcome
                        .as_ref()
                        .err()
                        .map_or(String::new(), |it| it.to_string())
                })
                .collect();
            let paths: Vec<Vec<PathBuf>> = reread.into_iter().map(|each| each.files).collect();
            assert_eq!(paths, files.list());
            outcomes
        };
        let outcomes = reread_now();
        let ca = folder.path().join("ca").display().to_string();
        assert!(outcomes[0].contains(&ca), "{outcomes:?}");
        assert_eq!(outcomes[1], "");
        assert_eq!(password_shown(&client, &told), "second");

        write("ca", &authority());
        write("password", "\n");
        let outcomes = reread_now();
        let password = folder.path().join("password").display().to_string();
        assert_eq!(outcomes[0], "");
        assert!(outcomes[1].contains(&password), "{outcomes:?}");
        assert!(outcomes[1].contains("write it there"), "{outcomes:?}");
        assert_eq!(password_shown(&client, &told), "second");
    }
}
