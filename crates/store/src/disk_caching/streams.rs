//! Detects sequential reads of a device and advises what to read ahead.
//!
//! A stream is a run of reads in which each begins where the one before ended. From its second read on it gets windows
//! ahead of it. Each window is twice as long as the one before. The next window is due when half of the last was asked
//! for, so a stream that finds everything in memory stays ahead:
//!
//! ```text
//!   asked for      |────────────────|──▶ next
//!   advised                         |──4──|────8────|────────16────────|─ … ─ 32 at the most
//!   the next is due when next is        ▲      ▲             ▲
//! ```
//!
//! Report reads that are answered from memory too. Otherwise a stream would stall at each window's end.

use std::ops::Range;

/// Streams that are distinguished. A new one replaces the one that continued least recently.
pub const STREAMS: usize = 64;

/// How far to read ahead of a stream, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAheadWindow {
    /// The first window, unless the read before it was longer.
    pub least: u32,
    /// The longest window. With 0, nothing is read ahead.
    pub most: u32,
}

impl ReadAheadWindow {
    /// The default, chosen by evidence (`docs/decisions/2026-11-22-disk-admission.md`).
    pub const DEFAULT: ReadAheadWindow = ReadAheadWindow { least: 4, most: 32 };

    /// No reading ahead.
    pub const NONE: ReadAheadWindow = ReadAheadWindow { least: 0, most: 0 };

    /// Every window has this many pages.
    pub const fn fixed(pages: u32) -> ReadAheadWindow {
        ReadAheadWindow {
            least: pages,
            most: pages,
        }
    }
}

impl Default for ReadAheadWindow {
    fn default() -> ReadAheadWindow {
        ReadAheadWindow::DEFAULT
    }
}

/// What is known of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadAdvice {
    /// Pages of this run so far, including this read's. What a run left out because it was advised already counts as
    /// read. The read's first page is the run's page number `run` less the read's pages.
    pub run: u64,
    /// Pages to fetch now that nobody has asked for yet. The range is never empty and never exceeds the device. It
    /// never repeats a page that was advised for the same stream.
    pub ahead: Option<Range<u64>>,
}

/// The streams of one device.
#[derive(Clone, Debug)]
pub struct ReadStreams {
    /// The streams, the one that continued last first.
    streams: Vec<ReadStream>,
    most: usize,
    window: ReadAheadWindow,
    /// Pages of the device.
    pages: u64,
}

#[derive(Clone, Copy, Debug)]
struct ReadStream {
    /// Its first page.
    start: u64,
    /// The page that it is expected to ask for next.
    next: u64,
    /// Where its windows end so far, or where its last read ended.
    advised: u64,
    /// Pages of its last window.
    window: u32,
    /// The next window is due when `next` reaches this page.
    due: u64,
}

impl ReadStreams {
    /// At least one and at most `most` streams over a device of `pages` pages.
    pub fn new(pages: u64, most: usize, window: ReadAheadWindow) -> ReadStreams {
        let most = most.max(1);
        ReadStreams {
            streams: Vec::with_capacity(most),
            most,
            window,
            pages,
        }
    }

    /// Sets the number of the device's pages.
    pub fn resize(&mut self, pages: u64) {
        self.pages = pages;
    }

    /// Records a read of `pages` pages from `first` on, wherever they came from. Pages beyond the device's end are
    /// ignored.
    pub fn record_read(&mut self, first: u64, pages: u32) -> ReadAdvice {
        let end = first.saturating_add(u64::from(pages)).min(self.pages);
        if first >= end {
            return ReadAdvice {
                run: 0,
                ahead: None,
            };
        }
        match self.streams.iter().position(|s| s.continues_at(first)) {
            Some(place) => {
                self.streams[..=place].rotate_right(1);
                self.streams[0].extend(first..end, self.window, self.pages)
            }
            None => {
                self.begin(first..end);
                ReadAdvice {
                    run: end - first,
                    ahead: None,
                }
            }
        }
    }

    fn begin(&mut self, read: Range<u64>) {
        self.streams.truncate(self.most - 1);
        self.streams.push(ReadStream {
            start: read.start,
            next: read.end,
            advised: read.end,
            window: 0,
            due: read.end,
        });
        self.streams.rotate_right(1);
    }
}

impl ReadStream {
    /// Returns whether a read from `first` on continues this stream. It may begin with the page in which the last read
    /// ended, as unaligned reads do. It may also leave out what was advised, which the client may have already.
    fn continues_at(&self, first: u64) -> bool {
        first.saturating_add(1) >= self.next && first <= self.advised
    }

    fn extend(&mut self, read: Range<u64>, window: ReadAheadWindow, device: u64) -> ReadAdvice {
        let goes_on = read.end > self.next;
        self.next = self.next.max(read.end);
        self.advised = self.advised.max(self.next);
        self.start = self.start.min(read.start);
        let asked = (read.end - read.start).min(u64::from(window.most)) as u32;
        let ahead = match goes_on && self.next >= self.due {
            true => self.advise(asked, window, device),
            false => None,
        };
        ReadAdvice {
            run: self.next - self.start,
            ahead,
        }
    }

    /// The next window. It is twice the last one, and at least as long as the read that it follows.
    fn advise(&mut self, asked: u32, window: ReadAheadWindow, device: u64) -> Option<Range<u64>> {
        let length = self.window.saturating_mul(2).max(window.least).max(asked);
        let length = length.min(window.most);
        let from = self.advised;
        let to = from.saturating_add(u64::from(length)).min(device);
        if from >= to {
            return None;
        }
        self.window = length;
        self.advised = to;
        self.due = from + u64::from(length.div_ceil(2));
        Some(from..to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FAR: u64 = 1 << 40;

    /// What is advised to a client that makes `reads` reads of one page each, in order from `first` on.
    fn windows(streams: &mut ReadStreams, first: u64, reads: u64) -> Vec<Range<u64>> {
        let pages = first..first + reads;
        pages
            .filter_map(|page| streams.record_read(page, 1).ahead)
            .collect()
    }

    #[test]
    fn a_window_doubles_and_the_next_is_due_in_the_middle() {
        let mut streams = ReadStreams::new(FAR, STREAMS, ReadAheadWindow::default());
        let advised = windows(&mut streams, 100, 100);
        assert_eq!(
            advised,
            [102..106, 106..114, 114..130, 130..162, 162..194, 194..226]
        );
        let mut streams = ReadStreams::new(FAR, STREAMS, ReadAheadWindow::default());
        let due: Vec<u64> = (100..200)
            .filter(|page| streams.record_read(*page, 1).ahead.is_some())
            .collect();
        assert_eq!(due, [101, 103, 109, 121, 145, 177]);
    }

    #[test]
    fn a_run_is_counted_from_its_first_page() {
        let mut streams = ReadStreams::new(FAR, STREAMS, ReadAheadWindow::default());
        assert_eq!(streams.record_read(10, 8).run, 8);
        assert_eq!(streams.record_read(18, 8).run, 16);
        assert_eq!(
            streams.record_read(25, 2).run,
            17,
            "the page that two reads share"
        );
        assert_eq!(streams.record_read(26, 1).run, 17, "again");
        assert_eq!(streams.record_read(1000, 1).run, 1);
        assert_eq!(streams.record_read(30, 1).run, 21, "27 to 29 were advised");
    }

    #[test]
    fn a_window_is_no_shorter_than_the_read_before_it() {
        let mut streams = ReadStreams::new(FAR, STREAMS, ReadAheadWindow::default());
        assert_eq!(streams.record_read(0, 16).ahead, None);
        assert_eq!(streams.record_read(16, 16).ahead, Some(32..48));
        assert_eq!(streams.record_read(32, 16).ahead, Some(48..80));
        let mut streams = ReadStreams::new(FAR, STREAMS, ReadAheadWindow::default());
        streams.record_read(0, 1000);
        assert_eq!(streams.record_read(1000, 1000).ahead, Some(2000..2032));
        assert_eq!(streams.record_read(2000, 1000).ahead, Some(3000..3032));
    }

    #[test]
    fn nothing_is_read_ahead_with_no_window_nor_at_the_end() {
        let mut streams = ReadStreams::new(FAR, STREAMS, ReadAheadWindow::NONE);
        assert_eq!(windows(&mut streams, 0, 100), []);
        assert_eq!(
            streams.record_read(100, 1).run,
            101,
            "runs are followed all the same"
        );
        let mut streams = ReadStreams::new(10, STREAMS, ReadAheadWindow::default());
        assert_eq!(windows(&mut streams, 0, 30), [2..6, 6..10]);
        let beyond = ReadAdvice {
            run: 0,
            ahead: None,
        };
        assert_eq!(streams.record_read(10, 1), beyond);
        assert_eq!(streams.record_read(u64::MAX, u32::MAX), beyond);
        streams.resize(20);
        assert_eq!(streams.record_read(10, 1).ahead, Some(11..20));
    }

    #[test]
    fn as_many_readers_are_told_apart_as_there_are_streams() {
        let advised = |readers: u64| {
            let mut streams = ReadStreams::new(FAR, STREAMS, ReadAheadWindow::default());
            let mut advised = 0;
            for page in 0..50 {
                for reader in 0..readers {
                    let advice = streams.record_read(reader * 10_000 + page, 1);
                    advised += u64::from(advice.ahead.is_some());
                }
            }
            advised
        };
        assert_eq!(advised(64), 64 * 5);
        assert_eq!(advised(65), 0);
    }

    fn read() -> impl Strategy<Value = (u64, u32)> {
        let first = prop_oneof![0u64..200, 0u64..2100, any::<u64>()];
        (first, prop_oneof![1u32..12, Just(0), any::<u32>()])
    }

    /// Reads of which many continue where some read before them ended.
    fn reads() -> impl Strategy<Value = Vec<(u64, u32)>> {
        let step = (read(), 0usize..12, any::<bool>());
        prop::collection::vec(step, 1..200).prop_map(|steps| {
            let mut reads: Vec<(u64, u32)> = Vec::new();
            for ((first, pages), back, goes_on) in steps {
                let before = reads.iter().rev().nth(back).filter(|_| goes_on);
                let follows = |(first, pages): &(u64, u32)| first.saturating_add(u64::from(*pages));
                reads.push((before.map_or(first, follows), pages));
            }
            reads
        })
    }

    proptest! {
        #[test]
        fn advice_is_new_near_and_on_the_device(
            reads in reads(),
            most in 1usize..8,
            least in 0u32..10,
            longest in 0u32..40,
        ) {
            let device = 2000;
            let mut streams = ReadStreams::new(device, most, ReadAheadWindow { least, most: longest });
            let room = streams.streams.capacity();
            for (first, pages) in reads {
                let before = streams.clone();
                let advice = streams.record_read(first, pages);
                prop_assert!(advice.run <= device);
                prop_assert!(streams.streams.len() <= most);
                prop_assert_eq!(streams.streams.capacity(), room, "it allocated");
                let Some(ahead) = advice.ahead else { continue };
                prop_assert!(ahead.start < ahead.end && ahead.end <= device);
                prop_assert!(ahead.end - ahead.start <= u64::from(longest));
                prop_assert!(ahead.start >= first + u64::from(pages), "it was asked for already");
                let same = before.streams.iter().find(|stream| stream.continues_at(first));
                let advised = same.map(|stream| stream.advised);
                prop_assert!(advised.is_some_and(|end| ahead.start >= end), "it was advised before");
                prop_assert!(ahead.end - streams.streams[0].next <= 2 * u64::from(longest));
            }
        }

        /// From its second read on, a sequential reader waits for nothing but its first windows: each page is advised
        /// before it is read.
        #[test]
        fn a_stream_never_outruns_its_windows(pages in 1u32..=16, reads in 5u64..100) {
            let mut streams = ReadStreams::new(FAR, STREAMS, ReadAheadWindow::default());
            let mut fetched_to = 0;
            for read in 0..reads {
                let first = read * u64::from(pages);
                if read >= 2 {
                    prop_assert!(first + u64::from(pages) <= fetched_to, "read {read} stalls");
                }
                if let Some(ahead) = streams.record_read(first, pages).ahead {
                    fetched_to = ahead.end;
                }
            }
        }
    }
}
