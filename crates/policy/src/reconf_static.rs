//! `reconf-static`: an equal share for each tenant that has ever put (SmarTmem §III-E.2).
//!
//! ```text
//! Algorithm 3   num_active_vms ← VMs with cumul_puts_failed > 0
//!               mm_target ← local_tmem / num_active_vms, for every VM
//! ```
//!
//! The code follows the text where the pseudo-code slips.
//!
//! - The pseudo-code hands the share to inactive VMs, too, which makes more than there is. Here they have none,
//!   "initially allocating no tmem capacity to any VM".
//! - It divides by zero while nobody is active.
//! - It asks for a *failed* put where the text asks for "at least one tmem *put*". With a target of zero the first put
//!   fails in any case, but a tenant that put under another policy need not fail anew.

use sublet_types::{Snapshot, TenantSnapshot};

use crate::decide::Policy;
use crate::decision::Proposal;
use crate::explain::Reason;
use crate::static_alloc::equal;

/// The policy that gives the same to every tenant that has put at least once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReconfStaticPolicy;

impl Policy for ReconfStaticPolicy {
    fn propose(&mut self, snapshot: &Snapshot) -> Vec<Proposal> {
        let active = snapshot.tenants.iter().filter(|tenant| is_active(tenant));
        let shares = equal(snapshot.total.0, active.map(|tenant| tenant.id));
        let reason = Reason::ActiveShare {
            active: shares.len() as u64,
            tenants: snapshot.tenants.len() as u64,
        };
        let mut shares = shares.into_iter();
        let propose = |tenant: &TenantSnapshot| match is_active(tenant) {
            true => Proposal::of(shares.next().unwrap_or_default(), reason),
            false => Proposal::of(0, Reason::Inactive),
        };
        snapshot.tenants.iter().map(propose).collect()
    }
}

/// "Every VM that *puts* at least once", and for the rest of its life.
fn is_active(tenant: &TenantSnapshot) -> bool {
    tenant.puts_ever > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{pages, snapshot, tenant};
    use sublet_types::Pages;

    fn put(id: u16, puts_ever: u64) -> TenantSnapshot {
        TenantSnapshot {
            puts_ever,
            ..tenant(id)
        }
    }

    #[test]
    fn nobody_has_anything_before_the_first_put() {
        let decision = ReconfStaticPolicy.decide(&snapshot(1000, vec![tenant(1), tenant(2)]));
        assert_eq!(pages(&decision), [0, 0]);
        assert_eq!(decision.targets.unassigned, Pages(1000));
        assert_eq!(decision.explanations[0].reason, Reason::Inactive);
    }

    #[test]
    fn algorithm_3_divides_among_the_active_only() {
        let tenants = vec![put(1, 1), put(2, 0), put(3, 70), put(4, 2)];
        let decision = ReconfStaticPolicy.decide(&snapshot(1000, tenants));
        assert_eq!(pages(&decision), [334, 0, 333, 333]);
        assert_eq!(
            decision.explanations[2].reason,
            Reason::ActiveShare {
                active: 3,
                tenants: 4
            }
        );
    }

    #[test]
    fn once_active_a_tenant_stays_so() {
        let mut policy = ReconfStaticPolicy;
        let mut quiet = put(1, 5);
        quiet.target = Some(Pages(1000));
        let decision = policy.decide(&snapshot(1000, vec![quiet, put(2, 1)]));
        assert_eq!(pages(&decision), [500, 500]);
    }
}
