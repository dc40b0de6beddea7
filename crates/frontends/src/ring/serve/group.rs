//! What the connections of a tenant's rings share.

use std::sync::Arc;

use sublet_types::TenantId;

use crate::doors::{Lobby, WhenFull};
use crate::ring::metrics::Figures;
use crate::ring::{Names, Restored, Settings};
use crate::serving::{Admissions, Admits};

/// A listener's tenant, and what its connections share.
#[derive(Debug)]
pub struct Group {
    /// For whom they act.
    pub tenant: TenantId,
    /// What they are granted.
    pub settings: Settings,
    /// What they count.
    pub figures: Figures,
    /// The shared pools that they have joined.
    pub names: Names,
    /// Pools from a save file that wait for their program.
    pub restored: Restored,
    pub(super) lobby: Arc<Lobby>,
}

impl Group {
    /// Connections that act for `tenant`, none yet.
    pub fn new(tenant: TenantId, settings: Settings) -> Group {
        Group {
            lobby: Lobby::new(
                settings.connections_max as usize,
                settings.silence_max,
                WhenFull::Waits,
            ),
            tenant,
            settings,
            figures: Figures::default(),
            names: Names::default(),
            restored: Restored::default(),
        }
    }
}

impl Admits for Group {
    fn lobby(&self) -> &Arc<Lobby> {
        &self.lobby
    }

    fn admissions(&self) -> Admissions<'_> {
        Admissions {
            open: &self.figures.connections,
            made: &self.figures.connections_made,
            refused: &self.figures.refused_full,
            gave_way: None,
        }
    }
}
