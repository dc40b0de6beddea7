//! `sublet lend drain`: stops lending, and waits until nothing is lent any more.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use sublet_client::Admin;
use sublet_client::messages::{ChangeLifetime, DrainLending, LendPhase, LendStatus};
use sublet_types::Bytes;

use crate::admin_options::AdminOptions;
use crate::exit::{Exit, print_error};
use crate::grants::TemporaryFlag;
use crate::notice_period::NoticePeriod;
use crate::signals::interruption;

/// How often to ask how much is still lent.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// How to drain.
#[derive(clap::Args)]
pub(super) struct DrainArgs {
    /// Let borrowers give their pages up for so long, such as 30s, 5m or 1h; what is not back then is taken
    #[arg(long, value_name = "TIME", default_value = "30s")]
    within: NoticePeriod,
    #[command(flatten)]
    lifetime: TemporaryFlag,
    #[command(flatten)]
    daemon: AdminOptions,
}

/// How the wait for the end of a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DrainEnd {
    /// Nothing is lent any more.
    Drained,
    /// Somebody lets the host lend again.
    Resumed,
    /// The user does not wait any longer. So much is still lent.
    Interrupted(Bytes),
}

impl DrainArgs {
    /// Drains, and shows how much is still lent meanwhile.
    pub(super) fn run(&self) -> Exit {
        let admin = match self.daemon.admin() {
            Ok(admin) => admin,
            Err(exit) => return exit,
        };
        let drain = DrainLending {
            within_millis: self.within.millis(),
            lasts: self.lifetime.lasts(),
        };
        let status = match admin.drain_lending(&drain) {
            Ok(status) => status,
            Err(error) => return Exit::call_failed(&error),
        };
        // From here on, the node drains whether somebody waits or not.
        let waited =
            interruption().and_then(|is_interrupted| await_end(&admin, status, &is_interrupted));
        match waited {
            Ok(end) => self.told(end),
            Err(exit) => exit,
        }
    }

    fn told(&self, end: DrainEnd) -> Exit {
        let lasts = match self.lifetime.lasts() {
            ChangeLifetime::Always => "until `sublet lend resume`, over restarts too",
            ChangeLifetime::UntilRestart => "until `sublet lend resume` or the daemon's end",
        };
        match end {
            DrainEnd::Drained => {
                let said = format!("drained: nothing is lent, {lasts}\n");
                Exit::written(io::stdout().write_all(said.as_bytes()))
            }
            DrainEnd::Resumed => {
                Exit::failed("somebody let the host lend again: it does not drain any more")
            }
            DrainEnd::Interrupted(lent) => Exit::failed(format_args!(
                "interrupted; the drain stays in force {lasts}; {lent} are still lent"
            )),
        }
    }
}

/// Waits until nothing is lent any more.
fn await_end(
    admin: &Admin,
    mut status: LendStatus,
    is_interrupted: &AtomicBool,
) -> Result<DrainEnd, Exit> {
    let mut shown = None;
    loop {
        if let Some(end) = end_of(&status) {
            return Ok(end);
        }
        if is_interrupted.load(Ordering::Relaxed) {
            return Ok(DrainEnd::Interrupted(status.lent));
        }
        if shown.replace(status.lent) != Some(status.lent) {
            print_error(format_args!("{} are still lent", status.lent));
        }
        thread::sleep(ASK_EVERY);
        let asked = admin.lending();
        status = asked.map_err(|error| Exit::call_failed(&error))?;
    }
}

fn end_of(status: &LendStatus) -> Option<DrainEnd> {
    match status.phase {
        LendPhase::Lending => Some(DrainEnd::Resumed),
        _ if status.lent == Bytes::ZERO => Some(DrainEnd::Drained),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::peer_tables::tests::sample;
    use super::*;

    #[test]
    fn a_drain_ends_when_nothing_is_lent_or_somebody_ends_it() {
        let mut status = sample();
        assert_eq!(end_of(&status), Some(DrainEnd::Resumed));
        status.phase = LendPhase::Draining;
        assert_eq!(end_of(&status), None);
        status.lent = Bytes::ZERO;
        assert_eq!(end_of(&status), Some(DrainEnd::Drained));
    }
}
