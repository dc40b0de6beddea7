//! SIGHUP: the daemon reads passwords, certificates and the list `peers.deny` again, each by itself. It does so away from the thread that
//! waits for the end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use super::Daemon;
use crate::credential_report::CredentialReport;
use crate::observe::events::EventReason;

impl Daemon {
    /// Reads passwords and certificates again. If that is under way, it happens once more.
    pub(crate) fn begin_reload(self: &Arc<Daemon>) {
        if self.rereading.asked.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let daemon = Arc::clone(self);
        let reread = move || {
            let asked = &daemon.rereading.asked;
            let mut heard = asked.load(Ordering::Acquire);
            loop {
                daemon.reload();
                match asked.compare_exchange(heard, 0, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return,
                    Err(more) => heard = more,
                }
            }
        };
        match thread::Builder::new()
            .name("reread".to_owned())
            .spawn(reread)
        {
            Ok(thread) => *self.rereading.thread.lock() = Some(thread),
            Err(error) => {
                self.rereading.asked.store(0, Ordering::Release);
                tracing::warn!(%error, "SIGHUP: the daemon cannot make a thread and reads no file anew; send the signal again: `sublet doctor` checks the limits");
            }
        }
    }

    /// Returns when no file is being read again.
    pub(crate) fn end_reload(&self) {
        let thread = self.rereading.thread.lock().take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    fn reload(&self) {
        let mut outcome = CredentialReport::new(&self.events, EventReason::Reread);
        self.tenants.reload_credentials(&mut outcome);
        self.disks.reload_certificates(&mut outcome);
        self.reload_peers(&mut outcome);
        let config = self.file.as_ref().map(|file| file.display().to_string());
        tracing::info!(
            read = outcome.read.join(", "),
            refused = outcome.refused.join(", "),
            config = config.unwrap_or_default(),
            "SIGHUP: passwords and certificates were read anew; the config was not, except for peers.deny, nor the certificate and token of the admin interface: they hold until a restart"
        );
    }
}
