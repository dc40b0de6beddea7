//! What etcd's events come to for this host: members that come and go, who leads, and what its owner should know.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use sublet_etcd::member::{ElectedLeader, MemberEvent};
use sublet_etcd::record::NodeRecord;
use sublet_lend::ids::Term;
use sublet_lend::node::LendingInput;
use sublet_policy::placement::PlacementChoice;
use sublet_types::NodeName;

use super::cluster_settings::parse_placement;
use crate::config::{LendConfig, PeerPlace};
use crate::peers::control::{ChangedMembers, ControlMember};

/// A call that fails so long after the last one that failed is told anew.
const QUIET_FOR: Duration = Duration::from_secs(60);

/// Something to be logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterNotice {
    /// The other hosts can see this one.
    Registered,
    /// This host's registration ended.
    Unregistered,
    /// Another process has this host's name.
    Displaced,
    /// What a host wrote about itself is none.
    UnreadableMember {
        /// Its name.
        name: NodeName,
        /// What is wrong.
        error: String,
    },
    /// Somebody leads from now on.
    Leads {
        /// Who.
        name: NodeName,
        /// Its term.
        term: Term,
    },
    /// Nobody leads.
    NobodyLeads,
    /// Placement is as etcd says from now on, or as the config says.
    Placement {
        /// The policy.
        policy: &'static str,
        /// Who says so.
        source: PlacementSource,
    },
    /// The settings in etcd cannot be used. What was in force stays.
    WrongSettings(String),
    /// A call failed. It comes once until calls succeed.
    EtcdFailed(String),
    /// etcd was restored from a copy.
    EtcdRestored,
}

/// Who says how lenders are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementSource {
    /// The cluster's settings.
    Etcd,
    /// This host's config, because the cluster has none.
    Config,
}

/// What one or more events come to.
#[derive(Debug, Default)]
pub struct ClusterNews {
    /// Members that came and went.
    pub members: ChangedMembers,
    /// What the node is told, after the members.
    pub inputs: Vec<LendingInput>,
    /// What its owner should know.
    pub notices: Vec<ClusterNotice>,
}

/// Turns etcd's events into what this host does about them. It outlives a registration: what the host knew when it left
/// is compared with what it hears when it has joined again.
#[derive(Debug)]
pub(super) struct MemberNews {
    own: NodeName,
    lend: LendConfig,
    placement: PlacementChoice,
    members: BTreeMap<NodeName, ControlMember>,
    /// The term in which this host leads.
    leads: Option<Term>,
    /// The highest term that was seen.
    term: Term,
    /// Who was said to lead last.
    leader: Option<NodeName>,
    /// Whether the cluster's settings are in force, and not the config's.
    has_settings: bool,
    /// When a call failed last.
    failed_at: Option<Instant>,
    /// What is known of the last registration, and was not heard again in this one.
    unheard: Unheard,
}

/// What must be heard until etcd was read whole, or is no more.
#[derive(Debug, Default)]
struct Unheard {
    members: BTreeSet<NodeName>,
    leader: bool,
    settings: bool,
}

impl MemberNews {
    /// Nothing is known. `placement` holds until the cluster has settings.
    pub(super) fn new(own: NodeName, lend: LendConfig, placement: PlacementChoice) -> MemberNews {
        MemberNews {
            own,
            lend,
            placement,
            members: BTreeMap::new(),
            leads: None,
            term: Term::default(),
            leader: None,
            has_settings: false,
            failed_at: None,
            unheard: Unheard::default(),
        }
    }

    /// The host registers anew. Until all was read, what it knows stays.
    pub(super) fn register_anew(&mut self) {
        self.leads = None;
        // etcd may have been restored from a copy meanwhile. Then its terms are lower.
        self.term = Term::default();
        self.failed_at = None;
        self.unheard = Unheard {
            members: self.members.keys().cloned().collect(),
            leader: self.leader.is_some(),
            settings: self.has_settings,
        };
    }

    /// How many others there are.
    pub(super) fn members(&self) -> usize {
        self.members.len()
    }

    /// Takes an event in, and appends what it comes to.
    pub(super) fn apply(&mut self, event: MemberEvent, news: &mut ClusterNews) {
        match event {
            MemberEvent::Registered => {
                self.failed_at = None;
                news.notices.push(ClusterNotice::Registered);
            }
            MemberEvent::Unregistered => news.notices.push(ClusterNotice::Unregistered),
            MemberEvent::Displaced => {
                // Two of one name would end each other's sessions, again and again.
                let within = Duration::ZERO;
                news.inputs.push(LendingInput::Leave { within });
                news.notices.push(ClusterNotice::Displaced);
            }
            MemberEvent::Node { name, record } => self.add(name, &record, news),
            MemberEvent::UnreadableNode { name, fault } => {
                self.remove(&name, news);
                let error = fault.to_string();
                news.notices
                    .push(ClusterNotice::UnreadableMember { name, error });
            }
            MemberEvent::NodeGone { name } => self.remove(&name, news),
            MemberEvent::Leader(leader) => self.leader_written(leader, news),
            MemberEvent::Elected { term } => {
                self.leads = Some(Term(term.0));
                self.lead(Some(self.own.clone()), Term(term.0), news);
            }
            MemberEvent::Deposed { .. } => {
                self.leads = None;
                if self.leader.as_ref() == Some(&self.own) {
                    self.lead(None, self.term, news);
                }
            }
            MemberEvent::Settings(settings) => self.settings_written(settings.as_deref(), news),
            MemberEvent::Synchronized => {
                self.failed_at = None;
                self.forget_unheard(news);
            }
            MemberEvent::StoreRestored => {
                self.term = Term::default();
                news.inputs.push(LendingInput::TermsBeginAnew);
                news.notices.push(ClusterNotice::EtcdRestored);
            }
            MemberEvent::StoreFailed(error) => {
                let before = self.failed_at.replace(Instant::now());
                if before.is_none_or(|at| at.elapsed() > QUIET_FOR) {
                    news.notices
                        .push(ClusterNotice::EtcdFailed(error.to_string()));
                }
            }
            MemberEvent::Left => {}
        }
    }

    /// All of etcd was read. What was not there is no more.
    fn forget_unheard(&mut self, news: &mut ClusterNews) {
        let unheard = std::mem::take(&mut self.unheard);
        for name in &unheard.members {
            self.remove(name, news);
        }
        if unheard.leader {
            self.lead(None, self.term, news);
        }
        if unheard.settings {
            self.settings_written(None, news);
        }
    }

    fn add(&mut self, name: NodeName, record: &NodeRecord, news: &mut ClusterNews) {
        if name == self.own {
            return;
        }
        self.unheard.members.remove(&name);
        // A host that nobody can call borrows only, and calls the others.
        let places = record.addresses.iter();
        let place = places
            .filter_map(|text| format!("tcp:{text}").parse::<PeerPlace>().ok())
            .next();
        let (host, port) = place.map_or((String::new(), 0), |place| (place.host, place.port));
        let member = ControlMember {
            lend: self.lend.lends_to(&name),
            name: name.clone(),
            host,
            port,
        };
        if self.members.get(&name) != Some(&member) {
            news.members.removed.retain(|removed| *removed != name);
            news.members.added.retain(|added| added.name != name);
            news.members.added.push(member.clone());
            self.members.insert(name, member);
        }
    }

    fn remove(&mut self, name: &NodeName, news: &mut ClusterNews) {
        if self.members.remove(name).is_some() {
            news.members.added.retain(|added| added.name != *name);
            news.members.removed.push(name.clone());
        }
    }

    /// Somebody stands as the leader in etcd. That this host does counts only once it was elected: what stands there may
    /// be of its last run.
    fn leader_written(&mut self, leader: Option<ElectedLeader>, news: &mut ClusterNews) {
        match leader {
            Some(leader) if leader.node == self.own => {
                let term = Term(leader.term.0);
                let is_elected = self.leads == Some(term);
                self.lead(is_elected.then(|| self.own.clone()), term, news);
            }
            Some(leader) => self.lead(Some(leader.node), Term(leader.term.0), news),
            None => self.lead(None, self.term, news),
        }
    }

    fn lead(&mut self, leader: Option<NodeName>, term: Term, news: &mut ClusterNews) {
        self.unheard.leader = false;
        let was = (self.leader.clone(), self.term);
        self.leader = leader.clone();
        self.term = self.term.max(term);
        if was == (leader.clone(), term) {
            return;
        }
        if was.0 != leader || leader.is_some() {
            news.notices.push(match &leader {
                Some(name) => ClusterNotice::Leads {
                    name: name.clone(),
                    term,
                },
                None => ClusterNotice::NobodyLeads,
            });
        }
        news.inputs.push(LendingInput::Leader { leader, term });
    }

    fn settings_written(&mut self, settings: Option<&[u8]>, news: &mut ClusterNews) {
        self.unheard.settings = false;
        let (choice, source) = match settings.map(parse_placement) {
            None => (self.placement.clone(), PlacementSource::Config),
            Some(Ok(choice)) => (choice, PlacementSource::Etcd),
            Some(Err(error)) => {
                news.notices
                    .push(ClusterNotice::WrongSettings(error.to_string()));
                return;
            }
        };
        self.has_settings = source == PlacementSource::Etcd;
        news.notices.push(ClusterNotice::Placement {
            policy: choice.entry().name,
            source,
        });
        news.inputs.push(LendingInput::Placement(choice));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use sublet_etcd::store::{StoreError, Term as EtcdTerm};
    use sublet_lend::node::LendTo;

    use super::*;

    fn name(text: &str) -> NodeName {
        text.parse().expect(text)
    }

    fn record(addresses: &[&str]) -> NodeRecord {
        NodeRecord {
            addresses: addresses.iter().map(|&text| text.to_owned()).collect(),
            fingerprint: String::new(),
            incarnation: String::new(),
            rack: None,
        }
    }

    pub(in super::super) fn lends_to_all() -> LendConfig {
        LendConfig {
            max: None,
            to: None,
            max_each_percent: 50,
            rate: None,
            cpu_percent: 25,
            threads: 1,
            drain: false,
        }
    }

    fn news_of_a() -> MemberNews {
        MemberNews::new(name("a"), lends_to_all(), PlacementChoice::default())
    }

    fn apply(news: &mut MemberNews, events: impl IntoIterator<Item = MemberEvent>) -> ClusterNews {
        let mut told = ClusterNews::default();
        for event in events {
            news.apply(event, &mut told);
        }
        told
    }

    fn node(text: &str, addresses: &[&str]) -> MemberEvent {
        MemberEvent::Node {
            name: name(text),
            record: record(addresses),
        }
    }

    fn led_by(text: &str, term: u64) -> MemberEvent {
        MemberEvent::Leader(Some(ElectedLeader {
            node: name(text),
            term: EtcdTerm(term),
        }))
    }

    #[test]
    fn members_come_change_and_go_and_this_host_is_none() {
        let mut news = news_of_a();
        let told = apply(
            &mut news,
            [
                node("a", &["10.0.0.1:7171"]),
                node("b", &["nonsense", "[fd00::2]:7171"]),
                node("c", &[]),
                node("d", &["d.lan:1"]),
                MemberEvent::NodeGone { name: name("d") },
            ],
        );
        let added = told.members.added.iter();
        let added: Vec<_> = added
            .map(|one| (one.name.as_str(), one.host.as_str(), one.port))
            .collect();
        assert_eq!(added, [("b", "fd00::2", 7171), ("c", "", 0)]);
        assert_eq!(told.members.removed, [name("d")]);

        let told = apply(&mut news, [node("c", &[])]);
        assert_eq!(told.members, ChangedMembers::default());
        let gone_and_back = [
            MemberEvent::NodeGone { name: name("b") },
            node("b", &["10.0.0.2:1"]),
        ];
        let told = apply(&mut news, gone_and_back);
        assert_eq!(told.members.removed, []);
        assert_eq!(told.members.added.len(), 1);
    }

    #[test]
    fn this_host_lends_only_to_those_that_its_config_names() {
        let mut news = news_of_a();
        news.lend.to = Some(vec![name("c")]);
        let told = apply(
            &mut news,
            [node("b", &["b.lan:1"]), node("c", &["c.lan:1"])],
        );
        let lend = told.members.added.iter().map(|member| member.lend);
        let expected = [LendTo::NotNamed, LendTo::Allowed];
        assert_eq!(lend.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_host_whose_record_nobody_can_read_is_gone_until_it_writes_another() {
        let mut news = news_of_a();
        apply(&mut news, [node("b", &["b.lan:1"])]);
        let fault = NodeRecord::parse(b"{").expect_err("no record");
        let unreadable = MemberEvent::UnreadableNode {
            name: name("b"),
            fault,
        };
        let told = apply(&mut news, [unreadable]);
        assert_eq!(told.members.removed, [name("b")]);
        assert!(matches!(
            &told.notices[..],
            [ClusterNotice::UnreadableMember { name: of, .. }] if *of == name("b")
        ));
        let told = apply(&mut news, [node("b", &["b.lan:1"])]);
        assert_eq!(told.members.added.len(), 1);
    }

    #[test]
    fn calls_that_fail_are_told_once_until_calls_succeed() {
        let mut news = news_of_a();
        let failed = || MemberEvent::StoreFailed(StoreError::LeaseGone);
        let notice = ClusterNotice::EtcdFailed(StoreError::LeaseGone.to_string());
        let told = apply(&mut news, [failed(), failed()]);
        assert_eq!(told.notices, std::slice::from_ref(&notice));
        for success in [MemberEvent::Synchronized, MemberEvent::Registered] {
            let told = apply(&mut news, [failed(), success, failed(), failed()]);
            let failures = told.notices.iter().filter(|told| **told == notice);
            assert_eq!(failures.count(), 1);
        }
    }

    #[test]
    fn terms_begin_anew_when_etcd_was_restored() {
        let mut news = news_of_a();
        apply(&mut news, [led_by("b", 50)]);
        let restored = [
            MemberEvent::StoreRestored,
            led_by("b", 3),
            MemberEvent::Leader(None),
        ];
        let told = apply(&mut news, restored);
        let leader = |leader, term| LendingInput::Leader {
            leader,
            term: Term(term),
        };
        let inputs = [
            LendingInput::TermsBeginAnew,
            leader(Some(name("b")), 3),
            leader(None, 3),
        ];
        assert_eq!(told.inputs, inputs);
        assert!(told.notices.contains(&ClusterNotice::EtcdRestored));
    }

    #[test]
    fn this_host_leads_only_while_it_is_elected() {
        let mut news = news_of_a();
        let leaders = |told: ClusterNews| {
            let inputs = told.inputs.into_iter();
            let named = inputs.map(|input| match input {
                LendingInput::Leader { leader, term } => {
                    (leader.map_or("-".to_owned(), |it| it.to_string()), term.0)
                }
                other => panic!("{other:?}"),
            });
            named.collect::<Vec<_>>()
        };
        // What this host's last run left there.
        let of_last_run = apply(&mut news, [led_by("a", 3)]);
        assert_eq!(leaders(of_last_run), [("-".to_owned(), 3)]);
        let other = apply(&mut news, [led_by("b", 5), led_by("b", 5)]);
        assert_eq!(leaders(other), [("b".to_owned(), 5)]);
        let term = EtcdTerm(8);
        let elected = [MemberEvent::Elected { term }, led_by("a", 8)];
        assert_eq!(leaders(apply(&mut news, elected)), [("a".to_owned(), 8)]);
        let deposed = apply(
            &mut news,
            [MemberEvent::Deposed { term }, MemberEvent::Leader(None)],
        );
        assert_eq!(leaders(deposed), [("-".to_owned(), 8)]);
    }

    #[test]
    fn a_host_whose_name_another_process_has_leaves() {
        let told = apply(&mut news_of_a(), [MemberEvent::Displaced]);
        let within = Duration::ZERO;
        assert_eq!(told.inputs, [LendingInput::Leave { within }]);
        assert_eq!(told.notices, [ClusterNotice::Displaced]);
    }

    #[test]
    fn what_ended_while_this_host_was_away_is_known_when_it_is_back() {
        let mut news = news_of_a();
        let settings = |text: &str| MemberEvent::Settings(Some(text.as_bytes().to_vec()));
        let before = [
            node("b", &["b.lan:1"]),
            node("c", &["c.lan:1"]),
            led_by("b", 3),
            settings(r#"{"placement":"two-level"}"#),
            MemberEvent::Synchronized,
        ];
        apply(&mut news, before);
        news.register_anew();
        let told = apply(
            &mut news,
            [node("c", &["c.lan:1"]), MemberEvent::Registered],
        );
        assert_eq!(told.members, ChangedMembers::default());
        assert!(told.inputs.is_empty(), "{:?}", told.inputs);
        let told = apply(&mut news, [MemberEvent::Synchronized]);
        assert_eq!(told.members.removed, [name("b")]);
        let inputs = [
            LendingInput::Leader {
                leader: None,
                term: Term::default(),
            },
            LendingInput::Placement(PlacementChoice::default()),
        ];
        assert_eq!(told.inputs, inputs);
        let told = apply(&mut news, [MemberEvent::Synchronized]);
        assert_eq!(told.members, ChangedMembers::default());
        assert!(told.inputs.is_empty(), "{:?}", told.inputs);
    }

    #[test]
    fn members_that_stayed_while_this_host_was_away_are_not_told_again() {
        let mut news = news_of_a();
        let all = || {
            [
                node("b", &["b.lan:1"]),
                led_by("b", 3),
                MemberEvent::Settings(None),
                MemberEvent::Synchronized,
            ]
        };
        apply(&mut news, all());
        news.register_anew();
        let told = apply(&mut news, all());
        assert_eq!(told.members, ChangedMembers::default());
        // The node forgets who leads when it joins.
        let leader = LendingInput::Leader {
            leader: Some(name("b")),
            term: Term(3),
        };
        assert_eq!(told.inputs.first(), Some(&leader));
    }

    #[test]
    fn wrong_settings_change_nothing_and_none_are_those_of_the_config() {
        let mut news = news_of_a();
        let settings = |text: &str| MemberEvent::Settings(Some(text.as_bytes().to_vec()));
        let told = apply(&mut news, [settings("{")]);
        assert!(told.inputs.is_empty());
        assert!(matches!(
            told.notices[..],
            [ClusterNotice::WrongSettings(_)]
        ));
        let told = apply(
            &mut news,
            [
                settings(r#"{"placement":"two-choices"}"#),
                MemberEvent::Settings(None),
            ],
        );
        let chosen = told.inputs.iter().map(|input| match input {
            LendingInput::Placement(choice) => choice.entry().name,
            other => panic!("{other:?}"),
        });
        assert_eq!(chosen.collect::<Vec<_>>(), ["two-choices", "spread"]);
    }
}
