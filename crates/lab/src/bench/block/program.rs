//! Programs that are called and have to succeed.

use std::io;
use std::process::{Command, Stdio};

/// What it says; a failure names it and has its words.
pub(super) fn told(command: &mut Command) -> io::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |why: &str| io::Error::other(format!("{program}: {why}"));
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(&error.to_string()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_program_and_has_its_words() {
        let said = |script: &str| {
            let said = told(Command::new("sh").args(["-c", script]));
            said.map_err(|error| error.to_string())
        };
        assert_eq!(said("echo yes"), Ok("yes\n".to_owned()));
        assert_eq!(said("echo no >&2; exit 3"), Err("sh: no".to_owned()));
        let absent = told(&mut Command::new("/nowhere/at-all")).map_err(|error| error.to_string());
        assert!(absent.is_err_and(|why| why.starts_with("/nowhere/at-all: ")));
    }
}
