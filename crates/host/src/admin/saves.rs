//! What can be asked about save files.

use std::path::Path as FilePath;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::middleware::from_fn;
use axum::response::IntoResponse;
use axum::routing::{delete, post};
use sublet_client::messages::{Freeze, RestoreFile, SaveFile};
use sublet_store::{PutRefused, RestoreError};

use super::file_calls::with_files;
use super::long_calls::unhurried;
use super::routes::{No, Shared, heard, named};
use crate::run::{Daemon, SaveError};

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
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, No> {
    let (name, freeze) = (named(&name)?, heard::<Freeze>(body)?);
    with_files(move || daemon.freeze_tenant(&name, freeze.frozen)).await
}

async fn save(
    State(daemon): Shared,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, No> {
    let (name, asked) = (named(&name)?, heard::<SaveFile>(body)?);
    with_files(move || daemon.save_tenant(&name, FilePath::new(&asked.file))).await
}

async fn restore(
    State(daemon): Shared,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, No> {
    let (name, asked) = (named(&name)?, heard::<RestoreFile>(body)?);
    with_files(move || daemon.restore_tenant(&name, &asked)).await
}

async fn discard(State(daemon): Shared, Path(name): Path<String>) -> Result<impl IntoResponse, No> {
    let name = named(&name)?;
    with_files(move || daemon.discard_restored(&name)).await
}

/// Whose fault it is, and what to do beside what the error says.
pub(super) fn of_save(error: &SaveError) -> (StatusCode, String) {
    match error {
        SaveError::Frozen(name) => (StatusCode::CONFLICT, format!("sublet tenants thaw {name}")),
        SaveError::Waiting { name, .. } => (
            StatusCode::CONFLICT,
            format!("start it, or end them: sublet tenants discard {name}"),
        ),
        _ => {
            let (status, hint) = whoever_it_is(error);
            (status, hint.to_owned())
        }
    }
}

fn whoever_it_is(error: &SaveError) -> (StatusCode, &'static str) {
    const WRONG: StatusCode = StatusCode::UNPROCESSABLE_ENTITY;
    match error {
        SaveError::Relative(_) => (StatusCode::BAD_REQUEST, "begin it with /"),
        SaveError::Exists(_) => (StatusCode::CONFLICT, "name another, or remove it"),
        SaveError::Write { .. } => (
            WRONG,
            "no file is left; choose a folder with room that the daemon's user may write to, such as its state folder",
        ),
        SaveError::Read { .. } => (
            WRONG,
            "name a file on the daemon's host that its user may read",
        ),
        SaveError::NoFile(_) => (WRONG, "name one that `sublet tenants save` wrote"),
        SaveError::NoRing(_) => (
            WRONG,
            "give it one in the config (listen = [\"ring:PATH\"]) and restart",
        ),
        SaveError::NoSpill(_) => (
            WRONG,
            "give it one in the config (spill = \"DIR\") and restart",
        ),
        SaveError::Spill { .. } => (WRONG, "make room in the spill folder, or lower spill_size"),
        SaveError::Frozen(_) | SaveError::Waiting { .. } => (StatusCode::CONFLICT, ""),
        SaveError::Ended(_) => (
            StatusCode::CONFLICT,
            "no file is left; save it while its programs keep their rings open",
        ),
        SaveError::Busy(_) => (StatusCode::CONFLICT, "wait for its end: sublet status"),
        SaveError::TooManyWorkers(_) => (StatusCode::SERVICE_UNAVAILABLE, "try again"),
        SaveError::Refused { source, .. } => (WRONG, of_content(source)),
    }
}

fn of_content(error: &RestoreError) -> &'static str {
    match error {
        RestoreError::NoPlace(PutRefused::SpillFull) => {
            "nothing was restored; raise spill_size in the config and restart"
        }
        RestoreError::NoPlace(_) => "nothing was restored; give the tenant more memory",
        _ => "nothing was restored",
    }
}
