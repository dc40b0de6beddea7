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
