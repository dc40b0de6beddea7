//! Calls that take as long as what they move: a connection lasts for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Extension;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;

/// Whether a connection has such a call under way. It has one call at a time.
#[derive(Clone, Default)]
pub(super) struct LongCall(Arc<AtomicBool>);

impl LongCall {
    pub(super) fn is_under_way(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn begin(&self) -> Turn<'_> {
        self.0.store(true, Ordering::Relaxed);
        Turn(self)
    }
}

struct Turn<'a>(&'a LongCall);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Relaxed);
    }
}

/// Has the connection last until the call has its answer.
pub(super) async fn unhurried(
    Extension(call): Extension<LongCall>,
    request: Request,
    next: Next,
) -> Response {
    let _turn = call.begin();
    next.run(request).await
}
