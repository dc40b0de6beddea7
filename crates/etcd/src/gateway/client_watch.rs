//! A watch that ends when its client's credentials are renewed: etcd checked the old ones when it was opened.

use std::sync::Arc;

use tokio::sync::watch::Receiver;

use crate::store::{Change, Revision, StoreWatch, WatchEnd};

use super::connections::GatewayConnections;
use super::gateway_watch::GatewayWatch;

/// An open watch of a client.
pub struct ClientWatch {
    watch: GatewayWatch,
    /// The client's connections. It has seen those over which the watch was opened.
    connections: Receiver<Arc<GatewayConnections>>,
}

impl ClientWatch {
    pub(super) fn new(
        watch: GatewayWatch,
        connections: Receiver<Arc<GatewayConnections>>,
    ) -> ClientWatch {
        ClientWatch { watch, connections }
    }
}

impl StoreWatch for ClientWatch {
    fn opened_at(&self) -> Revision {
        self.watch.opened_at()
    }

    async fn next(&mut self) -> Result<Vec<Change>, WatchEnd> {
        tokio::select! {
            told = self.watch.next() => told,
            // A client that is gone renews nothing.
            Ok(()) = self.connections.changed() => Err(WatchEnd::Renewed),
        }
    }
}
