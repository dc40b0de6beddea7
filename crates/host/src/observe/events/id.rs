//! Every kind of event: its id, how much it matters, what it says, for which reasons it happens, and what to do then.
//! `docs/events.md` is made of this table.

use super::why::Why;

/// How much an event matters: the level of its line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What happens all the time.
    Debug,
    /// What an owner may want to know later.
    Info,
    /// What an owner should see to.
    Warn,
    /// What an owner has to see to.
    Error,
}

impl Level {
    /// As a word.
    pub fn name(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }
}

/// What is said of all events of one kind.
#[derive(Debug)]
pub struct Row {
    /// Which kind.
    pub id: EventId,
    /// Its name; it never changes.
    pub name: &'static str,
    /// How much it matters.
    pub level: Level,
    /// What it says, whatever the reason.
    pub says: &'static str,
    /// For which reasons it happens.
    pub whys: &'static [Why],
    /// When it happens.
    pub happens: &'static str,
    /// What to do then.
    pub then: &'static str,
}

macro_rules! events {
    ($($id:ident $name:literal $level:ident $says:literal [$($why:ident)*] $happens:literal $then:literal;)*) => {
        /// A kind of event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EventId {
            $(#[doc = $happens] $id,)*
        }

        /// Every kind, in the order of the enum.
        pub const ROWS: &[Row] = &[
            $(Row {
                id: EventId::$id,
                name: $name,
                level: Level::$level,
                says: $says,
                whys: &[$(Why::$why),*],
                happens: $happens,
                then: $then,
            },)*
        ];
    };
}

impl EventId {
    /// What is said of it.
    pub fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Its name; it never changes.
    pub fn name(self) -> &'static str {
        self.row().name
    }
}

events! {
    DaemonStarted "daemon.started" Info "the daemon serves" [Start]
        "The daemon has started. Sequence numbers begin anew with it."
        "Nothing. Where nobody restarted it, the log of the run before says how that ended.";
    ReleaseOrdered "release.ordered" Info "memory went back to the host" [ByHand Host Cgroup Ceiling Held Floor Shortage]
        "Memory went back to the host, the coldest first; what was read most was copied together and stays."
        "Nothing: this is what Sublet is for. If hit rates suffer, see what took the memory, or raise `arena.floor`.";
    ReleaseFast "release.fast" Info "memory went back to the host" [ByHand Host Cgroup Ceiling Held Floor Shortage]
        "Memory went back to the host in whole blocks, because much was needed at once."
        "As with `release.ordered`. If it is often, more `arena.reserve` gives programs room until the coldest are found.";
    ArenaBraked "arena.braked" Info "the arena grows no more for now" [Refaults Pressure Stalls Swapping]
        "The arena would grow, but the host shows that somebody misses memory. Told when that begins."
        "Nothing, if it passes. If it stays: `sublet status` says why, `sublet doctor` what on this host to change.";
    ArenaBlind "arena.blind" Warn "the arena cannot follow the host and stays as it is" [Unreadable]
        "The figures of the host cannot be read. Told once a minute."
        "See that /proc and the cgroup's files can be read by the daemon.";
    TenantTarget "tenant.target" Debug "what a tenant may hold was decided" [Raised Lowered Order]
        "The policy changed a tenant's target by a block or more, or when it gives way."
        "Nothing. `sublet policy explain` tells it; another policy or weight decides otherwise.";
    TenantSqueezed "tenant.squeezed" Info "a tenant lost memory" [OverTarget OverCeiling ArenaShrank ByHand GaveWay]
        "A tenant holds a 64th less than it did, or still less, and others took it or its owner did."
        "If it should keep more: `sublet tenants set NAME --floor AMOUNT` or `--weight N`. `sublet policy what-if` says what that costs whom.";
    TenantShrank "tenant.shrank" Debug "a tenant gave memory up itself" [MadeRoom LetGo]
        "A tenant holds a 64th less than it did, or still less, by its own doing."
        "Nothing.";
    TenantEvicted "tenant.evicted" Info "much of a tenant was evicted at once" [Pages Items]
        "More than a 64th of a tenant's pages, or of its items, was evicted within a second."
        "See `regret` in `sublet tenants show NAME`: if much of it is asked for again, the tenant needs more memory.";
    TenantRefused "tenant.refused" Info "puts found no memory" [Pages Items]
        "Puts of pages, or sets of items, were refused for want of memory: in a frozen tenant, or one that may hold no more and has nothing that may go."
        "Raise the tenant's ceiling or floor, or have its programs flush persistent pages; `sublet tenants show NAME` shows how many it has.";
    ConnectionsRefused "connections.refused" Warn "connections were refused" [Full Uid Exhausted Tls NoSuchExport GuestMemory]
        "Clients of a tenant, or of a disk, were not let in."
        "`full`: raise `connections`, or have clients keep fewer open; a disk that others crowd out gets a listener of its own. `uid`: name the user in `allow_uids`. `exhausted`: `sublet doctor` looks at the limits. `tls`: see that the client trusts the certificate and shows one where it must. `no-such-export`: `sublet disk list` shows the names. `guest-memory`: give the guest a memfd with `share=on`.";
    TenantAdded "tenant.added" Info "tenant added by its owner" [Kept UntilRestart ForDisk]
        "A tenant was added while the daemon runs."
        "Nothing.";
    TenantChanged "tenant.changed" Info "tenant changed by its owner" [Kept UntilRestart]
        "A tenant's weight, floor, ceiling or eviction was changed while the daemon runs."
        "Nothing.";
    TenantLimited "tenant.limited" Info "a client chose the tenant's ceiling" [Client]
        "A client gave its tenant another ceiling (`cache_memlimit`), within what the owner allows."
        "Nothing; `sublet tenants set NAME --ceiling` sets it again.";
    TenantRemoved "tenant.removed" Info "tenant removed by its owner" [Kept UntilRestart]
        "A tenant was removed while the daemon runs."
        "Nothing.";
    TenantFrozen "tenant.frozen" Info "tenant frozen by its owner" [UntilRestart]
        "From now on new pages of the tenant are refused."
        "Thaw it when it was saved: `sublet tenants thaw NAME`.";
    TenantThawed "tenant.thawed" Info "tenant thawed by its owner" [UntilRestart]
        "New pages of the tenant are taken again."
        "Nothing.";
    TenantSaved "tenant.saved" Info "tenant saved" [ByHand]
        "A tenant's persistent pages were written to a file."
        "Nothing.";
    TenantRestored "tenant.restored" Info "tenant restored" [ByHand]
        "A tenant's persistent pages were read from a file."
        "Nothing.";
    PolicyChanged "policy.changed" Info "policy changed by its owner" [Kept UntilRestart]
        "Another policy decides, or the same with other knobs."
        "Nothing. `sublet policy set` sets it again.";
    DiskAdded "disk.added" Info "disk added by its owner" [Kept UntilRestart]
        "A disk was added while the daemon runs."
        "Nothing.";
    DiskOpened "disk.opened" Info "disk opened by its owner" [ByHand]
        "A disk that was closed is served again."
        "Nothing.";
    DiskClosed "disk.closed" Error "a disk stays closed" [Start]
        "A disk of an earlier run could not be opened at the start; nobody reaches it."
        "Mend what the event says, then `sublet disk open NAME`.";
    DiskResized "disk.resized" Info "disk resized by its owner" [Kept UntilRestart]
        "A disk has another size."
        "Have the guest look at it again, if it does not by itself.";
    DiskRemoved "disk.removed" Info "disk removed by its owner" [Kept UntilRestart]
        "A disk was removed while the daemon runs. The amount is what was given up that no backing has."
        "Nothing.";
    DiskAllowed "disk.allowed" Info "backings may lie under one folder more, by the owner's word" [Kept UntilRestart]
        "Backings of disks may lie under one folder more."
        "Nothing.";
    DiskAiling "disk.ailing" Error "a disk is ailing" [Read Write Sync Note Path]
        "A backing fails, is gone from its path, or a note that the disk's promises rest on cannot be written. Told when it begins, for another cause, and once a minute; the amount is how often it failed since."
        "Mend the backing or the state folder's file system; what it could not take stays in memory. `sublet disk show NAME` says how it is.";
    DiskRecovered "disk.recovered" Info "a disk is well again" [Read Write Sync Note Path]
        "What ailed a disk is over."
        "Nothing.";
    CredentialsRead "credentials.read" Info "passwords or certificates were read" [Start Reread Client]
        "Passwords, certificates and keys were read, at the start or again, and hold for new connections."
        "Nothing.";
    CredentialsRefused "credentials.refused" Warn "refused, and what was read before holds" [Reread Client]
        "Passwords, certificates or keys could not be read again, or make no sense; what was read before holds."
        "Mend the files that the event names, then send SIGHUP again.";
    EventsLost "events.lost" Warn "events were lost" [Overflow]
        "Causes came faster than events were made of them. They are counted in the metrics all the same."
        "Nothing; tell us if it happens.";
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_id_has_its_own_row_and_name_and_a_reason() {
        let names: HashSet<&str> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ROWS.len());
        for row in ROWS {
            assert_eq!(row.id.row().name, row.name);
            assert!(!row.whys.is_empty(), "{}", row.name);
            let whys: HashSet<&Why> = row.whys.iter().collect();
            assert_eq!(whys.len(), row.whys.len(), "{}", row.name);
        }
    }
}
