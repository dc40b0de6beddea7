//! The page's sections: each has the commands that it runs, the figures that it keeps, its words and its pictures.

pub(super) mod disk;
pub(super) mod eviction;
pub(super) mod mortar;
pub(super) mod mortar_host;
pub(super) mod puma;
pub(super) mod scale;
pub(super) mod sharing;
pub(super) mod smartmem;
pub(super) mod synergy;
pub(super) mod vmca;

mod figures;
mod report;
