//! SIGHUP: passwords and certificates are read anew, each by itself, away from the thread that hears of the end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use super::Daemon;
use crate::credentials::CredentialFiles;
use crate::observe::events::Why;

impl Daemon {
    /// Has passwords and certificates read anew; once more, where that is under way.
    pub(crate) fn begin_reread(self: &Arc<Daemon>) {
        if self.rereading.asked.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let daemon = Arc::clone(self);
        let reread = move || {
            let asked = &daemon.rereading.asked;
            let mut heard = asked.load(Ordering::Acquire);
            loop {
                daemon.reread();
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
                tracing::warn!(%error, "SIGHUP: nothing is read anew");
            }
        }
    }

    /// Returns when nobody reads anything anew.
    pub(crate) fn end_reread(&self) {
        let thread = self.rereading.thread.lock().take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    fn reread(&self) {
        let mut outcome = CredentialFiles::new(&self.events, Why::Reread);
        self.tenants.reread(&mut outcome);
        self.disks.reread_certificates(&mut outcome);
        let config = self.file.as_ref().map(|file| file.display().to_string());
        tracing::info!(
            read = outcome.read.join(", "),
            refused = outcome.refused.join(", "),
            config = config.unwrap_or_default(),
            "SIGHUP: passwords and certificates were read anew; the config was not, nor the certificate and token of the admin interface: they hold until a restart"
        );
    }
}
