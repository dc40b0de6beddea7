//! The accounts that may log in, with users and passwords of `-Y` files and of SASL.

use std::io;
use std::path::Path;

use sublet_types::TenantId;

/// The most accounts in one table.
pub(crate) const ACCOUNTS_MAX: usize = 1024;

/// The largest password file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// An account that may log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The name.
    pub user: Vec<u8>,
    /// The password.
    pub password: Vec<u8>,
    /// The tenant for which the account acts; the listener's own if `None`.
    pub tenant: Option<TenantId>,
}

/// All accounts that may log in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passwords {
    accounts: Vec<Account>,
    names: UserNameForm,
}

/// The form in which a client writes the name of its account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserNameForm {
    /// The form in the table (`-Y`).
    #[default]
    Whole,
    /// The account `user@host` may also be written `user`. Cyrus SASL implies the host, and its files name it.
    WithoutHost,
}

/// The login of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login<'a> {
    /// The user for whom the client wants to act; empty if it acts for itself.
    pub acts_as: &'a [u8],
    /// The name of the user.
    pub user: &'a [u8],
    /// The password of the user.
    pub password: &'a [u8],
}

impl<'a> Login<'a> {
    /// Makes the login of a user that acts for itself.
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
    /// The file cannot be read.
    #[error("cannot read the password file: {0}")]
    Unreadable(#[from] io::Error),
    /// A line has no colon.
    #[error("line {0} of the password file is not user:password")]
    NoColon(usize),
    /// The file has no account.
    #[error("the password file has no account; add a line user:password")]
    Empty,
    /// The file has more accounts than the table takes.
    #[error("the password file names more than {ACCOUNTS_MAX} users")]
    TooMany,
    /// The file is larger than any that people write by hand.
    #[error("the password file is larger than {FILE_BYTES_MAX} bytes")]
    TooLarge,
}

impl Passwords {
    /// Makes a table of these accounts.
    pub fn of(accounts: Vec<Account>) -> Result<Passwords, PasswordsError> {
        match accounts.len() {
            0 => Err(PasswordsError::Empty),
            n if n > ACCOUNTS_MAX => Err(PasswordsError::TooMany),
            _ => Ok(Passwords {
                accounts,
                names: UserNameForm::Whole,
            }),
        }
    }

    /// Reads a file of `user:password` lines. The last line may lack its newline.
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

    /// Returns the same accounts with this form of their names.
    pub fn with_names(mut self, names: UserNameForm) -> Passwords {
        self.names = names;
        self
    }

    /// Returns the same accounts, each with the tenant that `tenant_of` returns for its name.
    pub fn with_tenants(mut self, tenant_of: impl Fn(&[u8]) -> Option<TenantId>) -> Passwords {
        for account in &mut self.accounts {
            account.tenant = tenant_of(&account.user).or_else(|| match self.names {
                UserNameForm::Whole => None,
                UserNameForm::WithoutHost => tenant_of(without_host(&account.user)),
            });
        }
        self
    }

    /// Returns the account with that name and password. Returns `None` if the login acts for another user. A wrong
    /// password takes as long as a right one.
    pub fn authenticate(&self, login: &Login<'_>) -> Option<&Account> {
        let mut found = None;
        for account in &self.accounts {
            if self.is_name_of(account, login.user)
                & equal_in_constant_time(&account.password, login.password)
            {
                found = Some(account);
            }
        }
        found.filter(|account| login.acts_as.is_empty() || self.is_name_of(account, login.acts_as))
    }

    fn is_name_of(&self, account: &Account, name: &[u8]) -> bool {
        let whole = equal_in_constant_time(&account.user, name);
        match self.names {
            UserNameForm::Whole => whole,
            UserNameForm::WithoutHost => {
                let short = without_host(&account.user);
                whole | (equal_in_constant_time(short, name) & !short.is_empty())
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

/// Returns `user` of `user@host`, and of `user`.
fn without_host(user: &[u8]) -> &[u8] {
    let at = user.iter().rposition(|&b| b == b'@');
    &user[..at.unwrap_or(user.len())]
}

/// Returns whether the two are equal. The time depends only on their lengths.
fn equal_in_constant_time(a: &[u8], b: &[u8]) -> bool {
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
        table.authenticate(&login).is_some()
    }

    #[test]
    fn a_line_with_a_host_names_its_user_with_and_without_it_where_sasl_is_spoken() {
        let table = Passwords::parse(b"ann@host:1\nbob:2\n@host:3").expect("three good lines");
        let sasl = table.clone().with_names(UserNameForm::WithoutHost);
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
        let sasl = table.with_names(UserNameForm::WithoutHost);
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
