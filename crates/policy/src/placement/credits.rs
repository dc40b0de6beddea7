//! Credits: what a node lent more than it borrowed, second by second (Karma, OSDI '23).

/// How far credits reach. The bounds keep a node that lent for years from taking all, and one that borrowed for years
/// from getting nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditBounds {
    most: i64,
}

impl CreditBounds {
    /// Bounds of so many seconds of a fair share of `lent_by_all` blocks among `nodes`.
    pub fn new(seconds: u32, lent_by_all: u64, nodes: usize) -> CreditBounds {
        let share = lent_by_all.div_ceil(nodes.max(1) as u64);
        let most = u64::from(seconds).saturating_mul(share);
        CreditBounds {
            most: i64::try_from(most).unwrap_or(i64::MAX),
        }
    }

    /// The credits after a second in which others used `lent` blocks of the node, and it used `borrowed` of others.
    pub fn after_second(self, credits: i64, lent: u32, borrowed: u32) -> i64 {
        let change = i64::from(lent) - i64::from(borrowed);
        credits
            .saturating_add(change)
            .clamp(self.most.saturating_neg(), self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lends_earns_and_who_borrows_pays_within_bounds() {
        let bounds = CreditBounds::new(10, 100, 4);
        assert_eq!(bounds.after_second(0, 30, 0), 30);
        assert_eq!(bounds.after_second(30, 0, 12), 18);
        assert_eq!(bounds.after_second(240, 30, 0), 250);
        assert_eq!(bounds.after_second(-240, 0, 30), -250);
        assert_eq!(CreditBounds::new(10, 0, 0).after_second(5, 9, 0), 0);
        let widest = CreditBounds::new(u32::MAX, u64::MAX, 1);
        assert_eq!(widest.after_second(i64::MAX, 9, 0), i64::MAX);
        assert_eq!(widest.after_second(i64::MIN, 0, 9), -i64::MAX);
    }
}
