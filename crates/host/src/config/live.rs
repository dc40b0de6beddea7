//! What was changed while the daemon ran: kept in `live.toml`, read over the config at the next start.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sublet_types::{DiskName, FileKind, TenantName};

use super::changes::{DiskChange, PolicyChange, TenantChange};
use super::claim::Claim;
use super::faults::Faults;
use super::file::{LoadError, read_text};
use super::keep_error::KeepError;
use super::reading::VERSION_KEY;
use super::written::Written;

/// All live changes, and the folder they are kept in.
#[derive(Clone, Debug)]
pub struct Live {
    state: Claim,
    policy: Option<PolicyChange>,
    changes: BTreeMap<TenantName, TenantChange>,
    disks: BTreeMap<DiskName, DiskChange>,
    /// Folders where backings may lie, beside the config's.
    folders: Vec<PathBuf>,
}

impl Live {
    /// No changes yet.
    pub fn none(folder: Option<PathBuf>) -> Live {
        Live {
            state: Claim::to(folder),
            policy: None,
            changes: BTreeMap::new(),
            disks: BTreeMap::new(),
            folders: Vec::new(),
        }
    }

    /// The folder, with no changes yet.
    pub(super) fn without_changes(&self) -> Live {
        Live {
            state: self.state.clone(),
            ..Live::none(None)
        }
    }

    /// The claim to the folder.
    pub fn state(&self) -> &Claim {
        &self.state
    }

    /// The file that changes are kept in.
    pub fn path(&self) -> Option<PathBuf> {
        self.state.folder().map(|folder| folder.join("live.toml"))
    }

    /// What is changed of a tenant.
    pub fn change(&self, name: &TenantName) -> TenantChange {
        self.changes.get(name).cloned().unwrap_or_default()
    }

    /// Tenants that were added and would come back with the next start.
    pub fn added(&self) -> impl Iterator<Item = &TenantName> {
        let added = self.changes.iter().filter(|(_, change)| change.added);
        added.map(|(name, _)| name)
    }

    /// These, with a change of a tenant.
    #[must_use]
    pub(crate) fn with_change(&self, name: TenantName, change: &TenantChange) -> Live {
        let mut all = self.change(&name);
        all.take(change);
        self.with_tenant(name, Some(all))
    }

    /// These, with all that is said of a tenant, or with nothing of it.
    #[must_use]
    pub(crate) fn with_tenant(&self, name: TenantName, change: Option<TenantChange>) -> Live {
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

    /// These, with a policy.
    #[must_use]
    pub(crate) fn with_policy(&self, policy: PolicyChange) -> Live {
        let mut next = self.clone();
        next.policy = Some(policy);
        next
    }

    /// Folders where backings may lie, beside the config's.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// These, with one folder more.
    #[must_use]
    pub(crate) fn with_folder(&self, folder: PathBuf) -> Live {
        let mut next = self.clone();
        if !next.folders.contains(&folder) {
            next.folders.push(folder);
        }
        next
    }

    /// What was done with a disk.
    pub fn disk(&self, name: &DiskName) -> Option<&DiskChange> {
        self.disks.get(name)
    }

    /// These, with what was done with a disk, or with nothing of it.
    #[must_use]
    pub fn with_disk(&self, name: DiskName, change: Option<DiskChange>) -> Live {
        let mut next = self.clone();
        match change {
            Some(change) => next.disks.insert(name, change),
            None => next.disks.remove(&name),
        };
        next
    }

    /// Whether both say the same of everything.
    pub(crate) fn says_as(&self, other: &Live) -> bool {
        self.policy == other.policy
            && self.changes == other.changes
            && self.disks == other.disks
            && self.folders == other.folders
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
    pub(super) fn import(&mut self, path: &Path, text: &str) -> Result<(), Faults> {
        let mut alone = Written::defaults();
        alone.read_kept(path, text)?;
        self.changes = alone.changes();
        self.policy = alone.policy_change();
        self.disks = alone.disk_changes();
        self.folders = alone.added_folders();
        Ok(())
    }

    /// Writes all of them down. The file system may hang.
    ///
    /// # Errors
    ///
    /// See [`KeepError`]; then the file says what it said before, but where that says that nobody knows.
    pub fn write(&self) -> Result<(), KeepError> {
        let folder = self.state.lay()?;
        let path = folder.join("live.toml");
        let new = path.with_extension("toml.new");
        if let Err(source) = write_new(&new, &self.export()) {
            return Err(KeepError::Write { path, source });
        }
        replace(folder, &new, &path).map_err(|source| KeepError::Unsure { path, source })
    }

    /// All of them with their version, as `import` reads them.
    pub(super) fn export(&self) -> String {
        let version = FileKind::LiveChanges.today();
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

/// Whoever reads `path` sees the old text or the new one, also after a crash.
fn replace(folder: &Path, new: &Path, path: &Path) -> io::Result<()> {
    fs::rename(new, path)?;
    File::open(folder)?.sync_all()
}
