//! Curves made from other curves.

use sublet_types::{Curve, Pages};

use super::lookahead::MonotoneCurve;

/// The curve that has the same hits at `factor` times the memory.
pub fn stretched(curve: &Curve, factor: f64) -> Curve {
    let stretch = |(pages, hits): &(Pages, f64)| (Pages((pages.0 as f64 * factor) as u64), *hits);
    Curve {
        points: curve.points.iter().map(stretch).collect(),
    }
}

/// The hits of two kinds that share a tenant's memory in the proportion of what each holds now.
pub fn combined(one: (&Curve, Pages), other: (&Curve, Pages)) -> Curve {
    let held = (one.1.0 + other.1.0) as f64;
    if held == 0.0 {
        return combined((one.0, Pages(1)), (other.0, Pages(1)));
    }
    let kinds = [one, other].map(|(curve, own)| (MonotoneCurve::of(curve), own.0 as f64 / held));
    let whole = |(curve, own): (&Curve, Pages)| -> Vec<u64> {
        let part = own.0 as f64 / held;
        let points = curve.points.iter().filter(|_| part > 0.0);
        points
            .map(|(pages, _)| (pages.0 as f64 / part) as u64)
            .collect()
    };
    let mut turns = [whole(one), whole(other)].concat();
    turns.sort_unstable();
    turns.dedup();
    let hits = |pages: u64| -> f64 {
        let of_kind =
            |(hit_curve, part): &(MonotoneCurve, f64)| hit_curve.hits((pages as f64 * part) as u64);
        kinds.iter().map(of_kind).sum()
    };
    Curve {
        points: turns
            .into_iter()
            .map(|pages| (Pages(pages), hits(pages)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u64, f64)]) -> Curve {
        let points = points.iter().map(|&(pages, hits)| (Pages(pages), hits));
        Curve {
            points: points.collect(),
        }
    }

    #[test]
    fn a_stretched_curve_has_its_hits_later() {
        let stretched = stretched(&curve(&[(0, 0.0), (100, 8.0)]), 1.25);
        assert_eq!(stretched, curve(&[(0, 0.0), (125, 8.0)]));
    }

    /// A quarter of the memory is of the one kind: with 400 pages it has its 100.
    #[test]
    fn two_kinds_share_memory_as_they_hold_it() {
        let pages = curve(&[(0, 0.0), (100, 40.0)]);
        let items = curve(&[(0, 0.0), (150, 30.0), (600, 60.0)]);
        let both = combined((&pages, Pages(10)), (&items, Pages(30)));
        let ought = [(0, 0.0), (200, 50.0), (400, 80.0), (800, 100.0)];
        assert_eq!(both, curve(&ought));
        let alone = combined((&pages, Pages(0)), (&items, Pages(30)));
        assert_eq!(alone, items);
        let nothing = combined((&pages, Pages(0)), (&pages, Pages(0)));
        assert_eq!(nothing, curve(&[(0, 0.0), (200, 80.0)]));
    }
}
