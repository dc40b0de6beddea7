//! Calls that take as long as what they move: a connection lasts for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Extension;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;

/// Whether a connection has such a call under way. It has one call at a time.
#[derive(Clone, Default)]
pub(super) struct LongCall(Arc<Progress>);

#[derive(Default)]
struct Progress {
    is_under_way: AtomicBool,
    /// A part of an answer without end was taken since the last look.
    goes_on: AtomicBool,
}

impl LongCall {
    /// Whether it lasts on: until it has its answer, or for as long as its caller reads an answer without end.
    pub(super) fn is_under_way(&self) -> bool {
        let goes_on = self.0.goes_on.swap(false, Ordering::Relaxed);
        goes_on || self.0.is_under_way.load(Ordering::Relaxed)
    }

    /// Its caller takes another part of an answer without end.
    pub(super) fn goes_on(&self) {
        self.0.goes_on.store(true, Ordering::Relaxed);
    }

    fn begin(&self) -> Turn<'_> {
        self.0.is_under_way.store(true, Ordering::Relaxed);
        Turn(self)
    }
}

struct Turn<'a>(&'a LongCall);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.0.is_under_way.store(false, Ordering::Relaxed);
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
