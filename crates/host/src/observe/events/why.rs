//! Why events happen: a small set, of which each id has a few.

use sublet_client::messages::Lasts;

macro_rules! whys {
    ($($why:ident $name:literal $meaning:literal;)*) => {
        /// Why an event happened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Why {
            $(#[doc = $meaning] $why,)*
        }

        impl Why {
            /// Every one.
            pub(super) const ALL: &[Why] = &[$(Why::$why,)*];

            /// How many there are.
            pub(super) const COUNT: usize = Why::ALL.len();

            /// As a word; it never changes.
            pub fn name(self) -> &'static str {
                match self {
                    $(Why::$why => $name,)*
                }
            }

            /// In words, for the docs.
            pub(super) fn meaning(self) -> &'static str {
                match self {
                    $(Why::$why => $meaning,)*
                }
            }
        }
    };
}

whys! {
    ByHand "by-hand" "somebody asked for it over the admin interface";
    Host "host" "programs of the host took memory";
    Cgroup "cgroup" "the daemon's cgroup has no more";
    Ceiling "ceiling" "its ceiling is lower";
    Held "held" "a release by hand is held";
    Floor "floor" "programs of the host took memory, down to the arena's floor";
    Shortage "shortage" "the host is short of memory";
    Refaults "refaults" "file pages that were evicted are read again";
    Pressure "pressure" "tasks wait for memory";
    Stalls "stalls" "allocations reclaim memory themselves";
    Swapping "swapping" "pages go to swap";
    Unreadable "unreadable" "the host's figures cannot be read";
    Raised "raised" "the policy lets it hold more";
    Lowered "lowered" "the policy lets it hold less";
    Order "order" "when it gives way is another, its target is not";
    OverTarget "over-target" "it held more than its target";
    OverCeiling "over-ceiling" "its ceiling was lowered";
    ArenaShrank "arena-shrank" "the arena gave memory back to the host";
    GaveWay "gave-way" "others put, and it was first to give way";
    MadeRoom "made-room" "it evicted its own ahead of its next puts";
    LetGo "let-go" "it flushed or deleted what it had, or that expired";
    Pages "pages" "of its pages";
    Items "items" "of its items";
    Full "full" "all places are taken";
    Uid "uid" "the user is none of those who may";
    Exhausted "exhausted" "the process has no descriptor or no memory left";
    Tls "tls" "its TLS handshake failed";
    NoSuchExport "no-such-export" "no disk of that name is served there";
    GuestMemory "guest-memory" "the guest's memory is not safe to touch";
    Kept "kept" "by its owner's word, for good";
    UntilRestart "until-restart" "by its owner's word, until the daemon ends";
    ForDisk "for-disk" "a disk of that tenant was added";
    Client "client" "a client asked for it, within what the owner allows";
    Read "read" "reading fails";
    Write "write" "writing fails";
    Sync "sync" "syncing fails";
    Note "note" "a note in the state folder that its promises rest on cannot be written";
    Path "path" "the backing is at its path no more";
    Start "start" "at the start of the daemon, or of what it serves";
    Reread "reread" "SIGHUP had it read anew";
    Overflow "overflow" "causes came faster than they were taken down";
}

/// What an owner does holds for good, or until the daemon ends.
impl From<Lasts> for Why {
    fn from(lasts: Lasts) -> Why {
        match lasts {
            Lasts::Always => Why::Kept,
            Lasts::UntilRestart => Why::UntilRestart,
        }
    }
}
