//! Calls that take as long as the data they move. Their connection lasts for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Extension;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;

/// Whether a connection has such a call under way. It has one call at a time.
#[derive(Clone, Default)]
pub(super) struct LongCall(Arc<LongCallState>);

#[derive(Default)]
struct LongCallState {
    is_under_way: AtomicBool,
    /// The caller took a part of an endless answer since the last check.
    goes_on: AtomicBool,
}

impl LongCall {
    /// Returns whether the connection lasts on: until the call has its answer, or for as long as its caller reads an
    /// endless answer.
    pub(super) fn is_under_way(&self) -> bool {
        let goes_on = self.0.goes_on.swap(false, Ordering::Relaxed);
        goes_on || self.0.is_under_way.load(Ordering::Relaxed)
    }

    /// Records that the caller took another part of an endless answer.
    pub(super) fn record_progress(&self) {
        self.0.goes_on.store(true, Ordering::Relaxed);
    }

    fn begin(&self) -> LongCallGuard<'_> {
        self.0.is_under_way.store(true, Ordering::Relaxed);
        LongCallGuard(self)
    }
}

struct LongCallGuard<'a>(&'a LongCall);

impl Drop for LongCallGuard<'_> {
    fn drop(&mut self) {
        self.0.0.is_under_way.store(false, Ordering::Relaxed);
    }
}

/// Makes the connection last until the call has its answer.
pub(super) async fn without_deadline(
    Extension(call): Extension<LongCall>,
    request: Request,
    next: Next,
) -> Response {
    let _turn = call.begin();
    next.run(request).await
}
