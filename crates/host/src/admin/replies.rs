//! How a call is heard, and what is answered when it is declined: whose fault that is, and what to do.

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
use sublet_types::{TenantName, plain};

use super::http_error::HttpError;
use crate::daemon::{Daemon, Declined, NoAnswer, SaveError};
use crate::disk::{BackingError, DiskError};
use crate::headroom::OrderError;
use crate::tenants::TenantsError;

pub(super) type Shared = State<Arc<Daemon>>;

/// An answer, written on the thread that calls.
pub(super) fn in_json(answer: &impl Serialize) -> Response {
    Json(answer).into_response()
}

impl From<Declined> for HttpError {
    fn from(declined: Declined) -> HttpError {
        let (status, hint) = match &declined {
            Declined::Tenant(error) => of_tenant(error),
            Declined::Hold | Declined::Amount(_) => {
                (StatusCode::UNPROCESSABLE_ENTITY, NOTHING_CHANGED.into())
            }
            Declined::Policy(_) => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "`sublet policy list` shows them all, `sublet policy show` and a name its knobs"
                    .into(),
            ),
            Declined::WhatIf(why) => (StatusCode::UNPROCESSABLE_ENTITY, of_what_if(why)),
            Declined::DiskAsked(_) => (
                StatusCode::BAD_REQUEST,
                "docs/config.md has all that can be said of a disk".into(),
            ),
            Declined::TooManyDisks => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "remove one that nobody needs; `sublet disk list` shows them all".into(),
            ),
            Declined::Disk(error) => of_disk(error),
            Declined::Save(error) => of_save(error),
            Declined::Keep(_) => (StatusCode::INTERNAL_SERVER_ERROR, NOT_KEPT.into()),
            Declined::Order(OrderError::Ended) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "start it again: sublet serve".into(),
            ),
            Declined::Order(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "wait for the others and try again".into(),
            ),
        };
        HttpError::new(status, &declined, hint)
    }
}

const NOTHING_CHANGED: &str = "nothing was changed; say it again with other values";

const NOT_KEPT: &str = "with --temporary it is not written down";

/// Whose fault it is, and what to do beside what the error says.
fn of_tenant(error: &TenantsError) -> (StatusCode, String) {
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
        TenantsError::Keep(_) => (StatusCode::INTERNAL_SERVER_ERROR, NOT_KEPT),
        TenantsError::AddingHangs => (
            StatusCode::SERVICE_UNAVAILABLE,
            "see to the file systems of disks and of the state folder, then try again",
        ),
    };
    (status, hint.to_owned())
}

/// What to do where there is no answer to what would be.
fn of_what_if(why: &NoAnswer) -> String {
    match why {
        NoAnswer::NoQuestion | NoAnswer::NoPart(_) => {
            "ask ?tenant=NAME&hits=0.95, ?tenant=NAME&memory=BYTES or ?policy=NAME&knobs=KNOB=VALUE"
                .into()
        }
        NoAnswer::NotMeasured(_) => "ask again when it was in use for a minute or two".into(),
        NoAnswer::OutOfReach { .. } => {
            "what it never asked for twice is never a hit; ask for fewer hits".into()
        }
        NoAnswer::Ceiling { tenant, .. } => {
            format!("sublet tenants set {tenant} --ceiling AMOUNT raises it")
        }
        NoAnswer::NoRoom { .. } => "lower others' floors, or give the arena more memory".into(),
    }
}

/// Whose fault it is, and what to do beside what the error says.
fn of_disk(error: &DiskError) -> (StatusCode, String) {
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
                "mend its backing, or let the disk go all the same: sublet disk remove {name} --force"
            ),
        ),
        DiskError::Closed { name, .. } => (
            StatusCode::UNPROCESSABLE_ENTITY,
            format!("mend that, then: sublet disk open {name}"),
        ),
        DiskError::NotAllowed { .. }
        | DiskError::NoFolder { .. }
        | DiskError::ImageExists(_)
        | DiskError::NoImageSize(_) => of_image(error),
        DiskError::Failed { .. } => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "what it could not take is still in memory".into(),
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

/// The same of where an image is, or is to be.
fn of_image(error: &DiskError) -> (StatusCode, String) {
    let (status, hint) = match error {
        DiskError::NoFolder { .. } => (
            StatusCode::UNPROCESSABLE_ENTITY,
            "make it, or name another place: --backing; `sublet disk allow FOLDER` lets backings lie there",
        ),
        DiskError::ImageExists(_) => (
            StatusCode::CONFLICT,
            "serve it as it is: sublet disk add --backing; or name another file",
        ),
        DiskError::NoImageSize(_) => (StatusCode::BAD_REQUEST, "say its size, such as 20GiB"),
        _ => (
            StatusCode::FORBIDDEN,
            "allow its folder, on the daemon's host: sublet disk allow FOLDER",
        ),
    };
    (status, hint.to_owned())
}

/// A body in JSON, its faults told in JSON too.
pub(super) fn heard<T: DeserializeOwned>(
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
            fault_of(&error),
            "docs/admin.md describes what can be said",
        )
    })
}

/// What is wrong with a body, and where.
fn fault_of(error: &serde_json::Error) -> String {
    let at = format!("line {}, column {}", error.line(), error.column());
    match error.classify() {
        Category::Io | Category::Eof => "the body ends before its JSON does".to_owned(),
        Category::Syntax => format!("the body is no JSON at {at}"),
        Category::Data => format!("{}, at {at} of the body", plain(&error.to_string())),
    }
}

/// What is wrong with a query string, and at which key.
pub(super) fn fault_of_query(rejection: &QueryRejection) -> String {
    let Some(cause) = rejection.source() else {
        return rejection.body_text();
    };
    let said = cause.to_string();
    let is_key = |key: &str| key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    match said.split_once(": ") {
        Some((key, said)) if is_key(key) => match plain(said) {
            told if told.contains(&format!("`{key}`")) => told,
            told => format!("`{key}`: {told}"),
        },
        _ => plain(&said),
    }
}

pub(super) fn named(name: &str) -> Result<TenantName, HttpError> {
    name.parse().map_err(|e| {
        HttpError::new(
            StatusCode::BAD_REQUEST,
            e,
            "`sublet tenants list` shows them all",
        )
    })
}

/// The daemon ends before a call has its answer.
pub(super) fn ending() -> HttpError {
    Declined::Order(OrderError::Ended).into()
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
