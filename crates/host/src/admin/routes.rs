//! The routes of the admin interface, and their answers. `docs/admin.md` describes them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use sublet_client::messages::{
    AddTenant, ChangePolicy, ChangeTenant, REQUEST_BYTES_MAX, ReleaseRequest, RemoveTenant, Status,
    TenantList, VERSION, WhatIfQuery,
};
use sublet_frontends::listeners::ConnectionPermit;
use tokio::time::timeout;

use super::file_calls::run_file_call;
use super::http_error::HttpError;
use super::replies::{
    DaemonState, daemon_ending, describe_query_error, in_json, parse_body, parse_tenant_name,
};
use super::status_snapshots::StatusSnapshots;
use super::{cluster, disks, events, lending, saves};
use crate::daemon::Daemon;
use crate::observe::events::Actor;
use crate::observe::metrics::{self, MetricsFormat};

/// Everything.
pub(super) fn admin_routes(daemon: Arc<Daemon>, snapshots: StatusSnapshots) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route(
            "/v1/health",
            get(async |State(d): DaemonState| Json(d.health())),
        )
        .route(
            "/v1/settings",
            get(async |State(d): DaemonState| Json(d.settings())),
        )
        .route("/v1/tenants", get(tenants).post(add_tenant))
        .route(
            "/v1/tenants/{name}",
            get(tenant).patch(change_tenant).delete(remove_tenant),
        )
        .route(
            "/v1/policies",
            get(async |State(d): DaemonState| Json(d.policies())),
        )
        .route("/v1/policy", post(change_policy))
        .route("/v1/policy/explain", get(explain))
        .route("/v1/policy/what-if", get(what_if))
        .route("/v1/release", post(release))
        .route("/v1/events", get(events::events))
        .merge(disks::routes())
        .merge(cluster::routes())
        .merge(lending::routes())
        .merge(saves::routes())
        .route("/metrics", get(scrape))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::map_response(errors_as_json))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&daemon),
            reject_changes_while_ending,
        ))
        .layer(middleware::from_fn(record_change))
        .layer(Extension(snapshots))
        .layer(middleware::from_fn(buffer_body))
        .with_state(daemon)
}

/// Some faults are found before a route is called, such as a name that is not UTF-8. They are answered in JSON, too.
async fn errors_as_json(response: Response) -> Response {
    let status = response.status();
    let is_fault = status.is_client_error() || status.is_server_error();
    let kind = response.headers().get(header::CONTENT_TYPE);
    if !is_fault || kind.is_some_and(|kind| kind == "application/json") {
        return response;
    }
    let said = to_bytes(response.into_body(), REQUEST_BYTES_MAX).await;
    let said = said.unwrap_or_default();
    let hint = "docs/admin.md describes what can be said";
    HttpError::new(status, String::from_utf8_lossy(&said), hint).into_response()
}

/// How long a caller may take for a request's body.
const BODY_TIME_MAX: Duration = Duration::from_secs(10);

/// Runs a request once its body is complete. From then on its caller gives way to nobody.
async fn buffer_body(
    Extension(place): Extension<Arc<ConnectionPermit>>,
    request: Request,
    next: Next,
) -> Response {
    let (head, body) = request.into_parts();
    match timeout(BODY_TIME_MAX, to_bytes(body, REQUEST_BYTES_MAX)).await {
        Ok(Ok(body)) => {
            place.mark_spoken();
            next.run(Request::from_parts(head, Body::from(body))).await
        }
        // Or the caller has gone and hears nothing.
        Ok(Err(_)) => HttpError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body is too long",
            format!("at most {REQUEST_BYTES_MAX} bytes"),
        )
        .into_response(),
        Err(_) => HttpError::new(
            StatusCode::REQUEST_TIMEOUT,
            "the body did not come",
            format!("send all of it within {} seconds", BODY_TIME_MAX.as_secs()),
        )
        .into_response(),
    }
}

/// While the daemon ends, callers may read but not change.
async fn reject_changes_while_ending(
    State(daemon): DaemonState,
    request: Request,
    next: Next,
) -> Response {
    if daemon.is_ending() && !request.method().is_safe() {
        return HttpError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the daemon ends: nothing is changed any more",
            "`sublet disk list` shows what its disks have yet to write; then start it again: sublet serve",
        )
        .into_response();
    }
    next.run(request).await
}

/// A caller that was told of a change then sees it.
async fn record_change(
    Extension(snapshots): Extension<StatusSnapshots>,
    request: Request,
    next: Next,
) -> Response {
    let only_looks = request.method().is_safe();
    let answer = next.run(request).await;
    if !only_looks {
        snapshots.record_change();
    }
    answer
}

/// All routes, for callers that show the token.
pub(super) fn admin_routes_with_token(
    daemon: Arc<Daemon>,
    snapshots: StatusSnapshots,
    token: String,
) -> Router {
    let token: Arc<str> = token.into();
    let asked =
        middleware::from_fn(move |request, next| require_token(Arc::clone(&token), request, next));
    admin_routes(daemon, snapshots)
        .layer(middleware::from_fn(reject_remote_folder_changes))
        .layer(asked)
}

/// Only users of the host itself may say which of its files may be served.
async fn reject_remote_folder_changes(request: Request, next: Next) -> Response {
    if request.uri().path() == disks::FOLDERS && !request.method().is_safe() {
        return HttpError::new(
            StatusCode::FORBIDDEN,
            "where backings may lie is said at the daemon's Unix socket only",
            "on its host: sublet disk allow FOLDER",
        )
        .into_response();
    }
    next.run(request).await
}

/// Metrics alone.
pub(super) fn metrics_routes(snapshots: StatusSnapshots) -> Router {
    Router::new()
        .route("/metrics", get(scrape))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(Extension(snapshots))
        .layer(middleware::from_fn(buffer_body))
}

/// The answers for callers that are not the owner.
pub(super) fn forbidden_routes() -> Router {
    Router::new().fallback(|| async {
        HttpError::new(
            StatusCode::FORBIDDEN,
            "only the daemon's own user and root may use this socket",
            "be one of them, or use the interface over TLS with its token",
        )
    })
}

async fn status(
    Extension(snapshots): Extension<StatusSnapshots>,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    snapshots
        .render(&headers, |_, status| in_json(&**status))
        .await
}

async fn tenants(
    Extension(snapshots): Extension<StatusSnapshots>,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    let tenants = |status: &Status| TenantList {
        version: VERSION,
        tenants: status.tenants.clone(),
    };
    snapshots
        .render(&headers, move |_, status| in_json(&tenants(status)))
        .await
}

async fn tenant(
    State(daemon): DaemonState,
    Path(name): Path<String>,
) -> Result<impl IntoResponse, HttpError> {
    Ok(Json(daemon.tenant(&parse_tenant_name(&name)?)?))
}

async fn change_tenant(
    State(daemon): DaemonState,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let (name, change) = (parse_tenant_name(&name)?, parse_body::<ChangeTenant>(body)?);
    run_file_call(move || daemon.change_tenant(&name, &change, by)).await
}

async fn add_tenant(
    State(daemon): DaemonState,
    Extension(by): Extension<Actor>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let tenant = parse_body::<AddTenant>(body)?;
    run_file_call(move || daemon.add_tenant(&tenant, by)).await
}

async fn remove_tenant(
    State(daemon): DaemonState,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
    how: Result<Query<RemoveTenant>, QueryRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let wrong = |rejection: QueryRejection| {
        let hint = "say ?lasts=always or ?lasts=until-restart";
        HttpError::new(
            StatusCode::BAD_REQUEST,
            describe_query_error(&rejection),
            hint,
        )
    };
    let (name, Query(how)) = (parse_tenant_name(&name)?, how.map_err(wrong)?);
    run_file_call(move || daemon.remove_tenant(&name, how.lasts, by)).await
}

async fn change_policy(
    State(daemon): DaemonState,
    Extension(by): Extension<Actor>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let change = parse_body::<ChangePolicy>(body)?;
    run_file_call(move || daemon.change_policy(&change, by)).await
}

/// Which tenant, and until when.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplainQuery {
    tenant: String,
    until: Option<u64>,
}

async fn explain(
    State(daemon): DaemonState,
    question: Result<Query<ExplainQuery>, QueryRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let wrong = |rejection: QueryRejection| {
        let hint = "ask ?tenant=NAME&until=UNIX_SECONDS";
        HttpError::new(
            StatusCode::BAD_REQUEST,
            describe_query_error(&rejection),
            hint,
        )
    };
    let Query(question) = question.map_err(wrong)?;
    let name = parse_tenant_name(&question.tenant)?;
    Ok(Json(
        daemon.explain(&name, question.until.unwrap_or(u64::MAX))?,
    ))
}

async fn what_if(
    State(daemon): DaemonState,
    asked: Result<Query<WhatIfQuery>, QueryRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let wrong = |rejection: QueryRejection| {
        let hint = "docs/admin.md describes what can be asked";
        HttpError::new(
            StatusCode::BAD_REQUEST,
            describe_query_error(&rejection),
            hint,
        )
    };
    let Query(asked) = asked.map_err(wrong)?;
    run_file_call(move || daemon.what_if(&asked)).await
}

async fn release(
    State(daemon): DaemonState,
    Extension(by): Extension<Actor>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let request = parse_body::<ReleaseRequest>(body)?;
    // The release is carried out and reported whether or not its caller waits for it.
    let release = tokio::spawn(async move { daemon.release(&request, by).await });
    let report = release.await.map_err(|_| daemon_ending())?;
    Ok(Json(report?))
}

async fn scrape(
    Extension(snapshots): Extension<StatusSnapshots>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, HttpError> {
    let unwritten = |e| HttpError::new(StatusCode::INTERNAL_SERVER_ERROR, e, "");
    let accept = headers.get_all(header::ACCEPT).iter();
    let accept: Vec<&str> = accept.filter_map(|value| value.to_str().ok()).collect();
    let format = MetricsFormat::from_accept(&accept.join(","));
    let page = snapshots
        .render(&headers, move |daemon, status| {
            metrics::render(Arc::clone(status), daemon.events(), format)
        })
        .await?
        .map_err(unwritten)?;
    Ok(([(header::CONTENT_TYPE, format.content_type())], page))
}

async fn not_found() -> HttpError {
    HttpError::new(
        StatusCode::NOT_FOUND,
        "nothing is there",
        "docs/admin.md describes what is",
    )
}

async fn method_not_allowed() -> HttpError {
    HttpError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "not by this method",
        "docs/admin.md describes which",
    )
}

async fn require_token(token: Arc<str>, request: Request, next: Next) -> Response {
    if has_token(request.headers(), &token) {
        return next.run(request).await;
    }
    let peer = request.extensions().get::<Actor>();
    tracing::warn!(
        peer = peer.map(tracing::field::display),
        "a caller of the admin interface did not show the token; the daemon refused the call: give it `--admin-token FILE`"
    );
    HttpError::new(
        StatusCode::UNAUTHORIZED,
        "the token is missing or wrong",
        "show the first line of the token file: --admin-token FILE",
    )
    .into_response()
}

fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let value = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    value
        .and_then(|value| value.strip_prefix("Bearer "))
        .is_some_and(|said| equals_in_constant_time(said, token))
}

/// Takes as long for a nearly right token as for a wrong one.
fn equals_in_constant_time(said: &str, token: &str) -> bool {
    let differences = said
        .bytes()
        .zip(token.bytes())
        .fold(0, |all, (a, b)| all | (a ^ b));
    said.len() == token.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;

    #[test]
    fn only_the_whole_token_will_do() {
        let shown = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().expect("a header"));
            has_token(&headers, "0123456789abcdef")
        };
        assert!(shown("Bearer 0123456789abcdef"));
        for wrong in [
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "0123456789abcdef",
            "Bearer ",
        ] {
            assert!(!shown(wrong), "{wrong}");
        }
        assert!(!has_token(&HeaderMap::new(), "0123456789abcdef"));
    }

    #[test]
    fn what_is_wrong_with_a_query_string_is_told_in_words() {
        fn fault<T: DeserializeOwned>(query: &str) -> String {
            let uri = format!("/v1/any{query}").parse().expect("a place");
            match Query::<T>::try_from_uri(&uri) {
                Ok(_) => String::new(),
                Err(rejection) => describe_query_error(&rejection),
            }
        }
        for (query, said) in [
            ("", "the key `tenant` is missing"),
            ("?tenant=a&tenant=b", "the key `tenant` is there twice"),
            (
                "?tenant=a&from=1",
                "no key is called `from`; there are `tenant` or `until`",
            ),
            ("?tenant=a&until=7", ""),
        ] {
            assert_eq!(fault::<ExplainQuery>(query), said, "{query}");
        }
        let number = fault::<ExplainQuery>("?tenant=a&until=x");
        assert!(number.starts_with("`until`: "), "{number}");
        let lasts = fault::<RemoveTenant>("?lasts=never");
        assert!(lasts.starts_with("`lasts`: `never` is none of"), "{lasts}");
    }
}
