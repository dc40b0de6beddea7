//! Who may come in: users and passwords of `-Y` files and of SASL.

use std::io;
use std::path::Path;

use sublet_types::TenantId;

/// The most accounts in one table.
pub(crate) const ACCOUNTS_MAX: usize = 1024;

/// The largest password file that is read, bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// One who may come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The name.
    pub user: Vec<u8>,
    /// The password.
    pub password: Vec<u8>,
    /// The tenant that the name stands for, if not the listener's own.
    pub tenant: Option<TenantId>,
}

/// Everyone who may come in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passwords {
    accounts: Vec<Account>,
    names: Names,
}

/// How an account's name is written by who logs in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// As in the table (`-Y`).
    #[default]
    Whole,
    /// An account `user@host` also as `user`: Cyrus SASL takes the host for granted, and its files name it.
    WithoutHost,
}

/// What somebody says who wants to come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login<'a> {
    /// As whom it wants to act; nobody, if it is itself.
    pub acts_as: &'a [u8],
    /// Who it is.
    pub user: &'a [u8],
    /// Its password.
    pub password: &'a [u8],
}

impl<'a> Login<'a> {
    /// Of a user that acts as itself.
    pub fn of(user: &'a [u8], password: &'a [u8]) -> Login<'a> {
        Login {
            acts_as: b"",
            user,
            password,
        }
    }
}

/// Why a password file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PasswordsError {
    /// It cannot be read.
    #[error("cannot read the password file: {0}")]
    Unreadable(#[from] io::Error),
    /// A line without a colon.
    #[error("line {0} of the password file is not user:password")]
    NoColon(usize),
    /// Nobody in it.
    #[error("the password file names nobody")]
    Empty,
    /// More accounts than the table takes.
    #[error("the password file names more than {ACCOUNTS_MAX} users")]
    TooMany,
    /// A file that no one writes by hand.
    #[error("the password file is larger than {FILE_BYTES_MAX} bytes")]
    TooLarge,
}

impl Passwords {
    /// A table of these accounts.
    pub fn of(accounts: Vec<Account>) -> Result<Passwords, PasswordsError> {
        match accounts.len() {
            0 => Err(PasswordsError::Empty),
            n if n > ACCOUNTS_MAX => Err(PasswordsError::TooMany),
            _ => Ok(Passwords {
                accounts,
                names: Names::Whole,
            }),
        }
    }

    /// Reads a file of `user:password` lines; the last one may lack its newline.
    pub fn read(path: &Path) -> Result<Passwords, PasswordsError> {
        match sublet_tls::read(path, FILE_BYTES_MAX) {
            Ok(text) => Passwords::parse(&text),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                Err(PasswordsError::TooLarge)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn parse(text: &[u8]) -> Result<Passwords, PasswordsError> {
        let lines = text.split(|&b| b == b'\n').enumerate();
        let accounts = lines
            .map(|(n, line)| (n + 1, line.strip_suffix(b"\r").unwrap_or(line)))
            .filter(|(_, line)| !line.is_empty())
            .map(|(n, line)| account(line).ok_or(PasswordsError::NoColon(n)));
        Passwords::of(accounts.collect::<Result<_, _>>()?)
    }

    /// The same accounts, by names that are written so.
    pub fn with_names(mut self, names: Names) -> Passwords {
        self.names = names;
        self
    }

    /// The same accounts, for the tenants that `whose` names.
    pub fn with_tenants(mut self, whose: impl Fn(&[u8]) -> Option<TenantId>) -> Passwords {
        for account in &mut self.accounts {
            account.tenant = whose(&account.user).or_else(|| match self.names {
                Names::Whole => None,
                Names::WithoutHost => whose(without_host(&account.user)),
            });
        }
        self
    }

    /// The account of that name and password, if it acts as nobody else. Takes as long for a wrong password as for a
    /// right one.
    pub fn admit(&self, login: &Login<'_>) -> Option<&Account> {
        let mut found = None;
        for account in &self.accounts {
            if self.is_name_of(account, login.user) & same(&account.password, login.password) {
                found = Some(account);
            }
        }
        found.filter(|account| login.acts_as.is_empty() || self.is_name_of(account, login.acts_as))
    }

    fn is_name_of(&self, account: &Account, name: &[u8]) -> bool {
        let whole = same(&account.user, name);
        match self.names {
            Names::Whole => whole,
            Names::WithoutHost => {
                let short = without_host(&account.user);
                whole | (same(short, name) & !short.is_empty())
            }
        }
    }
}

fn account(line: &[u8]) -> Option<Account> {
    let colon = line.iter().position(|&b| b == b':')?;
    Some(Account {
        user: line[..colon].to_vec(),
        password: line[colon + 1..].to_vec(),
        tenant: None,
    })
}

/// `user` of `user@host`, and of `user`.
fn without_host(user: &[u8]) -> &[u8] {
    let at = user.iter().rposition(|&b| b == b'@');
    &user[..at.unwrap_or(user.len())]
}

/// Equality whose time depends on the lengths alone.
fn same(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0, |acc, (x, y)| acc | (x ^ y));
    (a.len() == b.len()) & (difference == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_its_users() {
        let table = Passwords::parse(b"foo:bar\r\nbaz:qux:quux").expect("two good lines");
        let admits = |user: &str, password: &str| admits(&table, "", user, password);
        assert!(admits("foo", "bar") && admits("baz", "qux:quux"));
        assert!(!admits("baz", "qux") && !admits("", ""));
    }

    fn admits(table: &Passwords, acts_as: &str, user: &str, password: &str) -> bool {
        let login = Login {
            acts_as: acts_as.as_bytes(),
            ..Login::of(user.as_bytes(), password.as_bytes())
        };
        table.admit(&login).is_some()
    }

    #[test]
    fn a_line_with_a_host_names_its_user_with_and_without_it_where_sasl_is_spoken() {
        let table = Passwords::parse(b"ann@host:1\nbob:2\n@host:3").expect("three good lines");
        let sasl = table.clone().with_names(Names::WithoutHost);
        assert!(admits(&sasl, "", "ann@host", "1") && admits(&sasl, "", "ann", "1"));
        assert!(admits(&sasl, "", "bob", "2") && admits(&sasl, "", "@host", "3"));
        for (user, password) in [
            ("ann@other", "1"),
            ("ann@", "1"),
            ("bob@host", "2"),
            ("ann", "2"),
            ("", "3"),
        ] {
            assert!(!admits(&sasl, "", user, password), "{user}");
        }
        assert!(admits(&table, "", "ann@host", "1"));
        assert!(!admits(&table, "", "ann", "1"), "-Y knows no hosts");
    }

    #[test]
    fn nobody_acts_as_somebody_else() {
        let table = Passwords::parse(b"ann@host:1\nbob:2").expect("two good lines");
        let sasl = table.with_names(Names::WithoutHost);
        for oneself in ["", "ann", "ann@host"] {
            assert!(admits(&sasl, oneself, "ann", "1"), "{oneself}");
        }
        for other in ["bob", "ann@other", "x", "@host"] {
            assert!(!admits(&sasl, other, "ann", "1"), "{other}");
        }
    }

    #[test]
    fn a_wrong_file_says_what_is_wrong() {
        assert!(matches!(
            Passwords::parse(b"\n"),
            Err(PasswordsError::Empty)
        ));
        assert!(matches!(
            Passwords::parse(b"a:b\nfoo\n"),
            Err(PasswordsError::NoColon(2))
        ));
    }
}
