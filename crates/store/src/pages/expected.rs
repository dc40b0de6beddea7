//! What the processor is to fetch before it is needed: what the pages will touch that go next from a shard.

use super::Pages;
use super::arrivals::TOGETHER_MAX;
use super::holdings::Holdings;
use super::shard::Shard;
use crate::arena::{PageKind, Wanted};
use crate::frames::{FrameId, Queue};

/// Has the processor fetch what the next page to go from a shard will touch, whose facts are at hand when one went: there is
/// time until then.
pub(super) fn expect_next_to_go(pages: &Pages, holdings: &Holdings, shard: &Shard) {
    if !holdings.are_beyond_caches() {
        return;
    }
    let next = shard.eviction.next_victim();
    if let Some((object, key)) = next.and_then(|frame| pages.page_in(frame)) {
        shard.expect_to_go(object, key, pages.seed.page_of(object, key.index));
    }
}

/// Has the processor fetch what those will touch that are next in line to go from a shard, so many of them.
pub(super) fn expect_several_to_go(pages: &Pages, shard: &Shard, count: usize) {
    let after = |frame: &FrameId| Queue::after(&pages.frames, *frame);
    let next = std::iter::successors(shard.next_frame(PageKind::Ephemeral), after).take(count);
    let mut wanted = Wanted::new();
    let mut going = [None; TOGETHER_MAX];
    for (gone, frame) in going.iter_mut().zip(next) {
        *gone = pages.page_in(frame);
        if let Some((object, gone)) = *gone {
            shard.directory.want_slot(object, gone, &mut wanted);
            let hash = pages.seed.page_of(object, gone.index);
            want_ghost(shard, hash, &mut wanted);
        }
        wanted.fetch();
    }
    for (object, gone) in going.into_iter().flatten() {
        shard.directory.want_leaf(object, gone, &mut wanted);
    }
    wanted.fetch();
}

/// Wants what remembers a page of that hash when it is gone.
pub(super) fn want_ghost(shard: &Shard, hash: u64, wanted: &mut Wanted) {
    let line = shard.eviction.ghost_line(hash);
    line.into_iter().for_each(|line| wanted.add(line));
}
