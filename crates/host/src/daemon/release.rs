//! Memory that the owner asks back.

use std::time::Duration;

use sublet_client::messages::{ReleaseReport, ReleaseRequest, VERSION};

use super::Daemon;
use super::request_error::{HOLD_MAX, RequestError};
use crate::headroom::ReleaseOrder;
use crate::observe::events::{Actor, EventReason, EventSubject};

impl Daemon {
    /// Gives memory back to the host. The future is ready when the last block has left.
    pub async fn release(
        &self,
        request: &ReleaseRequest,
        by: Actor,
    ) -> Result<ReleaseReport, RequestError> {
        let hold = Duration::from_millis(request.hold_millis);
        if hold > HOLD_MAX {
            return Err(RequestError::Hold);
        }
        request.amount.of_a_block_or_more()?;
        let tenant = request
            .tenant
            .as_ref()
            .map(|name| self.tenants.find(name))
            .transpose()?;
        let order = ReleaseOrder {
            amount: request.amount,
            mode: request.mode,
            tenant: tenant.map(|figures| figures.id),
            hold,
            by,
        };
        let took = self.headroom.release(order).await?;
        let object = request
            .tenant
            .clone()
            .map_or(EventSubject::None, EventSubject::Tenant);
        self.events
            .post(took.event(EventReason::ByHand).to(object).by(by));
        Ok(ReleaseReport {
            version: VERSION,
            mode: took.mode,
            released: took.released.bytes,
            micros: took.time.as_micros() as u64,
            items_lost: took.released.items_lost,
            pages_lost: took.released.pages_lost.0,
            bytes_lost: took.released.bytes_lost,
            bytes_kept: took.released.bytes_kept,
            held: self.backend.store.held(),
        })
    }
}
