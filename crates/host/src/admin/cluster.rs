//! The admin interface's routes for the host's place in its cluster.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::response::{IntoResponse, Json};
use axum::routing::{get, post};
use axum::{Extension, Router};
use sublet_client::messages::{JoinCluster, LeaveCluster};

use super::file_calls::run_file_call;
use super::http_error::HttpError;
use super::replies::{DaemonState, parse_body};
use crate::daemon::Daemon;
use crate::observe::events::Actor;

/// All routes for the cluster.
pub(super) fn routes() -> Router<Arc<Daemon>> {
    Router::new()
        .route("/v1/cluster", get(status))
        .route("/v1/cluster/plan", get(plan))
        .route("/v1/cluster/leave", post(leave))
        .route("/v1/cluster/join", post(join))
}

async fn status(State(daemon): DaemonState) -> Result<impl IntoResponse, HttpError> {
    run_file_call(move || daemon.cluster_status()).await
}

async fn plan(State(daemon): DaemonState) -> Result<impl IntoResponse, HttpError> {
    Ok(Json(daemon.cluster_plan()?))
}

async fn leave(
    State(daemon): DaemonState,
    Extension(by): Extension<Actor>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let leave = parse_body::<LeaveCluster>(body)?;
    run_file_call(move || daemon.leave_cluster(&leave, by)).await
}

async fn join(
    State(daemon): DaemonState,
    Extension(by): Extension<Actor>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let join = parse_body::<JoinCluster>(body)?;
    run_file_call(move || daemon.join_cluster(&join, by)).await
}
