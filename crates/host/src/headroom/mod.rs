//! Headroom: reads the host's memory figures, has `policy::headroom` decide how large the arena may
//! be, and makes it so.

mod by_hand;
mod cgroup;
mod figures;
#[cfg(test)]
mod figures_live;
mod follow;
mod holds;
mod limited;
mod order;
mod proc_file;
mod running;
mod wants;

pub use by_hand::{ByHand, Taken, TakenOf};
pub use figures::{ProcHost, ReadError, ReadHost};
pub use follow::{Follower, HeadroomFigures, ReleaseCounts, Took};
pub use holds::{HOLDS_MAX, TooManyHolds};
pub use order::{Order, OrderError};
pub(crate) use running::stay_alive;
pub use running::{Headroom, OOM_SCORE_ADJ, StartError};
