//! `sublet config`: it checks a config file, or prints one to start from.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sublet_host::admin::check_files;
use sublet_host::config;
use sublet_host::peers::membership::check_etcd_files;
use sublet_host::tenants::{ServiceError, unusable_files};
use sublet_tls::peer::{DefaultTimeProvider, PeerCredentials};

use crate::exit::Exit;
use crate::formatting::format_count;

/// What to do with a config.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: ConfigCommand,
}

#[derive(clap::Subcommand)]
enum ConfigCommand {
    /// Check a config file, and the files of passwords and certificates that it names
    Check {
        /// Check this file
        file: PathBuf,
    },
    /// Print a commented config file with every default
    Default,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Exit {
    match &args.verb {
        ConfigCommand::Default => {
            Exit::written(io::stdout().write_all(config::default_file().as_bytes()))
        }
        ConfigCommand::Check { file } => check(file),
    }
}

/// Reads a config and the files that it names, as the daemon would at its start.
fn check(file: &Path) -> Exit {
    let config = match config::check(file) {
        Ok(config) => config,
        Err(faults) => return Exit::usage(faults),
    };
    let mut unusable = unusable_files(&config)
        .iter()
        .map(ServiceError::to_string)
        .collect::<Vec<_>>();
    let admin = config.admin.tcp.as_ref().map_or(Ok(()), check_files);
    unusable.extend(admin.err().map(|error| error.to_string()));
    let clock = Arc::new(DefaultTimeProvider);
    let peers = config.peers.tls.as_ref();
    let peers = peers.and_then(|tls| PeerCredentials::load(tls, clock).err());
    unusable.extend(peers.map(|error| error.to_string()));
    let etcd = config.peers.etcd.as_ref();
    let etcd = etcd.and_then(|etcd| check_etcd_files(etcd).err());
    unusable.extend(etcd.map(|error| error.to_string()));
    if !unusable.is_empty() {
        return Exit::usage(unusable.join("\n"));
    }
    Exit::written(writeln!(
        io::stdout(),
        "{} is right: {}{}",
        file.display(),
        format_count(config.tenants.len() as u64, "tenant"),
        match config.disks.len() as u64 {
            0 => String::new(),
            disks => format!(", {}", format_count(disks, "disk")),
        }
    ))
}
