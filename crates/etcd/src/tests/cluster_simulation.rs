//! Many members and one store in virtual time. Requests and answers are late or lost, members are paused and cut off,
//! their clocks run at different rates, and the store forgets changes, extends leases, stops, and lets leases end.
//!
//! At every moment at most one member leads. When all is well again, each member knows the store as it is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::ErrorKind;
use std::time::Duration;

use crate::member::{
    Candidacy, ClusterMember, MemberEvent, MemberSettings, StoreAnswer, StoreRequest, TTL_DEFAULT,
    ViewRequest,
};
use crate::record::NodeRecord;
use crate::store::{Revision, StoreError, Term, WatchEnd};
use crate::testing::{FakeEtcd, failed_answer, unreachable};

const MEMBERS: usize = 5;
const PREFIX: &str = "/sublet/prod/1/";

/// How long faults go on, and how long the members have to come to one view after that.
const FAULTS_MILLIS: u64 = 60_000;
const CALM_MILLIS: u64 = 30_000;

/// How long a member waits for an answer that is lost.
const TIME_LIMIT_MILLIS: u64 = 3_000;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// What happens at a moment.
enum Happening {
    /// A request reaches the store.
    Arrives(usize, StoreRequest),
    /// An answer reaches a member.
    Answers(usize, StoreAnswer),
    /// What a watch told reaches a member. The number says which watch of the member.
    Tells(usize, u64, StoreAnswer),
    /// A watch looks for changes. The number says which watch of the member.
    Looks(usize, u64),
    /// A member looks at the time.
    Wakes(usize),
    /// Something goes wrong, or right again.
    Fault,
}

struct Simulated {
    machine: ClusterMember,
    /// How many of its own milliseconds pass in a thousand.
    clock_rate: u64,
    is_cut_off: bool,
    paused_until: u64,
    watch: u64,
    watched_from: Revision,
    nodes: BTreeMap<String, NodeRecord>,
    leader: Option<(String, Term)>,
    leading: Option<Term>,
}

struct Simulation {
    now: u64,
    random: Random,
    etcd: FakeEtcd,
    /// The store's clock runs at this rate.
    etcd_rate: u64,
    is_stopped: bool,
    members: Vec<Simulated>,
    agenda: BinaryHeap<Reverse<(u64, u64)>>,
    happenings: BTreeMap<u64, Happening>,
    last: u64,
    elections: BTreeMap<Term, usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Skew {
    None,
    TwentyPercent,
}

impl Simulation {
    fn new(seed: u64, skewed: Skew) -> Simulation {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut rate = || match skewed {
            Skew::None => 1_000,
            Skew::TwentyPercent => 800 + random.below(401),
        };
        let members = (0..MEMBERS)
            .map(|number| Simulated {
                machine: ClusterMember::new(settings(number, seed)),
                clock_rate: rate(),
                is_cut_off: false,
                paused_until: 0,
                watch: 0,
                watched_from: Revision(0),
                nodes: BTreeMap::new(),
                leader: None,
                leading: None,
            })
            .collect();
        let etcd_rate = rate();
        let mut simulation = Simulation {
            now: 0,
            etcd: FakeEtcd::default(),
            etcd_rate,
            is_stopped: false,
            members,
            agenda: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            last: 0,
            elections: BTreeMap::new(),
            random,
        };
        (0..MEMBERS).for_each(|member| simulation.at(0, Happening::Wakes(member)));
        simulation.at(1_000, Happening::Fault);
        simulation
    }

    fn at(&mut self, delay: u64, happening: Happening) {
        self.last += 1;
        self.agenda.push(Reverse((self.now + delay, self.last)));
        self.happenings.insert(self.last, happening);
    }

    fn run(&mut self, until: u64) {
        while let Some(Reverse((at, number))) = self.agenda.peek().copied() {
            if at > until {
                break;
            }
            self.agenda.pop();
            self.now = at;
            if !self.is_stopped {
                let etcd_now = Duration::from_millis(at * self.etcd_rate / 1_000);
                self.etcd.advance_to(etcd_now);
            }
            if let Some(happening) = self.happenings.remove(&number) {
                self.happen(happening);
            }
            self.judge();
        }
        self.now = until;
    }

    /// At most one member leads, and each term is one member's.
    fn judge(&mut self) {
        let now = self.now;
        let leads = |member: &Simulated| member.machine.leads(local(member, now));
        let leaders: Vec<(usize, Term)> = self
            .members
            .iter()
            .enumerate()
            .filter_map(|(number, member)| Some((number, leads(member)?)))
            .collect();
        assert!(leaders.len() <= 1, "two lead at {now}: {leaders:?}");
        for (number, term) in leaders {
            let of_term = *self.elections.entry(term).or_insert(number);
            assert_eq!(of_term, number, "a term of two members");
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Fault => self.fault(),
            Happening::Arrives(member, request) => self.arrive(member, request),
            Happening::Looks(member, watch) => self.look(member, watch),
            Happening::Wakes(member) => {
                let now = local(&self.members[member], self.now);
                self.resume_or(member, Happening::Wakes, |simulated| {
                    simulated.machine.tick(now);
                });
            }
            Happening::Tells(member, watch, answer) => {
                let paused_until = self.members[member].paused_until;
                match paused_until > self.now {
                    true => {
                        let delay = paused_until - self.now;
                        self.at(delay, Happening::Tells(member, watch, answer));
                    }
                    false if self.members[member].watch == watch => {
                        self.happen(Happening::Answers(member, answer));
                    }
                    false => {}
                }
            }
            Happening::Answers(member, answer) => {
                let paused_until = self.members[member].paused_until;
                if paused_until > self.now {
                    let delay = paused_until - self.now;
                    self.at(delay, Happening::Answers(member, answer));
                    return;
                }
                let now = local(&self.members[member], self.now);
                self.members[member].machine.apply(now, answer);
                self.go_on(member);
            }
        }
    }

    fn resume_or(
        &mut self,
        member: usize,
        later: impl Fn(usize) -> Happening,
        act: impl FnOnce(&mut Simulated),
    ) {
        let paused_until = self.members[member].paused_until;
        match paused_until > self.now {
            true => {
                let delay = paused_until - self.now;
                self.at(delay, later(member));
            }
            false => {
                act(&mut self.members[member]);
                self.go_on(member);
            }
        }
    }

    /// Sends what a member asks, and hears what it tells.
    fn go_on(&mut self, member: usize) {
        let now = local(&self.members[member], self.now);
        while let Some(request) = self.members[member].machine.next_request(now) {
            if matches!(request, StoreRequest::View(_)) {
                self.members[member].watch += 1;
            }
            let delay = 1 + self.random.below(20);
            self.at(delay, Happening::Arrives(member, request));
        }
        while let Some(event) = self.members[member].machine.next_event() {
            self.members[member].hear(event);
        }
        if let Some(wakes) = self.members[member].machine.wakes_at(now) {
            let wait = wakes.saturating_sub(now).as_millis() as u64;
            let wait = wait * 1_000 / self.members[member].clock_rate + 1;
            self.at(wait, Happening::Wakes(member));
        }
    }

    fn arrive(&mut self, member: usize, request: StoreRequest) {
        let is_away = self.is_stopped || self.members[member].is_cut_off;
        let is_lost = is_away || (self.now < FAULTS_MILLIS && self.random.below(20) == 0);
        let answer = match is_away {
            true => failed_answer(&request, lost()),
            false => self.execute(member, request, is_lost.then(lost)),
        };
        let delay = match is_lost {
            true => TIME_LIMIT_MILLIS,
            false => 1 + self.random.below(20),
        };
        self.at(delay, Happening::Answers(member, answer));
    }

    /// Executes a request. If `fails` is an error, the answer is lost on its way.
    fn execute(
        &mut self,
        member: usize,
        request: StoreRequest,
        fails: Option<StoreError>,
    ) -> StoreAnswer {
        let failed = fails.map(|error| failed_answer(&request, error));
        let watched_from = match &request {
            StoreRequest::View(ViewRequest::Watch { from, .. }) => Some(*from),
            _ => None,
        };
        let answer = self.etcd.answer(request);
        let is_open = failed.is_none() && matches!(answer, StoreAnswer::WatchOpened(Ok(_)));
        if let Some(from) = watched_from.filter(|_| is_open) {
            self.members[member].watched_from = from;
            let watch = self.members[member].watch;
            self.at(50, Happening::Looks(member, watch));
        }
        failed.unwrap_or(answer)
    }

    fn look(&mut self, member: usize, watch: u64) {
        if self.members[member].watch != watch {
            return;
        }
        let is_faulty = self.now < FAULTS_MILLIS && self.random.below(100) == 0;
        let answer = match self.is_stopped || self.members[member].is_cut_off || is_faulty {
            true => Err(WatchEnd::Cut(lost())),
            false => {
                let from = self.members[member].watched_from;
                let changes = self.etcd.changes_from(PREFIX, from);
                changes.ok_or(WatchEnd::Compacted)
            }
        };
        let delay = 50 + self.random.below(5);
        match answer {
            Ok(changes) if changes.is_empty() => {
                let next = self.etcd.revision().next();
                let from = &mut self.members[member].watched_from;
                *from = next.max(*from);
                self.at(delay, Happening::Looks(member, watch));
            }
            Ok(changes) => {
                let last = changes.iter().map(|change| change.revision()).max();
                let next = last.unwrap_or_default().next();
                let from = &mut self.members[member].watched_from;
                *from = next.max(*from);
                self.at(
                    1,
                    Happening::Tells(member, watch, StoreAnswer::Changed(Ok(changes))),
                );
                self.at(delay, Happening::Looks(member, watch));
            }
            Err(end) => self.at(
                1,
                Happening::Tells(member, watch, StoreAnswer::Changed(Err(end))),
            ),
        }
    }

    fn fault(&mut self) {
        if self.now >= FAULTS_MILLIS {
            self.is_stopped = false;
            for member in &mut self.members {
                member.is_cut_off = false;
            }
            return;
        }
        let member = self.random.below(MEMBERS as u64) as usize;
        match self.random.below(8) {
            0 => self.is_stopped = !self.is_stopped,
            1 => self.etcd.extend_leases(),
            2 => self.etcd.compact(),
            3 => {
                let pause = self.random.below(12_000);
                self.members[member].paused_until = self.now + pause;
            }
            4 => self.etcd.delete(&format!("{PREFIX}nodes/n{member}")),
            _ => self.members[member].is_cut_off = !self.members[member].is_cut_off,
        }
        let delay = 200 + self.random.below(3_000);
        self.at(delay, Happening::Fault);
    }
}

impl Simulated {
    fn hear(&mut self, event: MemberEvent) {
        match event {
            MemberEvent::Node { name, record } => {
                self.nodes.insert(name.to_string(), record);
            }
            MemberEvent::NodeGone { name } => {
                assert!(
                    self.nodes.remove(name.as_str()).is_some(),
                    "gone twice: {name}"
                );
            }
            MemberEvent::Leader(leader) => {
                self.leader = leader.map(|leader| (leader.node.to_string(), leader.term));
            }
            MemberEvent::Elected { term } => {
                assert_eq!(self.leading.replace(term), None);
            }
            MemberEvent::Deposed { term } => assert_eq!(self.leading.take(), Some(term)),
            MemberEvent::Registered
            | MemberEvent::Unregistered
            | MemberEvent::Synchronized
            | MemberEvent::StoreFailed(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn local(member: &Simulated, now: u64) -> Duration {
    Duration::from_millis(now * member.clock_rate / 1_000)
}

fn lost() -> StoreError {
    unreachable(ErrorKind::ConnectionReset)
}

fn settings(number: usize, seed: u64) -> MemberSettings {
    let record = NodeRecord {
        addresses: vec![format!("10.0.0.{number}:7071")],
        fingerprint: "00".repeat(32),
        incarnation: format!("{number:016x}"),
        rack: None,
    };
    MemberSettings {
        cluster: "prod".parse().expect("a name"),
        node: format!("n{number}").parse().expect("a name"),
        record: record.encode().expect("a record"),
        candidacy: Candidacy::Candidate,
        ttl: TTL_DEFAULT,
        seed: seed.wrapping_add(number as u64 * 77),
    }
}

/// Runs a seed, and checks that all members come to one view when all is well again.
fn run(seed: u64, skewed: Skew) -> usize {
    let mut simulation = Simulation::new(seed, skewed);
    simulation.run(FAULTS_MILLIS);
    simulation.at(1, Happening::Fault);
    simulation.run(FAULTS_MILLIS + CALM_MILLIS);
    let leaders: Vec<_> = simulation
        .members
        .iter()
        .map(|member| member.leader.clone())
        .collect();
    assert!(leaders[0].is_some(), "seed {seed}: nobody leads");
    assert!(
        leaders.iter().all(|leader| *leader == leaders[0]),
        "seed {seed}: {leaders:?}"
    );
    let leading = simulation
        .members
        .iter()
        .filter(|member| member.leading.is_some())
        .count();
    assert_eq!(leading, 1, "seed {seed}: the leader knows that it leads");
    for member in &simulation.members {
        assert_eq!(
            member.nodes.len(),
            MEMBERS,
            "seed {seed}: a member is missing"
        );
        assert_eq!(member.nodes, simulation.members[0].nodes, "seed {seed}");
    }
    simulation.elections.len()
}

#[test]
fn at_most_one_leads_and_all_agree_when_all_is_well_again() {
    let elections: usize = (0..150).map(|seed| run(seed, Skew::None)).sum();
    assert!(elections > 300, "{elections} elections in all");
}

#[test]
fn clocks_that_are_wrong_by_twenty_percent_make_no_difference() {
    let elections: usize = (1_000..1_150)
        .map(|seed| run(seed, Skew::TwentyPercent))
        .sum();
    assert!(elections > 300, "{elections} elections in all");
}
