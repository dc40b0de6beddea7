//! What uses are worth: how much less a page's age counts at each level of uses, by setting.

use super::history::USES_MAX;

/// Levels: newcomers, and pages that came back once, two or three, four to seven, and more times.
pub(super) const LEVELS: usize = 5;

/// Settings that a tenant's shadows try.
pub(super) const SETTINGS: usize = 8;

/// The setting that a tenant starts with. It trusts newcomers and counts uses a little.
pub(super) const START: usize = 1;

/// What a unit of age counts for, by setting and level, in 1,024ths. The first setting is plain age.
pub(super) const RANKS: [[u32; LEVELS]; SETTINGS] = [
    [1024, 1024, 1024, 1024, 1024],
    [1024, 1024, 683, 455, 303],
    [2048, 1024, 1024, 1024, 1024],
    [2048, 1024, 683, 455, 303],
    [4096, 1024, 683, 455, 303],
    [10_240, 1024, 683, 455, 303],
    [10_240, 1024, 410, 164, 66],
    [34_133, 1024, 410, 164, 66],
];

/// A bonus of each setting beyond its hits, as a fraction of gets. The settings that distrust newcomers most gain late
/// from what they keep. By their hits alone they would be left too soon.
pub(super) const TRUSTS: [f64; SETTINGS] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.01, 0.01];

/// The level of a page that came back this often.
pub(super) fn level_of(uses: u8) -> usize {
    debug_assert!(uses <= USES_MAX);
    (u8::BITS - uses.leading_zeros()) as usize
}

/// How near a page is to leaving.
pub(super) fn rank(age: u32, level: usize, ranks: &[u32; LEVELS]) -> u64 {
    (u64::from(age) + 1) * u64::from(ranks[level])
}
