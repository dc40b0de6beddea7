//! What the connections of a listener share.

use std::sync::Arc;

use crate::listeners::{ConnectionLimiter, TlsCertificates, WhenFull};
use crate::nbd::metrics::NbdFigures;
use crate::nbd::{Exports, Settings};
use crate::serving::{ConnectionFigures, ConnectionGroup};

/// A listener's disks, and what its connections share.
pub struct Group {
    /// The disks that clients may ask for.
    pub exports: Arc<Exports>,
    /// What the connections are granted.
    pub settings: Settings,
    /// The listener's certificates. If there are any, the session tells a client nothing without TLS.
    pub tls: Option<Arc<TlsCertificates>>,
    /// What the connections count.
    pub figures: NbdFigures,
    pub(super) limiter: Arc<ConnectionLimiter>,
}

impl Group {
    /// A group that serves these disks and has no connection yet.
    pub fn new(
        exports: Arc<Exports>,
        settings: Settings,
        tls: Option<Arc<TlsCertificates>>,
    ) -> Group {
        Group {
            limiter: ConnectionLimiter::new(
                settings.connections_max as usize,
                settings.silence_max,
                WhenFull::Waits,
            ),
            exports,
            settings,
            tls,
            figures: NbdFigures::default(),
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
            displaced: Some(&self.figures.ended_late),
        }
    }
}
