//! The experiments of the page, in its order.

use super::experiment::Experiment;
use super::sections::{
    disk, eviction, mortar, mortar_host, puma, scale, sharing, smartmem, synergy, vmca,
};

/// All of them.
pub(super) const EXPERIMENTS: [Experiment; 10] = [
    sharing::EXPERIMENT,
    eviction::EXPERIMENT,
    disk::EXPERIMENT,
    smartmem::EXPERIMENT,
    mortar::EXPERIMENT,
    mortar_host::EXPERIMENT,
    synergy::EXPERIMENT,
    puma::EXPERIMENT,
    vmca::EXPERIMENT,
    scale::EXPERIMENT,
];
