//! The admin interface: HTTP and JSON on a Unix socket, over TCP with TLS and a token if asked, and
//! the read-only listener for metrics. One thread, away from those that serve clients; another makes what it shows of
//! the whole daemon.

mod disks;
mod doors;
mod events;
mod file_calls;
mod http_error;
mod long_calls;
mod looks;
mod replies;
mod routes;
mod saves;
mod serve;

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::runtime;
use tokio::sync::watch;

pub use doors::{CONNECTIONS_MAX, Doors, DoorsError, check_files};

use self::looks::Looks;
use crate::daemon::Daemon;

/// The admin interface, for as long as this lives.
pub struct Admin {
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Admin {
    /// Lets callers in.
    pub fn start(doors: Doors, daemon: Arc<Daemon>) -> io::Result<Admin> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (looks, shown) = Looks::start(Arc::clone(&daemon))?;
        let (end, ended) = watch::channel(false);
        let thread = thread::Builder::new()
            .name("admin".to_owned())
            .spawn(move || {
                runtime.block_on(serve::all(doors, daemon, looks, ended));
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
