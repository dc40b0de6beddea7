//! Why events happen: a small set of reasons, of which each id has a few.

use sublet_client::messages::ChangeLifetime;

macro_rules! whys {
    ($($why:ident $name:literal $meaning:literal;)*) => {
        /// Why an event happened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EventReason {
            $(#[doc = $meaning] $why,)*
        }

        impl EventReason {
            /// Every one.
            pub(super) const ALL: &[EventReason] = &[$(EventReason::$why,)*];

            /// How many there are.
            pub(super) const COUNT: usize = EventReason::ALL.len();

            /// As a word; it never changes.
            pub fn name(self) -> &'static str {
                match self {
                    $(EventReason::$why => $name,)*
                }
            }

            /// In words, for the docs.
            pub(super) fn meaning(self) -> &'static str {
                match self {
                    $(EventReason::$why => $meaning,)*
                }
            }
        }
    };
}

whys! {
    ByHand "by-hand" "somebody asked for it over the admin interface";
    Host "host" "programs of the host took memory";
    Cgroup "cgroup" "the daemon's cgroup has no more memory";
    Ceiling "ceiling" "the arena's ceiling is lower";
    Held "held" "a release by hand is still held";
    Floor "floor" "programs of the host took memory, and the arena is down to its floor";
    Shortage "shortage" "the host is short of memory";
    Refaults "refaults" "file pages that were evicted are read again";
    Pressure "pressure" "tasks wait for memory";
    Stalls "stalls" "allocations reclaim memory themselves";
    Swapping "swapping" "pages go to swap";
    Unreadable "unreadable" "the daemon cannot read the host's figures";
    Raised "raised" "the policy lets the tenant hold more";
    Lowered "lowered" "the policy lets the tenant hold less";
    Order "order" "the policy changed when the tenant gives way, not its target";
    OverTarget "over-target" "the tenant held more than its target";
    OverCeiling "over-ceiling" "the tenant's ceiling was lowered";
    ArenaShrank "arena-shrank" "the arena gave memory back to the host";
    GaveWay "gave-way" "others put, and this tenant was the first to give way";
    MadeRoom "made-room" "the tenant evicted its own ahead of its next puts";
    LetGo "let-go" "the tenant flushed or deleted it, or it expired";
    Pages "pages" "the amount counts pages of the tenant";
    Items "items" "the amount counts items of the tenant";
    Full "full" "all places are taken";
    Uid "uid" "the user may not connect";
    Exhausted "exhausted" "the process has no descriptor or no memory left";
    Tls "tls" "the TLS handshake failed";
    NoSuchExport "no-such-export" "the listener serves no disk of that name";
    GuestMemory "guest-memory" "the guest's memory is not safe to touch";
    Kept "kept" "the owner asked for it, for good";
    UntilRestart "until-restart" "the owner asked for it, until the daemon ends";
    ForDisk "for-disk" "a disk of that tenant was added";
    Client "client" "a client asked for it, within what the owner allows";
    Read "read" "reading fails";
    Write "write" "writing fails";
    Sync "sync" "syncing fails";
    Note "note" "the daemon cannot write a note in the state folder that the disk's promises rest on";
    Path "path" "the backing is no longer at its path";
    Start "start" "the daemon started, or began to serve the object";
    Reread "reread" "the daemon received SIGHUP and read the files again";
    Agreed "agreed" "both ends proved who they are and speak a common version";
    Closed "closed" "the connection ended";
    Silent "silent" "the peer said nothing for a second";
    NoHello "no-hello" "the peer did not begin in time";
    Replaced "replaced" "a newer connection of the peer took its place";
    Goodbye "goodbye" "one of both said goodbye";
    Backlog "backlog" "what is to be sent to the peer has no room";
    NoAnswer "no-answer" "nobody answers there, or the name has no address";
    NoCommonVersion "no-common-version" "the two speak no common version";
    NoCertificate "no-certificate" "it showed no certificate";
    UnknownAuthority "unknown-authority" "no authority of `peers.ca` signed its certificate";
    Expired "expired" "its certificate has expired";
    NotValidYet "not-valid-yet" "its certificate is not valid yet";
    WrongPurpose "wrong-purpose" "its certificate is not for both ends of a connection";
    NoNodeName "no-node-name" "its certificate names no node";
    OtherCluster "other-cluster" "it belongs to another cluster";
    OtherNode "other-node" "it is another node than was called, or than its certificate names";
    Denied "denied" "its certificate is on the list `peers.deny`";
    BadCertificate "bad-certificate" "its certificate is damaged, or signed in a way that is not accepted";
    OldTls "old-tls" "it does not speak TLS 1.3";
    RefusedByPeer "refused-by-peer" "it refused this host, and its log says why";
    Protocol "protocol" "it broke the protocol";
    Stranger "stranger" "its certificate is of this cluster, and neither `peers.members` nor etcd has named it yet";
    Garbled "garbled" "it sent what is no line of the protocol";
    WrongGrant "wrong-grant" "it granted what nobody asked for, or the same twice";
    Flood "flood" "it sent too many lines or bytes";
    Forged "forged" "several times in a row it gave other pages than it was given, or broke the protocol";
    SaidBye "said-bye" "it said that this host misbehaved";
    InFull "in-full" "all that was asked for";
    Spare "spare" "the lender has no more to spare";
    LendMax "lend-max" "the lender's `lend.max`";
    LendMaxEach "lend-max-each" "the lender's `lend.max_each`";
    LendTo "lend-to" "the lender's `lend.to` does not name the borrower";
    Wants "wants" "the lender wants memory itself, or borrows, or did so a moment ago";
    Draining "draining" "the lender drains, leaves, or took everything back a moment ago";
    Recalling "recalling" "the lender has given the borrower notice of a recall";
    Leases "leases" "the borrower has as many leases as there may be";
    Busy "busy" "the lender still works on an earlier request of the borrower";
    Turn "turn" "the lender sets no more aside at once, and the borrower asks for the rest again";
    Other "other" "a newer version's reason";
    Leaving "leaving" "one of both leaves";
    NoticeOver "notice-over" "the time of a notice is over";
    Unclaimed "unclaimed" "the borrower did not claim it";
    Returned "returned" "the borrower gave the last of it back";
    Recalled "recalled" "the lender asked for it, or took the last of it";
    Away "away" "the other host stayed away for too long";
    Restarted "restarted" "the other host runs anew";
    Shut "shut" "the other host is shut out";
    UnknownLease "unknown-lease" "the lender does not have this lease";
    Unused "unused" "it held nothing, or nobody read it for long";
    NoRoom "no-room" "it does not fit what the host may hold";
    Slower "slower" "the lender takes longer than the backing would";
    Quicker "quicker" "the lender answers sooner than the backing would";
    Expiry "expiry" "a certificate ends within 30 days, or has ended";
    Idle "idle" "nobody needed it for a minute";
    Elected "elected" "the members elected it through etcd";
    NoLeader "no-leader" "the last leader is gone, and nobody was elected yet";
    Registered "registered" "etcd has its name, under a lease";
    LeaseOver "lease-over" "its lease in etcd ended";
    NameTaken "name-taken" "another process registered under its name";
    NoRecord "no-record" "what it wrote about itself cannot be read";
    ClusterSettings "cluster-settings" "the cluster's settings in etcd say so";
    OwnConfig "own-config" "the cluster has no settings, so this host's config counts";
    WrongSettings "wrong-settings" "the settings cannot be read, or name nothing that there is";
    NoStore "no-store" "a call to etcd failed";
    Restored "restored" "its revisions begin again";
    Stop "stop" "the daemon ends";
    Overflow "overflow" "causes came faster than the daemon recorded them";
}

/// What an owner does holds for good, or until the daemon ends.
impl From<ChangeLifetime> for EventReason {
    fn from(lasts: ChangeLifetime) -> EventReason {
        match lasts {
            ChangeLifetime::Always => EventReason::Kept,
            ChangeLifetime::UntilRestart => EventReason::UntilRestart,
        }
    }
}
