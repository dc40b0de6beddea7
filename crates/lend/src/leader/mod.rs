//! The leader's ledger: what all nodes report, what it advises, and who takes part. It reads no clock and sends nothing
//! itself.
//!
//! The ledger is rebuilt from reports alone, but for those that are gone: the node itself knows who was a member. Nothing
//! of it outlives its leader, and nothing depends on it but advice.
//!
//! ```text
//!  node:  Expected ──report──▶ Active ◀──report── Away ──10 min, or no member any more──▶ Gone
//!             └──10 s─▶ Away     │ └──3 s of silence──▶ ▲                                   ▲
//!                                └──leave──▶ Leaving ───┴──────────bye──────────────────────┘
//! ```
//!
//! A report says whether its node leaves, whatever state that was in.

mod cluster_status;
mod ledger;
mod ledger_node;
mod ledger_view;
mod member_list;
mod pair_books;
mod silence;

pub use cluster_status::{ClusterNodeState, ClusterNodeStatus, ClusterStatus, GivenAdvice};
pub use ledger::{
    ADVICE_KEPT_MAX, ADVISE_AFTER, ADVISE_EVERY, Ledger, LedgerAction, LedgerSettings,
};
pub use ledger_view::GONE_SHOWN_FOR;
pub use member_list::{FULL_LISTS_EACH_SECOND, LIST_TOLD_AGAIN_AFTER, REVISIONS_KEPT_MAX};
pub use pair_books::{MISMATCH_ALARM_AFTER, PairMismatch};
pub use silence::{
    AWAY_AFTER, DOUBT_MAX, EXPECTED_FOR, GONE_AFTER, LISTED_AFTER, SILENT_CROWD_MIN,
};
