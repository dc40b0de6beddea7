//! `sublet lend status`: how much is lent to whom and borrowed of whom, and how each peer is.

use sublet_client::messages::{ChangeLifetime, LendPhase, LendStatus};
use sublet_types::Bytes;

use super::peer_tables;
use crate::exit::Exit;
use crate::formatting::duration;
use crate::watch::WatchOptions;

/// A certificate is shown from so many seconds before its end on.
const ENDING_SECS: i64 = 30 * 86_400;

/// How to show it.
#[derive(clap::Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    watch: WatchOptions,
}

impl StatusArgs {
    /// Shows it, once or again and again.
    pub(super) fn run(&self) -> Exit {
        self.watch.show(|admin| admin.lending(), page)
    }
}

/// The page for people.
pub(super) fn page(status: &LendStatus) -> String {
    let mut page: String = lines(status)
        .into_iter()
        .map(|(name, text)| format!("{name:<9} {text}\n"))
        .collect();
    page.push_str(&format!("\n{}", peer_tables::peers(status)));
    for table in [peer_tables::pages(status), peer_tables::guards(status)] {
        if !table.is_empty() {
            page.push_str(&format!("\n{table}"));
        }
    }
    page
}

fn lines(status: &LendStatus) -> Vec<(&'static str, String)> {
    let mut lines = summary_lines(status);
    lines.push((
        "cipher",
        format!("{}: {}", status.cipher, status.cipher_why),
    ));
    if !status.refused.is_empty() {
        let causes = status.refused.iter();
        let causes: Vec<String> = causes.map(|(cause, n)| format!("{cause} {n}")).collect();
        lines.push(("refused", causes.join(", ")));
    }
    lines
}

/// The lines that `sublet status` shows, too.
pub(crate) fn summary_lines(status: &LendStatus) -> Vec<(&'static str, String)> {
    let max = status
        .lend_max
        .map_or(String::new(), |max| format!(" of {max} allowed"));
    let lent = format!(
        "{} lent{max}, {} more could be{}",
        status.lent,
        status.lendable,
        phase(status)
    );
    let borrowed = match status.borrow_max {
        Bytes::ZERO => "nothing, because borrow.max is 0".to_owned(),
        max => format!(
            "{} of {max} allowed, and wants {} in all; its rows and outbox take {}",
            status.borrowed, status.wanted, status.borrow_overhead
        ),
    };
    let mut lines = vec![("lends", lent), ("borrows", borrowed)];
    let certificates = status.certificates.iter();
    let ending = certificates.filter(|one| one.ends_in_secs < ENDING_SECS);
    lines.extend(ending.map(|one| {
        let left = match u64::try_from(one.ends_in_secs) {
            Ok(secs) => format!("ends in {}", duration(secs)),
            Err(_) => "has ended".to_owned(),
        };
        ("but", format!("{} {left}: renew it", one.file))
    }));
    lines
}

/// Why the host does not lend as its config says.
fn phase(status: &LendStatus) -> String {
    let secs = status
        .phase_millis
        .map_or(0, |millis| millis.div_ceil(1000));
    match status.phase {
        LendPhase::Lending => String::new(),
        LendPhase::Draining if status.lent > Bytes::ZERO => {
            format!("; it drains, and takes the rest in {}", duration(secs))
        }
        LendPhase::Draining => {
            let end = match status.drain_lasts {
                Some(ChangeLifetime::UntilRestart) => " or the daemon's end",
                Some(ChangeLifetime::Always) | None => "",
            };
            format!("; it drains and lends nothing until `sublet lend resume`{end}")
        }
        LendPhase::Paused => {
            format!("; all was taken back, it lends again in {}", duration(secs))
        }
        LendPhase::Leaving => "; it leaves its peers".to_owned(),
        LendPhase::Left => "; it has left its peers".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::peer_tables::tests::sample;
    use super::*;

    #[test]
    fn what_is_lent_and_why_not_more_stands_in_the_first_lines() {
        let mut status = sample();
        let said = |status: &LendStatus| lines(status)[0].1.clone();
        assert_eq!(said(&status), "4.00 MiB lent, 8.00 MiB more could be");
        status.lend_max = Some(Bytes::gib(1));
        status.phase = LendPhase::Draining;
        status.phase_millis = Some(1500);
        assert_eq!(
            said(&status),
            "4.00 MiB lent of 1.00 GiB allowed, 8.00 MiB more could be; it drains, and takes the rest in 2s"
        );
        status.lent = Bytes::ZERO;
        assert!(said(&status).ends_with("until `sublet lend resume`"));
        status.drain_lasts = Some(ChangeLifetime::UntilRestart);
        assert!(said(&status).ends_with("until `sublet lend resume` or the daemon's end"));
        status.phase = LendPhase::Paused;
        assert!(said(&status).ends_with("it lends again in 2s"));
    }

    #[test]
    fn a_certificate_is_shown_once_it_ends_within_a_month() {
        let mut status = sample();
        let said = |status: &LendStatus| {
            let all = lines(status).into_iter();
            all.filter(|(name, _)| *name == "but")
                .map(|(_, text)| text)
                .collect::<Vec<_>>()
        };
        assert!(said(&status).is_empty());
        status.certificates[0].ends_in_secs = ENDING_SECS - 1;
        assert_eq!(said(&status), ["/a.crt ends in 29d 23h: renew it"]);
        status.certificates[0].ends_in_secs = -1;
        assert_eq!(said(&status), ["/a.crt has ended: renew it"]);
    }
}
