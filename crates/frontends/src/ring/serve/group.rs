//! What the connections of a tenant's rings share.

use std::sync::Arc;

use sublet_types::TenantId;

use crate::listeners::{ConnectionLimiter, WhenFull};
use crate::ring::metrics::RingFigures;
use crate::ring::{JoinedPools, Settings, UnclaimedPools};
use crate::serving::{ConnectionFigures, ConnectionGroup};

/// A listener's tenant, and what its connections share.
#[derive(Debug)]
pub struct Group {
    /// The tenant whose memory the connections use.
    pub tenant: TenantId,
    /// What the connections are granted.
    pub settings: Settings,
    /// What the connections count.
    pub figures: RingFigures,
    /// The shared pools that the connections have joined.
    pub joined_pools: JoinedPools,
    /// Pools from a save file that wait for their program.
    pub unclaimed_pools: UnclaimedPools,
    pub(super) limiter: Arc<ConnectionLimiter>,
}

impl Group {
    /// A group for `tenant` that has no connection yet.
    pub fn new(tenant: TenantId, settings: Settings) -> Group {
        Group {
            limiter: ConnectionLimiter::new(
                settings.connections_max as usize,
                settings.silence_max,
                WhenFull::Waits,
            ),
            tenant,
            settings,
            figures: RingFigures::default(),
            joined_pools: JoinedPools::default(),
            unclaimed_pools: UnclaimedPools::default(),
        }
    }
}

impl ConnectionGroup for Group {
    fn limiter(&self) -> &Arc<ConnectionLimiter> {
        &self.limiter
    }

    fn connection_figures(&self) -> ConnectionFigures<'_> {
        ConnectionFigures {
            open: &self.figures.connections,
            made: &self.figures.connections_made,
            refused: &self.figures.refused_full,
            displaced: None,
        }
    }
}
