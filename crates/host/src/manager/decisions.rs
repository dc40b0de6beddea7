//! The decision log: why a tenant may hold what it may, and why it holds less than it did. A day of it, or 16 MiB,
//! whichever is less.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sublet_policy::explain::{Explanation, Loss};
use sublet_policy::moved::{Move, Place};
use sublet_types::{Bytes, TenantName};

/// Decisions are forgotten after a day.
const KEPT_SECS: u64 = 86_400;

/// What the log may take.
const KEPT: Bytes = Bytes::mib(16);

/// What happened to one tenant.
#[derive(Clone, Debug)]
pub struct Made {
    /// When, in Unix seconds.
    pub at: u64,
    /// Under which policy.
    pub policy: &'static str,
    /// To whom.
    pub tenant: TenantName,
    /// What, and why.
    pub what: Event,
    /// Where what it lost went, or where what it may hold more came from.
    pub moves: Vec<Move<TenantName>>,
}

/// What can happen to a tenant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// Its target was changed.
    Decided(Explanation),
    /// It holds less than it did.
    Lost(Loss),
}

impl Made {
    fn bytes(&self) -> u64 {
        let names = self.moves.iter().map(|one| match &one.place {
            Place::Tenant(name) => name.as_str().len(),
            Place::Free | Place::Host | Place::Others => 0,
        });
        let moves = size_of_val(&self.moves[..]) + names.sum::<usize>();
        (size_of::<Made>() + self.tenant.as_str().len() + moves) as u64
    }

    /// What and why, as a sentence.
    pub fn why(&self) -> String {
        let (said, verb) = match &self.what {
            Event::Decided(explanation) if explanation.is_less() => {
                (explanation.to_string(), "for")
            }
            Event::Decided(explanation) => (explanation.to_string(), "from"),
            Event::Lost(loss) => (loss.to_string(), "to"),
        };
        if self.moves.is_empty() {
            return said;
        }
        let part = |one: &Move<TenantName>| {
            let whose = match &one.place {
                Place::Tenant(name) => name.to_string(),
                Place::Free => "what is free".to_owned(),
                Place::Host => "the host".to_owned(),
                Place::Others => "others".to_owned(),
            };
            format!("{} {verb} {whose}", one.pages.bytes())
        };
        let parts: Vec<String> = self.moves.iter().map(part).collect();
        format!("{said}; {}", parts.join(", "))
    }

    /// As a line of JSON.
    fn line(&self) -> String {
        let mut line = match &self.what {
            Event::Decided(explanation) => serde_json::json!({
                "pages_before": explanation.before.map(|pages| pages.0),
                "pages_after": explanation.after.map(|pages| pages.0),
                "why": explanation.reason,
                "bound": explanation.bound,
            }),
            Event::Lost(loss) => serde_json::json!({
                "held_before": loss.before.0,
                "held_after": loss.after.0,
                "secs": loss.secs,
                "why": loss.cause,
            }),
        };
        line["moves"] = serde_json::json!(self.moves);
        line["at"] = self.at.into();
        line["policy"] = self.policy.into();
        line["tenant"] = self.tenant.as_str().into();
        format!("{line}\n")
    }
}

/// The log.
pub struct Decisions {
    made: VecDeque<Made>,
    bytes: u64,
    /// Since when nothing was forgotten, in Unix seconds.
    since: u64,
}

/// Where what is added is written down besides, one JSON object a line.
pub struct LogFile {
    path: PathBuf,
    file: File,
    /// The last line could not be written.
    is_ailing: bool,
}

impl LogFile {
    /// Lines go behind what is there.
    ///
    /// # Errors
    ///
    /// It cannot be made or written to, or is no file: a named pipe would wait for its reader.
    pub fn open(path: &Path) -> io::Result<LogFile> {
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
        Ok(LogFile {
            path: path.to_owned(),
            file,
            is_ailing: false,
        })
    }

    /// Writes a line; what cannot be written is told of once, and in memory still.
    pub fn write(&mut self, line: &str) {
        let written = self.file.write_all(line.as_bytes());
        let was_ailing = std::mem::replace(&mut self.is_ailing, written.is_err());
        if let (Err(error), false) = (written, was_ailing) {
            tracing::error!(path = %self.path.display(), %error, "the decision log cannot be written; it goes on in memory");
        }
    }
}

impl Decisions {
    /// A log that begins now, in Unix seconds.
    pub fn new(now: u64) -> Decisions {
        Decisions {
            made: VecDeque::new(),
            bytes: 0,
            since: now,
        }
    }

    /// Adds what happened to a tenant. Says it as a line of JSON.
    pub fn add(
        &mut self,
        at: u64,
        policy: &'static str,
        tenant: &TenantName,
        what: Event,
        moves: Vec<Move<TenantName>>,
    ) -> String {
        let made = Made {
            at,
            policy,
            tenant: tenant.clone(),
            what,
            moves,
        };
        let line = made.line();
        self.bytes += made.bytes();
        self.made.push_back(made);
        self.forget(at);
        line
    }

    fn forget(&mut self, now: u64) {
        while let Some(oldest) = self.made.front() {
            let old = oldest.at + KEPT_SECS < now;
            if !old && self.bytes <= KEPT.0 {
                break;
            }
            self.bytes -= oldest.bytes();
            self.since = oldest.at + 1;
            self.made.pop_front();
        }
    }

    /// Since when nothing was forgotten, in Unix seconds.
    pub fn since(&self) -> u64 {
        self.since
    }

    /// What happened to a tenant until `until`, the latest first.
    pub fn about(&self, tenant: &TenantName, until: u64, most: usize) -> Vec<Made> {
        let about = self.made.iter().rev();
        let about = about.filter(|made| made.tenant == *tenant && made.at <= until);
        about.take(most).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use sublet_policy::explain::{LossCause, Reason};
    use sublet_types::{Pages, TenantId};

    use super::*;

    fn change(to: u64) -> Event {
        Event::Decided(Explanation {
            id: TenantId(1),
            before: Some(Pages(1)),
            after: Some(Pages(to)),
            reason: Reason::EqualShare { tenants: 2 },
            bound: None,
        })
    }

    #[test]
    fn it_tells_what_was_decided_until_then_and_forgets_after_a_day() {
        let ann: TenantName = "ann".parse().expect("a name");
        let ben: TenantName = "ben".parse().expect("a name");
        let mut log = Decisions::new(7);
        log.add(100, "static-alloc", &ann, change(5), Vec::new());
        log.add(200, "static-alloc", &ben, change(6), Vec::new());
        log.add(300, "static-alloc", &ann, change(7), Vec::new());
        let about = |log: &Decisions, until| -> Vec<u64> {
            log.about(&ann, until, 10)
                .iter()
                .map(|made| made.at)
                .collect()
        };
        assert_eq!(log.since(), 7);
        assert_eq!(about(&log, 299), [100]);
        assert_eq!(about(&log, 300), [300, 100]);
        log.add(
            100 + KEPT_SECS + 1,
            "static-alloc",
            &ben,
            change(8),
            Vec::new(),
        );
        assert_eq!(about(&log, u64::MAX), [300]);
        assert_eq!(log.since(), 101);
    }

    #[test]
    fn the_sentence_says_where_memory_went_and_came_from() {
        let moves = |pages: u64| {
            let ben = Place::Tenant("ben".parse().expect("a name"));
            [(ben, pages), (Place::Free, 256)].map(|(place, pages)| Move {
                place,
                pages: Pages(pages),
            })
        };
        let made = |what, pages| Made {
            at: 1,
            policy: "static-alloc",
            tenant: "ann".parse().expect("a name"),
            what,
            moves: moves(pages).to_vec(),
        };
        let shared = "each of 2 tenants has an equal share";
        assert_eq!(
            made(change(769), 512).why(),
            format!(
                "from 4.00 KiB to 3.00 MiB: {shared}; 2.00 MiB from ben, 1.00 MiB from what is free"
            )
        );
        let loss = Loss {
            before: Pages(1024),
            after: Pages(256),
            secs: 2,
            cause: LossCause::LetGo,
        };
        let why = made(Event::Lost(loss), 512).why();
        assert!(
            why.ends_with("; 2.00 MiB to ben, 1.00 MiB to what is free"),
            "{why}"
        );
    }

    #[test]
    fn it_never_takes_more_than_its_bound() {
        let ann: TenantName = "ann".parse().expect("a name");
        let mut log = Decisions::new(7);
        for at in 0..200_000 {
            log.add(at / 100, "greedy", &ann, change(at), Vec::new());
        }
        assert!(log.bytes <= KEPT.0);
        assert_eq!(log.about(&ann, u64::MAX, 1)[0].at, 1999);
    }

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
            let refused = LogFile::open(&path).err().expect("refused");
            assert!(refused.to_string().contains("named pipe"), "{refused}");
        }
        assert!(LogFile::open(Path::new("/dev/null")).is_ok());
    }

    #[test]
    fn a_file_gets_every_decision_as_a_line_of_json() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("decisions.jsonl");
        let mut log = Decisions::new(0);
        let mut file = LogFile::open(&path).expect("a file");
        let decided = log.add(
            1,
            "static-alloc",
            &"ann".parse().expect("a name"),
            change(5),
            Vec::new(),
        );
        let loss = Loss {
            before: Pages(9),
            after: Pages(5),
            secs: 2,
            cause: LossCause::GaveWay { gained: Pages(4) },
        };
        let ann = "ann".parse().expect("a name");
        let moves = vec![Move {
            place: Place::Tenant("ben".parse().expect("a name")),
            pages: Pages(4),
        }];
        let lost = log.add(2, "weights", &ann, Event::Lost(loss), moves);
        [decided, lost].iter().for_each(|line| file.write(line));
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
