//! Calm, as far as it is about leaders: none of a lower term is obeyed, and redistribution goes on without one.
//!
//! Redistribution may pause for 15 s, and for as long as a node itself is stopped. Each time is that of a node's own
//! clock, but that of an election.

use std::time::Duration;

use sublet_lend::ids::Term;

use crate::cluster::ids::NodeNumber;
use crate::cluster::verdict::{ClusterJudge, Finding};
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// A leader that says nothing for so long is given up.
const SILENT_AFTER: Duration = Duration::from_secs(15);

/// A borrower without a leader asks somebody so often. Answers of members that it drew have 3 s, and advice that came
/// before has 5 s.
const ASKS_WITHIN: Duration = Duration::from_secs(6);

/// A leader advises so soon: a new one waits 3 s for reports, and each looks once a second.
const ADVISES_WITHIN: Duration = Duration::from_millis(4_500);

/// Somebody leads again after so long, if etcd serves.
const ELECTS_WITHIN: VirtualDuration = VirtualDuration::secs(15);

fn finding(what: String) -> Option<Finding> {
    Some(Finding::of(ClusterJudge::Calm, what))
}

/// A leader that a node obeyed: its list of members, or its advice.
#[derive(Clone, Copy, Debug)]
pub(in crate::cluster) struct ObeyedLeader {
    pub(in crate::cluster) from: NodeNumber,
    pub(in crate::cluster) term: Term,
    /// Who leads, by what the node was told.
    pub(in crate::cluster) leader: Option<NodeNumber>,
    /// The highest term that it was told, or that this leader named.
    pub(in crate::cluster) highest: Term,
}

impl ObeyedLeader {
    /// Returns what is wrong with it.
    pub(in crate::cluster) fn check(self) -> Option<Finding> {
        let ObeyedLeader {
            from,
            term,
            leader,
            highest,
        } = self;
        if term < highest {
            return finding(format!(
                "it obeys {from} in term {}, and knows of term {}",
                term.0, highest.0
            ));
        }
        match leader {
            Some(leader) if leader == from => None,
            Some(leader) => finding(format!("it obeys {from}, and {leader} leads")),
            None => finding(format!("it obeys {from}, and nobody leads")),
        }
    }
}

/// What a borrower knows of its leader.
#[derive(Clone, Copy, Debug)]
pub(in crate::cluster) enum KnownLeader {
    /// It knows of one, which has said nothing that only a leader says for so long.
    SilentFor(Duration),
    /// It has known of none for so long.
    NoneFor(Duration),
}

/// A borrower that wants memory and may ask for it.
#[derive(Clone, Copy, Debug)]
pub(in crate::cluster) struct SeekingBorrower {
    pub(in crate::cluster) leader: KnownLeader,
    /// For how long no leader has said anything that only a leader says, whoever was named meanwhile.
    pub(in crate::cluster) unled_for: Duration,
    /// For how long it has asked nobody, though it wanted to.
    pub(in crate::cluster) idle_for: Duration,
}

impl SeekingBorrower {
    /// Returns what is wrong with its patience.
    pub(in crate::cluster) fn check(self) -> Option<Finding> {
        let SeekingBorrower {
            leader,
            unled_for,
            idle_for,
        } = self;
        let lacks_for = match leader {
            KnownLeader::SilentFor(silent_for) => silent_for.saturating_sub(SILENT_AFTER),
            KnownLeader::NoneFor(lacks_for) => lacks_for,
        };
        let is_patient = lacks_for.min(idle_for) <= ASKS_WITHIN;
        // Leaders that come and go, and say nothing, are no reason to wait for ever.
        let is_led = unled_for.min(idle_for) <= SILENT_AFTER + ASKS_WITHIN;
        if is_patient && is_led {
            return None;
        }
        let why = match leader {
            KnownLeader::SilentFor(silent_for) => {
                format!("its leader has been silent for {silent_for:.1?}")
            }
            KnownLeader::NoneFor(lacks_for) => format!("nobody has led for {lacks_for:.1?}"),
        };
        let unled = format!("no leader has said anything for {unled_for:.1?}");
        finding(format!(
            "it wants memory, {why}, {unled}, and it has asked nobody for {idle_for:.1?}"
        ))
    }
}

/// A leader that would advise somebody who is connected.
#[derive(Clone, Copy, Debug)]
pub(in crate::cluster) struct SilentLeader {
    pub(in crate::cluster) term: Term,
    /// For how long it has advised nobody, though it would.
    pub(in crate::cluster) idle_for: Duration,
}

impl SilentLeader {
    /// Returns what is wrong with its silence.
    pub(in crate::cluster) fn check(self) -> Option<Finding> {
        let SilentLeader { term, idle_for } = self;
        match idle_for <= ADVISES_WITHIN {
            true => None,
            false => finding(format!(
                "it leads in term {} and has had advice to give for {idle_for:.1?}, and gives none",
                term.0
            )),
        }
    }
}

/// How things are with an election.
#[derive(Clone, Copy, Debug)]
pub(in crate::cluster) struct ElectionState {
    /// Whether a node leads that is not stopped.
    pub(in crate::cluster) leader: Option<NodeNumber>,
    /// Since when etcd serves. `None` if it does not.
    pub(in crate::cluster) serving_since: Option<VirtualInstant>,
    /// A node that runs, is not stopped, and reaches etcd.
    pub(in crate::cluster) candidate: Option<NodeNumber>,
    /// How often somebody began to lead.
    pub(in crate::cluster) elections: u64,
}

/// Remembers since when nobody leads.
#[derive(Debug, Default)]
pub(in crate::cluster) struct ElectionJudge {
    vacant_since: Option<VirtualInstant>,
    elections: u64,
}

impl ElectionJudge {
    /// Takes note of how things are now. Returns what is wrong.
    pub(in crate::cluster) fn look(
        &mut self,
        now: VirtualInstant,
        state: ElectionState,
    ) -> Option<Finding> {
        // Who led for a moment between two looks has led.
        if std::mem::replace(&mut self.elections, state.elections) != state.elections {
            self.vacant_since = None;
        }
        let ElectionState {
            leader: None,
            serving_since: Some(serving_since),
            candidate: Some(_),
            ..
        } = state
        else {
            self.vacant_since = None;
            return None;
        };
        let since = *self.vacant_since.get_or_insert(now);
        let vacant_for = now.since(since.max(serving_since));
        match vacant_for > ELECTS_WITHIN {
            true => finding(format!("etcd serves, and nobody has led for {vacant_for}")),
            false => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_of_another_or_of_a_lower_term_is_not_followed() {
        let good = ObeyedLeader {
            from: NodeNumber(1),
            term: Term(7),
            leader: Some(NodeNumber(1)),
            highest: Term(7),
        };
        assert_eq!(good.check(), None);
        let wrongs = [
            ObeyedLeader {
                term: Term(6),
                ..good
            },
            ObeyedLeader {
                from: NodeNumber(2),
                ..good
            },
            ObeyedLeader {
                leader: None,
                ..good
            },
        ];
        assert!(wrongs.into_iter().all(|wrong| wrong.check().is_some()));
    }

    #[test]
    fn a_borrower_waits_for_a_leader_that_speaks_and_for_no_other() {
        let secs = Duration::from_secs;
        let check = |leader, idle_for| {
            let borrower = SeekingBorrower {
                leader,
                unled_for: Duration::ZERO,
                idle_for: secs(idle_for),
            };
            borrower.check().is_some()
        };
        let silent = |silent_for| KnownLeader::SilentFor(secs(silent_for));
        let none = |lacks_for| KnownLeader::NoneFor(secs(lacks_for));
        assert!(!check(silent(14), 100) && !check(silent(21), 100) && !check(silent(100), 6));
        assert!(check(silent(22), 22) && check(none(7), 7));
        assert!(!check(none(100), 6) && !check(none(6), 100));
        let unled = |unled_for, idle_for| {
            let borrower = SeekingBorrower {
                leader: silent(5),
                unled_for: secs(unled_for),
                idle_for: secs(idle_for),
            };
            borrower.check().is_some()
        };
        assert!(unled(22, 22) && !unled(100, 21) && !unled(21, 100));
    }

    #[test]
    fn nobody_leads_for_a_quarter_of_a_minute_at_most_while_etcd_serves() {
        let at = |secs| VirtualInstant::START + VirtualDuration::secs(secs);
        let vacant = ElectionState {
            leader: None,
            serving_since: Some(at(10)),
            candidate: Some(NodeNumber(0)),
            elections: 3,
        };
        let mut judge = ElectionJudge::default();
        assert_eq!(judge.look(at(5), vacant), None);
        assert_eq!(judge.look(at(25), vacant), None);
        assert!(judge.look(at(26), vacant).is_some());
        let is_led = ElectionState {
            leader: Some(NodeNumber(1)),
            ..vacant
        };
        for other in [
            is_led,
            ElectionState {
                serving_since: None,
                ..vacant
            },
            ElectionState {
                candidate: None,
                ..vacant
            },
        ] {
            assert_eq!(judge.look(at(30), other), None);
            assert_eq!(judge.look(at(31), vacant), None);
            assert_eq!(judge.look(at(46), vacant), None);
            assert!(judge.look(at(47), vacant).is_some());
        }
        let elected = ElectionState {
            elections: 4,
            ..vacant
        };
        assert_eq!(judge.look(at(50), elected), None);
    }

    #[test]
    fn a_leader_that_has_advice_gives_it() {
        let is_wrong = |idle_for| {
            let term = Term(3);
            SilentLeader { term, idle_for }.check().is_some()
        };
        let moment = Duration::from_millis(1);
        assert!(!is_wrong(ADVISES_WITHIN) && is_wrong(ADVISES_WITHIN + moment));
    }
}
