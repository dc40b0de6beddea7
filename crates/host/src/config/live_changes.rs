//! What was changed while the daemon ran. The daemon keeps it in `live.toml` and reads it over the config at the next
//! start.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sublet_types::{DiskName, FileKind, TenantName};

use super::changes::{DiskChange, DrainChange, PolicyChange, PresenceChange, TenantChange};
use super::faults::ConfigFaults;
use super::file::{LoadError, read_text};
use super::persist_error::PersistError;
use super::reading::VERSION_KEY;
use super::state_folder_claim::StateFolderClaim;
use super::written::WrittenConfig;

/// All live changes, and the folder where they are kept.
#[derive(Clone, Debug)]
pub struct LiveChanges {
    state: StateFolderClaim,
    policy: Option<PolicyChange>,
    changes: BTreeMap<TenantName, TenantChange>,
    disks: BTreeMap<DiskName, DiskChange>,
    /// Folders for backings, beside the config's.
    folders: Vec<PathBuf>,
    /// Whether lending drains, if that differs from the config.
    drain: Option<DrainChange>,
    /// Whether the host takes part in its cluster, if that differs from the config.
    presence: Option<PresenceChange>,
}

impl LiveChanges {
    /// No changes yet.
    pub fn none(folder: Option<PathBuf>) -> LiveChanges {
        LiveChanges {
            state: StateFolderClaim::for_folder(folder),
            policy: None,
            changes: BTreeMap::new(),
            disks: BTreeMap::new(),
            folders: Vec::new(),
            drain: None,
            presence: None,
        }
    }

    /// The same folder, with no changes yet.
    pub(super) fn without_changes(&self) -> LiveChanges {
        LiveChanges {
            state: self.state.clone(),
            ..LiveChanges::none(None)
        }
    }

    /// The claim to the folder.
    pub fn state(&self) -> &StateFolderClaim {
        &self.state
    }

    /// The file where changes are kept.
    pub fn path(&self) -> Option<PathBuf> {
        self.state.folder().map(|folder| folder.join("live.toml"))
    }

    /// The changes of a tenant.
    pub fn change(&self, name: &TenantName) -> TenantChange {
        self.changes.get(name).cloned().unwrap_or_default()
    }

    /// Tenants that were added and would come back with the next start.
    pub fn added(&self) -> impl Iterator<Item = &TenantName> {
        let added = self.changes.iter().filter(|(_, change)| change.added);
        added.map(|(name, _)| name)
    }

    /// A copy with a change of a tenant.
    #[must_use]
    pub(crate) fn with_change(&self, name: TenantName, change: &TenantChange) -> LiveChanges {
        let mut all = self.change(&name);
        all.merge(change);
        self.with_tenant(name, Some(all))
    }

    /// A copy with all changes of a tenant replaced, or removed.
    #[must_use]
    pub(crate) fn with_tenant(
        &self,
        name: TenantName,
        change: Option<TenantChange>,
    ) -> LiveChanges {
        let mut next = self.clone();
        match change.filter(|change| *change != TenantChange::default()) {
            Some(change) => next.changes.insert(name, change),
            None => next.changes.remove(&name),
        };
        next
    }

    /// The policy that was chosen live, if one was.
    pub fn policy(&self) -> Option<&PolicyChange> {
        self.policy.as_ref()
    }

    /// A copy with a policy.
    #[must_use]
    pub(crate) fn with_policy(&self, policy: PolicyChange) -> LiveChanges {
        let mut next = self.clone();
        next.policy = Some(policy);
        next
    }

    /// Folders for backings, beside the config's.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// A copy with one more folder.
    #[must_use]
    pub(crate) fn with_folder(&self, folder: PathBuf) -> LiveChanges {
        let mut next = self.clone();
        if !next.folders.contains(&folder) {
            next.folders.push(folder);
        }
        next
    }

    /// Whether lending drains, if that differs from the config.
    pub fn drain(&self) -> Option<DrainChange> {
        self.drain
    }

    /// A copy in which lending drains, or does not, or does as the config says.
    #[must_use]
    pub(crate) fn with_drain(&self, drain: Option<DrainChange>) -> LiveChanges {
        LiveChanges {
            drain,
            ..self.clone()
        }
    }

    /// Whether the host takes part in its cluster, if that differs from the config.
    pub fn presence(&self) -> Option<PresenceChange> {
        self.presence
    }

    /// A copy in which the host takes part in its cluster, or does not, or does as the config says.
    #[must_use]
    pub(crate) fn with_presence(&self, presence: Option<PresenceChange>) -> LiveChanges {
        LiveChanges {
            presence,
            ..self.clone()
        }
    }

    /// What was done with a disk.
    pub fn disk(&self, name: &DiskName) -> Option<&DiskChange> {
        self.disks.get(name)
    }

    /// A copy with what was done with a disk, or without it.
    #[must_use]
    pub fn with_disk(&self, name: DiskName, change: Option<DiskChange>) -> LiveChanges {
        let mut next = self.clone();
        match change {
            Some(change) => next.disks.insert(name, change),
            None => next.disks.remove(&name),
        };
        next
    }

    /// Returns whether both say the same about everything.
    pub(crate) fn is_same_as(&self, other: &LiveChanges) -> bool {
        self.policy == other.policy
            && self.changes == other.changes
            && self.disks == other.disks
            && self.folders == other.folders
            && self.drain == other.drain
            && self.presence == other.presence
    }

    /// The file as it was left, if there is one.
    pub(super) fn read(&self) -> Result<Option<(PathBuf, String)>, LoadError> {
        let Some(path) = self.path() else {
            return Ok(None);
        };
        match read_text(&path) {
            Ok(text) => Ok(Some((path, text))),
            Err(LoadError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Takes over what was exported, so that the next write keeps it. `path` is where it was found.
    pub(super) fn import(&mut self, path: &Path, text: &str) -> Result<(), ConfigFaults> {
        let mut alone = WrittenConfig::defaults();
        alone.read_kept(path, text)?;
        self.changes = alone.changes();
        self.policy = alone.policy_change();
        self.disks = alone.disk_changes();
        self.folders = alone.added_folders();
        self.drain = alone.drain_change();
        self.presence = alone.presence_change();
        Ok(())
    }

    /// Writes all changes to the file. The file system may hang.
    ///
    /// # Errors
    ///
    /// See [`PersistError`]. The file then says what it said before, unless the error says that this is unknown.
    pub fn write(&self) -> Result<(), PersistError> {
        let folder = self.state.acquire()?;
        let path = folder.join("live.toml");
        let new = path.with_extension("toml.new");
        if let Err(source) = write_new(&new, &self.export()) {
            return Err(PersistError::Write { path, source });
        }
        replace(folder, &new, &path).map_err(|source| PersistError::Unsure { path, source })
    }

    /// All changes with their version, as `import` reads them.
    pub(super) fn export(&self) -> String {
        let version = FileKind::LiveChanges.current();
        let mut text = format!("{HEADING}{VERSION_KEY} = {version}\n");
        if let Some(policy) = &self.policy {
            policy.write(&mut text);
        }
        if !self.folders.is_empty() {
            let folders = self
                .folders
                .iter()
                .map(|folder| folder.display().to_string());
            let folders = toml::Value::from(folders.collect::<Vec<_>>());
            let _ = write!(
                text,
                "\n[disk]\n# Beside those of the config.\nallow = {folders}\n"
            );
        }
        if let Some(drain) = self.drain {
            let _ = write!(text, "\n[lend]\ndrain = {}\n", drain.is_drain());
        }
        if let Some(presence) = self.presence {
            let _ = write!(text, "\n[peers]\njoin = {}\n", presence.is_join());
        }
        for (name, change) in &self.changes {
            change.write(name, &mut text);
        }
        for (name, change) in &self.disks {
            change.write(name, &mut text);
        }
        text
    }
}

const HEADING: &str = "# Changes made while sublet ran; read over the config file at the start.\n\
                       # Remove a line to go back to what the config says.\n";

fn write_new(new: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Replaces the file at `path`. A reader sees the old text or the new one, even after a crash.
fn replace(folder: &Path, new: &Path, path: &Path) -> io::Result<()> {
    fs::rename(new, path)?;
    File::open(folder)?.sync_all()
}
