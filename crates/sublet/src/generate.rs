//! `sublet generate`: man page and shell completions, from the same definitions as `--help`.

use std::io::{self, Write};

use clap::Command;
use clap_complete::Shell;
use sublet_host::observe::events;
use sublet_policy::catalogue;

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
    /// Write the reference of the config file, in Markdown
    ConfigReference,
    /// Write the reference of policies, in Markdown
    PolicyReference,
    /// Write the reference of events, in Markdown
    EventReference,
}

/// Writes it to stdout. `cli` is the whole command line.
pub(crate) fn run(args: &Args, mut cli: Command) -> Exit {
    let mut page = Vec::new();
    let made = match &args.what {
        GenerateCommand::Man => man(cli, &mut page),
        GenerateCommand::Completions { shell } => {
            clap_complete::generate(*shell, &mut cli, "sublet", &mut page);
            Ok(())
        }
        GenerateCommand::PolicyReference => page.write_all(catalogue::reference().as_bytes()),
        GenerateCommand::EventReference => page.write_all(events::reference().as_bytes()),
        GenerateCommand::ConfigReference => {
            page.write_all(sublet_host::config::reference().as_bytes())
        }
    };
    Exit::written(made.and_then(|()| io::stdout().write_all(&page)))
}

/// Writes one page for the command and all its subcommands.
fn man(mut command: Command, page: &mut Vec<u8>) -> io::Result<()> {
    command.build();
    clap_mangen::Man::new(command.clone()).render(page)?;
    for sub in command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
    {
        let section = clap_mangen::Man::new(sub.clone());
        section.render_name_section(page)?;
        section.render_synopsis_section(page)?;
        section.render_description_section(page)?;
        section.render_options_section(page)?;
    }
    Ok(())
}
