//! From a door to its routes: how many come in, who, and for how long.

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
use sublet_frontends::doors::{Lobby, Place, SILENCE_MAX, WhenFull};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::doors::CONNECTIONS_MAX;
use super::doors::{Doors, MetricsDoor, TlsDoor, UnixDoor};
use super::long_calls::LongCall;
use super::looks::Looks;
use super::routes;
use crate::daemon::Daemon;
use crate::observe::events::Actor;

/// How long a caller may take for the head of a request, or for TLS.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a connection may last: an ordered release of a whole large host fits in. What may take longer, such as a
/// save, has as long as it takes.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(900);
/// How often it is looked for a place while there is none.
const ROOM_INTERVAL: Duration = Duration::from_millis(10);
/// How long accepting rests when there is no descriptor for one more.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves all doors until the end.
pub(super) async fn all(
    doors: Doors,
    daemon: Arc<Daemon>,
    looks: Looks,
    mut ended: watch::Receiver<bool>,
) {
    let Doors {
        socket,
        tcp,
        metrics,
    } = doors;
    let served = async {
        tokio::join!(
            admin(socket, routes::admin(Arc::clone(&daemon), looks.clone())),
            over_tls(tcp, Arc::clone(&daemon), looks.clone()),
            read_only(metrics, routes::metrics_only(looks.clone())),
        )
    };
    tokio::select! {
        _ = served => {}
        _ = ended.wait_for(|ended| *ended) => {}
    }
}

async fn admin(socket: UnixDoor, routes: Router) {
    let listener = socket.listener.try_clone().and_then(UnixListener::from_std);
    let Ok(listener) = listener else { return };
    let admit = || async { listener.accept().await.map(|(stream, _)| stream) };
    serve(admit, |stream: UnixStream, place| {
        let routes = match caller(&stream) {
            Some(caller) => routes.clone().layer(Extension(caller)),
            None => routes::for_strangers(),
        };
        speak(stream, routes, place)
    })
    .await;
}

async fn over_tls(door: Option<TlsDoor>, daemon: Arc<Daemon>, looks: Looks) {
    let Some(TlsDoor {
        listener,
        acceptor,
        token,
    }) = door
    else {
        return;
    };
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    let routes = routes::admin_with_token(daemon, looks, token);
    let admit = || async { listener.accept().await.map(|(stream, _)| stream) };
    serve(admit, |stream: TcpStream, place| {
        let address = stream.peer_addr().ok().map(|address| address.ip());
        let routes = routes.clone().layer(Extension(Actor::Remote(address)));
        let acceptor: TlsAcceptor = acceptor.clone();
        async move {
            let veiled = async {
                stream.readable().await?;
                place.begin();
                acceptor.accept(stream).await
            };
            match timeout(HEAD_TIME_MAX, veiled).await {
                Ok(Ok(stream)) => speak(stream, routes, place).await,
                Ok(Err(error)) => complain(BAD_TLS, &error),
                Err(_) => {}
            }
        }
    })
    .await;
}

async fn read_only(door: Option<MetricsDoor>, routes: Router) {
    match door {
        None => {}
        Some(MetricsDoor::Unix(socket)) => admin(socket, routes).await,
        Some(MetricsDoor::Tcp(listener)) => {
            let Ok(listener) = TcpListener::from_std(listener) else {
                return;
            };
            let admit = || async { listener.accept().await.map(|(stream, _)| stream) };
            serve(admit, |stream, place| speak(stream, routes.clone(), place)).await;
        }
    }
}

/// Lets callers in, never more than there is room for. One waits for a place here, others in the kernel's queue.
async fn serve<S, A, T>(admit: impl Fn() -> A, talk: impl Fn(S, Arc<Place>) -> T)
where
    S: AsFd,
    A: Future<Output = io::Result<S>>,
    T: Future<Output = ()> + Send + 'static,
{
    let lobby = Lobby::new(CONNECTIONS_MAX, SILENCE_MAX, WhenFull::Waits);
    loop {
        let seated = async {
            let stream = admit().await?;
            let place = seat(&lobby, &stream).await?;
            io::Result::Ok((stream, place))
        };
        match seated.await {
            Ok((stream, place)) => {
                drop(tokio::spawn(stay(talk(stream, Arc::clone(&place)), place)))
            }
            Err(error) => {
                complain(NOT_ACCEPTED, &error);
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A place for a caller, once there is one.
async fn seat(lobby: &Arc<Lobby>, stream: &impl AsFd) -> io::Result<Arc<Place>> {
    let socket = Arc::new(stream.as_fd().try_clone_to_owned()?);
    loop {
        match lobby.enter(&socket, Instant::now()) {
            Ok((place, _)) => return Ok(Arc::new(place)),
            Err(_) => sleep(ROOM_INTERVAL).await,
        }
    }
}

async fn stay(talk: impl Future<Output = ()>, _place: Arc<Place>) {
    talk.await;
}

async fn speak<S>(stream: S, routes: Router, place: Arc<Place>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    speak_for(CONNECTION_TIME_MAX, stream, routes.layer(Extension(place))).await;
}

/// Answers a caller for so long, or until a long call that is under way then has its answer, looked at as seldom.
async fn speak_for<S>(time: Duration, stream: S, routes: Router)
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
                tracing::debug!(%error, "an admin connection ended badly");
                return;
            }
        }
    }
}

/// Who came, if it is the owner. The socket's mode lets nobody else in; where a mount ignores modes, this does not.
fn caller(stream: &UnixStream) -> Option<Actor> {
    let peer = stream.peer_cred();
    let uid = peer.as_ref().map(|peer| peer.uid());
    if !matches!(uid, Ok(uid) if uid == 0 || uid == geteuid().as_raw()) {
        complain(STRANGER, &format_args!("uid {uid:?}"));
        return None;
    }
    peer.ok().map(|peer| Actor::Caller {
        uid: peer.uid(),
        pid: peer.pid(),
    })
}

const BAD_TLS: &str = "a TLS handshake on the admin interface failed";
const NOT_ACCEPTED: &str = "a connection to the admin interface was not accepted";
const STRANGER: &str = "somebody else than the owner came to the admin socket";

fn complain(what: &str, why: &dyn std::fmt::Display) {
    tracing::warn!(%why, "{what}");
}

#[cfg(test)]
mod tests {
    use axum::middleware::from_fn;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::long_calls::unhurried;
    use super::*;

    const TIME: Duration = Duration::from_millis(200);

    async fn ask(path: &str) -> io::Result<String> {
        let work = || async {
            sleep(3 * TIME).await;
            "done"
        };
        let routes = Router::new()
            .route("/long", get(work).layer(from_fn(unhurried)))
            .route("/other", get(work));
        let (mut ours, theirs) = tokio::io::duplex(4096);
        tokio::spawn(speak_for(TIME, theirs, routes));
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
        let (long, other) = runtime.block_on(async { tokio::join!(ask("/long"), ask("/other")) });
        assert!(long?.ends_with("done"));
        assert_eq!(other?, "");
        Ok(())
    }
}
