//! The admin interface: HTTP and JSON on a Unix socket, over TCP with TLS and a token if configured, and the read-only
//! listener for metrics.
//!
//! It runs on one thread, away from the threads that serve clients. Another thread makes what it shows of the whole
//! daemon.

mod cluster;
mod disks;
mod events;
mod file_calls;
mod http_error;
mod lending;
mod listeners;
mod long_calls;
mod replies;
mod routes;
mod saves;
mod serve;
mod status_snapshots;

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::runtime;
use tokio::sync::watch;

pub use listeners::{AdminListenError, AdminListeners, CONNECTIONS_MAX, check_files};

use self::status_snapshots::StatusSnapshots;
use crate::daemon::Daemon;

/// The admin interface. It runs for as long as this lives.
pub struct Admin {
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Admin {
    /// Starts to accept callers.
    pub fn start(listeners: AdminListeners, daemon: Arc<Daemon>) -> io::Result<Admin> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (snapshots, shown) = StatusSnapshots::start(Arc::clone(&daemon))?;
        let (end, ended) = watch::channel(false);
        let thread = thread::Builder::new()
            .name("admin".to_owned())
            .spawn(move || {
                runtime.block_on(serve::serve_all(listeners, daemon, snapshots, ended));
                runtime.shutdown_background();
                let _ = shown.join();
            })?;
        Ok(Admin {
            end,
            thread: Some(thread),
        })
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        let _ = self.end.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
