//! The tables of peers: their links, the pages between them and this host, and their guards.

use std::collections::BTreeMap;

use comfy_table::{Table, presets};
use sublet_client::messages::{LendPeer, LendStatus};

use crate::formatting::{duration, format_table, percent};

/// The table of peers.
pub(crate) fn peers(status: &LendStatus) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "peer",
        "link",
        "up",
        "round trip",
        "lent to it",
        "borrowed of it",
        "it could lend",
        "it wants more",
        "recalled",
        "at",
    ]);
    for peer in &status.peers {
        table.add_row([
            peer.name.to_string(),
            link(peer),
            peer.up_secs.map_or("–".to_owned(), duration),
            peer.round_trip_micros
                .map_or("–".to_owned(), |micros| format!("{micros} µs")),
            peer.lent.to_string(),
            peer.borrowed.to_string(),
            peer.report.lendable.to_string(),
            peer.report.wanted.to_string(),
            peer.counters.recalled.to_string(),
            peer.address.clone(),
        ]);
    }
    format_table(table, 2..9)
}

fn link(peer: &LendPeer) -> String {
    match peer.why.is_empty() {
        true => peer.link.name().to_owned(),
        false => format!("{} ({})", peer.link.name(), peer.why),
    }
}

/// The table of pages between the host and its peers. Empty if none went yet.
pub(super) fn pages(status: &LendStatus) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "pages of", "sent", "unsent", "fetched", "came", "stored", "served", "lost",
    ]);
    let moved = |peer: &&LendPeer| {
        let pages = &peer.pages;
        pages.sent + pages.unsent + pages.fetched + pages.stored + pages.served > 0
    };
    let mut is_empty = true;
    for peer in status.peers.iter().filter(moved) {
        is_empty = false;
        let pages = &peer.pages;
        table.add_row([
            peer.name.to_string(),
            pages.sent.to_string(),
            pages.unsent.to_string(),
            pages.fetched.to_string(),
            percent(pages.hits, pages.fetched),
            pages.stored.to_string(),
            pages.served.to_string(),
            causes(&pages.lost),
        ]);
    }
    match is_empty {
        true => String::new(),
        false => format_table(table, 1..7),
    }
}

/// The causes that happened, with their counts.
fn causes(all: &BTreeMap<String, u64>) -> String {
    let happened = all.iter().filter(|(_, count)| **count > 0);
    let happened: Vec<String> = happened
        .map(|(cause, count)| format!("{cause} {count}"))
        .collect();
    match happened.is_empty() {
        true => "–".to_owned(),
        false => happened.join(", "),
    }
}

/// The table of guards. Empty if there are none.
pub(super) fn guards(status: &LendStatus) -> String {
    let mut table = Table::new();
    let header = [
        "guard of",
        "backing",
        "asked",
        "page there",
        "page of backing",
    ];
    table.load_style(presets::NOTHING).set_header(header);
    let mut is_empty = true;
    for peer in &status.peers {
        for guard in &peer.guards {
            is_empty = false;
            table.add_row([
                peer.name.to_string(),
                guard.backing.clone(),
                if guard.open { "yes" } else { "no, too slow" }.to_owned(),
                format!("{} µs", guard.far_micros),
                format!("{} µs", guard.miss_micros),
            ]);
        }
    }
    match is_empty {
        true => String::new(),
        false => format_table(table, 3..5),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use sublet_client::messages::{
        CertificateStatus, LendPhase, PeerCounters, PeerGuard, PeerLink, PeerPages, PeerReport,
        VERSION,
    };
    use sublet_types::Bytes;

    use super::*;

    /// A host with one peer, of which it has fetched pages.
    pub(crate) fn sample() -> LendStatus {
        let peer = LendPeer {
            name: "b".parse().expect("a name"),
            address: "tcp:[::1]:7171".to_owned(),
            link: PeerLink::Up,
            why: String::new(),
            up_secs: Some(61),
            retry_millis: None,
            protocol: Some(1),
            round_trip_micros: Some(120),
            lent: Bytes::mib(4),
            borrowed: Bytes::ZERO,
            report: PeerReport::default(),
            counters: PeerCounters::default(),
            pages: PeerPages {
                sent: 32,
                fetched: 8,
                hits: 6,
                lost: BTreeMap::from([("late".to_owned(), 2), ("forged".to_owned(), 0)]),
                ..PeerPages::default()
            },
            refused: BTreeMap::new(),
            guards: vec![PeerGuard {
                backing: "db".to_owned(),
                open: false,
                far_micros: 900,
                miss_micros: 1000,
            }],
        };
        LendStatus {
            version: VERSION,
            phase: LendPhase::Lending,
            phase_millis: None,
            drain_lasts: None,
            lent: Bytes::mib(4),
            lendable: Bytes::mib(8),
            lend_max: None,
            borrowed: Bytes::ZERO,
            wanted: Bytes::ZERO,
            borrow_max: Bytes::ZERO,
            borrow_overhead: Bytes::ZERO,
            cipher: "AEGIS-128X2".to_owned(),
            cipher_why: "it seals a page in 0.30 µs".to_owned(),
            certificates: vec![CertificateStatus {
                kind: "certificate".to_owned(),
                file: "/a.crt".to_owned(),
                ends_unix: 1,
                ends_in_secs: 365 * 86_400,
            }],
            refused: BTreeMap::new(),
            strangers: 0,
            events_dropped: 0,
            page_connections_refused: 0,
            page_connections_broken: 0,
            following: None,
            peers: vec![peer],
        }
    }

    fn row(page: &str) -> Vec<&str> {
        page.lines()
            .nth(1)
            .expect(page)
            .split_whitespace()
            .collect()
    }

    #[test]
    fn a_peer_its_pages_and_its_guard_are_a_line_each() {
        let mut status = sample();
        let page = peers(&status);
        let link = ["b", "up", "1m", "1s", "120", "µs", "4.00", "MiB"];
        assert_eq!(row(&page)[..8], link);
        let page = pages(&status);
        let counts = ["b", "32", "0", "8", "75.0", "%", "0", "0", "late", "2"];
        assert_eq!(row(&page), counts);
        let page = guards(&status);
        assert!(page.contains("no, too slow"), "{page}");
        let peer = &mut status.peers[0];
        (peer.pages, peer.guards) = (PeerPages::default(), Vec::new());
        assert_eq!((pages(&status), guards(&status)), Default::default());
        status.peers[0].link = PeerLink::Shut;
        status.peers[0].why = "flood".to_owned();
        assert!(peers(&status).contains("shut (flood)"));
    }
}
