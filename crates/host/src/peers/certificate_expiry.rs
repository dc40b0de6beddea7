//! Tells the owner in time that a certificate of lending ends.

use std::collections::BTreeMap;
use std::path::PathBuf;

use sublet_tls::peer::EXPIRY_NOTICE;

use crate::observe::events::{EventId, EventReason, Events, PostedEvent};

/// The pause between two events about one certificate, in seconds.
const REMINDER_SECS: u64 = 24 * 3600;

/// Whose certificate it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CertificateKind {
    /// This host's own.
    Own,
    /// That of an authority.
    Authority,
}

impl CertificateKind {
    /// Its name in the status and the metrics: the config's key.
    pub fn label(self) -> &'static str {
        match self {
            CertificateKind::Own => "certificate",
            CertificateKind::Authority => "ca",
        }
    }
}

/// When a certificate ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateEnd {
    /// Whose it is.
    pub kind: CertificateKind,
    /// Its file.
    pub file: PathBuf,
    /// The last second at which it is valid, in Unix time.
    pub ends_unix: u64,
}

impl CertificateEnd {
    /// Seconds until the end. They are below zero once it has passed.
    pub fn ends_in(&self, now_unix: u64) -> i64 {
        let seconds = |unix: u64| i64::try_from(unix).unwrap_or(i64::MAX);
        seconds(self.ends_unix).saturating_sub(seconds(now_unix))
    }

    fn is_near(&self, now_unix: u64) -> bool {
        self.ends_unix < now_unix.saturating_add(EXPIRY_NOTICE.as_secs())
    }
}

/// Posts an event about each certificate that ends soon, once a day at most.
pub(crate) struct ExpiryReminder {
    events: Events,
    told_at: BTreeMap<CertificateKind, u64>,
}

impl ExpiryReminder {
    /// A reminder that has told nothing yet.
    pub(crate) fn new(events: &Events) -> ExpiryReminder {
        ExpiryReminder {
            events: events.clone(),
            told_at: BTreeMap::new(),
        }
    }

    /// Looks at the certificates, and tells what is due.
    pub(crate) fn remind(&mut self, now_unix: u64, ends: &[CertificateEnd]) {
        for end in ends {
            if !end.is_near(now_unix) {
                self.told_at.remove(&end.kind);
                continue;
            }
            let told_at = self.told_at.get(&end.kind);
            if told_at.is_none_or(|at| now_unix >= at + REMINDER_SECS) {
                self.told_at.insert(end.kind, now_unix);
                self.events.post(event_of(end, now_unix));
            }
        }
    }
}

fn event_of(end: &CertificateEnd, now_unix: u64) -> PostedEvent {
    let (file, days) = (end.file.display(), end.ends_in(now_unix).div_euclid(86_400));
    let event = PostedEvent::new(EventId::CertificateEnding, EventReason::Expiry);
    match days {
        ..0 => event.saying(format_args!("{file} has ended")),
        0 => event.saying(format_args!("{file} ends within a day")),
        _ => event.saying(format_args!("{file} ends in {days} days")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    fn own(ends_unix: u64) -> CertificateEnd {
        CertificateEnd {
            kind: CertificateKind::Own,
            file: "/a.crt".into(),
            ends_unix,
        }
    }

    fn ca(ends_unix: u64) -> CertificateEnd {
        CertificateEnd {
            kind: CertificateKind::Authority,
            file: "/ca.crt".into(),
            ends_unix,
        }
    }

    /// What was told since the last look.
    fn told(events: &Events, seen: &mut u64) -> Vec<String> {
        let excerpt = events.after(*seen, 100);
        *seen = events.latest();
        let all = excerpt.events.iter();
        all.map(|event| sublet_client::messages::Event::from(&**event).said)
            .map(|said| said.split(": ").last().unwrap_or_default().to_owned())
            .collect()
    }

    /// A clock of a hundred days goes hour by hour. The certificate ends at day 60 and is renewed at day 62.
    #[test]
    fn the_owner_is_told_from_the_thirtieth_day_before_the_end_on_once_a_day() {
        let events = Events::default();
        let mut reminder = ExpiryReminder::new(&events);
        let mut told_on = Vec::new();
        for hour in 0..100 * 24 {
            let now = hour * 3600;
            let ends = if now < 62 * DAY { 60 * DAY } else { 500 * DAY };
            reminder.remind(now, &[own(ends)]);
            // Repetitions within a second are one event. The counts have each.
            let count = events.counts().into_iter();
            let count = count.filter(|count| count.id == "certificate.ending");
            told_on.push((hour, count.map(|count| count.count).sum::<u64>()));
        }
        let news = told_on.windows(2).filter(|pair| pair[1].1 > pair[0].1);
        let news: Vec<u64> = news.map(|pair| pair[1].0).collect();
        let first = 30 * 24 + 1;
        let want: Vec<u64> = (0..32).map(|day| first + day * 24).collect();
        assert_eq!(news, want);
    }

    #[test]
    fn each_certificate_is_told_by_itself_and_with_the_time_that_is_left() {
        let events = Events::default();
        let (mut reminder, mut seen) = (ExpiryReminder::new(&events), 0);
        reminder.remind(100 * DAY, &[own(500 * DAY), ca(110 * DAY + 5)]);
        assert_eq!(told(&events, &mut seen), ["/ca.crt ends in 10 days"]);
        let said = |ends: u64| {
            let events = Events::default();
            ExpiryReminder::new(&events).remind(100 * DAY, &[own(ends)]);
            told(&events, &mut 0)
        };
        assert_eq!(said(100 * DAY + 5), ["/a.crt ends within a day"]);
        assert_eq!(said(100 * DAY - 1), ["/a.crt has ended"]);
        assert_eq!(said(130 * DAY), [""; 0]);
    }
}
