//! An etcd, or what stands in its place, that answers with arbitrary bytes.

use sublet_etcd::answers::{
    WatchMessage, decode_campaign, decode_fault, decode_grant, decode_put, decode_range,
    decode_renewal, decode_token, decode_watch,
};
use sublet_etcd::gateway::LineReader;
use sublet_etcd::member::{Candidacy, ClusterMember, MemberSettings, StoreAnswer, TTL_DEFAULT};
use sublet_etcd::mirror::PrefixMirror;
use sublet_etcd::record::{LeaderRecord, NodeRecord};
use sublet_etcd::store::{Change, LeaseId};

use crate::Pieces;

/// Feeds bytes as each kind of answer, and as the stream of a watch, whole and cut by `seed`. The messages must be the
/// same. A member that believes what was parsed must stay sane.
pub fn answers(seed: u32, input: &[u8]) {
    let _ = (decode_put(input), decode_grant(input), decode_token(input));
    let _ = (decode_campaign(input), decode_renewal(LeaseId(1), input));
    let _ = (NodeRecord::parse(input), LeaderRecord::parse(input));
    let _ = decode_fault(input).kind();
    let whole = messages(std::iter::once(input));
    let pieces = messages(Pieces { seed, rest: input });
    assert_eq!(whole, pieces, "cutting the input changed the messages");
    let mut member = ClusterMember::new(MemberSettings {
        cluster: "prod".parse().expect("a name"),
        node: "a".parse().expect("a name"),
        record: Vec::new(),
        candidacy: Candidacy::Candidate,
        ttl: TTL_DEFAULT,
        seed: seed.into(),
    });
    let now = std::time::Duration::ZERO;
    while member.next_request(now).is_some() {}
    if let Ok(snapshot) = decode_range(input) {
        let mut mirror = PrefixMirror::default();
        mirror.take_snapshot(snapshot.clone());
        assert_eq!(
            mirror.take_snapshot(snapshot.clone()),
            [],
            "the same again differs"
        );
        member.apply(now, StoreAnswer::Read(Ok(snapshot)));
    }
    for message in whole {
        if let WatchMessage::Changes(changes) = message {
            is_news_once(&changes);
            member.apply(now, StoreAnswer::Changed(Ok(changes)));
        }
    }
    while member.next_event().is_some() {}
}

/// Takes changes in the order of their revisions. The last one is no news the second time.
fn is_news_once(changes: &[Change]) {
    let mut mirror = PrefixMirror::default();
    let mut ordered = changes.to_vec();
    ordered.sort_by_key(Change::revision);
    for change in &ordered {
        mirror.take_change(change.clone());
    }
    let newest = ordered.pop().and_then(|change| mirror.take_change(change));
    assert_eq!(newest, None, "the newest change is told twice");
}

/// The messages up to the first line that is none.
fn messages<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<WatchMessage> {
    let mut reader = LineReader::default();
    let mut messages = Vec::new();
    for piece in pieces {
        reader.push(piece);
        loop {
            match reader.next_line().map(|line| line.map(decode_watch)) {
                Ok(None) => break,
                Ok(Some(Ok(message))) => messages.push(message),
                Ok(Some(Err(_))) | Err(_) => return messages,
            }
        }
    }
    messages
}
