//! How many pages of the paper a simulated page stands for.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::Serialize;
use sublet_types::{BLOCK_BYTES, PAGE_BYTES, Pages};

/// How many pages of the paper a simulated page stands for. It takes as many times longer to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct VmcaScale(NonZeroU32);

/// The scale must be one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scale must be 1, 2, 4, 8, 16 or 32: a block of 2 MiB needs some pages")]
pub struct VmcaScaleError;

/// The largest scale: a block is 16 pages then.
const SCALE_MAX: u32 = 32;

/// A block is 64 pages.
impl Default for VmcaScale {
    fn default() -> VmcaScale {
        VmcaScale(NonZeroU32::MIN.saturating_add(7))
    }
}

impl FromStr for VmcaScale {
    type Err = VmcaScaleError;

    fn from_str(text: &str) -> Result<VmcaScale, VmcaScaleError> {
        let number: NonZeroU32 = text.parse().map_err(|_| VmcaScaleError)?;
        let is_known = number.is_power_of_two() && number.get() <= SCALE_MAX;
        is_known.then_some(VmcaScale(number)).ok_or(VmcaScaleError)
    }
}

impl fmt::Display for VmcaScale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl VmcaScale {
    /// How many pages of the paper a page stands for.
    pub(super) fn factor(self) -> u64 {
        self.0.get().into()
    }

    /// Simulated pages of so many blocks of 2 MiB.
    pub(super) fn pages(self, blocks: u32) -> Pages {
        Pages(u64::from(blocks) * self.block_pages())
    }

    /// Blocks of 2 MiB that hold so many simulated pages, rounded up.
    pub(super) fn blocks(self, pages: Pages) -> u32 {
        u32::try_from(pages.0.div_ceil(self.block_pages())).unwrap_or(u32::MAX)
    }

    fn block_pages(self) -> u64 {
        BLOCK_BYTES / PAGE_BYTES / self.factor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_whole_pages_at_every_scale() {
        for factor in [1, 2, 4, 8, 16, 32] {
            let scale: VmcaScale = factor.to_string().parse().expect("a scale");
            assert_eq!(scale.pages(1).0 * factor, 512);
            assert_eq!(scale.blocks(scale.pages(7)), 7);
            assert_eq!(scale.blocks(Pages(scale.pages(7).0 + 1)), 8);
        }
        for wrong in ["0", "3", "64", "-1", "x"] {
            assert_eq!(wrong.parse::<VmcaScale>(), Err(VmcaScaleError), "{wrong}");
        }
    }
}
