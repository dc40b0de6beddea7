//! Lets a member and a store work together: makes the calls that the member asks for, each beside the others, and tells
//! the host what the member tells.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::{Instant, sleep_until};

use crate::member::{
    Candidacy, ClusterMember, EVENTS_WAITING_MAX, ElectionRequest, LeaseRequest, MemberEvent,
    StoreAnswer, StoreRequest, ViewRequest,
};
use crate::store::{ClusterStore, StoreWatch};

/// How long a driver sleeps if the member waits for answers only.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// The most events that wait for a host. A host that has let so many wait is broken, so its member leaves.
const EVENTS_MAX: usize = 4 * EVENTS_WAITING_MAX;

/// What a host asks of its member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberCommand {
    /// To be a candidate, or none.
    SetCandidacy(Candidacy),
    /// To write another record about this node.
    SetRecord(Vec<u8>),
    /// To leave the cluster. The driver ends then.
    Leave,
}

type Call<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What the view's call came back with: the answer, and the watch if one is open.
struct ViewReturn<W> {
    answer: StoreAnswer,
    watch: Option<W>,
}

/// The calls in flight, and the open watch while no call has it.
struct CallsInFlight<S: ClusterStore> {
    store: Arc<S>,
    lease: Option<Call<StoreAnswer>>,
    election: Option<Call<StoreAnswer>>,
    view: Option<Call<ViewReturn<S::Watch>>>,
    watch: Option<S::Watch>,
}

/// Drives a member until it has left. If the sender of commands is gone, or the receiver of events, the member leaves.
///
/// A receiver that is slow delays neither renewals nor the campaign. It delays the watch when many events wait.
pub async fn drive<S: ClusterStore>(
    store: Arc<S>,
    mut member: ClusterMember,
    mut commands: Receiver<MemberCommand>,
    events: Sender<MemberEvent>,
) {
    let began = Instant::now();
    let mut calls = CallsInFlight::new(store);
    let mut waiting: Option<MemberEvent> = None;
    let mut is_commanded = true;
    loop {
        let now = began.elapsed();
        while let Some(request) = member.next_request(now) {
            calls.start(request);
        }
        match member.events_waiting() {
            0..EVENTS_WAITING_MAX => calls.listen(),
            EVENTS_WAITING_MAX..EVENTS_MAX => {}
            _ => member.leave(now),
        }
        waiting = waiting.take().or_else(|| member.next_event());
        if waiting.is_none() && member.has_left() {
            return;
        }
        let wakes_at = member.wakes_at(now).unwrap_or(now + SLEEP_MAX);
        tokio::select! {
            answer = calls.next() => member.apply(began.elapsed(), answer),
            permit = events.reserve(), if waiting.is_some() => match permit {
                Ok(permit) => waiting.take().map_or((), |event| permit.send(event)),
                // Nobody listens any more.
                Err(_) => {
                    waiting = None;
                    member.leave(began.elapsed());
                    while member.next_event().is_some() {}
                }
            },
            command = commands.recv(), if is_commanded => {
                is_commanded = command.is_some();
                let command = command.unwrap_or(MemberCommand::Leave);
                obey(&mut member, began.elapsed(), command);
            }
            () = sleep_until(began + wakes_at) => member.tick(began.elapsed()),
        }
    }
}

fn obey(member: &mut ClusterMember, now: Duration, command: MemberCommand) {
    match command {
        MemberCommand::SetCandidacy(candidacy) => member.set_candidacy(now, candidacy),
        MemberCommand::SetRecord(record) => member.set_record(record),
        MemberCommand::Leave => member.leave(now),
    }
}

impl<S: ClusterStore> CallsInFlight<S> {
    fn new(store: Arc<S>) -> CallsInFlight<S> {
        CallsInFlight {
            store,
            lease: None,
            election: None,
            view: None,
            watch: None,
        }
    }

    fn start(&mut self, request: StoreRequest) {
        let store = self.store.clone();
        match request {
            StoreRequest::Lease(request) => {
                self.lease = Some(Box::pin(answer_about_lease(store, request)));
            }
            StoreRequest::Election(request) => {
                self.election = Some(Box::pin(answer_about_election(store, request)));
            }
            StoreRequest::View(request) => {
                self.watch = None;
                self.view = Some(Box::pin(answer_about_view(store, request)));
            }
        }
    }

    /// Waits for what the open watch tells next.
    fn listen(&mut self) {
        if self.view.is_some() {
            return;
        }
        self.view = self.watch.take().map(|mut watch| -> Call<_> {
            Box::pin(async move {
                let answer = watch.next().await;
                let watch = answer.is_ok().then_some(watch);
                let answer = StoreAnswer::Changed(answer);
                ViewReturn { answer, watch }
            })
        });
    }

    /// Waits for the next answer.
    async fn next(&mut self) -> StoreAnswer {
        tokio::select! {
            answer = returned(&mut self.lease) => answer,
            answer = returned(&mut self.election) => answer,
            back = returned(&mut self.view) => {
                self.watch = back.watch;
                back.answer
            }
        }
    }
}

/// Waits for a call, and takes it away when it is over. Without a call it waits for ever.
async fn returned<T>(call: &mut Option<Call<T>>) -> T {
    match call {
        Some(running) => {
            let answer = running.as_mut().await;
            *call = None;
            answer
        }
        None => std::future::pending().await,
    }
}

async fn answer_about_lease<S: ClusterStore>(store: Arc<S>, request: LeaseRequest) -> StoreAnswer {
    match request {
        LeaseRequest::Grant { ttl } => StoreAnswer::Granted(store.grant(ttl).await),
        LeaseRequest::Register { key, value, lease } => {
            StoreAnswer::Registered(store.put(&key, &value, lease).await)
        }
        LeaseRequest::Renew { lease } => StoreAnswer::Renewed(store.renew(lease).await),
        LeaseRequest::Revoke { lease } => StoreAnswer::Revoked(store.revoke(lease).await),
    }
}

async fn answer_about_election<S: ClusterStore>(
    store: Arc<S>,
    request: ElectionRequest,
) -> StoreAnswer {
    match request {
        ElectionRequest::Campaign { key, value, lease } => {
            StoreAnswer::Campaigned(store.campaign(&key, &value, lease).await)
        }
        ElectionRequest::Resign { key, term } => {
            StoreAnswer::Resigned(store.resign(&key, term).await)
        }
    }
}

async fn answer_about_view<S: ClusterStore>(
    store: Arc<S>,
    request: ViewRequest,
) -> ViewReturn<S::Watch> {
    match request {
        ViewRequest::Read { prefix } => ViewReturn {
            answer: StoreAnswer::Read(store.read(&prefix).await),
            watch: None,
        },
        ViewRequest::Watch { prefix, from } => {
            let opened = store.watch(&prefix, from).await;
            let (answer, watch) = match opened {
                Ok(watch) => (Ok(watch.opened_at()), Some(watch)),
                Err(end) => (Err(end), None),
            };
            let answer = StoreAnswer::WatchOpened(answer);
            ViewReturn { answer, watch }
        }
    }
}
