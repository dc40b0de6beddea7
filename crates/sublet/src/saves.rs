//! `sublet tenants freeze|thaw|save|restore|discard`: a tenant's persistent pages in a file.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use sublet_client::messages::{CopyReport, CopyStatus, Copying, Grants, RestoreFile, SaveFile};
use sublet_client::{Admin, CallError};
use sublet_types::TenantName;

use crate::exit::Exit;
use crate::grants::grants;
use crate::print::{counted, json, millis};
use crate::reach::Reach;

/// How often the daemon is asked how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(300);

const TEMPLATE: &str = "{msg} {wide_bar} {bytes}/{total_bytes} {elapsed}";

/// A tenant.
#[derive(clap::Args)]
pub(crate) struct Name {
    /// Which one
    name: TenantName,
    #[command(flatten)]
    reach: Reach,
}

/// A tenant, and a file.
#[derive(clap::Args)]
pub(crate) struct File {
    /// Which one
    name: TenantName,
    /// The save file, on the daemon's host; the daemon reads and writes it
    file: PathBuf,
    /// As JSON, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

/// A tenant, and a file that is read.
#[derive(clap::Args)]
pub(crate) struct Restored {
    #[command(flatten)]
    file: File,
    /// Leave the tenant's weight, floor and ceiling as they are; else they are what the file says
    #[arg(long)]
    keep_grants: bool,
}

impl Restored {
    /// Has the daemon read the file.
    pub(crate) fn restore(&self) -> Result<String, Exit> {
        let grants = match self.keep_grants {
            true => Grants::Kept,
            false => Grants::Saved,
        };
        let name = &self.file.name;
        self.file.copy(|admin, SaveFile { file }| {
            admin.restore_tenant(name, &RestoreFile { file, grants })
        })
    }
}

impl Name {
    /// Refuses new pages, or takes them again.
    pub(crate) fn freeze(&self, frozen: bool) -> Result<String, Exit> {
        let asked = self
            .reach
            .ask(|admin| admin.freeze_tenant(&self.name, frozen));
        asked.map(|tenant| grants(&tenant))
    }

    /// Ends restored pools.
    pub(crate) fn discard(&self) -> Result<String, Exit> {
        let asked = self.reach.ask(|admin| admin.discard_restored(&self.name));
        asked.map(|tenant| format!("{}: no restored pool waits any longer\n", tenant.name))
    }
}

impl File {
    /// Has the daemon write the file.
    pub(crate) fn save(&self) -> Result<String, Exit> {
        self.copy(|admin, file| admin.save_tenant(&self.name, &file))
    }

    fn copy(
        &self,
        copy: impl FnOnce(&Admin, SaveFile) -> Result<CopyReport, CallError>,
    ) -> Result<String, Exit> {
        let file = self.place()?;
        let admin = self.reach.admin()?;
        let copied = match std::io::stderr().is_terminal() {
            true => {
                let looking = self.reach.admin()?;
                watched(looking, || copy(&admin, file))
            }
            false => copy(&admin, file),
        };
        let report = copied.map_err(|error| Exit::uncalled(&error))?;
        Ok(match self.json {
            true => json(&report),
            false => text(&report),
        })
    }

    /// The file as the daemon knows it.
    fn place(&self) -> Result<SaveFile, Exit> {
        let path = match self.reach.is_here() {
            true => std::path::absolute(&self.file).map_err(Exit::failed)?,
            false => self.file.clone(),
        };
        let unsaid = |path: &Path| {
            Exit::usage(format_args!(
                "{} is not UTF-8: name another file",
                path.display()
            ))
        };
        let file = path.to_str().ok_or_else(|| unsaid(&path))?;
        Ok(SaveFile {
            file: file.to_owned(),
        })
    }
}

/// Runs `work`, with a bar on how far the daemon says it is.
fn watched<T>(admin: Admin, work: impl FnOnce() -> T) -> T {
    let (ended, until) = mpsc::channel::<()>();
    let watching = thread::spawn(move || {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        while let Err(RecvTimeoutError::Timeout) = until.recv_timeout(LOOK_EVERY) {
            let copy = admin.status().ok().and_then(|status| status.copying);
            if let Some(copy) = copy {
                bar.set_message(format!("{} {}", verb(copy.copying), copy.tenant));
                bar.set_length(copy.of.0);
                bar.set_position(copy.done.0);
            }
        }
        bar.finish_and_clear();
    });
    let done = work();
    drop(ended);
    let _ = watching.join();
    done
}

fn verb(copying: Copying) -> &'static str {
    match copying {
        Copying::Save => "saving",
        Copying::Restore => "restoring",
    }
}

/// What is under way, for `sublet status`.
pub(crate) fn line(copy: &CopyStatus) -> String {
    let way = match copy.copying {
        Copying::Save => "into",
        Copying::Restore => "from",
    };
    format!(
        "{:<9} tenant {} {way} {}: {} of {}",
        verb(copy.copying),
        copy.tenant,
        copy.file,
        copy.done,
        copy.of
    )
}

fn text(report: &CopyReport) -> String {
    let CopyReport {
        tenant,
        file,
        pools,
        pages,
        bytes,
        ..
    } = report;
    let (pools, time) = (counted(*pools, "pool"), millis(report.micros));
    let pages = counted(*pages, "page");
    match (report.copying, report.frozen) {
        (Copying::Save, _) if report.pools == 0 => format!(
            "{tenant}: {file} has its grants only: no program has a persistent pool at its rings, and pages of disks \
             stay with their backings\n"
        ),
        (Copying::Save, true) => {
            format!("{tenant}: {pages} of {pools} saved in {file} ({bytes}) in {time}\n")
        }
        (Copying::Save, false) => format!(
            "{tenant}: {pages} of {pools} saved in {file} ({bytes}) in {time}\n\
             It was not frozen: what its programs put meanwhile may be in the file or not. Before a save that must \
             have everything: sublet tenants freeze {tenant}\n"
        ),
        (Copying::Restore, frozen) => {
            let thaw = match frozen {
                true => format!(
                    "It is frozen, as it was when it was saved: sublet tenants thaw {tenant}\n"
                ),
                false => String::new(),
            };
            format!(
                "{tenant}: {pages} of {pools} restored from {file} ({bytes}) in {time}\n\
                 The pools wait for programs that make pools of the same flags at the tenant's rings.\n{thaw}"
            )
        }
    }
}
