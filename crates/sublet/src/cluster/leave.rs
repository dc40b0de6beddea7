//! `sublet cluster leave`: the node takes everything back and gives everything back, and then stays out.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use sublet_client::Admin;
use sublet_client::messages::{ChangeLifetime, LeaveCluster, LendPhase, LendStatus};
use sublet_types::Bytes;

use crate::admin_options::AdminOptions;
use crate::exit::{Exit, print_error};
use crate::grants::TemporaryFlag;
use crate::notice_period::NoticePeriod;
use crate::signals::interruption;

/// How often to ask how much is still lent and borrowed.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// How to leave.
#[derive(clap::Args)]
pub(super) struct LeaveArgs {
    /// Let borrowers give their pages up for so long, such as 30s, 5m or 1h; what is not back then is taken
    #[arg(long, value_name = "TIME", default_value = "60s")]
    within: NoticePeriod,
    /// Return at once, not when the node has left
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    lifetime: TemporaryFlag,
    #[command(flatten)]
    daemon: AdminOptions,
}

/// What is not back yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Remainder {
    lent: Bytes,
    borrowed: Bytes,
}

/// How the wait for the end ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaveEnd {
    /// The node has parted from all.
    Left,
    /// Somebody lets the node join again.
    Joined,
    /// The user does not wait any longer.
    Interrupted(Remainder),
}

impl LeaveArgs {
    /// Leaves, and shows what is not back yet meanwhile.
    pub(super) fn run(&self) -> Exit {
        let admin = match self.daemon.admin() {
            Ok(admin) => admin,
            Err(exit) => return exit,
        };
        let leave = LeaveCluster {
            within_millis: self.within.millis(),
            lasts: self.lifetime.lasts(),
        };
        let status = match admin.leave_cluster(&leave) {
            Ok(status) => status,
            Err(error) => return Exit::call_failed(&error),
        };
        // An earlier leave may last longer than this one would.
        let until = stays_out(status.leave_lasts.unwrap_or(leave.lasts));
        if self.no_wait {
            return say(format_args!(
                "leaving: within {} everything is back; the node stays out {until}",
                self.within
            ));
        }
        // From here on, the node leaves whether somebody waits or not.
        let waited = interruption().and_then(|is_interrupted| await_end(&admin, &is_interrupted));
        match waited {
            Ok(end) => told(end, until),
            Err(exit) => exit,
        }
    }
}

fn stays_out(lasts: ChangeLifetime) -> &'static str {
    match lasts {
        ChangeLifetime::Always => "until `sublet cluster join`, over restarts too",
        ChangeLifetime::UntilRestart => "until `sublet cluster join` or the daemon's end",
    }
}

fn told(end: LeaveEnd, until: &str) -> Exit {
    match end {
        LeaveEnd::Left => say(format_args!(
            "left: nothing is lent, and nothing is borrowed, {until}"
        )),
        LeaveEnd::Joined => {
            Exit::failed("somebody let the node join again: it does not leave any more")
        }
        LeaveEnd::Interrupted(Remainder { lent, borrowed }) => Exit::failed(format_args!(
            "interrupted; the node goes on leaving, and stays out {until}; {lent} are still lent, and {borrowed} \
             borrowed"
        )),
    }
}

fn say(what: std::fmt::Arguments<'_>) -> Exit {
    Exit::written(writeln!(io::stdout(), "{what}"))
}

/// Waits until the node has parted from all.
fn await_end(admin: &Admin, is_interrupted: &AtomicBool) -> Result<LeaveEnd, Exit> {
    let mut shown = None;
    loop {
        let asked = admin.lending();
        let status = asked.map_err(|error| Exit::call_failed(&error))?;
        if let Some(end) = end_of(&status) {
            return Ok(end);
        }
        let remainder = Remainder {
            lent: status.lent,
            borrowed: status.borrowed,
        };
        if is_interrupted.load(Ordering::Relaxed) {
            return Ok(LeaveEnd::Interrupted(remainder));
        }
        if shown.replace(remainder) != Some(remainder) {
            let Remainder { lent, borrowed } = remainder;
            print_error(format_args!("{lent} are still lent, {borrowed} borrowed"));
        }
        thread::sleep(ASK_EVERY);
    }
}

fn end_of(status: &LendStatus) -> Option<LeaveEnd> {
    match status.phase {
        LendPhase::Left => Some(LeaveEnd::Left),
        LendPhase::Leaving => None,
        LendPhase::Lending | LendPhase::Draining | LendPhase::Paused => Some(LeaveEnd::Joined),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lend::peer_tables::tests::sample;

    #[test]
    fn leaving_ends_when_the_node_has_parted_from_all_or_somebody_lets_it_join() {
        let mut status = sample();
        assert_eq!(end_of(&status), Some(LeaveEnd::Joined));
        status.phase = LendPhase::Leaving;
        assert_eq!(end_of(&status), None);
        // What was lent is back before the node has said goodbye to all.
        status.lent = Bytes::ZERO;
        assert_eq!(end_of(&status), None);
        status.phase = LendPhase::Left;
        assert_eq!(end_of(&status), Some(LeaveEnd::Left));
    }
}
