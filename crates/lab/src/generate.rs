//! `sublet-lab generate`: man page and shell completions, from the same definitions as `--help`. The references in
//! `docs/` come from `sublet generate`.

use std::io::{self, Write};

use clap::Command;
use clap_complete::Shell;

use crate::exit::Exit;

/// What to generate.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: GenerateCommand,
}

#[derive(clap::Subcommand)]
enum GenerateCommand {
    /// Write the manual page, in roff
    Man,
    /// Write a shell's completions
    Completions {
        /// The shell that will read them
        shell: Shell,
    },
}

/// Writes it to stdout. `cli` is the whole command line.
pub(crate) fn run(args: &Args, mut cli: Command) -> Exit {
    let mut page = Vec::new();
    let made = match &args.what {
        GenerateCommand::Man => man(cli, &mut page),
        GenerateCommand::Completions { shell } => {
            clap_complete::generate(*shell, &mut cli, "sublet-lab", &mut page);
            Ok(())
        }
    };
    Exit::written(made.and_then(|()| io::stdout().write_all(&page)))
}

/// Writes one page for the command, its subcommands, and all benches and simulations.
fn man(mut command: Command, page: &mut Vec<u8>) -> io::Result<()> {
    command.build();
    clap_mangen::Man::new(command.clone()).render(page)?;
    for sub in shown(&command) {
        section(sub, page)?;
        for verb in shown(sub) {
            section(verb, page)?;
        }
    }
    Ok(())
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    let is_shown = |sub: &&Command| !sub.is_hide_set() && sub.get_name() != "help";
    command.get_subcommands().filter(is_shown)
}

fn section(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let section = clap_mangen::Man::new(command.clone());
    section.render_name_section(page)?;
    section.render_synopsis_section(page)?;
    section.render_description_section(page)?;
    section.render_options_section(page)
}
