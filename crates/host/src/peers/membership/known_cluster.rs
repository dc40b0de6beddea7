//! What this host knows of its cluster, over all of its registrations.

use std::sync::Arc;

use parking_lot::Mutex;
use sublet_etcd::member::MemberEvent;
use sublet_policy::placement::PlacementChoice;
use sublet_types::NodeName;

use super::member_news::{ClusterNews, MemberNews};
use crate::config::LendConfig;

/// What this host knows of its cluster. One registration at a time adds to it.
#[derive(Clone, Debug)]
pub struct KnownCluster(Arc<Mutex<Known>>);

#[derive(Debug)]
struct Known {
    news: MemberNews,
    /// The number of the present registration. An earlier one may still be ending.
    registration: u64,
}

/// One registration, and what it hears.
#[derive(Debug)]
pub(super) struct Registration {
    cluster: KnownCluster,
    number: u64,
}

impl KnownCluster {
    /// Nothing is known. This host lends as `lend` says. `placement` holds until the cluster has settings.
    pub fn new(own: NodeName, lend: LendConfig, placement: PlacementChoice) -> KnownCluster {
        KnownCluster(Arc::new(Mutex::new(Known {
            news: MemberNews::new(own, lend, placement),
            registration: 0,
        })))
    }

    /// Begins a registration. Those before tell nothing more.
    pub(super) fn register_anew(&self) -> Registration {
        let mut known = self.0.lock();
        known.registration += 1;
        known.news.register_anew();
        Registration {
            cluster: self.clone(),
            number: known.registration,
        }
    }
}

impl Registration {
    /// Tells what these events come to, and returns how many other members there are. Returns `None`, and tells nothing,
    /// if another registration has begun. What is told keeps its order over registrations.
    pub(super) fn tell(
        &self,
        events: impl Iterator<Item = MemberEvent>,
        tell: &mut dyn FnMut(ClusterNews),
    ) -> Option<usize> {
        let mut known = self.cluster.0.lock();
        if known.registration != self.number {
            return None;
        }
        let mut told = ClusterNews::default();
        for event in events {
            known.news.apply(event, &mut told);
        }
        tell(told);
        Some(known.news.members())
    }
}

#[cfg(test)]
mod tests {
    use super::super::member_news::tests::lends_to_all;
    use super::*;

    #[test]
    fn a_registration_that_was_followed_by_another_tells_nothing() {
        let own = "a".parse().expect("a name");
        let known = KnownCluster::new(own, lends_to_all(), PlacementChoice::default());
        let first = known.register_anew();
        let tell = |registration: &Registration| {
            let mut notices = 0;
            let told = registration.tell([MemberEvent::Registered].into_iter(), &mut |news| {
                notices += news.notices.len();
            });
            (told.is_some(), notices)
        };
        assert_eq!(tell(&first), (true, 1));
        let second = known.register_anew();
        assert_eq!(tell(&first), (false, 0));
        assert_eq!(tell(&second), (true, 1));
    }
}
