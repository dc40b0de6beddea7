//! `sublet tenants freeze|thaw|save|restore|discard`: a tenant's persistent pages in a file.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use sublet_client::messages::{
    CopyKind, CopyReport, CopyStatus, GrantSource, RestoreFile, SaveFile,
};
use sublet_client::{Admin, AdminError};
use sublet_types::{FreezeState, TenantName};

use crate::admin_options::AdminOptions;
use crate::exit::Exit;
use crate::formatting::{format_count, json, millis};
use crate::grants::grants_line;

/// How often the command asks the daemon for its progress.
const LOOK_EVERY: Duration = Duration::from_millis(300);

const TEMPLATE: &str = "{msg} {wide_bar} {bytes}/{total_bytes} {elapsed}";

/// A tenant.
#[derive(clap::Args)]
pub(crate) struct TenantArgs {
    /// Name this tenant
    name: TenantName,
    #[command(flatten)]
    daemon: AdminOptions,
}

/// A tenant and a file.
#[derive(clap::Args)]
pub(crate) struct SaveFileArgs {
    /// Name this tenant
    name: TenantName,
    /// Use this save file, on the daemon's host; the daemon reads and writes it
    file: PathBuf,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: AdminOptions,
}

/// A tenant and a file to read.
#[derive(clap::Args)]
pub(crate) struct RestoreArgs {
    #[command(flatten)]
    file: SaveFileArgs,
    /// Leave the tenant's weight, floor and ceiling as they are; else take them from the file
    #[arg(long)]
    keep_grants: bool,
}

impl RestoreArgs {
    /// Lets the daemon read the file.
    pub(crate) fn restore(&self) -> Result<String, Exit> {
        let grants = match self.keep_grants {
            true => GrantSource::Kept,
            false => GrantSource::Saved,
        };
        let name = &self.file.name;
        self.file.copy(|admin, SaveFile { file }| {
            admin.restore_tenant(name, &RestoreFile { file, grants })
        })
    }
}

impl TenantArgs {
    /// Refuses new pages, or accepts them again.
    pub(crate) fn set_freeze_state(&self, state: FreezeState) -> Result<String, Exit> {
        let changed = self
            .daemon
            .call(|admin| admin.set_freeze_state(&self.name, state));
        changed.map(|tenant| grants_line(&tenant))
    }

    /// Ends restored pools.
    pub(crate) fn discard(&self) -> Result<String, Exit> {
        let changed = self.daemon.call(|admin| admin.discard_restored(&self.name));
        changed.map(|tenant| format!("{}: no restored pool waits any longer\n", tenant.name))
    }
}

impl SaveFileArgs {
    /// Lets the daemon write the file.
    pub(crate) fn save(&self) -> Result<String, Exit> {
        self.copy(|admin, file| admin.save_tenant(&self.name, &file))
    }

    fn copy(
        &self,
        copy: impl FnOnce(&Admin, SaveFile) -> Result<CopyReport, AdminError>,
    ) -> Result<String, Exit> {
        let file = self.place()?;
        let admin = self.daemon.admin()?;
        let copied = match std::io::stderr().is_terminal() {
            true => {
                let looking = self.daemon.admin()?;
                with_progress_bar(looking, || copy(&admin, file))
            }
            false => copy(&admin, file),
        };
        let report = copied.map_err(|error| Exit::call_failed(&error))?;
        Ok(match self.json {
            true => json(&report),
            false => text(&report),
        })
    }

    /// The file, by its path on the daemon's host.
    fn place(&self) -> Result<SaveFile, Exit> {
        let path = match self.daemon.is_here() {
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

/// Runs `work`, and shows the daemon's progress in a bar.
fn with_progress_bar<T>(admin: Admin, work: impl FnOnce() -> T) -> T {
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

fn verb(copying: CopyKind) -> &'static str {
    match copying {
        CopyKind::Save => "saving",
        CopyKind::Restore => "restoring",
    }
}

/// A copy in progress, as a line of `sublet status`.
pub(crate) fn line(copy: &CopyStatus) -> String {
    let way = match copy.copying {
        CopyKind::Save => "into",
        CopyKind::Restore => "from",
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
    let (pools, time) = (format_count(*pools, "pool"), millis(report.micros));
    let pages = format_count(*pages, "page");
    match (report.copying, report.frozen) {
        (CopyKind::Save, _) if report.pools == 0 => format!(
            "{tenant}: {file} has its grants only: no program has a persistent pool at its rings, and pages of disks \
             stay with their backings\n"
        ),
        (CopyKind::Save, true) => {
            format!("{tenant}: {pages} of {pools} saved in {file} ({bytes}) in {time}\n")
        }
        (CopyKind::Save, false) => format!(
            "{tenant}: {pages} of {pools} saved in {file} ({bytes}) in {time}\n\
             It was not frozen: what its programs put meanwhile may be in the file or not. Before a save that must \
             have everything: sublet tenants freeze {tenant}\n"
        ),
        (CopyKind::Restore, frozen) => {
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
