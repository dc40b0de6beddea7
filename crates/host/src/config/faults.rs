//! What is wrong with a config: each fault with its place and, where there is one, the nearest right
//! word.

use std::fmt;
use std::path::PathBuf;

use sublet_store::{ARENA_MIN, SHARERS_MAX, TENANTS_MAX};
use sublet_types::{BelowBlock, Bytes, DiskName, DiskNameError, TenantNameError, UnreadVersion};

use super::bounds::DISKS_MAX;
use super::said::Unfit;
use crate::manager::WrongPolicy;

/// Where something was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: the table's default.
    Default,
    /// On the command line, by this option.
    Flag(&'static str),
    /// In a request, which says nothing else.
    Request,
    /// In a file.
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

impl Place {
    /// A fault here.
    pub(super) fn wrong(self, wrong: Wrong) -> Fault {
        Fault { place: self, wrong }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Default => f.write_str("default"),
            Place::Flag(flag) => write!(f, "--{flag}"),
            Place::Request => f.write_str("the request"),
            Place::Line { file, line } => write!(f, "{}:{line}", file.display()),
        }
    }
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}{wrong}", lead(.place))]
pub struct Fault {
    /// Where.
    pub place: Place,
    /// What.
    pub wrong: Wrong,
}

/// A request says one thing only: nobody asks where in it.
fn lead(place: &Place) -> String {
    match place {
        Place::Request => String::new(),
        place => format!("{place}: "),
    }
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Wrong {
    /// No TOML; the parser's words.
    #[error("not TOML: {0}")]
    Syntax(String),
    /// A file of a version that is not read.
    #[error(transparent)]
    Version(#[from] UnreadVersion),
    /// A table that nobody knows.
    #[error("no table is called [{name}]{}", hint(.nearest, .home))]
    UnknownRoom {
        /// What was written.
        name: String,
        /// The nearest table.
        nearest: Option<&'static str>,
        /// The table that has a key of this name.
        home: Option<&'static str>,
    },
    /// A key that nobody knows.
    #[error("unknown key `{name}` in [{room}]{}", hint(.nearest, .home))]
    UnknownKey {
        /// The table.
        room: String,
        /// What was written.
        name: String,
        /// The nearest key of that table.
        nearest: Option<&'static str>,
        /// The table that has a key of this name.
        home: Option<&'static str>,
    },
    /// A key that releases before this one knew.
    #[error("`{key}` is a retired knob; leave it out: {instead}")]
    Retired {
        /// The key.
        key: String,
        /// What holds without it.
        instead: &'static str,
    },
    /// A table was due.
    #[error("`{0}` must be a table; write [{0}]")]
    NoTable(String),
    /// A value that does not fit.
    #[error("`{key}` {unfit}")]
    Value {
        /// The key, or the option.
        key: String,
        /// Why.
        unfit: Unfit,
    },
    /// No name for a tenant.
    #[error("{0}")]
    TenantName(TenantNameError),
    /// More tenants than a daemon serves.
    #[error("more than {TENANTS_MAX} tenants")]
    TooManyTenants,
    /// No name for a disk.
    #[error("{0}")]
    DiskName(DiskNameError),
    /// More disks than a daemon serves.
    #[error("more than {DISKS_MAX} disks")]
    TooManyDisks,
    /// A disk that belongs to nobody.
    #[error("disk `{0}` says no tenant; give it one: `tenant = \"{0}\"`")]
    NoTenant(DiskName),
    /// A disk that nobody can reach.
    #[error("disk `{0}` listens nowhere; give it `listen = [\"unix:/run/sublet/{0}.sock\"]`")]
    NoPlace(DiskName),
    /// A disk with nothing behind it.
    #[error(
        "disk `{0}` has no backing; name its file or block device: `backing = \"/var/lib/vm/{0}.img\"`"
    )]
    NoBacking(DiskName),
    /// A swap disk of no size.
    #[error("swap disk `{0}` has neither a backing nor a size; give it one: `size = \"4GiB\"`")]
    NoSize(DiskName),
    /// What means nothing for a disk of files.
    #[error(
        "`{0}` is for swap: what is written to a disk always goes to its backing first (write-through)"
    )]
    ForSwap(String),
    /// What means nothing for swap.
    #[error("`{0}` is for disks, and this one is swap")]
    ForDisks(String),
    /// What means nothing without NBD over TCP.
    #[error(
        "`{0}` is for NBD over TCP, and the disk listens at no `tcp:` place: who may open its Unix sockets is said by `mode`"
    )]
    ForTcp(String),
    /// Two disks of one backing.
    #[error("`{key}`: {backing} is another disk's already, at {first}")]
    BackingTwice {
        /// The second.
        key: String,
        /// The backing.
        backing: String,
        /// The first.
        first: Place,
    },
    /// `--listen` where several tenants could be meant.
    #[error("the file names several tenants: say there what each listens on")]
    WhichTenant,
    /// Two values that contradict each other.
    #[error("`{low}` is above `{high}`")]
    Above {
        /// The one that should be lower.
        low: String,
        /// The one that should be higher.
        high: &'static str,
    },
    /// An arena in which nothing could be kept.
    #[error("`{0}` is less than the smallest arena, {ARENA_MIN}")]
    TooSmall(String),
    /// An amount that is nothing, for memory moves in blocks.
    #[error("`{key}`: {source}")]
    BelowBlock {
        /// The key.
        key: String,
        /// What it was given.
        source: BelowBlock,
    },
    /// Floors that cannot all hold.
    #[error("the tenants' floors are {0} together, more than `arena.ceiling`")]
    FloorsAbove(Bytes),
    /// A value that means nothing without another.
    #[error("`{key}` needs `{needs}` beside it")]
    Needs {
        /// What was said.
        key: String,
        /// What was not.
        needs: &'static str,
    },
    /// A tenant that nobody can reach.
    #[error("tenant `{0}` listens nowhere; give it `listen = [\"tcp:127.0.0.1:11211\"]`")]
    NoListener(String),
    /// Two tenants at one place.
    #[error("`{key}`: {listen} is listed already, at {first}")]
    ListedTwice {
        /// The second.
        key: String,
        /// The place.
        listen: String,
        /// The first.
        first: Place,
    },
    /// Two disks at one place that it cannot serve both.
    #[error("`{key}`: {listen} is shared with the disk at {first}, so both need the same {knobs}")]
    SharedApart {
        /// The second disk's.
        key: String,
        /// The place.
        listen: String,
        /// What differs and may not.
        knobs: &'static str,
        /// The first.
        first: Place,
    },
    /// One place, twice in one breath.
    #[error("`{key}`: {listen} is said twice")]
    SaidTwice {
        /// The key.
        key: String,
        /// The place.
        listen: String,
    },
    /// A user of two tenants.
    #[error("`{key}`: {user} is somebody's user already, at {first}")]
    NamedTwice {
        /// The second.
        key: String,
        /// The user.
        user: String,
        /// The first.
        first: Place,
    },
    /// A tenant that nobody has heard of.
    #[error("`{key}`: no tenant is called {tenant}")]
    NoSharer {
        /// The key.
        key: String,
        /// Who was named.
        tenant: String,
    },
    /// More tenants than may share a pool.
    #[error(
        "`{key}`: {named} tenants, and {SHARERS_MAX} may share a pool at the most: name fewer here, and let another tenant be charged for a pool that the rest share"
    )]
    Sharers {
        /// The key.
        key: String,
        /// How many were named.
        named: usize,
    },
    /// A shared pool of two tenants.
    #[error("`{key}`: another tenant is charged for the pool of that name already, at {first}")]
    SharedTwice {
        /// The second.
        key: String,
        /// The first.
        first: Place,
    },
    /// No such policy, or not with such knobs.
    #[error("`{key}`: {wrong}")]
    Policy {
        /// The key.
        key: String,
        /// Why not.
        wrong: WrongPolicy,
    },
    /// Only TCP makes sense there.
    #[error("`{0}` must be tcp:HOST:PORT")]
    WantsTcp(&'static str),
}

fn hint(nearest: &Option<&'static str>, home: &Option<&'static str>) -> String {
    match (home, nearest) {
        (Some(home), _) => format!("; it belongs in [{home}]"),
        (None, Some(nearest)) => format!("; did you mean `{nearest}`?"),
        (None, None) => "; `sublet config default` shows all there is".to_owned(),
    }
}

/// Everything that is wrong with a config, one a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// These faults, if any.
    pub(super) fn of(faults: Vec<Fault>) -> Result<(), Faults> {
        match faults.is_empty() {
            true => Ok(()),
            false => Err(Faults(faults)),
        }
    }

    /// A single fault.
    pub(super) fn one(fault: Fault) -> Faults {
        Faults(vec![fault])
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.0.iter()
    }
}

impl std::error::Error for Faults {}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Fault::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}
