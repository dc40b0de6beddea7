//! Calls of programs that have to succeed.

use std::io;
use std::process::{Command, Stdio};

/// The output of a program. An error names the program and has its message.
pub(in crate::bench) fn output_of(command: &mut Command) -> io::Result<String> {
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
        let output = |script: &str| {
            let output = output_of(Command::new("sh").args(["-c", script]));
            output.map_err(|error| error.to_string())
        };
        assert_eq!(output("echo yes"), Ok("yes\n".to_owned()));
        assert_eq!(output("echo no >&2; exit 3"), Err("sh: no".to_owned()));
        let absent =
            output_of(&mut Command::new("/nowhere/at-all")).map_err(|error| error.to_string());
        assert!(absent.is_err_and(|why| why.starts_with("/nowhere/at-all: ")));
    }
}
