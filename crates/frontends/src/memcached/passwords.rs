//! Who may come in: users and passwords of `-Y` files and of SASL.

use std::io;
use std::path::Path;

use sublet_types::TenantId;

/// The most accounts in one table.
pub const ACCOUNTS_MAX: usize = 1024;

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
pub struct Passwords(Vec<Account>);

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
            _ => Ok(Passwords(accounts)),
        }
    }

    /// Reads a file of `user:password` lines; the last one may lack its newline.
    pub fn read(path: &Path) -> Result<Passwords, PasswordsError> {
        if std::fs::metadata(path)?.len() > FILE_BYTES_MAX {
            return Err(PasswordsError::TooLarge);
        }
        Passwords::parse(&std::fs::read(path)?)
    }

    fn parse(text: &[u8]) -> Result<Passwords, PasswordsError> {
        let lines = text.split(|&b| b == b'\n').enumerate();
        let accounts = lines
            .map(|(n, line)| (n + 1, line.strip_suffix(b"\r").unwrap_or(line)))
            .filter(|(_, line)| !line.is_empty())
            .map(|(n, line)| account(line).ok_or(PasswordsError::NoColon(n)));
        Passwords::of(accounts.collect::<Result<_, _>>()?)
    }

    /// The same accounts, for the tenants that `whose` names.
    pub fn with_tenants(mut self, whose: impl Fn(&[u8]) -> Option<TenantId>) -> Passwords {
        for account in &mut self.0 {
            account.tenant = whose(&account.user);
        }
        self
    }

    /// The account of that name and password. Takes as long for a wrong password as for a right one.
    pub fn admit(&self, user: &[u8], password: &[u8]) -> Option<&Account> {
        let mut found = None;
        for account in &self.0 {
            if same(&account.user, user) & same(&account.password, password) {
                found = Some(account);
            }
        }
        found
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
        assert!(table.admit(b"foo", b"bar").is_some());
        assert!(table.admit(b"baz", b"qux:quux").is_some());
        assert!(table.admit(b"baz", b"qux").is_none());
        assert!(table.admit(b"", b"").is_none());
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
