//! `sublet bench` and `sublet sim`, which moved to another program.

use std::ffi::OsString;

use crate::exit::Exit;

/// All further arguments.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Says what to type.
pub(crate) fn run(verb: &str, args: &Args) -> Exit {
    Exit::usage(sentence(verb, &args.words))
}

fn sentence(verb: &str, words: &[OsString]) -> String {
    let text = words.iter().map(|word| word.to_string_lossy());
    let line: Vec<_> = ["sublet-lab".into(), verb.into()]
        .into_iter()
        .chain(text)
        .collect();
    format!(
        "`sublet {verb}` has a program of its own now: type `{}`",
        line.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_is_what_to_type() {
        let text = sentence("bench", &["store".into(), "--json".into()]);
        assert!(
            text.ends_with("type `sublet-lab bench store --json`"),
            "{text}"
        );
    }
}
