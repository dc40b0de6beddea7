//! Whether a read was overtaken: its page has left its place, and the place may have another by now.

use std::fmt;
use std::sync::Arc;

use sublet_store::{AwayTicket, Store};

/// Asks the store whether tickets still name what is at their places.
#[derive(Clone)]
pub struct TicketCheck(Arc<Store>);

impl TicketCheck {
    /// A check of the tickets of a store.
    pub fn new(store: Arc<Store>) -> TicketCheck {
        TicketCheck(store)
    }

    /// Returns whether the lender must have the version of the page that a ticket names.
    pub(super) fn is_current(&self, ticket: &AwayTicket) -> bool {
        self.0.is_current(ticket)
    }
}

impl fmt::Debug for TicketCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketCheck")
    }
}
