//! How counts of the past fade, so that decisions follow phases.

/// After this many seconds a count weighs half. It is a minute, because the phases of the papers' workloads last
/// minutes and one second alone says too little.
pub(crate) const HALF_LIFE_SECS: u32 = 60;

/// What is left of a count after a second: 2^(-1 / [`HALF_LIFE_SECS`]).
const KEPT_A_SECOND: f64 = 0.988_514_020_352_896_2;

/// After this many seconds nothing measurable is left: forty half-lives.
const FORGOTTEN_SECS: u32 = 40 * HALF_LIFE_SECS;

/// What is left of a count after `secs` seconds, from 1 down to 0. It uses plain multiplication, so that every machine
/// computes the same.
pub(crate) fn kept_after(secs: u32) -> f64 {
    if secs >= FORGOTTEN_SECS {
        return 0.0;
    }
    (0..secs).fold(1.0, |kept, _| kept * KEPT_A_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_left_after_a_half_life_and_nothing_after_very_long() {
        assert!((kept_after(HALF_LIFE_SECS) - 0.5).abs() < 1e-12);
        assert_eq!(kept_after(0), 1.0);
        assert_eq!(kept_after(u32::MAX), 0.0);
    }
}
