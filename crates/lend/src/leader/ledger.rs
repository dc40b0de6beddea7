//! The ledger: reports in, advice out.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use sublet_policy::placement::{
    Advice, DrawStream, LoanPair, NodeNumber, NodeReport, PlacementChoice, RackNumber, advise,
};

use super::cluster_status::{ClusterNodeState, GivenAdvice};
use super::ledger_node::{LedgerNode, Pairs, blocks_of};
use super::member_list::{MemberList, Participation, UpdateFor};
use super::pair_books::{LendingPair, PairBooks};
use super::silence::SilenceDoubt;
use crate::control::{BlockCount, BorrowAdvice, ClusterReport, MembersUpdate, PairCounts};
use crate::ids::{NodeName, RackName, Term};

/// How often a leader advises.
pub const ADVISE_EVERY: Duration = Duration::from_secs(1);

/// A new leader advises at the latest after this time, whoever has not reported.
pub const ADVISE_AFTER: Duration = Duration::from_secs(3);

/// The most pieces of advice that are kept to be shown.
pub const ADVICE_KEPT_MAX: usize = 64;

/// While more messages wait to be taken, there is no advice, and nobody is told who takes part.
const ACTIONS_QUEUED_MAX: usize = 64 << 10;

/// The most racks that are told apart. Nodes of others count as if they named none.
const RACKS_MAX: usize = 4096;

/// What a leader is told at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerSettings {
    /// Its term.
    pub term: Term,
    /// How it chooses lenders.
    pub placement: PlacementChoice,
    /// A random number, from which all others are drawn.
    pub seed: u64,
}

/// What a leader wants sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerAction {
    /// Send advice to its borrower.
    Advise(BorrowAdvice),
    /// Tell a node who takes part.
    TellMembers {
        /// The node.
        to: NodeName,
        /// What to tell.
        update: MembersUpdate,
    },
}

/// Finds numbers by names. The names are those of certificates, so that nobody chooses ones that collide.
type NumbersByName<T, N> = HashMap<T, N, BuildHasherDefault<DefaultHasher>>;

/// The ledger of a leader.
#[derive(Debug)]
pub struct Ledger {
    pub(super) settings: LedgerSettings,
    pub(super) began: Duration,
    advised_at: Option<Duration>,
    pub(super) draws: DrawStream,
    /// By number. A node keeps its number for the leader's term.
    pub(super) nodes: Vec<LedgerNode>,
    numbers: NumbersByName<NodeName, NodeNumber>,
    /// The same by name, for whoever looks at nodes in order.
    pub(super) by_name: BTreeMap<NodeName, NodeNumber>,
    racks: NumbersByName<RackName, RackNumber>,
    /// Members that have not reported yet.
    expected: usize,
    pub(super) members: MemberList,
    pub(super) doubt: SilenceDoubt,
    pub(super) books: PairBooks,
    pub(super) given: VecDeque<GivenAdvice>,
    actions: VecDeque<LedgerAction>,
}

impl Ledger {
    /// The ledger of a leader that has heard nothing yet. `members` are all nodes that may report, its own among them.
    pub fn new(
        now: Duration,
        settings: LedgerSettings,
        members: impl IntoIterator<Item = NodeName>,
    ) -> Ledger {
        let mut ledger = Ledger {
            began: now,
            advised_at: None,
            draws: DrawStream::new(settings.seed),
            nodes: Vec::new(),
            numbers: NumbersByName::default(),
            by_name: BTreeMap::new(),
            racks: NumbersByName::default(),
            expected: 0,
            members: MemberList::new(settings.term),
            doubt: SilenceDoubt::default(),
            books: PairBooks::default(),
            given: VecDeque::new(),
            actions: VecDeque::new(),
            settings,
        };
        members
            .into_iter()
            .for_each(|name| ledger.add_member(now, name));
        ledger
    }

    /// The leader's term.
    pub fn term(&self) -> Term {
        self.settings.term
    }

    /// How it chooses lenders.
    pub fn placement(&self) -> &PlacementChoice {
        &self.settings.placement
    }

    /// Chooses lenders in another way from now on.
    pub fn place_by(&mut self, placement: PlacementChoice) {
        self.settings.placement = placement;
    }

    /// A node may report from now on. One that is known stays as it is, unless it was gone.
    pub fn add_member(&mut self, now: Duration, name: NodeName) {
        match self.numbers.get(&name) {
            None => {
                self.add_node(LedgerNode::new(now, name));
                self.expected += 1;
            }
            Some(&number) if self.node(number).state == ClusterNodeState::Gone => {
                self.node_mut(number).heard_at = now;
                self.change_state(now, number, ClusterNodeState::Expected);
            }
            Some(_) => {}
        }
    }

    /// A node was a member until then, before this leader led.
    pub fn add_former(&mut self, since: Duration, name: NodeName) {
        if !self.numbers.contains_key(&name) {
            self.add_node(LedgerNode {
                state: ClusterNodeState::Gone,
                ..LedgerNode::new(since, name)
            });
        }
    }

    fn add_node(&mut self, node: LedgerNode) {
        let number = NodeNumber(self.nodes.len() as u32);
        self.numbers.insert(node.name.clone(), number);
        self.by_name.insert(node.name.clone(), number);
        self.nodes.push(node);
    }

    /// A node is no member any more, or said goodbye.
    pub fn remove_member(&mut self, now: Duration, name: &NodeName) {
        if let Some(&number) = self.numbers.get(name) {
            self.change_state(now, number, ClusterNodeState::Gone);
        }
    }

    /// A node wants to go. It neither lends nor borrows any more.
    pub fn leaves(&mut self, now: Duration, name: &NodeName) {
        if let Some(&number) = self.numbers.get(name) {
            self.change_state(now, number, ClusterNodeState::Leaving);
        }
    }

    /// A node is connected. It is to be told who takes part.
    pub fn connected(&mut self, name: &NodeName) {
        self.members.connected(name);
    }

    /// The connection of a node is lost. Its silence counts, and nothing else.
    pub fn disconnected(&mut self, name: &NodeName) {
        self.members.disconnected(name);
    }

    pub(super) fn node(&self, number: NodeNumber) -> &LedgerNode {
        &self.nodes[number.0 as usize]
    }

    fn node_mut(&mut self, number: NodeNumber) -> &mut LedgerNode {
        &mut self.nodes[number.0 as usize]
    }

    pub(super) fn change_state(
        &mut self,
        now: Duration,
        number: NodeNumber,
        state: ClusterNodeState,
    ) {
        let node = self.node_mut(number);
        let before = std::mem::replace(&mut node.state, state);
        if before == state {
            return;
        }
        node.since = now;
        if state == ClusterNodeState::Gone {
            node.forget_report();
        }
        self.expected += usize::from(state == ClusterNodeState::Expected);
        self.expected -= usize::from(before == ClusterNodeState::Expected);
        let participation = match state {
            ClusterNodeState::Expected | ClusterNodeState::Active => Participation::TakesPart,
            ClusterNodeState::Leaving | ClusterNodeState::Gone => Participation::StaysOut,
            // It may be back at once.
            ClusterNodeState::Away => return,
        };
        let name = &self.nodes[number.0 as usize].name;
        self.members.set(name, participation);
    }

    /// Takes a report in. One of a node that is no member is ignored.
    pub fn report(&mut self, now: Duration, name: &NodeName, report: ClusterReport) {
        let Some(&number) = self.numbers.get(name) else {
            return;
        };
        let lent = self.numbered(&report.lent);
        let borrowed = self.numbered(&report.borrowed);
        let rack = report.rack.as_ref().and_then(|rack| self.rack_number(rack));
        let node = self.node_mut(number);
        let lent_before = std::mem::replace(&mut node.lent, lent);
        let borrowed_before = std::mem::replace(&mut node.borrowed, borrowed);
        node.heard_at = now;
        node.rack = rack;
        node.report = ClusterReport {
            lent: PairCounts::default(),
            borrowed: PairCounts::default(),
            ..report
        };
        // Another run of a node that was leaving is not.
        let state = match node.report.leaving {
            true => ClusterNodeState::Leaving,
            false => ClusterNodeState::Active,
        };
        self.change_state(now, number, state);
        self.compare_pairs(now, number, &lent_before, &borrowed_before);
    }

    /// Pairs by the other's number. Nodes that are no members are left out.
    fn numbered(&self, counts: &PairCounts) -> Pairs {
        let pairs = counts
            .iter()
            .filter_map(|(name, blocks)| Some((*self.numbers.get(name)?, blocks)));
        let mut pairs: Pairs = pairs.collect();
        pairs.sort_unstable();
        pairs
    }

    /// The number of a rack. `None` if there are too many.
    fn rack_number(&mut self, rack: &RackName) -> Option<RackNumber> {
        if let Some(number) = self.racks.get(rack) {
            return Some(*number);
        }
        let number = RackNumber(self.racks.len() as u32);
        if self.racks.len() == RACKS_MAX {
            return None;
        }
        self.racks.insert(rack.clone(), number);
        Some(number)
    }

    /// Compares a node's counts with those of its lenders and borrowers: of now, and of the report before.
    fn compare_pairs(
        &mut self,
        now: Duration,
        number: NodeNumber,
        lent_before: &Pairs,
        borrowed_before: &Pairs,
    ) {
        let node = &self.nodes[number.0 as usize];
        let others = |before: &Pairs, after: &Pairs| {
            let gone = before
                .iter()
                .filter(|(other, _)| blocks_of(after, *other) == 0);
            let all = after.iter().chain(gone).map(|(other, _)| *other);
            all.collect::<Vec<NodeNumber>>()
        };
        let as_lender = others(lent_before, &node.lent)
            .into_iter()
            .map(|borrower| LendingPair {
                lender: number,
                borrower,
            });
        let as_borrower = others(borrowed_before, &node.borrowed)
            .into_iter()
            .map(|lender| LendingPair {
                lender,
                borrower: number,
            });
        for pair in as_lender.chain(as_borrower) {
            let lender = &self.nodes[pair.lender.0 as usize];
            let borrower = &self.nodes[pair.borrower.0 as usize];
            let lent = blocks_of(&lender.lent, pair.borrower);
            let borrowed = blocks_of(&borrower.borrowed, pair.lender);
            let is_left_off =
                |node: &LedgerNode, blocks| blocks == 0 && node.report.pairs_left_off > 0;
            if !is_left_off(lender, lent) && !is_left_off(borrower, borrowed) {
                self.books.compare(now, pair, lent, borrowed);
            }
        }
    }

    /// Lets time pass: who is silent is away, and each second there is advice.
    pub fn tick(&mut self, now: Duration) {
        if self
            .advised_at
            .is_some_and(|at| now.saturating_sub(at) < ADVISE_EVERY)
        {
            return;
        }
        self.advised_at = Some(now);
        self.find_silent(now);
        self.list_silent(now);
        let nodes = &self.nodes;
        let reports = |node: &NodeNumber| {
            let state = nodes[node.0 as usize].state;
            matches!(state, ClusterNodeState::Active | ClusterNodeState::Leaving)
        };
        self.books
            .retain(|pair| reports(&pair.lender) && reports(&pair.borrower));
        if self.actions.len() > ACTIONS_QUEUED_MAX {
            return;
        }
        if self.expected == 0 || now >= self.began + ADVISE_AFTER {
            self.advise(now);
        }
        for UpdateFor { node, parts } in self.members.updates(now) {
            let tell = |update| LedgerAction::TellMembers {
                to: node.clone(),
                update,
            };
            self.actions.extend(parts.into_iter().map(tell));
        }
    }

    fn advise(&mut self, now: Duration) {
        let draw = self.draws.bits();
        for advice in self.placed(draw) {
            let given = self.named(now, &advice);
            self.actions.push_back(LedgerAction::Advise(BorrowAdvice {
                term: self.settings.term,
                borrower: given.borrower.clone(),
                lender: given.lender.clone(),
                blocks: BlockCount::saturating(given.blocks),
                why: given.why,
                shortage: given.shortage,
            }));
            if self.given.len() == ADVICE_KEPT_MAX {
                self.given.pop_front();
            }
            self.given.push_back(given);
        }
    }

    pub(super) fn placed(&self, draw: u64) -> Vec<Advice> {
        let active = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.state == ClusterNodeState::Active);
        let reports: Vec<NodeReport> = active
            .map(|(n, node)| node.placed(NodeNumber(n as u32)))
            .collect();
        let loans =
            |LoanPair { lender, borrower }| blocks_of(&self.node(borrower).borrowed, lender);
        advise(&reports, &loans, &self.settings.placement, draw)
    }

    pub(super) fn named(&self, at: Duration, advice: &Advice) -> GivenAdvice {
        GivenAdvice {
            at,
            borrower: self.node(advice.borrower).name.clone(),
            lender: self.node(advice.lender).name.clone(),
            blocks: advice.blocks,
            why: advice.reason,
            shortage: advice.shortage,
        }
    }

    /// Takes the next action.
    pub fn poll_action(&mut self) -> Option<LedgerAction> {
        self.actions.pop_front()
    }
}
