//! What the connections of a listener share.

use std::sync::Arc;

use crate::doors::{Lobby, Tls, WhenFull};
use crate::nbd::metrics::Figures;
use crate::nbd::{Exports, Settings};
use crate::serving::{Admissions, Admits};

/// A listener's disks, and what its connections share.
pub struct Group {
    /// What may be asked for.
    pub exports: Arc<Exports>,
    /// What its connections are granted.
    pub settings: Settings,
    /// Where there is some, nothing is told without it.
    pub tls: Option<Arc<Tls>>,
    /// What they count.
    pub figures: Figures,
    pub(super) lobby: Arc<Lobby>,
}

impl Group {
    /// Connections to these disks, none yet.
    pub fn new(exports: Arc<Exports>, settings: Settings, tls: Option<Arc<Tls>>) -> Group {
        Group {
            lobby: Lobby::new(
                settings.connections_max as usize,
                settings.silence_max,
                WhenFull::Waits,
            ),
            exports,
            settings,
            tls,
            figures: Figures::default(),
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
            gave_way: Some(&self.figures.ended_late),
        }
    }
}
