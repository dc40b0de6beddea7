//! Every kind of event: its id, its level, its text, the reasons for which it happens, and what to do then.
//! `docs/events.md` is made from this table.

use super::reason::EventReason;

/// How much an event matters. This is the level of its line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventLevel {
    /// Happens all the time.
    Debug,
    /// The owner may want to know it later.
    Info,
    /// The owner should act on it.
    Warn,
    /// The owner has to act on it.
    Error,
}

impl EventLevel {
    /// As a word.
    pub fn name(self) -> &'static str {
        match self {
            EventLevel::Debug => "debug",
            EventLevel::Info => "info",
            EventLevel::Warn => "warn",
            EventLevel::Error => "error",
        }
    }
}

/// The description of all events of one kind.
#[derive(Debug)]
pub struct EventDescription {
    /// Which kind.
    pub id: EventId,
    /// Its name; it never changes.
    pub name: &'static str,
    /// How much it matters.
    pub level: EventLevel,
    /// Its text, whatever the reason.
    pub says: &'static str,
    /// The reasons for which it happens.
    pub reasons: &'static [EventReason],
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
        pub const ROWS: &[EventDescription] = &[
            $(EventDescription {
                id: EventId::$id,
                name: $name,
                level: EventLevel::$level,
                says: $says,
                reasons: &[$(EventReason::$why),*],
                happens: $happens,
                then: $then,
            },)*
        ];
    };
}

impl EventId {
    /// The description of this kind.
    pub fn description(self) -> &'static EventDescription {
        &ROWS[self as usize]
    }

    /// Its name; it never changes.
    pub fn name(self) -> &'static str {
        self.description().name
    }
}

events! {
    DaemonStarted "daemon.started" Info "the daemon serves" [Start]
        "The daemon has started. Sequence numbers begin anew."
        "Nothing. If nobody restarted it, the log of the run before says how that run ended.";
    ReleaseOrdered "release.ordered" Info "memory went back to the host" [ByHand Host Cgroup Ceiling Held Floor Shortage]
        "Memory went back to the host, the coldest first. The daemon copied together what was read most, and that stays."
        "Nothing: this is what Sublet is for. If hit rates suffer, see what took the memory, or raise `arena.floor`.";
    ReleaseFast "release.fast" Info "memory went back to the host" [ByHand Host Cgroup Ceiling Held Floor Shortage]
        "Memory went back to the host in whole blocks, because much was needed at once."
        "As with `release.ordered`. If it happens often, raise `arena.reserve`: it gives programs room until the daemon has found the coldest.";
    ArenaBraked "arena.braked" Info "the arena grows no more for now" [Refaults Pressure Stalls Swapping]
        "The arena could grow, but the host shows that some program misses memory. The event is posted when that begins."
        "Nothing, if it passes. If it stays, `sublet status` says why, and `sublet doctor` says what to change on this host.";
    ArenaBlind "arena.blind" Warn "the arena cannot follow the host and stays as it is" [Unreadable]
        "The daemon cannot read the figures of the host. The event is posted once per minute."
        "Make sure that the daemon can read /proc and the cgroup's files.";
    TenantTarget "tenant.target" Debug "what a tenant may hold was decided" [Raised Lowered Order]
        "The policy changed a tenant's target by a block or more, or changed when the tenant gives way."
        "Nothing. `sublet policy explain` shows it. Another policy or weight decides otherwise.";
    TenantSqueezed "tenant.squeezed" Info "a tenant lost memory" [OverTarget OverCeiling ArenaShrank ByHand GaveWay]
        "A tenant holds at least a 64th less than it did. Other tenants or its owner took the memory."
        "If the tenant should keep more: `sublet tenants set NAME --floor AMOUNT` or `--weight N`. `sublet policy what-if` says what that costs each tenant.";
    TenantShrank "tenant.shrank" Debug "a tenant gave memory up itself" [MadeRoom LetGo]
        "A tenant holds at least a 64th less than it did, by its own doing."
        "Nothing.";
    TenantEvicted "tenant.evicted" Info "much of a tenant was evicted at once" [Pages Items]
        "More than a 64th of a tenant's pages, or of its items, was evicted within a second."
        "See `regret` in `sublet tenants show NAME`. If clients ask again for much of what was evicted, the tenant needs more memory.";
    TenantRefused "tenant.refused" Info "puts found no memory" [Pages Items]
        "Puts of pages, or sets of items, were refused for want of memory. The tenant is frozen, or it may hold no more and nothing of it may be evicted."
        "Raise the tenant's ceiling or floor, or have its programs flush persistent pages. `sublet tenants show NAME` shows how many it has.";
    ConnectionsRefused "connections.refused" Warn "connections were refused" [Full Uid Exhausted Tls NoSuchExport GuestMemory]
        "The daemon refused connections of clients of a tenant or of a disk."
        "`full`: raise `connections`, or have clients keep fewer connections open. If others crowd out a disk, give it a listener of its own. `uid`: name the user in `allow_uids`. `exhausted`: `sublet doctor` checks the limits. `tls`: make sure that the client trusts the certificate, and shows one where it must. `no-such-export`: `sublet disk list` shows the names. `guest-memory`: give the guest a memfd with `share=on`.";
    TenantAdded "tenant.added" Info "tenant added by its owner" [Kept UntilRestart ForDisk]
        "Somebody added a tenant while the daemon runs."
        "Nothing.";
    TenantChanged "tenant.changed" Info "tenant changed by its owner" [Kept UntilRestart]
        "Somebody changed a tenant's weight, floor, ceiling, eviction or borrowing while the daemon runs."
        "Nothing.";
    TenantLimited "tenant.limited" Info "a client chose the tenant's ceiling" [Client]
        "A client gave its tenant another ceiling (`cache_memlimit`), within what the owner allows."
        "Nothing. `sublet tenants set NAME --ceiling` sets it again.";
    TenantRemoved "tenant.removed" Info "tenant removed by its owner" [Kept UntilRestart]
        "Somebody removed a tenant while the daemon runs."
        "Nothing.";
    TenantFrozen "tenant.frozen" Info "tenant frozen by its owner" [UntilRestart]
        "The daemon refuses new pages of the tenant from now on."
        "Thaw the tenant after you saved it: `sublet tenants thaw NAME`.";
    TenantThawed "tenant.thawed" Info "tenant thawed by its owner" [UntilRestart]
        "The daemon takes new pages of the tenant again."
        "Nothing.";
    TenantSaved "tenant.saved" Info "tenant saved" [ByHand]
        "The daemon wrote a tenant's persistent pages to a file."
        "Nothing.";
    TenantRestored "tenant.restored" Info "tenant restored" [ByHand]
        "The daemon read a tenant's persistent pages from a file."
        "Nothing.";
    PolicyChanged "policy.changed" Info "policy changed by its owner" [Kept UntilRestart]
        "Another policy decides, or the same policy with other knobs."
        "Nothing. `sublet policy set` sets it again.";
    DiskAdded "disk.added" Info "disk added by its owner" [Kept UntilRestart]
        "Somebody added a disk while the daemon runs."
        "Nothing.";
    DiskOpened "disk.opened" Info "disk opened by its owner" [ByHand]
        "The daemon serves again a disk that was closed."
        "Nothing.";
    DiskClosed "disk.closed" Error "a disk stays closed" [Start]
        "The daemon could not open a disk of an earlier run at the start. No client can reach the disk."
        "Mend what the event says, then run `sublet disk open NAME`.";
    DiskResized "disk.resized" Info "disk resized by its owner" [Kept UntilRestart]
        "A disk has another size."
        "If the guest does not notice by itself, have it look at the disk again.";
    DiskRemoved "disk.removed" Info "disk removed by its owner" [Kept UntilRestart]
        "Somebody removed a disk while the daemon runs. The amount is what was given up that no backing has."
        "Nothing.";
    DiskAllowed "disk.allowed" Info "backings may lie under one folder more, by the owner's word" [Kept UntilRestart]
        "Backings of disks may lie under one more folder."
        "Nothing.";
    DiskAiling "disk.ailing" Error "a disk is ailing" [Read Write Sync Note Path]
        "A backing fails or is gone from its path, or the daemon cannot write a note that the disk's promises rest on. The event is posted when that begins, for another cause, and once per minute. The amount is how often it failed since the last event."
        "Mend the backing or the state folder's file system. What the backing could not take stays in memory. `sublet disk show NAME` shows the disk's state.";
    DiskRecovered "disk.recovered" Info "a disk is well again" [Read Write Sync Note Path]
        "What ailed a disk is over."
        "Nothing.";
    CredentialsRead "credentials.read" Info "passwords or certificates were read" [Start Reread Client]
        "The daemon read passwords, certificates and keys, at the start or again. They hold for new connections."
        "Nothing.";
    CredentialsRefused "credentials.refused" Warn "refused, and what was read before holds" [Reread Client]
        "The daemon could not read passwords, certificates or keys again, or they make no sense. What it read before holds."
        "Mend the files that the event names, then send SIGHUP again.";
    PeerConnected "peer.connected" Info "a peer is connected" [Agreed]
        "A member proved who it is, and both speak a common version. They lend to each other from now on."
        "Nothing.";
    PeerLost "peer.lost" Info "the connection to a peer is lost" [Closed Silent NoHello Replaced Goodbye Backlog Idle]
        "The control connection to a member ended. Pages at that member are read from their backings. Leases last ten seconds more, unless one of both said goodbye."
        "Nothing, if the peer comes back. Else see its log.";
    PeerUnreachable "peer.unreachable" Warn "a member cannot be reached" [NoAnswer]
        "The daemon called a member and nobody answered. It is told once until the member is connected. The daemon calls again by itself."
        "Make sure that a daemon runs there, that `peers.members` has its address, and that the network lets the two speak.";
    PeerLeaving "peer.leaving" Info "a peer leaves" [Leaving]
        "A member asks for what it has lent and returns what it has borrowed, because it is about to end."
        "Nothing.";
    PeerRefused "peer.refused" Warn "a host was refused" [NoCertificate UnknownAuthority Expired NotValidYet WrongPurpose NoNodeName OtherCluster OtherNode Denied BadCertificate OldTls RefusedByPeer Protocol Stranger Garbled NoHello Flood Silent]
        "A host called or was called, and one of both refused the other. It is told once for each host and reason. `/metrics` counts every refusal: `sublet_lending_refused` by cause, and `sublet_lending_strangers`."
        "What the event says. `stranger`: name the host in `peers.members`. With etcd, the host may have called before etcd told of it, and calls again. `refused-by-peer`: see the log there.";
    PeerIncompatible "peer.incompatible" Warn "two hosts have no common version and do not lend to each other" [NoCommonVersion]
        "A member speaks other versions of the protocol. It is told once until the member's versions change."
        "Bring the older of the two to the newer's version.";
    PeerShut "peer.shut" Warn "a peer is shut out for a while" [OtherCluster OtherNode Garbled Protocol WrongGrant Flood Forged SaidBye]
        "A member misbehaved. Its leases end, and it is shut out for a minute, or for ten minutes if it forged pages. It is told once for each reason."
        "Make sure that both hosts run a release of Sublet. If it is `forged`, do not trust that host, and deny its certificate (`peers.deny`).";
    PeerDenied "peer.denied" Warn "a peer is denied, and its leases end" [Denied]
        "The certificate of a connected member was put on the list `peers.deny`."
        "Nothing: this is what the list is for.";
    LendGranted "lend.granted" Info "a peer borrows memory of this host" [InFull Spare LendMax LendMaxEach LendTo Wants Draining Recalling Leases Busy Turn Other]
        "This host lent memory. Any other reason than `in-full` says why it is less than the peer asked for."
        "Nothing. The host takes it back when it needs it. `sublet lend drain` ends lending.";
    LendRefused "lend.refused" Info "a peer asked for memory, and got none" [Spare LendMax LendMaxEach LendTo Wants Draining Recalling Leases Busy Turn Other]
        "This host lent nothing to a peer that asked. It is told once until the reason changes."
        "Nothing. `spare`: the host has nothing idle. Raise `lend.max` or `lend.max_each` if one of them is the reason.";
    LendNoticed "lend.noticed" Info "a peer was asked for memory back" [Host Wants Draining ByHand Leaving]
        "This host asked a borrower to give memory back within a while. What is not back then is taken."
        "Nothing.";
    LendRecalled "lend.recalled" Info "lent memory was taken back" [Host Wants Draining ByHand Leaving NoticeOver Unclaimed]
        "This host took lent memory back at once. The borrower reads those pages from its backings."
        "Nothing.";
    LendEnded "lend.ended" Info "a lease that a peer had of this host ended" [Returned Recalled Unclaimed Away Restarted Goodbye Shut]
        "A borrower has nothing of one lease any more. The amount is what the lease still had."
        "Nothing.";
    LendDrained "lend.drained" Info "lending drained by its owner" [Kept UntilRestart]
        "Somebody told the daemon to lend nothing, and to take back what is lent."
        "`sublet lend resume` lends again.";
    LendResumed "lend.resumed" Info "lending resumed by its owner" [Kept UntilRestart]
        "Somebody told the daemon to lend again."
        "Nothing.";
    LendPaused "lend.paused" Info "everything lent was taken back by its owner" [ByHand]
        "Somebody took all lent memory back at once. The daemon lends again half a minute later."
        "Nothing.";
    LendParted "lend.parted" Info "this host parted from its peers" [Leaving]
        "The daemon ends, or left its cluster, and has said goodbye to all its peers."
        "Nothing.";
    ClusterLeft "cluster.left" Info "this host leaves its cluster, as its owner said" [Kept UntilRestart]
        "Somebody told the daemon to leave the cluster. It takes back what it has lent, and gives back what it has borrowed."
        "`sublet cluster join` takes part again.";
    ClusterJoined "cluster.joined" Info "this host takes part in its cluster again, as its owner said" [Kept UntilRestart]
        "Somebody told the daemon to take part in the cluster again."
        "Nothing.";
    ClusterRegistered "cluster.registered" Info "the other hosts see this one" [Registered]
        "This host is a member of the cluster in etcd."
        "Nothing.";
    ClusterUnregistered "cluster.unregistered" Warn "the other hosts do not see this one any more" [LeaseOver]
        "This host's registration in etcd ended, because it could not renew it in time. Pages and leases go on. It registers again by itself."
        "See why etcd does not answer: `etcd.failed`, `sublet cluster status`.";
    ClusterDisplaced "cluster.displaced" Error "another process has this host's name" [NameTaken]
        "A second daemon registered with this host's name. This one leaves the cluster: it takes back what it lent and gives back what it borrowed."
        "Give each host its own `peers.node` and certificate, then `sublet cluster join`.";
    ClusterLeader "cluster.leader" Info "a host leads the cluster" [Elected]
        "A leader advises from now on who should borrow of whom. It decides nothing: each lender does."
        "Nothing.";
    ClusterLeaderless "cluster.leaderless" Info "nobody leads the cluster" [NoLeader]
        "The leader's key in etcd ended. Pages, leases and recalls go on. Another host is elected within seconds."
        "Nothing, if another one leads soon. Else see whether etcd has a quorum.";
    ClusterMemberWrong "cluster.member-wrong" Warn "a host's record in etcd is wrong" [NoRecord]
        "What a host wrote about itself cannot be read. It counts as gone until it writes something else."
        "See what runs on that host. Nobody but Sublet should write below `/sublet/` in etcd.";
    ClusterPlacement "cluster.placement" Info "the placement policy is set" [ClusterSettings OwnConfig]
        "The leader chooses lenders by this policy from now on."
        "Nothing.";
    ClusterSettingsWrong "cluster.settings-wrong" Warn "the cluster's settings in etcd are wrong: the last right ones hold, or else the config's" [WrongSettings]
        "The settings in etcd were changed to something that cannot be used."
        "Mend them, for example: `etcdctl put /sublet/CLUSTER/1/settings '{\"placement\": \"spread\"}'`.";
    EtcdFailed "etcd.failed" Warn "etcd cannot be reached or refuses" [NoStore]
        "A call to etcd failed. It is told once until calls succeed. The members that are known stay known, and pages and leases go on."
        "What the event says.";
    EtcdRestored "etcd.restored" Warn "etcd was restored from a copy" [Restored]
        "Terms of leaders may begin again with lower numbers, so this host forgets the highest that it knew."
        "Nothing, if somebody restored etcd.";
    BorrowGranted "borrow.granted" Info "this host borrows memory of a peer" [InFull Spare LendMax LendMaxEach LendTo Wants Draining Recalling Leases Busy Turn Other]
        "A peer lent memory to this host. Any other reason than `in-full` says why it is less than the host asked for."
        "Nothing.";
    BorrowRefused "borrow.refused" Info "a peer lends this host nothing" [Spare LendMax LendMaxEach LendTo Wants Draining Recalling Leases Busy Turn Other]
        "This host asked a peer for memory and got none. It is told once until the reason changes."
        "Nothing. The reason is the peer's: see `lend.max`, `lend.max_each` and `lend.to` there.";
    BorrowNoticed "borrow.noticed" Info "a peer asks for its memory back" [Recalled]
        "A lender asked this host to give memory back within a while."
        "Nothing.";
    BorrowReturned "borrow.returned" Info "borrowed memory was given back" [Recalled Unused NoRoom Leaving]
        "This host gave memory back to its lender."
        "Nothing.";
    BorrowRecalled "borrow.recalled" Info "a peer took its memory back" [Recalled]
        "A lender took memory back at once. Pages that were there are read from their backings."
        "Nothing.";
    BorrowEnded "borrow.ended" Info "a lease that this host had of a peer ended" [Returned Recalled UnknownLease Other Away Restarted Goodbye Shut]
        "This host has nothing of one lease any more."
        "Nothing.";
    GuardShut "guard.shut" Info "a lender is too slow to be asked" [Slower]
        "Pages at a lender take longer than their backing would, so they are read from the backing."
        "Nothing. If it stays, see what delays the network or the lender: `lend.cpu` and `lend.rate` there may be too low.";
    GuardOpened "guard.opened" Info "a lender is quick enough to be asked again" [Quicker]
        "Pages at a lender come sooner than their backing would give them."
        "Nothing.";
    CertificateEnding "certificate.ending" Warn "a certificate of this host, or of its cluster's CA, ends soon" [Expiry]
        "This host's own certificate, or one of its authorities, ends within 30 days or has ended. It is told at most once a day."
        "Renew it: `sublet lend ca issue NODE`, copy it over the old one, and send SIGHUP. For a CA that ends, make another one and put both into `peers.ca` until all nodes have certificates of the new one.";
    EventsLost "events.lost" Warn "events were lost" [Overflow]
        "Causes came faster than the daemon made events of them. The metrics count them all the same."
        "Nothing. Please report it.";
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
            assert_eq!(row.id.description().name, row.name);
            assert!(!row.reasons.is_empty(), "{}", row.name);
            let whys: HashSet<&EventReason> = row.reasons.iter().collect();
            assert_eq!(whys.len(), row.reasons.len(), "{}", row.name);
        }
    }
}
