//! The admin interface's routes for save files.

use std::path::Path as FilePath;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::middleware::from_fn;
use axum::response::IntoResponse;
use axum::routing::{delete, post};
use axum::{Extension, Router};
use sublet_client::messages::{RestoreFile, SaveFile, SetFrozen};
use sublet_types::FreezeState;

use super::file_calls::run_file_call;
use super::http_error::HttpError;
use super::long_calls::without_deadline;
use super::replies::{DaemonState, parse_body, parse_tenant_name};
use crate::daemon::Daemon;
use crate::observe::events::Actor;

/// All routes for save files.
pub(super) fn routes() -> Router<Arc<Daemon>> {
    Router::new()
        .route("/v1/tenants/{name}/freeze", post(freeze))
        .route(
            "/v1/tenants/{name}/save",
            post(save).layer(from_fn(without_deadline)),
        )
        .route(
            "/v1/tenants/{name}/restore",
            post(restore).layer(from_fn(without_deadline)),
        )
        .route("/v1/tenants/{name}/restored", delete(discard))
}

async fn freeze(
    State(daemon): DaemonState,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let (name, freeze) = (parse_tenant_name(&name)?, parse_body::<SetFrozen>(body)?);
    let state = FreezeState::from(freeze.frozen);
    run_file_call(move || daemon.set_freeze_state(&name, state, by)).await
}

async fn save(
    State(daemon): DaemonState,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let (name, asked) = (parse_tenant_name(&name)?, parse_body::<SaveFile>(body)?);
    run_file_call(move || daemon.save_tenant(&name, FilePath::new(&asked.file), by)).await
}

async fn restore(
    State(daemon): DaemonState,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let (name, asked) = (parse_tenant_name(&name)?, parse_body::<RestoreFile>(body)?);
    run_file_call(move || daemon.restore_tenant(&name, &asked, by)).await
}

async fn discard(
    State(daemon): DaemonState,
    Path(name): Path<String>,
) -> Result<impl IntoResponse, HttpError> {
    let name = parse_tenant_name(&name)?;
    run_file_call(move || daemon.discard_restored(&name)).await
}
