//! The fields of each control message. Numbers are checked when a line is decoded.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::version::VersionRange;
use super::{ADDRESS_BYTES_MAX, ADDRESSES_MAX, BLOCKS_MAX, LEASES_PER_PEER_MAX, NOTICE_MILLIS_MAX};
use crate::ids::{ClusterName, Incarnation, LeaseId, NodeName, SessionId, SessionNonce};
use crate::index_set::IndexRanges;

/// A number in a message is too large, or a list too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found} {of}; {most} are the most")]
pub struct CountError {
    /// What was counted.
    pub of: &'static str,
    /// How many there are.
    pub found: u64,
    /// How many there may be.
    pub most: u64,
}

/// A number of blocks, [`BLOCKS_MAX`] at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct BlockCount(u32);

impl BlockCount {
    /// This number of blocks, or the most that there may be.
    pub fn saturating(blocks: u32) -> BlockCount {
        BlockCount(blocks.min(BLOCKS_MAX))
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for BlockCount {
    type Error = CountError;

    fn try_from(blocks: u32) -> Result<BlockCount, CountError> {
        within("blocks", u64::from(blocks), u64::from(BLOCKS_MAX)).map(|()| BlockCount(blocks))
    }
}

impl From<BlockCount> for u32 {
    fn from(blocks: BlockCount) -> u32 {
        blocks.0
    }
}

/// Refuses what is more than `most`. The error says of what.
pub(super) fn within(of: &'static str, found: u64, most: u64) -> Result<(), CountError> {
    if found > most {
        return Err(CountError { of, found, most });
    }
    Ok(())
}

/// How long a borrower has to return blocks, in milliseconds, [`NOTICE_MILLIS_MAX`] at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct NoticeMillis(u32);

impl NoticeMillis {
    /// This many milliseconds, or the most that there may be.
    pub fn saturating(millis: u128) -> NoticeMillis {
        let millis = u32::try_from(millis).unwrap_or(NOTICE_MILLIS_MAX);
        NoticeMillis(millis.min(NOTICE_MILLIS_MAX))
    }

    /// The milliseconds.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for NoticeMillis {
    type Error = CountError;

    fn try_from(millis: u32) -> Result<NoticeMillis, CountError> {
        let most = u64::from(NOTICE_MILLIS_MAX);
        within("milliseconds of notice", u64::from(millis), most).map(|()| NoticeMillis(millis))
    }
}

impl From<NoticeMillis> for u32 {
    fn from(millis: NoticeMillis) -> u32 {
        millis.0
    }
}

/// Addresses at which a node listens, as its config has them. They are [`ADDRESSES_MAX`] at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Addresses(Vec<String>);

impl Addresses {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The addresses.
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }
}

impl TryFrom<Vec<String>> for Addresses {
    type Error = CountError;

    fn try_from(addresses: Vec<String>) -> Result<Addresses, CountError> {
        within("addresses", addresses.len() as u64, ADDRESSES_MAX as u64)?;
        for address in &addresses {
            within(
                "bytes of an address",
                address.len() as u64,
                ADDRESS_BYTES_MAX as u64,
            )?;
        }
        Ok(Addresses(addresses))
    }
}

impl From<Addresses> for Vec<String> {
    fn from(addresses: Addresses) -> Vec<String> {
        addresses.0
    }
}

/// How many blocks a borrower holds of each lease of the lender. They are [`LEASES_PER_PEER_MAX`] leases at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    try_from = "BTreeMap<LeaseId, BlockCount>",
    into = "BTreeMap<LeaseId, BlockCount>"
)]
pub struct HeldCounts(BTreeMap<LeaseId, BlockCount>);

impl HeldCounts {
    /// Returns whether no lease has blocks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The blocks of a lease. A lease that is not named has none.
    pub fn of(&self, lease: LeaseId) -> u32 {
        self.0.get(&lease).map_or(0, |blocks| blocks.get())
    }

    /// Each lease with its blocks.
    pub fn iter(&self) -> impl Iterator<Item = (LeaseId, u32)> + '_ {
        self.0.iter().map(|(&lease, blocks)| (lease, blocks.get()))
    }
}

impl TryFrom<BTreeMap<LeaseId, BlockCount>> for HeldCounts {
    type Error = CountError;

    fn try_from(held: BTreeMap<LeaseId, BlockCount>) -> Result<HeldCounts, CountError> {
        within("leases", held.len() as u64, LEASES_PER_PEER_MAX as u64).map(|()| HeldCounts(held))
    }
}

impl From<HeldCounts> for BTreeMap<LeaseId, BlockCount> {
    fn from(held: HeldCounts) -> BTreeMap<LeaseId, BlockCount> {
        held.0
    }
}

/// The first message of each end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlHello {
    /// The versions that this end speaks. Every version begins with this message.
    pub versions: VersionRange,
    /// The cluster, as the certificate names it.
    pub cluster: ClusterName,
    /// The node, as the certificate names it.
    pub node: NodeName,
    /// This run of the node.
    pub incarnation: Incarnation,
    /// This end's number of the session. Data connections to this end name it.
    pub session: SessionId,
    /// This end's random bytes of the session.
    pub nonce: SessionNonce,
    /// Where this end listens.
    #[serde(default, skip_serializing_if = "Addresses::is_empty")]
    pub addresses: Addresses,
}

/// A borrower asks for blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Borrow {
    /// How many it wants.
    pub blocks: BlockCount,
}

/// A lender's answer to [`Borrow`]: blocks of a lease, fewer than asked for, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The lease. It may be one that the borrower has, or a new one.
    pub lease: LeaseId,
    /// The first index of the blocks.
    pub first: u32,
    /// How many there are.
    pub count: BlockCount,
    /// Why there are fewer than asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<GrantLimit>,
}

/// Why a lender grants less than it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantLimit {
    /// It has no more to spare.
    Spare,
    /// Its `lend.max`.
    Max,
    /// Its `lend.max_each`.
    MaxEach,
    /// Its `lend.to` does not name the borrower.
    NotNamed,
    /// It wants memory itself, borrows, or did so a moment ago.
    Wants,
    /// It drains, leaves, or took everything back a moment ago.
    Draining,
    /// It has given the borrower notice of a recall.
    Recalling,
    /// The borrower has as many leases as there may be, or as many indices of them.
    Leases,
    /// It still works on an earlier request of the borrower.
    Busy,
    /// It sets no more aside at once. The borrower asks for the rest again.
    Turn,
    /// A newer lender's reason.
    #[serde(other)]
    Other,
}

/// A borrower gives blocks back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnedRanges {
    /// The lease.
    pub lease: LeaseId,
    /// The indices of the blocks.
    pub ranges: IndexRanges,
}

/// A lender asks for blocks back. It takes what is missing at the end of the notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecallNotice {
    /// How many blocks are to come back, of any lease.
    pub blocks: BlockCount,
    /// The notice.
    pub within_ms: NoticeMillis,
}

/// A lender has taken blocks back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecalledRanges {
    /// The lease.
    pub lease: LeaseId,
    /// The indices of the blocks.
    pub ranges: IndexRanges,
}

/// A lender has ended a lease. Blocks that the borrower still counts are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The lease.
    pub lease: LeaseId,
    /// Why it ended.
    pub why: LeaseEnd,
}

/// Why a lender ended a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseEnd {
    /// The last block came back.
    Returned,
    /// The lender took the last block back.
    Recalled,
    /// The lender does not have this lease.
    Unknown,
    /// A newer lender's reason.
    #[serde(other)]
    Other,
}

/// A lender asks which blocks of a lease the borrower has, up to an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseAudit {
    /// The lease.
    pub lease: LeaseId,
    /// The index after the last in question.
    pub end: u32,
}

/// A borrower's answer to [`LeaseAudit`], in one or several parts: which indices it has within a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The lease.
    pub lease: LeaseId,
    /// The first index of this part.
    pub first: u32,
    /// The index after the last of this part.
    pub end: u32,
    /// The indices that it has.
    pub ranges: IndexRanges,
}

/// A sign of life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping {
    /// The number that the answer repeats. It rises.
    pub tag: u64,
    /// What the sender has borrowed of the receiver. Left out if that is nothing: pings are most of the traffic.
    #[serde(default, skip_serializing_if = "HeldCounts::is_empty")]
    pub held: HeldCounts,
}

/// The answer to [`Ping`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pong {
    /// The number of the ping.
    pub tag: u64,
}

/// What a node tells each peer once a second, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LendReport {
    /// What the receiver would be granted now.
    pub lendable: BlockCount,
    /// What the sender wants beyond what it has.
    pub wanted: BlockCount,
    /// What the sender has lent to all peers.
    pub lent: BlockCount,
    /// What the sender has borrowed of all peers.
    pub borrowed: BlockCount,
}

/// The last message of a connection. All leases of the pair end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bye {
    /// Why the sender ends the connection.
    pub reason: ByeReason,
}

/// Why an end closes the connection for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ByeReason {
    /// The sender goes.
    Leaving,
    /// There is no common version.
    Versions,
    /// The receiver is of another cluster, another name than expected, or denied.
    Refused,
    /// The receiver broke the protocol, lied or sent too much.
    Misbehaved,
    /// A newer peer's reason.
    #[serde(other)]
    Other,
}
