//! A member alone with a store, step by step.

use std::io::ErrorKind;
use std::time::Duration;

use crate::member::{
    Candidacy, ClusterMember, LeaseRequest, MemberEvent, MemberSettings, StoreAnswer, StoreRequest,
    TTL_DEFAULT, ViewRequest,
};
use crate::record::NodeRecord;
use crate::store::{Change, Revision, StoreError, Term, WatchEnd};
use crate::testing::{FakeEtcd, unreachable};

const PREFIX: &str = "/sublet/prod/1/";

/// A member and its store. The test decides when calls are answered.
pub(super) struct Pair {
    member: ClusterMember,
    etcd: FakeEtcd,
    now: Duration,
    is_watching: bool,
    told_until: Revision,
}

pub(super) fn record(incarnation: u64) -> Vec<u8> {
    let record = NodeRecord {
        addresses: vec!["10.0.0.1:7071".to_owned()],
        fingerprint: "00".repeat(32),
        incarnation: format!("{incarnation:016x}"),
        rack: Some("r1".to_owned()),
    };
    record.encode().expect("a record")
}

pub(super) fn settings(node: &str, candidacy: Candidacy) -> MemberSettings {
    MemberSettings {
        cluster: "prod".parse().expect("a name"),
        node: node.parse().expect("a name"),
        record: record(1),
        candidacy,
        ttl: TTL_DEFAULT,
        seed: 7,
    }
}

/// Nodes of others.
trait PutNode {
    /// Puts a node that another one keeps.
    fn put_node(&mut self, name: &str, incarnation: u64);
}

impl PutNode for FakeEtcd {
    fn put_node(&mut self, name: &str, incarnation: u64) {
        let key = format!("/sublet/prod/1/nodes/{name}");
        self.put(&key, &record(incarnation), None).expect("set");
    }
}

impl Pair {
    fn new(candidacy: Candidacy) -> Pair {
        Pair {
            member: ClusterMember::new(settings("a", candidacy)),
            etcd: FakeEtcd::default(),
            now: Duration::ZERO,
            is_watching: false,
            told_until: Revision(0),
        }
    }

    /// A member that has registered, has read all, and watches.
    fn settled(candidacy: Candidacy) -> Pair {
        let mut pair = Pair::new(candidacy);
        pair.settle();
        pair.events();
        pair
    }

    /// Answers all calls, and lets up to a second pass, until the member is quiet.
    fn settle(&mut self) {
        for _ in 0..100 {
            self.answer_all();
            self.pass(Duration::from_millis(10));
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.etcd.advance_to(self.now);
        self.member.tick(self.now);
    }

    fn answer_all(&mut self) {
        let mut calls = 0;
        while let Some(request) = self.member.next_request(self.now) {
            let answer = self.execute(request);
            self.member.apply(self.now, answer);
            calls += 1;
            assert!(calls < 20, "it asks without end");
        }
        if self.is_watching {
            let changes = self.etcd.changes_from(PREFIX, self.told_until.next());
            let changes = changes.expect("nothing is forgotten");
            self.told_until = self.etcd.revision();
            if !changes.is_empty() {
                self.member
                    .apply(self.now, StoreAnswer::Changed(Ok(changes)));
                self.answer_all();
            }
        }
    }

    fn execute(&mut self, request: StoreRequest) -> StoreAnswer {
        match &request {
            StoreRequest::View(ViewRequest::Read { .. }) => self.is_watching = false,
            StoreRequest::View(ViewRequest::Watch { from, .. }) => {
                self.is_watching = true;
                self.told_until = Revision(from.0 - 1);
            }
            _ => {}
        }
        self.etcd.answer(request)
    }

    fn events(&mut self) -> Vec<MemberEvent> {
        std::iter::from_fn(|| self.member.next_event()).collect()
    }

    /// The events as short words.
    fn told(&mut self) -> Vec<String> {
        self.events().iter().map(word).collect()
    }
}

pub(super) fn word(event: &MemberEvent) -> String {
    match event {
        MemberEvent::Node { name, record } => format!("node {name} {}", record.incarnation),
        MemberEvent::UnreadableNode { name, .. } => format!("unreadable {name}"),
        MemberEvent::NodeGone { name } => format!("gone {name}"),
        MemberEvent::Leader(Some(leader)) => format!("leader {}", leader.node),
        MemberEvent::Leader(None) => "no leader".to_owned(),
        MemberEvent::Elected { .. } => "elected".to_owned(),
        MemberEvent::Deposed { .. } => "deposed".to_owned(),
        MemberEvent::Settings(settings) => format!("settings {}", settings.is_some()),
        MemberEvent::StoreFailed(_) => "failed".to_owned(),
        other => format!("{other:?}").to_lowercase(),
    }
}

fn away() -> StoreError {
    unreachable(ErrorKind::ConnectionRefused)
}

#[test]
fn a_member_registers_sees_itself_and_leads_if_nobody_does() {
    let mut pair = Pair::new(Candidacy::Candidate);
    pair.etcd
        .put("/sublet/prod/1/settings", b"{}", None)
        .expect("set");
    pair.etcd.put_node("b", 2);
    pair.etcd
        .put("/sublet/prod/1/nodes/c", b"{}", None)
        .expect("set");
    pair.etcd
        .put("/sublet/prod/1/later", b"{}", None)
        .expect("set");
    pair.settle();
    let told = pair.told();
    for word in [
        "registered",
        "node b 0000000000000002",
        "unreadable c",
        "settings true",
        "synchronized",
        "node a 0000000000000001",
        "leader a",
        "elected",
    ] {
        let count = told.iter().filter(|told| *told == word).count();
        assert_eq!(count, 1, "{word}: {told:?}");
    }
    assert_eq!(told.len(), 8, "{told:?}");
    let leader = pair.etcd.get("/sublet/prod/1/leader").expect("a leader");
    assert_eq!(pair.member.leads(pair.now), Some(Term(leader.created.0)));
}

#[test]
fn a_leader_that_cannot_renew_stops_by_its_own_clock_before_its_lease_ends() {
    let mut pair = Pair::settled(Candidacy::Candidate);
    // The renewal is on its way, and no answer comes.
    pair.pass(TTL_DEFAULT / 4);
    let request = pair.member.next_request(pair.now);
    let sent = pair.now;
    assert!(matches!(
        request,
        Some(StoreRequest::Lease(LeaseRequest::Renew { .. }))
    ));
    assert!(pair.member.leads(pair.now).is_some());
    let mut waited = Duration::ZERO;
    while pair.member.leads(pair.now).is_some() {
        pair.pass(Duration::from_millis(10));
        waited += Duration::from_millis(10);
    }
    assert!(
        pair.etcd.get("/sublet/prod/1/leader").is_some(),
        "nobody else can win yet"
    );
    assert!(waited >= Duration::from_secs(1), "one try may fail");
    assert_eq!(pair.told(), ["deposed", "no leader"]);
    // The answer is late, and the lease lives: it leads on, for a time that counts from when the renewal was sent.
    let answer = pair.execute(request.expect("a renewal"));
    pair.member.apply(pair.now, answer);
    assert_eq!(pair.told(), ["elected", "leader a"]);
    let end = sent + TTL_DEFAULT / 3 * 2;
    assert!(pair.member.leads(end - Duration::from_nanos(1)).is_some());
    assert_eq!(pair.member.leads(end), None);
}

/// A leader that cannot renew its lease stops, and its followers still hear it as a host. So they must see by themselves
/// that etcd is away.
#[test]
fn nobody_leads_for_a_follower_while_the_store_is_away() {
    let mut pair = Pair::settled(Candidacy::Follower);
    pair.etcd
        .put("/sublet/prod/1/leader", br#"{"node":"b"}"#, None)
        .expect("set");
    pair.settle();
    assert_eq!(pair.told(), ["leader b"]);
    pair.pass(TTL_DEFAULT / 4);
    let renewal = pair.member.next_request(pair.now).expect("a renewal");
    let mut waited = Duration::ZERO;
    let told = loop {
        pair.pass(Duration::from_millis(10));
        waited += Duration::from_millis(10);
        match pair.told() {
            told if told.is_empty() => assert!(waited < TTL_DEFAULT, "it is told in time"),
            told => break told,
        }
    };
    assert_eq!(told, ["no leader"]);
    assert!(waited >= Duration::from_secs(1), "one try may fail");
    pair.pass(Duration::from_millis(100));
    assert!(pair.told().is_empty(), "it is told once");
    let answer = pair.execute(renewal);
    pair.member.apply(pair.now, answer);
    pair.settle();
    assert_eq!(pair.told(), ["leader b"]);
}

#[test]
fn a_member_wakes_when_its_leadership_ends() {
    let mut pair = Pair::settled(Candidacy::Candidate);
    pair.pass(TTL_DEFAULT / 4);
    assert!(pair.member.next_request(pair.now).is_some());
    let wakes = pair.member.wakes_at(pair.now).expect("a moment");
    assert!(
        pair.member
            .leads(wakes - Duration::from_millis(1))
            .is_some()
    );
    assert_eq!(pair.member.leads(wakes), None);
}

#[test]
fn a_lease_that_has_ended_is_replaced_and_the_node_registers_again() {
    let mut pair = Pair::settled(Candidacy::Candidate);
    pair.pass(TTL_DEFAULT);
    pair.settle();
    let told = pair.told();
    for word in [
        "deposed",
        "unregistered",
        "gone a",
        "no leader",
        "registered",
        "elected",
    ] {
        assert!(told.iter().any(|told| told == word), "{word}: {told:?}");
    }
    assert!(pair.member.leads(pair.now).is_some());
}

#[test]
fn members_stay_known_while_the_store_is_away() {
    let mut pair = Pair::settled(Candidacy::Follower);
    pair.etcd.put_node("b", 2);
    pair.settle();
    assert_eq!(pair.told(), ["node b 0000000000000002"]);
    pair.member
        .apply(pair.now, StoreAnswer::Changed(Err(WatchEnd::Cut(away()))));
    pair.is_watching = false;
    pair.etcd.delete("/sublet/prod/1/nodes/b");
    let mut tries = 0;
    for _ in 0..300 {
        while let Some(request) = pair.member.next_request(pair.now) {
            tries += 1;
            let answer = match request {
                StoreRequest::Lease(_) => pair.execute(request),
                StoreRequest::View(_) => StoreAnswer::WatchOpened(Err(WatchEnd::Cut(away()))),
                StoreRequest::Election(_) => panic!("a follower does not campaign"),
            };
            pair.member.apply(pair.now, answer);
        }
        pair.pass(Duration::from_millis(100));
    }
    assert!(pair.told().iter().all(|word| word == "failed"));
    assert!((20..120).contains(&tries), "{tries} calls in 30 s");
    pair.settle();
    pair.pass(Duration::from_secs(3));
    pair.settle();
    assert_eq!(pair.told(), ["gone b"]);
}

#[test]
fn what_was_forgotten_is_read_and_only_differences_are_told() {
    let mut pair = Pair::settled(Candidacy::Follower);
    pair.etcd.put_node("b", 2);
    pair.etcd.put_node("c", 3);
    pair.settle();
    pair.events();
    pair.is_watching = false;
    pair.etcd.delete("/sublet/prod/1/nodes/b");
    pair.etcd.compact();
    pair.member
        .apply(pair.now, StoreAnswer::Changed(Err(WatchEnd::Compacted)));
    pair.settle();
    assert_eq!(pair.told(), ["gone b", "synchronized"]);
}

#[test]
fn a_store_that_was_restored_is_believed_and_told() {
    let mut pair = Pair::settled(Candidacy::Follower);
    pair.etcd.put_node("b", 2);
    pair.settle();
    pair.events();
    let mut backup = FakeEtcd::default();
    backup.put_node("c", 3);
    backup.advance_to(pair.now);
    pair.etcd = backup;
    pair.is_watching = false;
    pair.member
        .apply(pair.now, StoreAnswer::Changed(Err(WatchEnd::Cut(away()))));
    pair.settle();
    let told = pair.told();
    for word in [
        "storerestored",
        "gone b",
        "node c 0000000000000003",
        "synchronized",
    ] {
        assert!(told.iter().any(|told| told == word), "{word}: {told:?}");
    }
    // The lease is not in the backup. The node registers under a new one.
    pair.pass(TTL_DEFAULT);
    pair.settle();
    assert!(pair.etcd.get("/sublet/prod/1/nodes/a").is_some());
}

/// The backup has the lease, and not what was registered under it.
#[test]
fn a_node_whose_lease_is_in_the_backup_registers_again_at_once() {
    let mut pair = Pair::new(Candidacy::Follower);
    let grant = pair.member.next_request(pair.now).expect("a grant");
    let answer = pair.execute(grant);
    pair.member.apply(pair.now, answer);
    let mut backup = pair.etcd.clone();
    pair.settle();
    pair.events();
    backup.advance_to(pair.now);
    pair.etcd = backup;
    pair.is_watching = false;
    pair.member
        .apply(pair.now, StoreAnswer::Changed(Err(WatchEnd::Cut(away()))));
    pair.settle();
    let told = pair.told();
    assert!(told.contains(&"storerestored".to_owned()), "{told:?}");
    assert!(!told.contains(&"unregistered".to_owned()), "{told:?}");
    assert!(
        pair.etcd.get("/sublet/prod/1/nodes/a").is_some(),
        "{told:?}"
    );
}

/// A member of etcd that lags shows a lower revision, too. The prefix is read once, and the watch goes on.
#[test]
fn a_member_of_etcd_that_lags_is_no_restored_store() {
    let mut pair = Pair::settled(Candidacy::Follower);
    pair.etcd.put_node("b", 2);
    pair.settle();
    pair.events();
    pair.member
        .apply(pair.now, StoreAnswer::Changed(Err(WatchEnd::Silent)));
    let mut requests = Vec::new();
    for _ in 0..20 {
        while let Some(request) = pair.member.next_request(pair.now) {
            let mut answer = pair.execute(request.clone());
            if let StoreRequest::View(view) = request {
                requests.push(matches!(view, ViewRequest::Read { .. }));
                if let StoreAnswer::WatchOpened(opened) = &mut answer {
                    *opened = Ok(Revision(1));
                }
            }
            pair.member.apply(pair.now, answer);
        }
        pair.pass(Duration::from_millis(10));
    }
    assert_eq!(
        requests,
        [false, true, false],
        "a watch, a reading, a watch that is accepted"
    );
    assert_eq!(pair.told(), ["synchronized"]);
}

#[test]
fn a_follower_does_not_campaign_and_a_leader_may_become_one() {
    let mut pair = Pair::settled(Candidacy::Follower);
    assert!(pair.etcd.get("/sublet/prod/1/leader").is_none());
    pair.member.set_candidacy(pair.now, Candidacy::Candidate);
    pair.settle();
    assert_eq!(pair.told(), ["leader a", "elected"]);
    pair.member.set_candidacy(pair.now, Candidacy::Follower);
    assert_eq!(pair.member.leads(pair.now), None, "at once");
    pair.settle();
    assert_eq!(pair.told(), ["deposed", "no leader"]);
    assert!(pair.etcd.get("/sublet/prod/1/leader").is_none());
}

/// The answer to a campaign was lost, and the node gave up being a candidate. What the watch tells counts.
#[test]
fn a_campaign_that_won_unheard_is_resigned() {
    let mut pair = Pair::settled(Candidacy::Candidate);
    pair.member.set_candidacy(pair.now, Candidacy::Follower);
    pair.settle();
    pair.events();
    pair.member.set_candidacy(pair.now, Candidacy::Candidate);
    let request = loop {
        match pair.member.next_request(pair.now) {
            Some(request @ StoreRequest::Election(_)) => break request,
            Some(request) => {
                let answer = pair.execute(request);
                pair.member.apply(pair.now, answer);
            }
            None => pair.pass(Duration::from_millis(10)),
        }
    };
    let _lost = pair.execute(request);
    pair.member.set_candidacy(pair.now, Candidacy::Follower);
    pair.member
        .apply(pair.now, StoreAnswer::Campaigned(Err(away())));
    pair.pass(Duration::from_secs(1));
    pair.settle();
    assert_eq!(pair.told(), ["failed", "leader a", "no leader"]);
    assert!(pair.etcd.get("/sublet/prod/1/leader").is_none());
}

/// The node changes its mind while the watch has yet to tell that its key is gone, or while nobody knows whether it is.
#[test]
fn a_term_that_was_given_up_is_not_led_again() {
    for is_answered in [true, false] {
        let mut pair = Pair::settled(Candidacy::Candidate);
        let first = pair.member.leads(pair.now).expect("it leads");
        pair.member.set_candidacy(pair.now, Candidacy::Follower);
        let resign = pair.member.next_request(pair.now).expect("a resignation");
        assert!(matches!(resign, StoreRequest::Election(_)), "{resign:?}");
        let answer = pair.execute(resign);
        pair.member.set_candidacy(pair.now, Candidacy::Candidate);
        assert_eq!(pair.member.leads(pair.now), None);
        let answer = match is_answered {
            true => answer,
            false => StoreAnswer::Resigned(Err(away())),
        };
        pair.member.apply(pair.now, answer);
        assert_eq!(pair.member.leads(pair.now), None);
        pair.settle();
        let second = pair.member.leads(pair.now).expect("it leads again");
        assert!(second > first);
    }
}

/// The resignation did not reach the store. The node does not keep the key, though it is a candidate again.
#[test]
fn a_resignation_that_was_lost_is_made_again() {
    let mut pair = Pair::settled(Candidacy::Candidate);
    let first = pair.member.leads(pair.now).expect("it leads");
    pair.member.set_candidacy(pair.now, Candidacy::Follower);
    assert!(pair.member.next_request(pair.now).is_some());
    pair.member.set_candidacy(pair.now, Candidacy::Candidate);
    pair.member
        .apply(pair.now, StoreAnswer::Resigned(Err(away())));
    assert_eq!(pair.member.leads(pair.now), None);
    pair.settle();
    assert!(pair.member.leads(pair.now).expect("it leads again") > first);
}

#[test]
fn another_process_of_this_name_takes_the_place() {
    let mut pair = Pair::settled(Candidacy::Candidate);
    let other = pair.etcd.grant(Duration::from_secs(600)).lease;
    pair.etcd
        .put("/sublet/prod/1/nodes/a", &record(9), Some(other))
        .expect("set");
    pair.settle();
    assert_eq!(
        pair.told(),
        [
            "node a 0000000000000009",
            "displaced",
            "deposed",
            "no leader"
        ]
    );
    let own = pair
        .etcd
        .get("/sublet/prod/1/nodes/a")
        .expect("the other's");
    assert_eq!(
        own.lease,
        Some(other),
        "the node does not fight for its name"
    );
    pair.etcd.revoke(other);
    pair.settle();
    let told = pair.told();
    assert!(
        told.contains(&"elected".to_owned()),
        "the other is gone: {told:?}"
    );
    assert!(pair.etcd.get("/sublet/prod/1/nodes/a").is_some());
}

#[test]
fn a_registration_that_an_operator_wrote_over_is_made_again() {
    let mut pair = Pair::settled(Candidacy::Follower);
    pair.etcd
        .put("/sublet/prod/1/nodes/a", &record(9), None)
        .expect("set");
    pair.settle();
    let told = pair.told();
    assert!(!told.contains(&"displaced".to_owned()), "{told:?}");
    assert_eq!(
        told.last().map(String::as_str),
        Some("node a 0000000000000001"),
        "{told:?}"
    );
}

#[test]
fn a_registration_that_an_operator_deleted_is_made_again() {
    let mut pair = Pair::settled(Candidacy::Follower);
    pair.etcd.delete("/sublet/prod/1/nodes/a");
    pair.settle();
    assert_eq!(
        pair.told(),
        ["gone a", "registered", "node a 0000000000000001"]
    );
}

#[test]
fn a_record_that_changed_is_registered() {
    let mut pair = Pair::settled(Candidacy::Candidate);
    pair.member.set_record(record(1));
    pair.settle();
    assert_eq!(pair.told(), [] as [&str; 0]);
    pair.member.set_record(record(5));
    pair.settle();
    let told = pair.told();
    assert!(
        told.contains(&"node a 0000000000000005".to_owned()),
        "{told:?}"
    );
    assert!(pair.member.leads(pair.now).is_some());
}

#[test]
fn a_record_that_changes_while_another_is_on_its_way_is_registered_after_it() {
    let mut pair = Pair::settled(Candidacy::Follower);
    pair.member.set_record(record(5));
    let first = pair.member.next_request(pair.now).expect("a registration");
    pair.member.set_record(record(6));
    let answer = pair.execute(first);
    pair.member.apply(pair.now, answer);
    pair.settle();
    let told = pair.told();
    let mut seen = told.iter().filter(|told| told.starts_with("node a"));
    assert_eq!(
        seen.next_back().map(String::as_str),
        Some("node a 0000000000000006"),
        "{told:?}"
    );
}

#[test]
fn leaving_revokes_the_lease_and_all_that_it_holds() {
    let mut pair = Pair::settled(Candidacy::Candidate);
    pair.member.leave(pair.now);
    assert_eq!(pair.member.leads(pair.now), None, "at once");
    pair.answer_all();
    assert!(pair.member.has_left());
    assert_eq!(pair.told().first().map(String::as_str), Some("deposed"));
    assert!(pair.etcd.read(PREFIX).entries.is_empty());
    assert_eq!(pair.member.next_request(pair.now), None);
}

#[test]
fn a_grant_on_its_way_is_waited_for_and_revoked() {
    let mut pair = Pair::new(Candidacy::Candidate);
    let grant = pair.member.next_request(pair.now).expect("a grant");
    pair.member.leave(pair.now);
    assert_eq!(pair.member.next_request(pair.now), None);
    let answer = pair.execute(grant);
    pair.member.apply(pair.now, answer);
    let revoke = pair.member.next_request(pair.now).expect("a revocation");
    assert!(matches!(
        revoke,
        StoreRequest::Lease(LeaseRequest::Revoke { .. })
    ));
    pair.member
        .apply(pair.now, StoreAnswer::Revoked(Err(away())));
    assert!(pair.member.has_left(), "it leaves though the store is away");
    assert_eq!(pair.told(), ["failed", "left"]);
}

#[test]
fn a_change_that_comes_twice_is_told_once() {
    let mut pair = Pair::settled(Candidacy::Follower);
    pair.etcd.put_node("b", 2);
    let changes: Vec<Change> = pair
        .etcd
        .changes_from(PREFIX, pair.etcd.revision())
        .expect("remembered");
    for _ in 0..2 {
        let answer = StoreAnswer::Changed(Ok(changes.clone()));
        pair.member.apply(pair.now, answer);
    }
    assert_eq!(pair.told(), ["node b 0000000000000002"]);
}
