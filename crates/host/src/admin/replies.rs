//! How a call's body is read, and what the answer is if the call is refused: whose fault that is, and what to do.

use std::error::Error;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use sublet_client::messages::REQUEST_BYTES_MAX;
use sublet_store::{PutRefused, RestoreError};
use sublet_types::{TenantName, explain_serde};

use super::http_error::HttpError;
use crate::daemon::{Daemon, RequestError, SaveError, WhatIfError};
use crate::disk::{BackingError, DiskError};
use crate::headroom::ReleaseOrderError;
use crate::tenants::TenantsError;

pub(super) type DaemonState = State<Arc<Daemon>>;

/// An answer in JSON, written on the calling thread.
pub(super) fn in_json(answer: &impl Serialize) -> Response {
    Json(answer).into_response()
}

impl From<RequestError> for HttpError {
    fn from(declined: RequestError) -> HttpError {
        let (status, hint) = match &declined {
            RequestError::Tenant(error) => tenant_error_reply(error),
            RequestError::Membership(_) => (
                StatusCode::CONFLICT,
                "mend the files that [peers] names for etcd, then join again".into(),
            ),
            RequestError::NoPeers => (
                StatusCode::CONFLICT,
                "docs/config.md describes [peers], [lend] and [borrow]; set them and restart".into(),
            ),
            RequestError::Hold | RequestError::DrainNotice | RequestError::Amount(_) => {
                (StatusCode::UNPROCESSABLE_ENTITY, NOTHING_CHANGED.into())
            }
            RequestError::Policy(_) => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "`sublet policy list` shows all policies; `sublet policy show NAME` shows the knobs of one"
                    .into(),
            ),
            RequestError::WhatIf(why) => (StatusCode::UNPROCESSABLE_ENTITY, what_if_hint(why)),
            RequestError::DiskAsked(_) => (
                StatusCode::BAD_REQUEST,
                "docs/config.md lists all keys of a disk".into(),
            ),
            RequestError::TooManyDisks => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "remove a disk that nobody needs; `sublet disk list` shows all disks".into(),
            ),
            RequestError::Disk(error) => disk_error_reply(error),
            RequestError::Save(error) => save_error_reply(error),
            RequestError::Persist(_) => (StatusCode::INTERNAL_SERVER_ERROR, NOT_KEPT.into()),
            RequestError::Order(ReleaseOrderError::Ended) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "start it again: sublet serve".into(),
            ),
            RequestError::Order(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "wait for the others and try again".into(),
            ),
        };
        HttpError::new(status, &declined, hint)
    }
}

const NOTHING_CHANGED: &str = "nothing was changed; try again with other values";

const NOT_KEPT: &str = "with --temporary it is not written down";

/// Whose fault the error is, and what to do beside what the error says.
fn tenant_error_reply(error: &TenantsError) -> (StatusCode, String) {
    let (status, hint) = match error {
        TenantsError::Unknown(_) => (
            StatusCode::NOT_FOUND,
            "`sublet tenants list` shows them all",
        ),
        TenantsError::InUse { name, .. } => {
            let hint = format!(
                "end that first; `sublet tenants show {name}` and `sublet disk list` show it"
            );
            return (StatusCode::CONFLICT, hint);
        }
        TenantsError::Store { .. }
        | TenantsError::Floor { .. }
        | TenantsError::Floors { .. }
        | TenantsError::Weight
        | TenantsError::BelowBlock { .. } => (StatusCode::UNPROCESSABLE_ENTITY, NOTHING_CHANGED),
        TenantsError::Persist(_) => (StatusCode::INTERNAL_SERVER_ERROR, NOT_KEPT),
        TenantsError::AddingHangs => (
            StatusCode::SERVICE_UNAVAILABLE,
            "check the file systems of disks and of the state folder, then try again",
        ),
    };
    (status, hint.to_owned())
}

/// What to do if a what-if question has no answer.
fn what_if_hint(why: &WhatIfError) -> String {
    match why {
        WhatIfError::NoQuestion | WhatIfError::NotAFraction(_) => {
            "ask ?tenant=NAME&hits=0.95, ?tenant=NAME&memory=BYTES or ?policy=NAME&knobs=KNOB=VALUE"
                .into()
        }
        WhatIfError::NotMeasured(_) => {
            "ask again when the tenant has been in use for a minute or two".into()
        }
        WhatIfError::OutOfReach { .. } => {
            "what clients never ask for twice is never a hit; ask for fewer hits".into()
        }
        WhatIfError::Ceiling { tenant, .. } => {
            format!("sublet tenants set {tenant} --ceiling AMOUNT raises it")
        }
        WhatIfError::NoRoom { .. } => "lower others' floors, or give the arena more memory".into(),
    }
}

/// Whose fault the error is, and what to do beside what the error says.
fn disk_error_reply(error: &DiskError) -> (StatusCode, String) {
    match error {
        DiskError::NoDisk(_) => (
            StatusCode::NOT_FOUND,
            "`sublet disk list` shows them all".into(),
        ),
        DiskError::Exists(_)
        | DiskError::Open(_)
        | DiskError::Busy(_)
        | DiskError::OfAnother { .. }
        | DiskError::OfNobody(_)
        | DiskError::Backing(
            BackingError::InUse(_) | BackingError::Shared { .. } | BackingError::Stuck { .. },
        ) => (StatusCode::CONFLICT, String::new()),
        DiskError::Garbled { name, .. } | DiskError::Lost(name) => (
            StatusCode::CONFLICT,
            format!(
                "sublet disk open {name} --force; or, where `sublet disk list` does not show it: sublet disk remove {name}, and add it"
            ),
        ),
        DiskError::Vanished { name, .. }
        | DiskError::Replaced { name, .. }
        | DiskError::OutOfReach(name) => (
            StatusCode::CONFLICT,
            format!("once that is mended: sublet disk open {name}"),
        ),
        DiskError::Silent { name } => (
            StatusCode::CONFLICT,
            format!(
                "mend its backing, or remove the disk all the same: sublet disk remove {name} --force"
            ),
        ),
        DiskError::Closed { name, .. } => (
            StatusCode::UNPROCESSABLE_ENTITY,
            format!("mend that, then: sublet disk open {name}"),
        ),
        DiskError::NotAllowed { .. }
        | DiskError::NoFolder { .. }
        | DiskError::ImageExists(_)
        | DiskError::NoImageSize(_) => image_error_reply(error),
        DiskError::Failed { .. } => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "memory still has what the backing could not take".into(),
        ),
        DiskError::Unwritten { name, .. } => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("mend its backing, or give them up: sublet disk remove {name} --force"),
        ),
        DiskError::Stranded { name, .. } => (
            StatusCode::CONFLICT,
            format!(
                "add it with that backing and they are written; or give them up: sublet disk remove {name} --force; or choose another name"
            ),
        ),
        DiskError::LeftByAnother { name, owner, .. } => (
            StatusCode::CONFLICT,
            format!(
                "give the disk to tenant {owner} and they are written; or give them up: sublet disk open {name} --force, or, where `sublet disk list` does not show it: sublet disk remove {name} --force; or choose another name"
            ),
        ),
        DiskError::LeftBehind { name, .. } => (
            StatusCode::CONFLICT,
            format!(
                "add it again with the same name, tenant and backing and they are written; or give them up: sublet disk remove {name} --force"
            ),
        ),
        _ => (StatusCode::UNPROCESSABLE_ENTITY, String::new()),
    }
}

/// The same for the place of an image.
fn image_error_reply(error: &DiskError) -> (StatusCode, String) {
    let (status, hint) = match error {
        DiskError::NoFolder { .. } => (
            StatusCode::UNPROCESSABLE_ENTITY,
            "make the folder, or name another place: --backing; `sublet disk allow FOLDER` allows backings there",
        ),
        DiskError::ImageExists(_) => (
            StatusCode::CONFLICT,
            "serve it as it is: sublet disk add --backing; or name another file",
        ),
        DiskError::NoImageSize(_) => (StatusCode::BAD_REQUEST, "give its size, such as 20GiB"),
        _ => (
            StatusCode::FORBIDDEN,
            "allow its folder, on the daemon's host: sublet disk allow FOLDER",
        ),
    };
    (status, hint.to_owned())
}

/// Reads a body in JSON. Its faults are answered in JSON, too.
pub(super) fn parse_body<T: DeserializeOwned>(
    body: Result<Bytes, BytesRejection>,
) -> Result<T, HttpError> {
    let too_much = |rejection: BytesRejection| {
        HttpError::new(
            rejection.status(),
            rejection.body_text(),
            format!("at most {REQUEST_BYTES_MAX} bytes"),
        )
    };
    let body = body.map_err(too_much)?;
    // serde would take a list for the values of an object's keys, in their order.
    if body.trim_ascii_start().starts_with(b"[") {
        return Err(HttpError::new(
            StatusCode::BAD_REQUEST,
            "the body is a list and should be an object, {…}",
            "docs/admin.md describes what can be said",
        ));
    }
    serde_json::from_slice(&body).map_err(|error| {
        HttpError::new(
            StatusCode::BAD_REQUEST,
            describe_json_error(&error),
            "docs/admin.md describes what can be said",
        )
    })
}

/// What is wrong with a body, and where.
fn describe_json_error(error: &serde_json::Error) -> String {
    let at = format!("line {}, column {}", error.line(), error.column());
    match error.classify() {
        Category::Io | Category::Eof => "the body ends before its JSON does".to_owned(),
        Category::Syntax => format!("the body is no JSON at {at}"),
        Category::Data => format!("{}, at {at} of the body", explain_serde(&error.to_string())),
    }
}

/// What is wrong with a query string, and at which key.
pub(super) fn describe_query_error(rejection: &QueryRejection) -> String {
    let Some(cause) = rejection.source() else {
        return rejection.body_text();
    };
    let said = cause.to_string();
    let is_key = |key: &str| key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    match said.split_once(": ") {
        Some((key, said)) if is_key(key) => match explain_serde(said) {
            told if told.contains(&format!("`{key}`")) => told,
            told => format!("`{key}`: {told}"),
        },
        _ => explain_serde(&said),
    }
}

pub(super) fn parse_tenant_name(name: &str) -> Result<TenantName, HttpError> {
    name.parse().map_err(|e| {
        HttpError::new(
            StatusCode::BAD_REQUEST,
            e,
            "`sublet tenants list` shows them all",
        )
    })
}

/// The answer if the daemon ends before a call has its answer.
pub(super) fn daemon_ending() -> HttpError {
    RequestError::Order(ReleaseOrderError::Ended).into()
}

/// Whose fault the error is, and what to do beside what the error says.
pub(super) fn save_error_reply(error: &SaveError) -> (StatusCode, String) {
    match error {
        SaveError::Frozen(name) => (StatusCode::CONFLICT, format!("sublet tenants thaw {name}")),
        SaveError::Waiting { name, .. } => (
            StatusCode::CONFLICT,
            format!("start it, or end them: sublet tenants discard {name}"),
        ),
        _ => {
            let (status, hint) = general_save_error_reply(error);
            (status, hint.to_owned())
        }
    }
}

fn general_save_error_reply(error: &SaveError) -> (StatusCode, &'static str) {
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
        SaveError::Refused { source, .. } => (WRONG, restore_error_hint(source)),
    }
}

fn restore_error_hint(error: &RestoreError) -> &'static str {
    match error {
        RestoreError::NoPlace(PutRefused::SpillFull) => {
            "nothing was restored; raise spill_size in the config and restart"
        }
        RestoreError::NoPlace(_) => "nothing was restored; give the tenant more memory",
        _ => "nothing was restored",
    }
}
