//! The file of `policy.log_file`: every change of a target and every loss, as a line of JSON.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The file to which the manager also writes what policies do, one JSON object per line.
pub(super) struct PolicyLogFile {
    path: PathBuf,
    file: File,
    /// The last line could not be written.
    is_ailing: bool,
}

impl PolicyLogFile {
    /// Opens the file. Lines go after what is there.
    ///
    /// # Errors
    ///
    /// The file cannot be made or written to, or is not a regular file. A named pipe would wait for its reader.
    pub(super) fn open(path: &Path) -> io::Result<PolicyLogFile> {
        let opened = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(path);
        let is_pipe = fs::metadata(path).is_ok_and(|facts| facts.file_type().is_fifo());
        let opened = match is_pipe {
            true => Err(io::Error::other("it is a named pipe, and is to be a file")),
            false => opened,
        };
        let named = |error: io::Error| {
            let what = format!("`policy.log_file` {}: {error}", path.display());
            io::Error::new(error.kind(), what)
        };
        let file = opened.map_err(named)?;
        Ok(PolicyLogFile {
            path: path.to_owned(),
            file,
            is_ailing: false,
        })
    }

    /// Writes a line. If it cannot be written, the daemon logs that once, and the line is still in memory.
    pub(super) fn write(&mut self, line: &str) {
        let written = self.file.write_all(line.as_bytes());
        let was_ailing = std::mem::replace(&mut self.is_ailing, written.is_err());
        if let (Err(error), false) = (written, was_ailing) {
            tracing::error!(path = %self.path.display(), bytes = line.len(), %error, "the decision log cannot be written; the daemon keeps the line in memory and tries the file again with the next: check its file system");
        }
    }
}

#[cfg(test)]
mod tests {
    use sublet_policy::explain::{Explanation, Loss, LossCause, Reason};
    use sublet_policy::transfers::{Holder, MemoryTransfer};
    use sublet_types::{Pages, TenantId, TenantName};

    use super::*;
    use crate::observe::events::{PolicyOutcome, PolicyRecord};

    #[test]
    fn a_named_pipe_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).expect("a pipe");
        for reader in [None, Some(())] {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK;
            let open = |()| rustix::fs::open(&path, flags, mode).expect("opened");
            let _reader = reader.map(open);
            let refused = PolicyLogFile::open(&path).err().expect("refused");
            assert!(refused.to_string().contains("named pipe"), "{refused}");
        }
        assert!(PolicyLogFile::open(Path::new("/dev/null")).is_ok());
    }

    #[test]
    fn a_file_gets_every_decision_as_a_line_of_json() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("decisions.jsonl");
        let mut file = PolicyLogFile::open(&path).expect("a file");
        let ann: TenantName = "ann".parse().expect("a name");
        let change = Explanation {
            id: TenantId(1),
            before: Some(Pages(1)),
            after: Some(Pages(5)),
            reason: Reason::EqualShare { tenants: 2 },
            bound: None,
        };
        let decided = PolicyRecord {
            policy: "static-alloc",
            what: PolicyOutcome::Decided(change),
            moves: Vec::new(),
        };
        let loss = Loss {
            before: Pages(9),
            after: Pages(5),
            secs: 2,
            cause: LossCause::GaveWay { gained: Pages(4) },
        };
        let lost = PolicyRecord {
            policy: "weights",
            what: PolicyOutcome::Lost(loss),
            moves: vec![MemoryTransfer {
                place: Holder::Tenant("ben".parse().expect("a name")),
                pages: Pages(4),
            }],
        };
        file.write(&decided.line(1, &ann));
        file.write(&lost.line(2, &ann));
        let text = std::fs::read_to_string(&path).expect("written");
        let lines = text.lines().map(serde_json::from_str);
        let lines: Vec<serde_json::Value> = lines.collect::<Result<_, _>>().expect("JSON");
        let [line, lost] = &lines[..] else {
            panic!("two lines: {text}");
        };
        assert_eq!((&lost["held_after"], &lost["at"]), (&5.into(), &2.into()));
        assert_eq!(lost["why"]["reason"], "gave-way");
        assert_eq!(lost["moves"][0]["place"]["tenant"], "ben");
        assert_eq!(lost["moves"][0]["pages"], 4);
        assert_eq!(line["tenant"], "ann");
        assert_eq!(line["pages_after"], 5);
        assert_eq!(line["why"]["reason"], "equal-share");
    }
}
