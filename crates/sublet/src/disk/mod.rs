//! `sublet disk`: disks and swap of virtual machines.

mod add;
pub(crate) mod left;
mod page;
mod paste;

use std::io::{self, Write};
use std::path::{PathBuf, absolute};

use sublet_client::messages::{AllowFolder, Disks, OpenDisk, RemoveDisk, RemovedDisk, ResizeDisk};
use sublet_types::{Bytes, DiskName, Pages};

use crate::exit::Exit;
use crate::grants::lasts;
use crate::reach::Reach;
use crate::status;

/// What to do.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Serve an image or a block device that is there, or swap, at once and after every restart
    Add(add::Add),
    /// Make an image and serve it, at once and after every restart
    Create(add::Create),
    /// Let backings lie under one folder more, at once and after every restart
    Allow {
        /// Which folder, which is there
        folder: PathBuf,
        /// Only until the daemon ends
        #[arg(long)]
        temporary: bool,
        #[command(flatten)]
        reach: Reach,
    },
    /// Show all disks
    List {
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        reach: Reach,
    },
    /// Show one disk, and what to paste so that a guest or this host uses it
    Show(Show),
    /// Open a disk that was closed at the start, once what was in the way is mended
    Open {
        /// Which one
        name: DiskName,
        /// Open it although pages were lost that its backing did not have: the guest that wrote them is gone
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        reach: Reach,
    },
    /// End a disk, when its backing has everything; the backing stays
    Remove {
        /// Which one
        name: DiskName,
        /// Give up what its backing does not take: those pages are lost
        #[arg(long)]
        force: bool,
        /// Delete the file that was made for it because nobody named a backing
        #[arg(long, conflicts_with = "temporary")]
        delete: bool,
        /// Only until the daemon ends
        #[arg(long)]
        temporary: bool,
        #[command(flatten)]
        reach: Reach,
    },
    /// Give a disk another size
    Resize {
        /// Which one
        name: DiskName,
        /// The new size, such as 8GiB
        size: Bytes,
        /// Only until the daemon ends
        #[arg(long)]
        temporary: bool,
        #[command(flatten)]
        reach: Reach,
    },
    /// Wait until the backing has everything that was written
    Flush {
        /// Which one
        name: DiskName,
        #[command(flatten)]
        reach: Reach,
    },
}

/// What to show of which disk.
#[derive(clap::Args)]
struct Show {
    /// Which one
    name: DiskName,
    /// As JSON, for programs
    #[arg(long)]
    json: bool,
    /// Instead, what was counted of its clients: who was turned away and why, and what they asked that made no sense
    #[arg(long, conflicts_with = "json")]
    figures: bool,
    #[command(flatten)]
    reach: Reach,
}

/// Does it.
pub(crate) fn run(args: &Args) -> Exit {
    match said(&args.verb) {
        Ok(text) => Exit::written(io::stdout().write_all(text.as_bytes())),
        Err(exit) => exit,
    }
}

fn said(verb: &Verb) -> Result<String, Exit> {
    match verb {
        Verb::Add(add) | Verb::Create(add::Create(add)) => added(add),
        Verb::Allow {
            folder,
            temporary,
            reach,
        } => {
            let folder = absolute(folder).unwrap_or_else(|_| folder.clone());
            let asked = AllowFolder {
                folder: folder.display().to_string(),
                lasts: lasts(*temporary),
            };
            let all = reach.ask(|admin| admin.allow_folder(&asked))?;
            Ok(format!(
                "backings may lie under {}\n",
                all.folders.join(", ")
            ))
        }
        Verb::List { json, reach } => {
            let all = reach.ask(|admin| admin.disks())?;
            Ok(match json {
                true => as_json(&all),
                false => list(&all),
            })
        }
        Verb::Show(which) => show(which),
        Verb::Open { name, force, reach } => {
            let how = OpenDisk { force: *force };
            let disk = reach.ask(|admin| admin.open_disk(name, how))?;
            Ok(format!("{}\n", page::line(&disk)))
        }
        Verb::Remove {
            name,
            force,
            delete,
            temporary,
            reach,
        } => {
            let how = RemoveDisk {
                lasts: lasts(*temporary),
                force: *force,
                delete: *delete,
            };
            let gone = reach.ask(|admin| admin.remove_disk(name, how))?;
            Ok(removed(name, &gone))
        }
        Verb::Resize {
            name,
            size,
            temporary,
            reach,
        } => {
            let (size, lasts) = (*size, lasts(*temporary));
            let disk = reach.ask(|admin| admin.resize_disk(name, &ResizeDisk { size, lasts }))?;
            Ok(format!("{}\n", page::line(&disk)))
        }
        Verb::Flush { name, reach } => {
            let disk = reach.ask(|admin| admin.flush_disk(name))?;
            let since = match disk.dirty {
                0 => String::new(),
                dirty => format!("; {} were written since", Pages(dirty).bytes()),
            };
            Ok(format!("{name}: its backing has everything{since}\n"))
        }
    }
}

fn added(add: &add::Add) -> Result<String, Exit> {
    let disk = add.disk()?;
    let added = add.reach.ask(|admin| admin.add_disk(&disk))?;
    let hint = format!("sublet disk show {} says what a guest needs", disk.name);
    let made = match (&added.settings.backing, disk.create) {
        (Some(backing), true) => format!("; its image is {backing}"),
        _ => String::new(),
    };
    Ok(format!("{}{made}; {hint}\n", page::line(&added)))
}

fn removed(name: &DiskName, gone: &RemovedDisk) -> String {
    let lost = match Pages(gone.given_up) {
        Pages(0) => String::new(),
        given_up => format!("; given up: {given_up} that its backing did not take"),
    };
    let kept = match Pages(gone.left_behind) {
        Pages(0) => String::new(),
        kept => {
            format!("; left behind: {kept} of a backing before that, see sublet disk show {name}")
        }
    };
    let left = match (&gone.backing, gone.made) {
        (Some(file), true) if gone.deleted => format!("; its file {file} is deleted"),
        (Some(file), true) => format!("; its file {file} stays, and may be deleted"),
        (Some(backing), false) => format!("; its backing {backing} stays"),
        (None, _) => String::new(),
    };
    format!("{name}: removed{lost}{kept}{left}\n")
}

fn show(which: &Show) -> Result<String, Exit> {
    let Show {
        name, json, reach, ..
    } = which;
    let all = reach.ask(|admin| admin.disks())?;
    let left = left::of(&all, name);
    let is_served = all.disks.iter().any(|disk| disk.settings.name == *name);
    match left.filter(|_| !is_served) {
        Some(left) if *json => return Ok(as_json(left)),
        Some(left) => return Ok(format!("{name}: {}\n", left::said(left))),
        None => {}
    }
    let disk = reach.ask(|admin| admin.disk(name))?;
    Ok(match json {
        _ if which.figures => page::figures(&disk),
        true => as_json(&disk),
        false => page::page(&disk, left),
    })
}

fn list(all: &Disks) -> String {
    match all.disks.is_empty() && all.left_behind.is_empty() {
        true => "no disks; sublet disk add makes one\n".to_owned(),
        false => status::disks(&all.disks, &all.left_behind),
    }
}

fn as_json(answer: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(answer).expect("an answer is JSON");
    format!("{text}\n")
}
