//! The host's processors. A guest that has something to do waits until one is idle.
//!
//! They serve first come, first served, for the length of one step: some 100 µs of a program, or a fault with its gets
//! and puts. A guest that waits for the disk leaves its processor to others.

use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// Processors that all guests share.
#[derive(Clone, Debug)]
pub(crate) struct Processors {
    /// When each processor is idle again. Empty if nobody ever waits for one.
    idle_at: Vec<VirtualInstant>,
}

impl Processors {
    /// `count` processors. `None` stands for as many as are ever wanted.
    pub(crate) fn of(count: Option<u16>) -> Processors {
        Processors {
            idle_at: vec![VirtualInstant::START; count.map_or(0, usize::from)],
        }
    }

    /// When a guest that wants a processor at `now` gets one.
    pub(crate) fn idle_from(&self, now: VirtualInstant) -> VirtualInstant {
        let first = self.idle_at.iter().min();
        first.map_or(now, |idle_at| now.max(*idle_at))
    }

    /// Makes the processor that is idle first work from `start` on.
    pub(crate) fn work(&mut self, start: VirtualInstant, span: VirtualDuration) {
        if let Some(idle_at) = self.idle_at.iter_mut().min() {
            *idle_at = start.max(*idle_at) + span;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(processors: &mut Processors, now: u64, span: u64) -> u64 {
        let start = processors.idle_from(VirtualInstant(now));
        processors.work(start, VirtualDuration(span));
        (start + VirtualDuration(span)).0
    }

    #[test]
    fn two_serve_three_one_after_another() {
        let mut two = Processors::of(Some(2));
        assert_eq!(done(&mut two, 0, 100), 100);
        assert_eq!(done(&mut two, 10, 30), 40);
        assert_eq!(done(&mut two, 20, 50), 90);
        assert_eq!(done(&mut two, 30, 50), 140);
        assert_eq!(done(&mut two, 500, 7), 507);
    }

    #[test]
    fn without_a_number_nobody_waits() {
        let mut many = Processors::of(None);
        assert_eq!([0, 0, 0].map(|now| done(&mut many, now, 5)), [5, 5, 5]);
    }
}
