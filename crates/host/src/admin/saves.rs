//! What can be asked about save files.

use std::path::Path as FilePath;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::middleware::from_fn;
use axum::response::IntoResponse;
use axum::routing::{delete, post};
use axum::{Extension, Router};
use sublet_client::messages::{Freeze, RestoreFile, SaveFile};

use super::file_calls::with_files;
use super::http_error::HttpError;
use super::long_calls::unhurried;
use super::replies::{Shared, heard, named};
use crate::daemon::Daemon;
use crate::observe::events::Actor;

/// Everything about save files.
pub(super) fn routes() -> Router<Arc<Daemon>> {
    Router::new()
        .route("/v1/tenants/{name}/freeze", post(freeze))
        .route(
            "/v1/tenants/{name}/save",
            post(save).layer(from_fn(unhurried)),
        )
        .route(
            "/v1/tenants/{name}/restore",
            post(restore).layer(from_fn(unhurried)),
        )
        .route("/v1/tenants/{name}/restored", delete(discard))
}

async fn freeze(
    State(daemon): Shared,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let (name, freeze) = (named(&name)?, heard::<Freeze>(body)?);
    with_files(move || daemon.freeze_tenant(&name, freeze.frozen, by)).await
}

async fn save(
    State(daemon): Shared,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let (name, asked) = (named(&name)?, heard::<SaveFile>(body)?);
    with_files(move || daemon.save_tenant(&name, FilePath::new(&asked.file), by)).await
}

async fn restore(
    State(daemon): Shared,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let (name, asked) = (named(&name)?, heard::<RestoreFile>(body)?);
    with_files(move || daemon.restore_tenant(&name, &asked, by)).await
}

async fn discard(
    State(daemon): Shared,
    Path(name): Path<String>,
) -> Result<impl IntoResponse, HttpError> {
    let name = named(&name)?;
    with_files(move || daemon.discard_restored(&name)).await
}
