//! What is wrong with a config: each fault with its place and, if there is one, the nearest right word.

use std::fmt;
use std::path::PathBuf;

use sublet_store::{ARENA_MIN, SHARERS_MAX, TENANTS_MAX};
use sublet_types::{
    BelowBlock, Bytes, DiskName, DiskNameError, NodeName, TenantNameError, UnreadVersion,
};

use super::bounds::DISKS_MAX;
use super::raw_value::ValueError;
use crate::manager::WrongPolicy;

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceLocation {
    /// Nowhere: it is the table's default.
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

impl SourceLocation {
    /// A fault at this place.
    pub(super) fn fault(self, wrong: FaultKind) -> ConfigFault {
        ConfigFault { place: self, wrong }
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceLocation::Default => f.write_str("default"),
            SourceLocation::Flag(flag) => write!(f, "--{flag}"),
            SourceLocation::Request => f.write_str("the request"),
            SourceLocation::Line { file, line } => write!(f, "{}:{line}", file.display()),
        }
    }
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}{wrong}", lead(.place))]
pub struct ConfigFault {
    /// Where.
    pub place: SourceLocation,
    /// What.
    pub wrong: FaultKind,
}

/// The text before a fault. A request says only one thing, so its place is left out.
fn lead(place: &SourceLocation) -> String {
    match place {
        SourceLocation::Request => String::new(),
        place => format!("{place}: "),
    }
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FaultKind {
    /// Not TOML. The text is the parser's.
    #[error("not TOML: {0}")]
    Syntax(String),
    /// A file of a version that this release does not read.
    #[error(transparent)]
    Version(#[from] UnreadVersion),
    /// An unknown table.
    #[error("no table is called [{name}]{}", hint(.nearest, .home))]
    UnknownTable {
        /// What was written.
        name: String,
        /// The nearest table.
        nearest: Option<&'static str>,
        /// The table that has a key of this name.
        home: Option<&'static str>,
    },
    /// An unknown key.
    #[error("unknown key `{name}` in [{table}]{}", hint(.nearest, .home))]
    UnknownKey {
        /// The table.
        table: String,
        /// What was written.
        name: String,
        /// The nearest key of that table.
        nearest: Option<&'static str>,
        /// The table that has a key of this name.
        home: Option<&'static str>,
    },
    /// A key that earlier releases knew.
    #[error("`{key}` is a retired knob; leave it out: {instead}")]
    Retired {
        /// The key.
        key: String,
        /// What holds without it.
        instead: &'static str,
    },
    /// A table is expected.
    #[error("`{0}` must be a table; write [{0}]")]
    NoTable(String),
    /// A value that does not fit.
    #[error("`{key}` {unfit}")]
    Value {
        /// The key, or the option.
        key: String,
        /// Why.
        unfit: ValueError,
    },
    /// Not a name for a tenant.
    #[error("{0}")]
    TenantName(TenantNameError),
    /// More tenants than a daemon serves.
    #[error("more than {TENANTS_MAX} tenants")]
    TooManyTenants,
    /// Not a name for a disk.
    #[error("{0}")]
    DiskName(DiskNameError),
    /// More disks than a daemon serves.
    #[error("more than {DISKS_MAX} disks")]
    TooManyDisks,
    /// A disk without a tenant.
    #[error("disk `{0}` names no tenant; give it one: `tenant = \"{0}\"`")]
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
    /// A setting that means nothing for a disk of files.
    #[error(
        "`{0}` is for swap: what is written to a disk always goes to its backing first (write-through)"
    )]
    ForSwap(String),
    /// A setting that means nothing for swap.
    #[error("`{0}` is for disks, and this one is swap")]
    ForDisks(String),
    /// A setting that means nothing without NBD over TCP.
    #[error(
        "`{0}` is for NBD over TCP, and the disk listens at no `tcp:` place: `mode` says who may open its Unix sockets"
    )]
    ForTcp(String),
    /// Two disks with one backing.
    #[error("`{key}`: {backing} is another disk's already, at {first}")]
    BackingTwice {
        /// The second.
        key: String,
        /// The backing.
        backing: String,
        /// The first.
        first: SourceLocation,
    },
    /// `--listen`, if several tenants could be meant.
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
    /// An amount below a block. It means nothing, because memory moves in blocks.
    #[error("`{key}`: {source}")]
    BelowBlock {
        /// The key.
        key: String,
        /// The amount.
        source: BelowBlock,
    },
    /// Floors that cannot all hold.
    #[error("the tenants' floors are {0} together, more than `arena.ceiling`")]
    FloorsAbove(Bytes),
    /// A value that means nothing without another one.
    #[error("`{key}` needs `{needs}` beside it")]
    Needs {
        /// The key that was set.
        key: String,
        /// The key that was not set.
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
        first: SourceLocation,
    },
    /// Two disks at one place that cannot serve both.
    #[error("`{key}`: {listen} is shared with the disk at {first}, so both need the same {knobs}")]
    SharedApart {
        /// The second disk's key.
        key: String,
        /// The place.
        listen: String,
        /// The knobs that differ and may not.
        knobs: &'static str,
        /// The first.
        first: SourceLocation,
    },
    /// One place that is listed twice.
    #[error("`{key}`: {listen} is listed twice")]
    SaidTwice {
        /// The key.
        key: String,
        /// The place.
        listen: String,
    },
    /// A user of two tenants.
    #[error("`{key}`: {user} is another tenant's user already, at {first}")]
    NamedTwice {
        /// The second.
        key: String,
        /// The user.
        user: String,
        /// The first.
        first: SourceLocation,
    },
    /// A tenant that is not named.
    #[error("`{key}`: no tenant is called {tenant}")]
    NoSharer {
        /// The key.
        key: String,
        /// The tenant that the key names.
        tenant: String,
    },
    /// More tenants than may share a pool.
    #[error(
        "`{key}`: {named} tenants, and {SHARERS_MAX} may share a pool at the most: name fewer here, and let another tenant be charged for a pool that the rest share"
    )]
    Sharers {
        /// The key.
        key: String,
        /// The number of named tenants.
        named: usize,
    },
    /// A shared pool of two tenants.
    #[error("`{key}`: another tenant is charged for the pool of that name already, at {first}")]
    SharedTwice {
        /// The second.
        key: String,
        /// The first.
        first: SourceLocation,
    },
    /// Lending is set, and there is nobody to lend to or to borrow from.
    #[error(
        "`{0}` means nothing without [peers]; name this host, its certificate and the members there, or leave this out"
    )]
    NoPeers(String),
    /// A host lends, and no borrower can reach it.
    #[error(
        "borrowers cannot reach this host; give it `listen = \"tcp:10.0.0.1:7171\"` in [peers], or lend nothing with `max = 0` in [lend]"
    )]
    NoPeerListener,
    /// A host that is its own peer.
    #[error("`{key}`: {node} is this host's own name; take it out of the list")]
    OwnMember {
        /// The key.
        key: String,
        /// The name.
        node: NodeName,
    },
    /// Two members of one name.
    #[error("`{key}`: {node} is named twice; a node has one address")]
    MemberTwice {
        /// The key.
        key: String,
        /// The name.
        node: NodeName,
    },
    /// Two members at one address.
    #[error("`{key}`: {} and {} have one address; each node has its own", nodes[0], nodes[1])]
    MembersAtOnePlace {
        /// The key.
        key: String,
        /// Their names.
        nodes: [NodeName; 2],
    },
    /// A member that is not named.
    #[error("`{key}`: no member is called {node}; {}", member_hint(.nearest.as_deref()))]
    NoMember {
        /// The key.
        key: String,
        /// The name that the key has.
        node: NodeName,
        /// The nearest member's name.
        nearest: Option<String>,
    },
    /// What etcd knows is said here, too.
    #[error("`{0}`: with `peers.etcd` it comes from there; leave it out")]
    FromEtcd(String),
    /// Nobody can connect to an address that others are told.
    #[error(
        "`{key}`: no other host can connect to {place}; write `advertise = \"tcp:HOST:PORT\"` in [peers] with an address of this host"
    )]
    AnyAddress {
        /// The key.
        key: String,
        /// What it says.
        place: String,
    },
    /// A password would travel in clear text.
    #[error(
        "`{key}`: its password would travel to {endpoint} in clear text; give etcd a certificate and write https://"
    )]
    PasswordInClear {
        /// The key.
        key: String,
        /// Where to.
        endpoint: String,
    },
    /// No such policy, or no such knobs of it.
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

fn member_hint(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => "add it to `peers.members`".to_owned(),
    }
}

/// Everything that is wrong with a config, one fault per line.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigFaults(Vec<ConfigFault>);

impl ConfigFaults {
    /// An error with these faults, if there are any.
    pub(super) fn of(faults: Vec<ConfigFault>) -> Result<(), ConfigFaults> {
        match faults.is_empty() {
            true => Ok(()),
            false => Err(ConfigFaults(faults)),
        }
    }

    /// A single fault.
    pub(super) fn one(fault: ConfigFault) -> ConfigFaults {
        ConfigFaults(vec![fault])
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigFault> {
        self.0.iter()
    }
}

impl std::error::Error for ConfigFaults {}

impl fmt::Display for ConfigFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ConfigFault::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}
