//! What can be asked, and what is answered. `docs/admin.md` describes it.

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
    AddTenant, AskWhatIf, ChangePolicy, ChangeTenant, REQUEST_BYTES_MAX, ReleaseRequest,
    RemoveTenant, Status, Tenants, VERSION,
};
use sublet_frontends::doors::Place;
use tokio::time::timeout;

use super::file_calls::with_files;
use super::http_error::HttpError;
use super::looks::Looks;
use super::replies::{Shared, ending, fault_of_query, heard, in_json, named};
use super::{disks, events, saves};
use crate::daemon::Daemon;
use crate::observe::events::Actor;
use crate::observe::metrics::{self, Format};

/// Everything.
pub(super) fn admin(daemon: Arc<Daemon>, looks: Looks) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/health", get(async |State(d): Shared| Json(d.health())))
        .route(
            "/v1/settings",
            get(async |State(d): Shared| Json(d.settings())),
        )
        .route("/v1/tenants", get(tenants).post(add_tenant))
        .route(
            "/v1/tenants/{name}",
            get(tenant).patch(change_tenant).delete(remove_tenant),
        )
        .route(
            "/v1/policies",
            get(async |State(d): Shared| Json(d.policies())),
        )
        .route("/v1/policy", post(change_policy))
        .route("/v1/policy/explain", get(explain))
        .route("/v1/policy/what-if", get(what_if))
        .route("/v1/release", post(release))
        .route("/v1/events", get(events::events))
        .merge(disks::routes())
        .merge(saves::routes())
        .route("/metrics", get(scrape))
        .fallback(nothing_there)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::map_response(told_in_json))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&daemon),
            only_look,
        ))
        .layer(middleware::from_fn(note_change))
        .layer(Extension(looks))
        .layer(middleware::from_fn(whole))
        .with_state(daemon)
}

/// Faults that are found before a route is called, as a name that is no UTF-8, are told in JSON, too.
async fn told_in_json(response: Response) -> Response {
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

/// Runs a request once it is whole: from then on its caller gives way to nobody.
async fn whole(Extension(place): Extension<Arc<Place>>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    match timeout(BODY_TIME_MAX, to_bytes(body, REQUEST_BYTES_MAX)).await {
        Ok(Ok(body)) => {
            place.speak();
            next.run(Request::from_parts(head, Body::from(body))).await
        }
        // Or its caller has gone, and hears nothing.
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

/// A daemon that ends is looked at, and changed no more.
async fn only_look(State(daemon): Shared, request: Request, next: Next) -> Response {
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

/// Whoever was told that something is changed sees it so.
async fn note_change(Extension(looks): Extension<Looks>, request: Request, next: Next) -> Response {
    let only_looks = request.method().is_safe();
    let answer = next.run(request).await;
    if !only_looks {
        looks.change();
    }
    answer
}

/// Everything, for who shows the token.
pub(super) fn admin_with_token(daemon: Arc<Daemon>, looks: Looks, token: String) -> Router {
    let token: Arc<str> = token.into();
    let asked = middleware::from_fn(move |request, next| ask(Arc::clone(&token), request, next));
    admin(daemon, looks)
        .layer(middleware::from_fn(not_from_afar))
        .layer(asked)
}

/// Which files of the host may be served is for those to say who are there.
async fn not_from_afar(request: Request, next: Next) -> Response {
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
pub(super) fn metrics_only(looks: Looks) -> Router {
    Router::new()
        .route("/metrics", get(scrape))
        .fallback(nothing_there)
        .method_not_allowed_fallback(wrong_method)
        .layer(Extension(looks))
        .layer(middleware::from_fn(whole))
}

/// What anybody hears who is not the owner.
pub(super) fn for_strangers() -> Router {
    Router::new().fallback(|| async {
        HttpError::new(
            StatusCode::FORBIDDEN,
            "only the daemon's own user and root may use this socket",
            "be one of them, or use the interface over TLS with its token",
        )
    })
}

async fn status(
    Extension(looks): Extension<Looks>,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    looks.show(&headers, |_, status| in_json(&**status)).await
}

async fn tenants(
    Extension(looks): Extension<Looks>,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    let tenants = |status: &Status| Tenants {
        version: VERSION,
        tenants: status.tenants.clone(),
    };
    looks
        .show(&headers, move |_, status| in_json(&tenants(status)))
        .await
}

async fn tenant(
    State(daemon): Shared,
    Path(name): Path<String>,
) -> Result<impl IntoResponse, HttpError> {
    Ok(Json(daemon.tenant(&named(&name)?)?))
}

async fn change_tenant(
    State(daemon): Shared,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let (name, change) = (named(&name)?, heard::<ChangeTenant>(body)?);
    with_files(move || daemon.change_tenant(&name, &change, by)).await
}

async fn add_tenant(
    State(daemon): Shared,
    Extension(by): Extension<Actor>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let tenant = heard::<AddTenant>(body)?;
    with_files(move || daemon.add_tenant(&tenant, by)).await
}

async fn remove_tenant(
    State(daemon): Shared,
    Extension(by): Extension<Actor>,
    Path(name): Path<String>,
    how: Result<Query<RemoveTenant>, QueryRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let wrong = |rejection: QueryRejection| {
        let hint = "say ?lasts=always or ?lasts=until-restart";
        HttpError::new(StatusCode::BAD_REQUEST, fault_of_query(&rejection), hint)
    };
    let (name, Query(how)) = (named(&name)?, how.map_err(wrong)?);
    with_files(move || daemon.remove_tenant(&name, how.lasts, by)).await
}

async fn change_policy(
    State(daemon): Shared,
    Extension(by): Extension<Actor>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let change = heard::<ChangePolicy>(body)?;
    with_files(move || daemon.change_policy(&change, by)).await
}

/// About whom, and until when.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    tenant: String,
    until: Option<u64>,
}

async fn explain(
    State(daemon): Shared,
    question: Result<Query<Question>, QueryRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let wrong = |rejection: QueryRejection| {
        let hint = "ask ?tenant=NAME&until=UNIX_SECONDS";
        HttpError::new(StatusCode::BAD_REQUEST, fault_of_query(&rejection), hint)
    };
    let Query(question) = question.map_err(wrong)?;
    let name = named(&question.tenant)?;
    Ok(Json(
        daemon.explain(&name, question.until.unwrap_or(u64::MAX))?,
    ))
}

async fn what_if(
    State(daemon): Shared,
    asked: Result<Query<AskWhatIf>, QueryRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let wrong = |rejection: QueryRejection| {
        let hint = "docs/admin.md describes what can be asked";
        HttpError::new(StatusCode::BAD_REQUEST, fault_of_query(&rejection), hint)
    };
    let Query(asked) = asked.map_err(wrong)?;
    with_files(move || daemon.what_if(&asked)).await
}

async fn release(
    State(daemon): Shared,
    Extension(by): Extension<Actor>,
    body: Result<Bytes, BytesRejection>,
) -> Result<impl IntoResponse, HttpError> {
    let request = heard::<ReleaseRequest>(body)?;
    // It is carried out and told of whether or not its caller waits for it.
    let release = tokio::spawn(async move { daemon.release(&request, by).await });
    let report = release.await.map_err(|_| ending())?;
    Ok(Json(report?))
}

async fn scrape(
    Extension(looks): Extension<Looks>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, HttpError> {
    let unwritten = |e| HttpError::new(StatusCode::INTERNAL_SERVER_ERROR, e, "");
    let accept = headers.get_all(header::ACCEPT).iter();
    let accept: Vec<&str> = accept.filter_map(|value| value.to_str().ok()).collect();
    let format = Format::accepted(&accept.join(","));
    let page = looks
        .show(&headers, move |daemon, status| {
            metrics::page(Arc::clone(status), daemon.events(), format)
        })
        .await?
        .map_err(unwritten)?;
    Ok(([(header::CONTENT_TYPE, format.content_type())], page))
}

async fn nothing_there() -> HttpError {
    HttpError::new(
        StatusCode::NOT_FOUND,
        "nothing is there",
        "docs/admin.md describes what is",
    )
}

async fn wrong_method() -> HttpError {
    HttpError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "not by this method",
        "docs/admin.md describes which",
    )
}

async fn ask(token: Arc<str>, request: Request, next: Next) -> Response {
    if shows(request.headers(), &token) {
        return next.run(request).await;
    }
    tracing::warn!("somebody came to the admin interface without the token");
    HttpError::new(
        StatusCode::UNAUTHORIZED,
        "no token, or not the right one",
        "show the first line of the token file: --admin-token FILE",
    )
    .into_response()
}

fn shows(headers: &HeaderMap, token: &str) -> bool {
    let value = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    value
        .and_then(|value| value.strip_prefix("Bearer "))
        .is_some_and(|said| is_same(said, token))
}

/// Takes as long for a nearly right token as for a wrong one.
fn is_same(said: &str, token: &str) -> bool {
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
            shows(&headers, "0123456789abcdef")
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
        assert!(!shows(&HeaderMap::new(), "0123456789abcdef"));
    }

    #[test]
    fn what_is_wrong_with_a_query_string_is_told_in_words() {
        fn fault<T: DeserializeOwned>(query: &str) -> String {
            let uri = format!("/v1/any{query}").parse().expect("a place");
            match Query::<T>::try_from_uri(&uri) {
                Ok(_) => String::new(),
                Err(rejection) => fault_of_query(&rejection),
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
            assert_eq!(fault::<Question>(query), said, "{query}");
        }
        let number = fault::<Question>("?tenant=a&until=x");
        assert!(number.starts_with("`until`: "), "{number}");
        let lasts = fault::<RemoveTenant>("?lasts=never");
        assert!(lasts.starts_with("`lasts`: `never` is none of"), "{lasts}");
    }
}
