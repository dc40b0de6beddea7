//! What can be asked about disks.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use sublet_client::messages::{
    AddDisk, AllowFolder, Disks, OpenDisk, RemoveDisk, ResizeDisk, Status, VERSION,
};
use sublet_types::DiskName;

use super::file_calls::with_files;
use super::http_error::HttpError;
use super::long_calls::unhurried;
use super::looks::Looks;
use super::replies::{Shared, fault_of_query, heard, in_json};
use crate::daemon::Daemon;
use crate::observe::events::Actor;

/// Where folders for backings are asked for and allowed.
pub(super) const FOLDERS: &str = "/v1/disk-folders";

/// Everything about disks.
pub(super) fn routes() -> Router<Arc<Daemon>> {
    Router::new()
        .route("/v1/disks", get(disks).post(add))
        .route(
            "/v1/disks/{name}",
            get(show).delete(remove).layer(from_fn(unhurried)),
        )
        .route(
            FOLDERS,
            get(async |State(d): Shared| Json(d.disk_folders())).post(allow),
        )
        .route("/v1/disks/{name}/open", post(open))
        .route("/v1/disks/{name}/resize", post(resize))
        .route(
            "/v1/disks/{name}/flush",
            post(flush).layer(from_fn(unhurried)),
        )
}

fn named(name: &str) -> Result<DiskName, HttpError> {
    name.parse().map_err(|e| {
        HttpError::new(
            StatusCode::BAD_REQUEST,
            e,
            "`sublet disk list` shows them all",
        )
    })
}

async fn disks(
    Extension(looks): Extension<Looks>,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    let disks = |status: &Status| Disks {
        version: VERSION,
        disks: status.disks.clone(),
        left_behind: status.left_behind.clone(),
    };
    looks
        .show(&headers, move |_, status| in_json(&disks(status)))
        .await
}

async fn show(
    State(daemon): Shared,
    Path(name): Path<String>,
) -> Result<impl IntoResponse, HttpError> {
    Ok(Json(daemon.disk(&named(&name)?)?))
}

async fn add(
    State(daemon): Shared,
    Extension(by): Extension<Actor>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let disk = heard::<AddDisk>(body)?;
    with_files(move || daemon.add_disk(&disk, by)).await
}

async fn allow(
    State(daemon): Shared,
    Extension(by): Extension<Actor>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let folder = heard::<AllowFolder>(body)?;
    with_files(move || daemon.allow_folder(&folder, by)).await
}

async fn remove(
    State(daemon): Shared,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
    how: Result<Query<RemoveDisk>, QueryRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let wrong = |rejection: QueryRejection| {
        let hint = "say ?lasts=always or ?lasts=until-restart, and &force=true to give pages up, and &delete=true";
        HttpError::new(StatusCode::BAD_REQUEST, fault_of_query(&rejection), hint)
    };
    let (name, Query(how)) = (named(&name)?, how.map_err(wrong)?);
    with_files(move || daemon.remove_disk(&name, how, by)).await
}

async fn open(
    State(daemon): Shared,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
    how: Result<Query<OpenDisk>, QueryRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let wrong = |rejection: QueryRejection| {
        let hint = "say ?force=true to open it although pages of it are lost, or nothing";
        HttpError::new(StatusCode::BAD_REQUEST, fault_of_query(&rejection), hint)
    };
    let (name, Query(how)) = (named(&name)?, how.map_err(wrong)?);
    with_files(move || daemon.open_disk(&name, how, by)).await
}

async fn resize(
    State(daemon): Shared,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let (name, size) = (named(&name)?, heard::<ResizeDisk>(body)?);
    with_files(move || daemon.resize_disk(&name, &size, by)).await
}

async fn flush(
    State(daemon): Shared,
    Path(name): Path<String>,
) -> Result<impl IntoResponse, HttpError> {
    let name = named(&name)?;
    with_files(move || daemon.flush_disk(&name)).await
}
