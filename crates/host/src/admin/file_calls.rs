//! Calls that touch files. Only so many run at once, because a file system that hangs keeps their threads, even when
//! nobody waits for them any more.

use std::thread;

use axum::http::StatusCode;
use axum::response::Json;
use serde::Serialize;
use tokio::sync::{Semaphore, oneshot};

use super::http_error::HttpError;
use super::listeners::CONNECTIONS_MAX;
use super::replies::daemon_ending;
use crate::daemon::RequestError;

/// A quarter of a listener's connections is left to callers that only read or have memory released.
const FILE_CALLS_MAX: usize = CONNECTIONS_MAX / 4 * 3;

static ROOM: Semaphore = Semaphore::const_new(FILE_CALLS_MAX);

/// Runs work that touches files, away from the other callers.
pub(super) async fn run_file_call<T: Serialize + Send + 'static>(
    work: impl FnOnce() -> Result<T, RequestError> + Send + 'static,
) -> Result<Json<T>, HttpError> {
    run_with_permit(&ROOM, work).await
}

async fn run_with_permit<T: Serialize + Send + 'static>(
    room: &'static Semaphore,
    work: impl FnOnce() -> Result<T, RequestError> + Send + 'static,
) -> Result<Json<T>, HttpError> {
    let place = room.try_acquire().map_err(|_| {
        HttpError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format_args!("{FILE_CALLS_MAX} calls wait for file systems already"),
            "wait for them; if they do not end, a file system of a disk, a save or the state folder hangs",
        )
    })?;
    let (tell, told) = oneshot::channel();
    let body = move || {
        let _place = place;
        // The caller may have gone.
        let _ = tell.send(work());
    };
    let thread = thread::Builder::new().name("files".to_owned()).spawn(body);
    thread.map_err(|error| {
        HttpError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format_args!("the host cannot make a thread for this call: {error}"),
            "try again; `sublet doctor` checks what limits the daemon's tasks",
        )
    })?;
    Ok(Json(told.await.map_err(|_| daemon_ending())??))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc;

    use axum::response::IntoResponse;
    use tokio::task::yield_now;

    use super::*;

    #[test]
    fn calls_over_a_file_system_that_hangs_are_counted_until_it_answers() -> io::Result<()> {
        static SMALL: Semaphore = Semaphore::const_new(1);
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        runtime.block_on(async {
            let (answers, hangs) = mpsc::channel::<()>();
            let call = tokio::spawn(run_with_permit(&SMALL, move || Ok(hangs.recv().is_err())));
            while SMALL.available_permits() > 0 {
                yield_now().await;
            }
            call.abort(); // its caller is gone
            assert!(call.await.is_err_and(|ended| ended.is_cancelled()));
            let refused = run_with_permit(&SMALL, || Ok(())).await.into_response();
            assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
            drop(answers);
            while SMALL.available_permits() == 0 {
                yield_now().await;
            }
            assert!(run_with_permit(&SMALL, || Ok(())).await.is_ok());
            Ok(())
        })
    }
}
