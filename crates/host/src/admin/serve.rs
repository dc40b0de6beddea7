//! From a listener to its routes: how many callers come in, which, and for how long.

use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::geteuid;
use sublet_frontends::listeners::{ConnectionLimiter, ConnectionPermit, SILENCE_MAX, WhenFull};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::listeners::CONNECTIONS_MAX;
use super::listeners::{AdminListeners, MetricsListener, TlsListener, UnixSocketListener};
use super::long_calls::LongCall;
use super::routes;
use super::status_snapshots::StatusSnapshots;
use crate::daemon::Daemon;
use crate::observe::events::Actor;

/// How long a caller may take for the head of a request, or for TLS.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a connection may last. An ordered release of a whole large host fits in. A call that may take longer, such
/// as a save, has as long as it takes.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(900);
/// How often to check for a permit while there is none.
const ROOM_INTERVAL: Duration = Duration::from_millis(10);
/// How long accepting rests if there is no descriptor for one more connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves all listeners until the end.
pub(super) async fn serve_all(
    listeners: AdminListeners,
    daemon: Arc<Daemon>,
    snapshots: StatusSnapshots,
    mut ended: watch::Receiver<bool>,
) {
    let AdminListeners {
        socket,
        tcp,
        metrics,
    } = listeners;
    let served = async {
        tokio::join!(
            serve_admin_socket(
                socket,
                routes::admin_routes(Arc::clone(&daemon), snapshots.clone())
            ),
            serve_tls(tcp, Arc::clone(&daemon), snapshots.clone()),
            serve_metrics(metrics, routes::metrics_routes(snapshots.clone())),
        )
    };
    tokio::select! {
        _ = served => {}
        _ = ended.wait_for(|ended| *ended) => {}
    }
}

async fn serve_admin_socket(socket: UnixSocketListener, routes: Router) {
    let listener = socket.listener.try_clone().and_then(UnixListener::from_std);
    let Ok(listener) = listener else { return };
    let admit = || async { listener.accept().await.map(|(stream, _)| stream) };
    accept_connections(admit, |stream: UnixStream, place| {
        let routes = match authenticate_owner(&stream) {
            Some(caller) => routes.clone().layer(Extension(caller)),
            None => routes::forbidden_routes(),
        };
        serve_connection(stream, routes, place)
    })
    .await;
}

async fn serve_tls(listener: Option<TlsListener>, daemon: Arc<Daemon>, snapshots: StatusSnapshots) {
    let Some(TlsListener {
        listener,
        acceptor,
        token,
    }) = listener
    else {
        return;
    };
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    let routes = routes::admin_routes_with_token(daemon, snapshots, token);
    let admit = || async { listener.accept().await.map(|(stream, _)| stream) };
    accept_connections(admit, |stream: TcpStream, place| {
        let address = stream.peer_addr().ok().map(|address| address.ip());
        let routes = routes.clone().layer(Extension(Actor::Remote(address)));
        let acceptor: TlsAcceptor = acceptor.clone();
        async move {
            let tls_stream = async {
                stream.readable().await?;
                place.mark_begun();
                acceptor.accept(stream).await
            };
            match timeout(HEAD_TIME_MAX, tls_stream).await {
                Ok(Ok(stream)) => serve_connection(stream, routes, place).await,
                Ok(Err(error)) => {
                    let peer = address.map(tracing::field::display);
                    tracing::warn!(peer, %error, "a TLS handshake on the admin interface failed; the daemon closed the connection: check the caller's CA file and TLS version");
                }
                Err(_) => {}
            }
        }
    })
    .await;
}

async fn serve_metrics(listener: Option<MetricsListener>, routes: Router) {
    match listener {
        None => {}
        Some(MetricsListener::Unix(socket)) => serve_admin_socket(socket, routes).await,
        Some(MetricsListener::Tcp(listener)) => {
            let Ok(listener) = TcpListener::from_std(listener) else {
                return;
            };
            let admit = || async { listener.accept().await.map(|(stream, _)| stream) };
            accept_connections(admit, |stream, place| {
                serve_connection(stream, routes.clone(), place)
            })
            .await;
        }
    }
}

/// Accepts callers, never more than there is room for. One caller waits here for a permit, others in the kernel's
/// queue.
async fn accept_connections<S, A, T>(
    admit: impl Fn() -> A,
    talk: impl Fn(S, Arc<ConnectionPermit>) -> T,
) where
    S: AsFd,
    A: Future<Output = io::Result<S>>,
    T: Future<Output = ()> + Send + 'static,
{
    let limiter = ConnectionLimiter::new(CONNECTIONS_MAX, SILENCE_MAX, WhenFull::Waits);
    loop {
        let seated = async {
            let stream = admit().await?;
            let place = wait_for_permit(&limiter, &stream).await?;
            io::Result::Ok((stream, place))
        };
        match seated.await {
            Ok((stream, place)) => drop(tokio::spawn(hold_permit_while(
                talk(stream, Arc::clone(&place)),
                place,
            ))),
            Err(error) => {
                tracing::warn!(%error, again_in = ?ACCEPT_PAUSE, "the daemon cannot accept a connection to the admin interface and tries again; raise `ulimit -n` (LimitNOFILE=) if no file descriptor is left");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A permit for a caller, once there is one.
async fn wait_for_permit(
    limiter: &Arc<ConnectionLimiter>,
    stream: &impl AsFd,
) -> io::Result<Arc<ConnectionPermit>> {
    let socket = Arc::new(stream.as_fd().try_clone_to_owned()?);
    loop {
        match limiter.enter(&socket, Instant::now()) {
            Ok((place, _)) => return Ok(Arc::new(place)),
            Err(_) => sleep(ROOM_INTERVAL).await,
        }
    }
}

async fn hold_permit_while(talk: impl Future<Output = ()>, _place: Arc<ConnectionPermit>) {
    talk.await;
}

async fn serve_connection<S>(stream: S, routes: Router, place: Arc<ConnectionPermit>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    serve_connection_for(CONNECTION_TIME_MAX, stream, routes.layer(Extension(place))).await;
}

/// Answers a caller for `time`. If a long call is under way then, goes on until it has its answer, and checks that as
/// seldom.
async fn serve_connection_for<S>(time: Duration, stream: S, routes: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let call = LongCall::default();
    let routes = routes.layer(Extension(call.clone()));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    let mut connection = pin!(connection);
    loop {
        match timeout(time, &mut connection).await {
            Err(_) if call.is_under_way() => {}
            Err(_) | Ok(Ok(())) => return,
            Ok(Err(error)) => {
                tracing::debug!(%error, "a connection to the admin interface failed; the daemon closed it and serves the others");
                return;
            }
        }
    }
}

/// The caller, if it is the owner. The socket's mode lets nobody else in. If a mount ignores modes, this check still
/// does not.
fn authenticate_owner(stream: &UnixStream) -> Option<Actor> {
    let peer = stream.peer_cred();
    let uid = peer.as_ref().map(|peer| peer.uid());
    if !matches!(uid, Ok(uid) if uid == 0 || uid == geteuid().as_raw()) {
        tracing::warn!(uid = ?uid, "the daemon refused a caller of the admin socket that is not its owner; only root and the daemon's user may call");
        return None;
    }
    peer.ok().map(|peer| Actor::Caller {
        uid: peer.uid(),
        pid: peer.pid(),
    })
}

#[cfg(test)]
mod tests {
    use axum::middleware::from_fn;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::long_calls::without_deadline;
    use super::*;

    const TIME: Duration = Duration::from_millis(200);

    async fn send_request(path: &str) -> io::Result<String> {
        let work = || async {
            sleep(3 * TIME).await;
            "done"
        };
        let routes = Router::new()
            .route("/long", get(work).layer(from_fn(without_deadline)))
            .route("/other", get(work));
        let (mut ours, theirs) = tokio::io::duplex(4096);
        tokio::spawn(serve_connection_for(TIME, theirs, routes));
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        ours.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        ours.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    #[test]
    fn a_long_call_has_its_answer_and_any_other_connection_has_an_end() -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (long, other) =
            runtime.block_on(async { tokio::join!(send_request("/long"), send_request("/other")) });
        assert!(long?.ends_with("done"));
        assert_eq!(other?, "");
        Ok(())
    }
}
