//! What the owner of the host granted a tenant, so that an owner can grant it again.

use sublet_types::{Bytes, EvictionKind, FileVersion, SimulatedEviction, Weight};

use super::fields::FieldReader;
use crate::api::{RestoreError, SavedGrants, SavedLimits};

/// No floor, or no ceiling.
const NO_AMOUNT: u64 = u64::MAX;

impl SavedGrants {
    /// The number of bytes that `import` reads.
    pub(crate) const fn bytes(version: FileVersion) -> usize {
        match version {
            FileVersion::Previous => 1,
            FileVersion::Current => 1 + 4 + 8 + 8,
        }
    }

    /// Appends the grants to a head.
    pub(crate) fn export(eviction: EvictionKind, limits: &SavedLimits, head: &mut Vec<u8>) {
        let amount = |amount: Option<Bytes>| amount.map_or(NO_AMOUNT, |amount| amount.0);
        head.push(eviction.number());
        head.extend_from_slice(&limits.weight.0.to_le_bytes());
        head.extend_from_slice(&amount(limits.floor).to_le_bytes());
        head.extend_from_slice(&amount(limits.ceiling).to_le_bytes());
    }

    /// Reads the grants from a head.
    pub(crate) fn import(
        head: &mut FieldReader<'_>,
        version: FileVersion,
    ) -> Result<SavedGrants, RestoreError> {
        let (eviction, gone) = head.known(meaning)?;
        let limits = match version {
            FileVersion::Previous => None,
            FileVersion::Current => Some(SavedLimits::import(head)?),
        };
        Ok(SavedGrants {
            eviction,
            gone,
            limits,
        })
    }
}

/// The eviction that a number stands for, and its old name if daemons no longer have it.
fn meaning(number: u8) -> Option<(EvictionKind, Option<&'static str>)> {
    let gone = || {
        let eviction = SimulatedEviction::numbered(number)?;
        Some((EvictionKind::default(), Some(eviction.name)))
    };
    let kind = EvictionKind::numbered(number);
    kind.map(|kind| (kind, None)).or_else(gone)
}

impl SavedLimits {
    fn import(head: &mut FieldReader<'_>) -> Result<SavedLimits, RestoreError> {
        let amount = |said| (said != NO_AMOUNT).then_some(Bytes(said));
        let weight_at = head.at();
        let weight = Weight(head.u32());
        let floor_at = head.at();
        let (floor, ceiling) = (amount(head.u64()), amount(head.u64()));
        let is_above = floor
            .zip(ceiling)
            .is_some_and(|(floor, ceiling)| floor > ceiling);
        match () {
            () if weight.0 == 0 => Err(RestoreError::Unknown(weight_at)),
            () if is_above => Err(RestoreError::Unknown(floor_at)),
            () => Ok(SavedLimits {
                weight,
                floor,
                ceiling,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eviction_that_daemons_have_no_more_is_the_default() {
        let import = |number| {
            let head = [number];
            SavedGrants::import(&mut FieldReader::after(&head, 0), FileVersion::Previous)
        };
        let sieve = import(5).expect("it is read");
        assert_eq!(
            (sieve.eviction, sieve.gone),
            (EvictionKind::Auto, Some("sieve"))
        );
        let lru = import(EvictionKind::Lru.number()).expect("it is read");
        assert_eq!((lru.eviction, lru.gone), (EvictionKind::Lru, None));
        assert!(matches!(import(10), Err(RestoreError::Unknown(0))));
    }
}
