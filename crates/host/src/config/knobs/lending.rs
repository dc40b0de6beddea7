//! The knobs of lending between hosts, table by table of the file: who the peers are, what they may borrow here, and
//! what is borrowed from them.

use std::path::PathBuf;

use sublet_etcd::gateway::{Endpoint, EndpointScheme};
use sublet_lend::guard::GuardPolicy;
use sublet_lend::ids::RackName;
use sublet_lend::lender::{LendLimits, LendMax, MaxEach};
use sublet_lend::node::LendTo;
use sublet_lend::seal::CipherChoice;
use sublet_policy::placement::PlacementChoice;
use sublet_tls::peer::{Fingerprint, NodeIdentity, PeerTlsSettings};
use sublet_types::{Bytes, ClusterName, NodeName, PAGE_BYTES};

use super::knob::KnobArgument;
use super::knob_tables::knob_tables;
use super::words::{amount_or, listed, path, some_of, word_of};
use crate::config::etcd::{EtcdConfig, EtcdUserConfig, SaidFiles};
use crate::config::member::PeerMember;
use crate::config::peer_place::PeerPlace;

/// The most threads that serve borrowers.
const THREADS_MAX: u64 = 4;

/// Percent of a core that borrowers may cost. The most is all of each thread's core.
const CPU_PERCENT_MAX: u64 = 100 * THREADS_MAX;

/// Limits of what is sent to borrowers in a second. The least is some messages of 64 pages.
const RATE_MIN: Bytes = Bytes::mib(1);
const RATE_MAX: Bytes = Bytes::gib(1024);

/// Limits of the outbox. The least is a message of 32 pages. The most fits the store's number of a page in it.
const OUTBOX_MIN: Bytes = Bytes::kib(128);
const OUTBOX_MAX: Bytes = Bytes::mib(128);

const GUARDS: [(&str, GuardPolicy); 2] = [
    ("relative", GuardPolicy::Relative),
    ("puma", GuardPolicy::Puma),
];

const CIPHERS: [(&str, CipherChoice); 2] = [
    ("auto", CipherChoice::Auto),
    ("aes-gcm", CipherChoice::AesGcm),
];

/// All of it or nothing: what lacks is a fault.
fn peer_tls(w: &WrittenPeers) -> Option<PeerTlsSettings> {
    let cluster = w.cluster.clone();
    let node = w.node.clone()?;
    Some(PeerTlsSettings {
        identity: NodeIdentity { cluster, node },
        ca: w.ca.clone()?,
        certificate: w.certificate.clone()?,
        key: w.key.clone()?,
        denied: w.deny.clone(),
    })
}

/// `None` if etcd is not asked.
fn etcd(w: &WrittenPeers) -> Option<EtcdConfig> {
    if w.etcd.is_empty() {
        return None;
    }
    let of_etcd = SaidFiles {
        ca: w.etcd_ca.as_ref(),
        certificate: w.etcd_certificate.as_ref(),
        key: w.etcd_key.as_ref(),
    };
    let of_peers = SaidFiles {
        ca: w.ca.as_ref(),
        certificate: w.certificate.as_ref(),
        key: w.key.as_ref(),
    };
    let speaks_tls = |endpoint: &Endpoint| endpoint.scheme() == EndpointScheme::Https;
    let user = w.etcd_user.clone().zip(w.etcd_password_file.clone());
    Some(EtcdConfig {
        endpoints: w.etcd.clone(),
        tls: of_etcd
            .or(&of_peers)
            .filter(|_| w.etcd.iter().any(speaks_tls)),
        user: user.map(|(name, password_file)| EtcdUserConfig {
            name,
            password_file,
        }),
    })
}

/// Blocks of an amount, as many as a number of blocks holds.
fn whole_blocks(amount: Bytes) -> u32 {
    u32::try_from(amount.blocks()).unwrap_or(u32::MAX)
}

impl LendConfig {
    /// How much the host lends, in blocks.
    pub fn limits(&self) -> LendLimits {
        let max = self.max.map(whole_blocks);
        LendLimits {
            max: max.map_or(LendMax::Auto, LendMax::Blocks),
            max_each: MaxEach::Percent(self.max_each_percent),
        }
    }

    /// Whether the host lends to this member.
    pub fn lends_to(&self, member: &NodeName) -> LendTo {
        match &self.to {
            Some(named) if !named.contains(member) => LendTo::NotNamed,
            _ => LendTo::Allowed,
        }
    }
}

impl BorrowConfig {
    /// The most blocks that the host borrows.
    pub fn blocks_max(&self) -> u32 {
        whole_blocks(self.max)
    }

    /// Pages that the outbox holds. The largest outbox has 32,768.
    pub fn outbox_pages(&self) -> u16 {
        u16::try_from(self.outbox.0 / PAGE_BYTES).unwrap_or(u16::MAX)
    }
}

knob_tables! {
    /// Everything that was set for lending, table by table, over the defaults of the table.
    written: WrittenLending,
    /// The knobs of lending between hosts.
    knobs: LENDING_KNOBS,
    /// The names of the tables of lending.
    names: LENDING_TABLES,
    /// Who this host is among its peers, and who they are.
    peers: WrittenPeers => PeersConfig {
        node: Option<NodeName> {
            unit: "a name of letters, digits, '-', '_' and '.'",
            default: None,
            sample: "\"a\"",
            why: "yours; the certificate names it",
            help: "The name of this host among its peers; without it the host neither lends nor borrows",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| said.node().map(|node| w.node = Some(node)),
            means: {
                /// Who this host is, and the files that prove it. `None` if it has no peers.
                tls: Option<PeerTlsSettings> = peer_tls,
            },
            show: |peers| peers.tls.as_ref().map(|tls| tls.identity.node.to_string()),
        }
        cluster: ClusterName {
            unit: "a name of letters, digits, '-', '_' and '.'",
            default: Some("\"default\""),
            sample: "\"rack-7\"",
            why: "one cluster is enough for most; each certificate names its cluster",
            help: "The cluster of this host; it refuses nodes of any other",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| said.cluster().map(|cluster| w.cluster = cluster),
            show: |peers| peers.tls.as_ref().map(|tls| tls.identity.cluster.to_string()),
        }
        listen: Option<PeerPlace> {
            unit: "tcp:HOST:PORT",
            default: None,
            sample: "\"tcp:10.0.0.1:7171\"",
            why: "nobody reaches the host unless you say so",
            help: "Where peers reach this host; a host that lends needs it",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| said.peer_place().map(|place| w.listen = Some(place)),
            means: {
                /// Where peers reach this host.
                listen: Option<PeerPlace> = |w| w.listen.clone(),
            },
            show: |peers| peers.listen.as_ref().map(PeerPlace::to_string),
        }
        members: Vec<PeerMember> {
            unit: "a list of NAME=tcp:HOST:PORT",
            default: None,
            sample: "[\"b=tcp:10.0.0.2:7171\"]",
            why: "you name each of them; a host name is resolved anew at each connect",
            help: "The other hosts of the cluster, and where each listens; with `etcd` they come from there",
            flag: None,
            takes: KnobArgument::Values,
            set: |w, said| said.members().map(|members| w.members = members),
            means: {
                /// The other hosts.
                members: Vec<PeerMember> = |w| w.members.clone(),
            },
            show: |peers| some_of(&peers.members),
        }
        leader: Option<NodeName> {
            unit: "a member, or this host",
            default: None,
            sample: "\"a\"",
            why: "without one, each host looks at all others (up to 16) or asks two of them at random; every host must name the same one",
            help: "The host that advises who borrows of whom; pages and leases do not depend on it",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| said.node().map(|node| w.leader = Some(node)),
            means: {
                /// The host that advises who borrows of whom.
                leader: Option<NodeName> = |w| w.leader.clone(),
            },
            show: |peers| peers.leader.as_ref().map(NodeName::to_string),
        }
        placement: PlacementChoice {
            unit: "a placement policy",
            default: Some("\"spread\""),
            sample: "\"two-level\"",
            why: "at most a quarter of a wish comes from one lender, so that its end costs a borrower little",
            help: "How this host chooses lenders for others while it leads; the cluster's settings in etcd go before it",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| said.placement().map(|choice| w.placement = choice),
            means: {
                /// How this host chooses lenders for others while it leads.
                placement: PlacementChoice = |w| w.placement.clone(),
            },
            show: |peers| peers.tls.as_ref().map(|_| peers.placement.entry().name.to_owned()),
        }
        rack: Option<RackName> {
            unit: "a name of letters, digits, '-', '_' and '.'",
            default: None,
            sample: "\"rack-7\"",
            why: "yours; of two lenders that have much, the leader names the one of the borrower's rack",
            help: "Where this host stands",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| said.rack().map(|rack| w.rack = Some(rack)),
            means: {
                /// Where this host stands.
                rack: Option<RackName> = |w| w.rack.clone(),
            },
            show: |peers| peers.rack.as_ref().map(|rack| rack.0.to_string()),
        }
        etcd: Vec<Endpoint> {
            unit: "a list of https://HOST:PORT or http://HOST:PORT",
            default: None,
            sample: "[\"https://10.0.0.8:2379\", \"https://10.0.0.9:2379\"]",
            why: "a fleet needs it; a few hosts name each other in `members`",
            help: "Members of the etcd that knows the hosts of the cluster and elects their leader",
            flag: None,
            takes: KnobArgument::Values,
            set: |w, said| said.endpoints().map(|endpoints| w.etcd = endpoints),
            means: {
                /// Where this host finds its cluster. `None` if the members are those of the config.
                etcd: Option<EtcdConfig> = etcd,
            },
            show: |peers| some_of(&peers.etcd.as_ref()?.endpoints),
        }
        advertise: Option<PeerPlace> {
            unit: "tcp:HOST:PORT",
            default: None,
            sample: "\"tcp:a.example.net:7171\"",
            why: "the address of `listen`, unless that is 0.0.0.0 or [::], or others reach the host by another",
            help: "Where the other hosts reach this one, as etcd tells them",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| said.peer_place().map(|place| w.advertise = Some(place)),
            means: {
                /// Where the other hosts reach this one, if that is not where it listens.
                advertise: Option<PeerPlace> = |w| w.advertise.clone(),
            },
            show: |peers| peers.advertise.as_ref().map(PeerPlace::to_string),
        }
        etcd_ca: Option<PathBuf> {
            unit: "a PEM file",
            default: None,
            sample: "\"/etc/sublet/etcd-ca.crt\"",
            why: "that of `ca`, if one authority signs for both",
            help: "The authorities that sign etcd's certificates",
            flag: None,
            takes: KnobArgument::Path,
            set: |w, said| said.path().map(|path| w.etcd_ca = Some(path)),
            show: |peers| {
                let tls = peers.etcd.as_ref()?.tls.as_ref()?;
                Some(path(&tls.authority))
            },
        }
        etcd_certificate: Option<PathBuf> {
            unit: "a PEM file",
            default: None,
            sample: "\"/etc/sublet/etcd-client.crt\"",
            why: "that of `certificate`",
            help: "Certificate chain that this host shows to etcd",
            flag: None,
            takes: KnobArgument::Path,
            set: |w, said| said.path().map(|path| w.etcd_certificate = Some(path)),
            show: |peers| {
                let tls = peers.etcd.as_ref()?.tls.as_ref()?;
                Some(path(&tls.certificate.as_ref()?.chain))
            },
        }
        etcd_key: Option<PathBuf> {
            unit: "a PEM file",
            default: None,
            sample: "\"/etc/sublet/etcd-client.key\"",
            why: "that of `key`",
            help: "Private key of the certificate that this host shows to etcd",
            flag: None,
            takes: KnobArgument::Path,
            set: |w, said| said.path().map(|path| w.etcd_key = Some(path)),
            show: |peers| {
                let tls = peers.etcd.as_ref()?.tls.as_ref()?;
                Some(path(&tls.certificate.as_ref()?.key))
            },
        }
        etcd_user: Option<String> {
            unit: "a user's name",
            default: None,
            sample: "\"sublet\"",
            why: "etcd has no users unless its owner makes some",
            help: "Who this host is for etcd",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| said.text().map(|user| w.etcd_user = Some(user)),
            show: |peers| {
                let user = peers.etcd.as_ref()?.user.as_ref()?;
                Some(user.name.clone())
            },
        }
        etcd_password_file: Option<PathBuf> {
            unit: "a file",
            default: None,
            sample: "\"/etc/sublet/etcd-password\"",
            why: "yours",
            help: "The file whose first line is that user's password",
            flag: None,
            takes: KnobArgument::Path,
            set: |w, said| said.path().map(|path| w.etcd_password_file = Some(path)),
            show: |peers| {
                let user = peers.etcd.as_ref()?.user.as_ref()?;
                Some(path(&user.password_file))
            },
        }
        ca: Option<PathBuf> {
            unit: "a PEM file",
            default: None,
            sample: "\"/etc/sublet/ca.crt\"",
            why: "yours; `sublet lend ca init` makes one",
            help: "The authorities that sign the certificates of all hosts in the cluster",
            flag: None,
            takes: KnobArgument::Path,
            set: |w, said| said.path().map(|path| w.ca = Some(path)),
            show: |peers| peers.tls.as_ref().map(|tls| path(&tls.ca)),
        }
        certificate: Option<PathBuf> {
            unit: "a PEM file",
            default: None,
            sample: "\"/etc/sublet/a.crt\"",
            why: "yours; `sublet lend ca issue NODE` makes one",
            help: "Certificate chain of this host; it names the cluster and the node",
            flag: None,
            takes: KnobArgument::Path,
            set: |w, said| said.path().map(|path| w.certificate = Some(path)),
            show: |peers| peers.tls.as_ref().map(|tls| path(&tls.certificate)),
        }
        key: Option<PathBuf> {
            unit: "a PEM file",
            default: None,
            sample: "\"/etc/sublet/a.key\"",
            why: "yours",
            help: "Private key of that certificate",
            flag: None,
            takes: KnobArgument::Path,
            set: |w, said| said.path().map(|path| w.key = Some(path)),
            show: |peers| peers.tls.as_ref().map(|tls| path(&tls.key)),
        }
        deny: Vec<Fingerprint> {
            unit: "a list of SHA-256 fingerprints",
            default: None,
            sample: "[\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"]",
            why: "the authorities trust every certificate that they signed until it ends",
            help: "Certificates of hosts that are refused, though an authority signed them; `openssl x509 -fingerprint -sha256` prints one",
            flag: None,
            takes: KnobArgument::Values,
            set: |w, said| said.fingerprints().map(|denied| w.deny = denied),
            show: |peers| some_of(&peers.tls.as_ref()?.denied),
        }
        join: bool {
            unit: "true or false",
            default: Some("true"),
            sample: "false",
            why: "a host takes part unless its owner says otherwise",
            help: "Take part in the cluster; `sublet cluster leave` and `sublet cluster join` set it while the daemon runs",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| said.boolean().map(|join| w.join = join),
            means: {
                /// Whether the host takes part in its cluster.
                join: bool = |w| w.join,
            },
            show: |peers| peers.tls.as_ref().map(|_| peers.join.to_string()),
        }
    }
    /// What peers may borrow here.
    lend: WrittenLend => LendConfig {
        max: Option<Bytes> {
            unit: "an amount, \"auto\", or 0 for never",
            default: Some("\"auto\""),
            sample: "\"16GiB\"",
            why: "auto is what headroom leaves; the host takes it back when it needs it",
            help: "The most memory that peers borrow here together",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| said.amount_or("auto").map(|amount| w.max = amount),
            means: {
                /// The most that all borrowers have. `None` means what headroom leaves. Zero means never.
                max: Option<Bytes> = |w| w.max,
            },
            show: |lend| Some(amount_or("auto", lend.max)),
        }
        to: Option<Vec<NodeName>> {
            unit: "a list of members",
            default: None,
            sample: "[\"b\"]",
            why: "every member; a borrower costs memory that is idle, and the host takes it back when it needs it",
            help: "The members that may borrow here",
            flag: None,
            takes: KnobArgument::Values,
            set: |w, said| said.borrowers().map(|nodes| w.to = Some(nodes)),
            means: {
                /// The members that may borrow here. `None` means every member.
                to: Option<Vec<NodeName>> = |w| w.to.clone(),
            },
            show: |lend| lend.to.as_ref().map(listed),
        }
        max_each: u8 {
            unit: "a percentage from 1% to 100%",
            default: Some("\"50%\""),
            sample: "\"25%\"",
            why: "two hosts that are short at once share what there is",
            help: "The most that one borrower has, as a part of `max`",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| said.percent(1, 100).map(|percent| w.max_each = percent as u8),
            means: {
                /// The most that one borrower has, in percent of what all may have.
                max_each_percent: u8 = |w| w.max_each,
            },
            show: |lend| Some(format!("{}%", lend.max_each_percent)),
        }
        rate: Option<Bytes> {
            unit: "an amount a second from 1MiB to 1TiB, or \"none\"",
            default: Some("\"none\""),
            sample: "\"500MiB\"",
            why: "the CPU limit comes first on most networks",
            help: "The most bytes of pages that all borrowers together fetch and send in a second; beyond it they wait",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| {
                said.amount_in_or("none", RATE_MIN, RATE_MAX)
                    .map(|amount| w.rate = amount)
            },
            means: {
                /// Bytes a second over all borrowers. `None` means no limit.
                rate: Option<Bytes> = |w| w.rate,
            },
            show: |lend| Some(amount_or("none", lend.rate)),
        }
        cpu: u16 {
            unit: "a percentage of one core from 1% to 400%",
            default: Some("\"25%\""),
            sample: "\"100%\"",
            why: "lending must not cost the host what its own programs need",
            help: "The most CPU time that borrowers cost, averaged over a second; beyond it they wait",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| {
                said.percent(1, CPU_PERCENT_MAX)
                    .map(|percent| w.cpu = percent as u16)
            },
            means: {
                /// Percent of one core that all borrowers together cost at the most.
                cpu_percent: u16 = |w| w.cpu,
            },
            show: |lend| Some(format!("{}%", lend.cpu_percent)),
        }
        threads: usize {
            unit: "1 to 4",
            default: Some("1"),
            sample: "2",
            why: "one thread serves more than a quarter of a core allows",
            help: "Threads that serve borrowers",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| {
                said.count(1, THREADS_MAX)
                    .map(|threads| w.threads = threads as usize)
            },
            means: {
                /// Threads that serve borrowers.
                threads: usize = |w| w.threads,
            },
            show: |lend| Some(lend.threads.to_string()),
        }
        drain: bool {
            unit: "true or false",
            default: Some("false"),
            sample: "true",
            why: "a host lends unless its owner says otherwise",
            help: "Lend nothing, whatever `max` says; `sublet lend drain` and `sublet lend resume` set it while the daemon runs",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| said.boolean().map(|drain| w.drain = drain),
            means: {
                /// Whether nothing is lent until the owner resumes.
                drain: bool = |w| w.drain,
            },
            show: |lend| Some(lend.drain.to_string()),
        }
    }
    /// What is borrowed from peers.
    borrow: WrittenBorrow => BorrowConfig {
        max: Bytes {
            unit: "an amount, or 0 for never",
            default: Some("0"),
            sample: "\"64GiB\"",
            why: "pages leave the host only if you say so",
            help: "The most memory that the host borrows from its peers",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| said.amount().map(|amount| w.max = amount),
            means: {
                /// The most that is borrowed. Zero means never.
                max: Bytes = |w| w.max,
            },
            show: |borrow| Some(borrow.max.to_string()),
        }
        outbox: Bytes {
            unit: "an amount from 128KiB to 128MiB, whole pages of 4 KiB",
            default: Some("\"4MiB\""),
            sample: "\"16MiB\"",
            why: "1,024 pages bridge a pause of the network; a page that finds the outbox full is dropped",
            help: "Memory for evicted pages on their way to lenders; from the first lease on, it counts against what the arena may hold",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| {
                said.pages_in(OUTBOX_MIN, OUTBOX_MAX)
                    .map(|amount| w.outbox = amount)
            },
            means: {
                /// Bytes for pages on their way to lenders.
                outbox: Bytes = |w| w.outbox,
            },
            show: |borrow| Some(borrow.outbox.to_string()),
        }
        guard: GuardPolicy {
            unit: "relative or puma",
            default: Some("\"relative\""),
            sample: "\"puma\"",
            why: "a lender is worth asking if it answers sooner than the disk; constants are wrong for a fast disk and for a slow one",
            help: "How the host decides that a lender is too slow to ask: against the disk that it spares, or against PUMA's constants",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| said.named_choice(&GUARDS).map(|guard| w.guard = guard),
            means: {
                /// When a lender is too slow to ask.
                guard: GuardPolicy = |w| w.guard,
            },
            show: |borrow| Some(word_of(&GUARDS, borrow.guard)),
        }
        cipher: CipherChoice {
            unit: "auto or aes-gcm",
            default: Some("\"auto\""),
            sample: "\"aes-gcm\"",
            why: "auto is AEGIS-128X2, and ChaCha20-Poly1305 on a CPU without AES instructions; aes-gcm is for audits that ask for it",
            help: "The cipher that seals pages before they leave the host",
            flag: None,
            takes: KnobArgument::Value,
            set: |w, said| said.named_choice(&CIPHERS).map(|cipher| w.cipher = cipher),
            means: {
                /// Which cipher seals pages.
                cipher: CipherChoice = |w| w.cipher,
            },
            show: |borrow| Some(word_of(&CIPHERS, borrow.cipher)),
        }
    }
}
