//! The admin interface's routes for lending between hosts.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::response::{IntoResponse, Json};
use axum::routing::{get, post};
use axum::{Extension, Router};
use sublet_client::messages::{DrainLending, ResumeLending};

use super::file_calls::run_file_call;
use super::http_error::HttpError;
use super::replies::{DaemonState, parse_body};
use crate::daemon::Daemon;
use crate::observe::events::Actor;

/// All routes for lending.
pub(super) fn routes() -> Router<Arc<Daemon>> {
    Router::new()
        .route("/v1/lend", get(status))
        .route("/v1/lend/leases", get(leases))
        .route("/v1/lend/drain", post(drain))
        .route("/v1/lend/resume", post(resume))
        .route("/v1/lend/recall", post(recall))
}

async fn status(State(daemon): DaemonState) -> Result<impl IntoResponse, HttpError> {
    Ok(Json(daemon.lend_status()?))
}

async fn leases(State(daemon): DaemonState) -> Result<impl IntoResponse, HttpError> {
    Ok(Json(daemon.leases()?))
}

async fn drain(
    State(daemon): DaemonState,
    Extension(by): Extension<Actor>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let drain = parse_body::<DrainLending>(body)?;
    run_file_call(move || daemon.drain_lending(&drain, by)).await
}

async fn resume(
    State(daemon): DaemonState,
    Extension(by): Extension<Actor>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let resume = parse_body::<ResumeLending>(body)?;
    run_file_call(move || daemon.resume_lending(&resume, by)).await
}

async fn recall(
    State(daemon): DaemonState,
    Extension(by): Extension<Actor>,
) -> Result<impl IntoResponse, HttpError> {
    run_file_call(move || daemon.recall_lent(by)).await
}
