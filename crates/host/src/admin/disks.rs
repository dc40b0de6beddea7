//! The admin interface's routes for disks.

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
    AddDisk, AllowFolder, DiskList, OpenDiskRequest, RemoveDisk, ResizeDisk, Status, VERSION,
};
use sublet_types::DiskName;

use super::file_calls::run_file_call;
use super::http_error::HttpError;
use super::long_calls::without_deadline;
use super::replies::{DaemonState, describe_query_error, in_json, parse_body};
use super::status_snapshots::StatusSnapshots;
use crate::daemon::Daemon;
use crate::observe::events::Actor;

/// The route for the folders of backings.
pub(super) const FOLDERS: &str = "/v1/disk-folders";

/// All routes for disks.
pub(super) fn routes() -> Router<Arc<Daemon>> {
    Router::new()
        .route("/v1/disks", get(disks).post(add))
        .route(
            "/v1/disks/{name}",
            get(show).delete(remove).layer(from_fn(without_deadline)),
        )
        .route(
            FOLDERS,
            get(async |State(d): DaemonState| Json(d.disk_folders())).post(allow),
        )
        .route("/v1/disks/{name}/open", post(open))
        .route("/v1/disks/{name}/resize", post(resize))
        .route(
            "/v1/disks/{name}/flush",
            post(flush).layer(from_fn(without_deadline)),
        )
}

fn parse_disk_name(name: &str) -> Result<DiskName, HttpError> {
    name.parse().map_err(|e| {
        HttpError::new(
            StatusCode::BAD_REQUEST,
            e,
            "`sublet disk list` shows them all",
        )
    })
}

async fn disks(
    Extension(snapshots): Extension<StatusSnapshots>,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    let disks = |status: &Status| DiskList {
        version: VERSION,
        disks: status.disks.clone(),
        left_behind: status.left_behind.clone(),
    };
    snapshots
        .render(&headers, move |_, status| in_json(&disks(status)))
        .await
}

async fn show(
    State(daemon): DaemonState,
    Path(name): Path<String>,
) -> Result<impl IntoResponse, HttpError> {
    Ok(Json(daemon.disk(&parse_disk_name(&name)?)?))
}

async fn add(
    State(daemon): DaemonState,
    Extension(by): Extension<Actor>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let disk = parse_body::<AddDisk>(body)?;
    run_file_call(move || daemon.add_disk(&disk, by)).await
}

async fn allow(
    State(daemon): DaemonState,
    Extension(by): Extension<Actor>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let folder = parse_body::<AllowFolder>(body)?;
    run_file_call(move || daemon.allow_folder(&folder, by)).await
}

async fn remove(
    State(daemon): DaemonState,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
    how: Result<Query<RemoveDisk>, QueryRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let wrong = |rejection: QueryRejection| {
        let hint = "give ?lasts=always or ?lasts=until-restart, and &force=true to give pages up, and &delete=true";
        HttpError::new(
            StatusCode::BAD_REQUEST,
            describe_query_error(&rejection),
            hint,
        )
    };
    let (name, Query(how)) = (parse_disk_name(&name)?, how.map_err(wrong)?);
    run_file_call(move || daemon.remove_disk(&name, how, by)).await
}

async fn open(
    State(daemon): DaemonState,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
    how: Result<Query<OpenDiskRequest>, QueryRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let wrong = |rejection: QueryRejection| {
        let hint = "give ?force=true to open it although pages of it are lost, or nothing";
        HttpError::new(
            StatusCode::BAD_REQUEST,
            describe_query_error(&rejection),
            hint,
        )
    };
    let (name, Query(how)) = (parse_disk_name(&name)?, how.map_err(wrong)?);
    run_file_call(move || daemon.open_disk(&name, how, by)).await
}

async fn resize(
    State(daemon): DaemonState,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let (name, size) = (parse_disk_name(&name)?, parse_body::<ResizeDisk>(body)?);
    run_file_call(move || daemon.resize_disk(&name, &size, by)).await
}

async fn flush(
    State(daemon): DaemonState,
    Path(name): Path<String>,
) -> Result<impl IntoResponse, HttpError> {
    let name = parse_disk_name(&name)?;
    run_file_call(move || daemon.flush_disk(&name)).await
}
