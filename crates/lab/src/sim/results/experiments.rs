//! The experiments of the page, in its order.

use super::experiment::Experiment;
use super::sections::{
    disk, eviction, mortar, mortar_host, puma, scale, sharing, smartmem, synergy,
};

/// All of them.
pub(super) const EXPERIMENTS: [Experiment; 9] = [
    sharing::EXPERIMENT,
    eviction::EXPERIMENT,
    disk::EXPERIMENT,
    smartmem::EXPERIMENT,
    mortar::EXPERIMENT,
    mortar_host::EXPERIMENT,
    synergy::EXPERIMENT,
    puma::EXPERIMENT,
    scale::EXPERIMENT,
];
