//! The control plane as the rest of the daemon sees it: started, told, asked and stopped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mio::net::TcpListener;
use mio::{Interest, Poll, Token, Waker};
use parking_lot::Mutex;
use sublet_frontends::listeners::Listener;
use sublet_frontends::tenancy::Clock;
use sublet_lend::node::LendingInput;
use sublet_store::{Borrowing, Store, TenantFigures};
use sublet_tls::peer::{
    DefaultTimeProvider, PeerCredentialError, PeerCredentials, PeerTlsSettings,
};

use super::control_plane_error::ControlPlaneError;
use super::control_thread::{ControlCommand, ControlSockets, ControlThread, ControlTimes, WAKER};
use super::dialer::Dialer;
use super::members::ChangedMembers;
use super::notices::{PeerObserver, ServePageConnections};
use super::peer_tables::PeerTables;
use super::sessions::{OwnRun, node_number};
use super::settings::{ControlPlaneSettings, LISTENERS_MAX};
use super::store_work::StoreWork;

/// The most commands that wait. Whoever gives a further one waits, too.
const COMMANDS_MAX: usize = 64;

/// What the control plane works with.
pub struct ControlPlaneParts {
    /// The store whose blocks are lent, and whose pages go to lenders.
    pub store: Arc<Store>,
    /// The daemon's clock.
    pub clock: Clock,
    /// The sockets that listen for peers. Those of other kinds than TCP are closed. None if nobody may call.
    pub listeners: Vec<Listener>,
    /// Who logs what happens.
    pub observer: Box<dyn PeerObserver>,
    /// Who serves connections that carry pages.
    pub pages: Box<dyn ServePageConnections>,
    /// Whether a tenant's evictions count as a want of memory.
    pub borrowing: Box<dyn Fn(&TenantFigures) -> Borrowing + Send>,
}

/// The control plane. Its thread ends when this is dropped, without a goodbye: peers keep their leases for ten seconds.
pub struct ControlPlane {
    teller: ControlTeller,
    tables: Arc<PeerTables>,
    credentials: Mutex<Arc<PeerCredentials>>,
    thread: Option<JoinHandle<()>>,
}

/// Tells the control thread what happened. Whoever tells more than it takes waits.
#[derive(Clone)]
pub struct ControlTeller {
    commands: SyncSender<ControlCommand>,
    waker: Arc<Waker>,
}

impl ControlTeller {
    /// Tells the node something: a drain, a recall, a lie of a peer, that it is to leave.
    pub fn tell(&self, input: LendingInput) {
        self.give(ControlCommand::Take(input));
    }

    /// Tells the node who its members are now.
    pub fn change_members(&self, changed: ChangedMembers) {
        self.give(ControlCommand::ChangeMembers(changed));
    }

    fn give(&self, command: ControlCommand) {
        // An error means that the thread has ended, which it logged.
        let _ = self.commands.send(command);
        let _ = self.waker.wake();
    }
}

impl ControlPlane {
    /// Reads the certificates and starts the thread.
    ///
    /// # Errors
    ///
    /// The certificates or the members are wrong, or the kernel or the store refuses.
    pub fn start(
        settings: &ControlPlaneSettings,
        tables: Arc<PeerTables>,
        parts: ControlPlaneParts,
    ) -> Result<ControlPlane, ControlPlaneError> {
        let credentials = load(&settings.tls)?;
        let random = sublet_tls::provider().secure_random;
        let worker = parts.store.worker()?;
        let store = StoreWork::new(
            (worker, parts.clock),
            Arc::clone(&tables),
            (random, settings.cipher),
            settings.borrow_max,
            parts.borrowing,
        );
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let (commands, received) = sync_channel(COMMANDS_MAX);
        let thread = ControlThread {
            listeners: registered(parts.listeners, &poll)?,
            poll,
            commands: received,
            own: OwnRun {
                node: node_number(&settings.tls.identity.node),
                incarnation: tables.incarnation(),
            },
            credentials: Arc::clone(&credentials),
            tables: Arc::clone(&tables),
            store,
            clock: parts.clock,
            observer: parts.observer,
            pages: parts.pages,
            dialer: Dialer::new(Arc::clone(&waker)),
            sockets: ControlSockets::default(),
            inputs: VecDeque::new(),
            times: ControlTimes::default(),
        };
        let followed = Arc::clone(&tables);
        let body = move || {
            if let Err(error) = thread.run() {
                tracing::error!("lending has ended, and nothing is lent or borrowed: {error}");
            }
            followed.sessions.close_all();
        };
        let thread = thread::Builder::new()
            .name("peers".to_owned())
            .spawn(body)?;
        Ok(ControlPlane {
            teller: ControlTeller { commands, waker },
            tables,
            credentials: Mutex::new(credentials),
            thread: Some(thread),
        })
    }

    /// The tables that other threads read.
    pub fn tables(&self) -> &Arc<PeerTables> {
        &self.tables
    }

    /// Who tells the node something.
    pub fn teller(&self) -> &ControlTeller {
        &self.teller
    }

    /// Reads the certificates and the deny list anew. A peer that is denied now loses its leases and its connection.
    /// Other connections stay as they are.
    ///
    /// # Errors
    ///
    /// A file cannot be used. What was read before holds.
    pub fn reload(&self, tls: &PeerTlsSettings) -> Result<(), PeerCredentialError> {
        let credentials = load(tls)?;
        *self.credentials.lock() = Arc::clone(&credentials);
        self.teller.give(ControlCommand::Renew(credentials));
        Ok(())
    }

    /// The certificates that were read last.
    pub fn credentials(&self) -> Arc<PeerCredentials> {
        Arc::clone(&self.credentials.lock())
    }

    /// Waits until the thread has carried out what it was told, or for this long. The tables then show it.
    pub fn wait_until_told(&self, at_most: Duration) {
        let (told, is_told) = sync_channel(1);
        self.teller.give(ControlCommand::Confirm(told));
        let _ = is_told.recv_timeout(at_most);
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.teller.give(ControlCommand::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn load(tls: &PeerTlsSettings) -> Result<Arc<PeerCredentials>, PeerCredentialError> {
    let credentials = PeerCredentials::load(tls, Arc::new(DefaultTimeProvider))?;
    Ok(Arc::new(credentials))
}

fn registered(
    listeners: Vec<Listener>,
    poll: &Poll,
) -> Result<Vec<TcpListener>, ControlPlaneError> {
    if listeners.len() > LISTENERS_MAX {
        return Err(ControlPlaneError::Listeners(listeners.len()));
    }
    let mut registered = Vec::new();
    for listener in listeners.into_iter().filter_map(Listener::into_tcp) {
        let mut listener = TcpListener::from_std(listener);
        let token = Token(registered.len());
        let registry = poll.registry();
        registry.register(&mut listener, token, Interest::READABLE)?;
        registered.push(listener);
    }
    Ok(registered)
}
