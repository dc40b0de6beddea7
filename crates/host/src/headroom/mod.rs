//! Headroom: reads the host's memory figures, lets `policy::headroom` decide how large the arena may be, and sets the
//! arena's limit.

mod cgroup;
mod follow;
mod headroom_thread;
mod holds;
mod host_figures;
#[cfg(test)]
mod host_figures_live;
mod host_pressure;
mod limited_cgroups;
mod manual_releases;
mod proc_file;
mod release_order;

pub use follow::{ArenaFollower, CompletedRelease, HeadroomFigures, ReleaseCounts};
pub(crate) use headroom_thread::protect_from_oom_killer;
pub use headroom_thread::{Headroom, HeadroomStartError, OOM_SCORE_ADJ};
pub use holds::{HOLDS_MAX, TooManyHolds};
pub use host_figures::{HostReadError, ProcHost, ReadHost};
pub use manual_releases::{ManualReleaseList, ManualReleases, TenantReleaseLoss};
pub use release_order::{ReleaseOrder, ReleaseOrderError};
