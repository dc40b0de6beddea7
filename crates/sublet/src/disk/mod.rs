//! `sublet disk`: disks and swap of virtual machines.

mod add;
pub(crate) mod left_behind;
mod text;
mod usage_snippets;

use std::io::{self, Write};
use std::path::{PathBuf, absolute};

use sublet_client::messages::{
    AllowFolder, DiskList, OpenDiskRequest, RemoveDisk, RemovedDisk, ResizeDisk,
};
use sublet_types::{Bytes, DiskName, Pages};

use crate::admin_options::AdminOptions;
use crate::exit::Exit;
use crate::grants::TemporaryFlag;
use crate::status;

/// What to do with disks.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: DiskCommand,
}

#[derive(clap::Subcommand)]
enum DiskCommand {
    /// Serve an existing image or block device, or swap, at once and after every restart
    Add(add::AddArgs),
    /// Make an image and serve it, at once and after every restart
    Create(add::CreateArgs),
    /// Allow backings under one more folder, at once and after every restart
    Allow {
        /// Allow this folder, which must exist
        folder: PathBuf,
        #[command(flatten)]
        lifetime: TemporaryFlag,
        #[command(flatten)]
        daemon: AdminOptions,
    },
    /// Show all disks
    List {
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        daemon: AdminOptions,
    },
    /// Show one disk, and what to paste so that a guest or this host uses it
    Show(ShowArgs),
    /// Open a disk that was closed at the start, once its problem is solved
    Open {
        /// Open this disk
        name: DiskName,
        /// Open it although its file is gone or another one, a note of it is damaged, or pages were lost that its backing did not have
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        daemon: AdminOptions,
    },
    /// End a disk when its backing has everything; the backing stays
    Remove {
        /// End this disk
        name: DiskName,
        /// Give up what its backing does not take: those pages are lost
        #[arg(long)]
        force: bool,
        /// Delete the file that was made for it because nobody named a backing
        #[arg(long, conflicts_with = "temporary")]
        delete: bool,
        #[command(flatten)]
        lifetime: TemporaryFlag,
        #[command(flatten)]
        daemon: AdminOptions,
    },
    /// Make a disk larger
    Resize {
        /// Resize this disk
        name: DiskName,
        /// Give it this size, such as 8GiB
        size: Bytes,
        #[command(flatten)]
        lifetime: TemporaryFlag,
        #[command(flatten)]
        daemon: AdminOptions,
    },
    /// Wait until the backing has everything that was written
    Flush {
        /// Flush this disk
        name: DiskName,
        #[command(flatten)]
        daemon: AdminOptions,
    },
}

/// Which disk to show, and what of it.
#[derive(clap::Args)]
struct ShowArgs {
    /// Show this disk
    name: DiskName,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
    /// Show the counts of its clients instead: who was refused and why, and which requests made no sense
    #[arg(long, conflicts_with = "json")]
    figures: bool,
    #[command(flatten)]
    daemon: AdminOptions,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Exit {
    match run_command(&args.verb) {
        Ok(text) => Exit::written(io::stdout().write_all(text.as_bytes())),
        Err(exit) => exit,
    }
}

fn run_command(verb: &DiskCommand) -> Result<String, Exit> {
    match verb {
        DiskCommand::Add(add) | DiskCommand::Create(add::CreateArgs(add)) => add_disk(add),
        DiskCommand::Allow {
            folder,
            lifetime,
            daemon,
        } => {
            let folder = absolute(folder).unwrap_or_else(|_| folder.clone());
            let request = AllowFolder {
                folder: folder.display().to_string(),
                lasts: lifetime.lasts(),
            };
            let all = daemon.call(|admin| admin.allow_folder(&request))?;
            Ok(format!(
                "backings may lie under {}\n",
                all.folders.join(", ")
            ))
        }
        DiskCommand::List { json, daemon } => {
            let all = daemon.call(|admin| admin.disks())?;
            Ok(match json {
                true => as_json(&all),
                false => list(&all),
            })
        }
        DiskCommand::Show(which) => show(which),
        DiskCommand::Open {
            name,
            force,
            daemon,
        } => {
            let how = OpenDiskRequest { force: *force };
            let disk = daemon.call(|admin| admin.open_disk(name, how))?;
            Ok(format!("{}\n", text::line(&disk)))
        }
        DiskCommand::Remove {
            name,
            force,
            delete,
            lifetime,
            daemon,
        } => {
            let how = RemoveDisk {
                lasts: lifetime.lasts(),
                force: *force,
                delete: *delete,
            };
            let removed = daemon.call(|admin| admin.remove_disk(name, how))?;
            Ok(removed_text(name, &removed))
        }
        DiskCommand::Resize {
            name,
            size,
            lifetime,
            daemon,
        } => {
            let (size, lasts) = (*size, lifetime.lasts());
            let disk = daemon.call(|admin| admin.resize_disk(name, &ResizeDisk { size, lasts }))?;
            Ok(format!("{}\n", text::line(&disk)))
        }
        DiskCommand::Flush { name, daemon } => {
            let disk = daemon.call(|admin| admin.flush_disk(name))?;
            Ok(flushed_text(name, Pages(disk.dirty)))
        }
    }
}

fn flushed_text(name: &DiskName, dirty: Pages) -> String {
    let since = match dirty {
        Pages(0) => String::new(),
        dirty => format!("; {} were written since", dirty.bytes()),
    };
    format!("{name}: its backing has everything{since}\n")
}

fn add_disk(add: &add::AddArgs) -> Result<String, Exit> {
    let disk = add.disk()?;
    let added = add.daemon.call(|admin| admin.add_disk(&disk))?;
    let hint = format!("sublet disk show {} says what a guest needs", disk.name);
    let made = match (&added.settings.backing, disk.create) {
        (Some(backing), true) => format!("; its image is {backing}"),
        _ => String::new(),
    };
    Ok(format!("{}{made}; {hint}\n", text::line(&added)))
}

fn removed_text(name: &DiskName, removed: &RemovedDisk) -> String {
    let lost = match Pages(removed.given_up) {
        Pages(0) => String::new(),
        given_up => format!("; given up: {given_up} that its backing did not take"),
    };
    let kept = match Pages(removed.left_behind) {
        Pages(0) => String::new(),
        kept => {
            format!("; left behind: {kept} of a backing before that, see sublet disk show {name}")
        }
    };
    let left = match (&removed.backing, removed.made) {
        (Some(file), true) if removed.deleted => format!("; its file {file} is deleted"),
        (Some(file), true) => format!("; its file {file} stays, and may be deleted"),
        (Some(backing), false) => format!("; its backing {backing} stays"),
        (None, _) => String::new(),
    };
    format!("{name}: removed{lost}{kept}{left}\n")
}

fn show(which: &ShowArgs) -> Result<String, Exit> {
    let ShowArgs {
        name, json, daemon, ..
    } = which;
    let all = daemon.call(|admin| admin.disks())?;
    let left = left_behind::of(&all, name);
    let is_served = all.disks.iter().any(|disk| disk.settings.name == *name);
    match left.filter(|_| !is_served) {
        Some(left) if *json => return Ok(as_json(left)),
        Some(left) => return Ok(format!("{name}: {}\n", left_behind::describe(left))),
        None => {}
    }
    let disk = daemon.call(|admin| admin.disk(name))?;
    Ok(match json {
        _ if which.figures => text::figures(&disk),
        true => as_json(&disk),
        false => text::disk_page(&disk, left),
    })
}

fn list(all: &DiskList) -> String {
    match all.disks.is_empty() && all.left_behind.is_empty() {
        true => "no disks; sublet disk add makes one\n".to_owned(),
        false => status::disks(&all.disks, &all.left_behind),
    }
}

fn as_json(answer: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(answer).expect("an answer is JSON");
    format!("{text}\n")
}
