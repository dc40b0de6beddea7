//! The virtual machines of a scenario.

use serde::Deserialize;
use sublet_types::{Bytes, TenantNameError, TenantSettings, Weight};

use crate::machine::guest::{AfterSwapIn, GuestShape, SwapReadAheadMode};
use crate::virtual_time::VirtualDuration;
use crate::workload::WorkloadSpec;

/// A virtual machine, or several alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VmSpec {
    /// Its name. Several alike are numbered.
    pub name: String,
    /// How many.
    #[serde(default = "single")]
    pub count: u16,
    /// Its memory.
    pub memory: Bytes,
    /// The part of it that its kernel and services take.
    #[serde(default)]
    pub reserved: Bytes,
    /// Its swap space.
    #[serde(default = "swap")]
    pub swap: Bytes,
    /// Pages that a fault brings in together.
    #[serde(default = "read_ahead")]
    pub read_ahead: u32,
    /// How many of these pages a fault on swapped memory brings in.
    #[serde(default)]
    pub swap_ahead: SwapReadAheadMode,
    /// What happens to a swapped page in the tier when it is read back.
    #[serde(default)]
    pub after_swap_in: AfterSwapIn,
    /// Its share relative to those of the others.
    #[serde(default)]
    pub weight: Weight,
    /// What the others never take from it.
    pub floor: Option<Bytes>,
    /// The most that it may hold.
    pub ceiling: Option<Bytes>,
    /// When it begins.
    #[serde(default)]
    pub start: VmStart,
    /// What it does.
    pub workload: WorkloadSpec,
}

fn single() -> u16 {
    1
}

/// SmarTmem's host had 2 GB.
fn swap() -> Bytes {
    Bytes::gib(2)
}

/// Linux's `page-cluster` of 3.
fn read_ahead() -> u32 {
    8
}

/// When a virtual machine begins.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum VmStart {
    /// At an instant.
    At(VirtualDuration),
    /// When others have all reached a mark.
    After(StretchMark),
}

impl Default for VmStart {
    fn default() -> VmStart {
        VmStart::At(VirtualDuration::default())
    }
}

/// The moment at which virtual machines have all begun a stretch of this name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StretchMark {
    /// The virtual machines, by name.
    pub vms: Vec<String>,
    /// The stretch, such as usemem's `640 MiB`.
    pub begin: String,
}

/// One virtual machine, as it will run.
#[derive(Clone, Debug)]
pub struct VmInstance<'a> {
    /// Its name.
    pub name: String,
    /// Its description in the scenario.
    pub spec: &'a VmSpec,
    /// The properties of its guest.
    pub shape: GuestShape,
}

impl VmInstance<'_> {
    /// Its grants in the tier.
    pub fn settings(&self) -> Result<TenantSettings, TenantNameError> {
        Ok(TenantSettings {
            name: self.name.parse()?,
            weight: self.spec.weight,
            floor: self.spec.floor,
            ceiling: self.spec.ceiling,
        })
    }
}

/// The most virtual machines of a scenario: as many as a store has tenants.
pub const VMS_MAX: usize = sublet_store::TENANTS_MAX;
