//! An answer that refuses a request.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use sublet_client::messages::Refusal;

/// An answer that refuses a request.
pub(super) struct HttpError(StatusCode, Refusal);

impl HttpError {
    pub(super) fn new(status: StatusCode, error: impl ToString, hint: impl ToString) -> HttpError {
        HttpError(
            status,
            Refusal {
                error: error.to_string(),
                hint: hint.to_string(),
            },
        )
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let HttpError(status, refusal) = self;
        (status, Json(refusal)).into_response()
    }
}
