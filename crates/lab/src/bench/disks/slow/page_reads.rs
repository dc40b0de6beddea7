//! What the daemons of both sides tell of their disks.

use sublet_client::{Admin, AdminEndpoint};

use super::super::super::paired_rounds::PairedRounds;
use super::super::error::BlockError;
use super::sides::ServedSide;
use super::sweep::LoadFigure;

/// The lists for our figures and for the peer's.
pub(super) fn halves(both: &mut PairedRounds) -> [&mut Vec<f64>; 2] {
    [&mut both.ours, &mut both.peer]
}

/// Pages that clients of a disk have read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PageReadCounts {
    /// Those that were in memory here.
    pub(super) hits: u64,
    /// Those that came from lenders.
    pub(super) far_hits: u64,
    misses: u64,
}

impl PageReadCounts {
    /// Takes what the daemon tells of its disk. `None` if no daemon of ours serves it.
    pub(super) fn of(side: &ServedSide) -> Result<Option<PageReadCounts>, BlockError> {
        let Some(socket) = &side.served.admin else {
            return Ok(None);
        };
        let admin = Admin::at(AdminEndpoint::Unix(socket.clone()))?;
        let disks = admin.disks()?.disks;
        Ok(Some(PageReadCounts {
            hits: disks.iter().map(|disk| disk.hits).sum(),
            far_hits: disks.iter().map(|disk| disk.far_hits).sum(),
            misses: disks.iter().map(|disk| disk.misses).sum(),
        }))
    }

    /// What was read of a side since it was `before`.
    pub(super) fn since(
        before: Option<PageReadCounts>,
        side: &ServedSide,
    ) -> Result<Option<PageReadCounts>, BlockError> {
        let now = PageReadCounts::of(side)?;
        Ok(now.zip(before).map(|(now, before)| now.less(before)))
    }

    fn less(self, before: PageReadCounts) -> PageReadCounts {
        PageReadCounts {
            hits: self.hits.saturating_sub(before.hits),
            far_hits: self.far_hits.saturating_sub(before.far_hits),
            misses: self.misses.saturating_sub(before.misses),
        }
    }

    /// All of them.
    pub(super) fn pages(self) -> f64 {
        (self.hits + self.far_hits + self.misses) as f64
    }
}

/// Pages that reached both disks. If a piece of work read different numbers of pages, the sides would not be
/// comparable.
#[derive(Default)]
pub(super) struct ReadTotals {
    pages: PairedRounds,
    in_memory: PairedRounds,
}

impl ReadTotals {
    /// Adds what a round read for this many pieces of work.
    pub(super) fn add(
        &mut self,
        side: usize,
        read: PageReadCounts,
        pieces: f64,
        load: &'static str,
    ) -> Result<(), BlockError> {
        if read.pages() == 0.0 {
            return Err(BlockError::Unread(load));
        }
        halves(&mut self.pages)[side].push(read.pages() / pieces);
        halves(&mut self.in_memory)[side].push(100.0 * read.hits as f64 / read.pages());
        Ok(())
    }

    /// The rows that show them.
    pub(super) fn figures(self, load: &'static str, what: &'static str) -> [LoadFigure; 2] {
        let figure = |what, unit, both| LoadFigure {
            load,
            what,
            unit,
            both,
        };
        [
            figure(what, "pages", self.pages),
            figure("of these in memory", "%", self.in_memory),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_told_for_each_piece_of_work() -> Result<(), BlockError> {
        let before = PageReadCounts {
            hits: 10,
            far_hits: 5,
            misses: 10,
        };
        let read = PageReadCounts {
            hits: 40,
            far_hits: 10,
            misses: 15,
        }
        .less(before);
        assert_eq!(
            read,
            PageReadCounts {
                hits: 30,
                far_hits: 5,
                misses: 5
            }
        );
        let mut seen = ReadTotals::default();
        seen.add(0, read, 20.0, "a load")?;
        seen.add(
            1,
            PageReadCounts {
                misses: 8,
                ..PageReadCounts::default()
            },
            4.0,
            "a load",
        )?;
        assert_eq!((seen.pages.ours, seen.pages.peer), (vec![2.0], vec![2.0]));
        assert_eq!(seen.in_memory.ours, [75.0]);
        assert_eq!(seen.in_memory.peer, [0.0]);
        Ok(())
    }

    #[test]
    fn a_disk_that_nobody_reads_is_no_measurement() {
        let unread = ReadTotals::default().add(0, PageReadCounts::default(), 5.0, "a load");
        assert!(matches!(unread, Err(BlockError::Unread("a load"))));
    }
}
