//! Lists of timers' numbers, in blocks of a common store.
//!
//! ```text
//!   SlotList ──▶ block: 63 numbers ──▶ block: 63 numbers ──▶ …
//!                the first is filled up to the length, all others are full
//! ```
//!
//! A list grows and shrinks without an allocation or a copy, because blocks go from list to list. And the
//! numbers that come next are known without a look at their timers, which lie anywhere in memory.

use super::segments::Segments;

/// A block is 256 bytes, with the number of the next one.
const ROOM: u32 = 63;
/// The distance of places in two blocks.
const STRIDE: u32 = 64;
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
pub(super) struct SlotList {
    head: u32,
    len: u32,
}

#[derive(Debug)]
struct Block {
    timers: [u32; ROOM as usize],
    next: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Blocks {
    all: Segments<Block, 64>,
    /// The first vacant block.
    vacant: u32,
}

impl SlotList {
    pub(super) const EMPTY: Self = Self { head: NONE, len: 0 };

    pub(super) fn len(self) -> u32 {
        self.len
    }

    pub(super) fn is_empty(self) -> bool {
        self.len == 0
    }
}

impl Blocks {
    pub(super) fn new() -> Self {
        Self {
            all: Segments::new(),
            vacant: NONE,
        }
    }

    /// Adds a number at the end of the list. Returns its place, which is the same until it is removed or
    /// [`replace`](Self::replace)d.
    pub(super) fn push(&mut self, list: &mut SlotList, timer: u32) -> u32 {
        let offset = list.len % ROOM;
        if offset == 0 {
            let block = self.take_block();
            self.all[block].next = std::mem::replace(&mut list.head, block);
        }
        list.len += 1;
        self.all[list.head].timers[offset as usize] = timer;
        list.head * STRIDE + offset
    }

    /// Removes the number at the end of the list.
    pub(super) fn pop(&mut self, list: &mut SlotList) -> Option<u32> {
        list.len = list.len.checked_sub(1)?;
        let (head, offset) = (list.head, list.len % ROOM);
        let block = &mut self.all[head];
        let timer = block.timers[offset as usize];
        if offset == 0 {
            list.head = std::mem::replace(&mut block.next, std::mem::replace(&mut self.vacant, head));
        }
        Some(timer)
    }

    /// Puts another number into a place.
    pub(super) fn replace(&mut self, place: u32, timer: u32) {
        self.all[place / STRIDE].timers[(place % STRIDE) as usize] = timer;
    }

    /// Returns the number that is at the end of the list after that many more are removed; fewer than a block
    /// holds.
    pub(super) fn after(&self, list: SlotList, removed: u32) -> Option<u32> {
        let last = list.len.checked_sub(removed + 1)?;
        let head = &self.all[list.head];
        let is_here = removed <= (list.len - 1) % ROOM;
        let block = if is_here { head } else { &self.all[head.next] };
        Some(block.timers[(last % ROOM) as usize])
    }

    fn take_block(&mut self) -> u32 {
        if self.vacant != NONE {
            let block = self.vacant;
            self.vacant = self.all[block].next;
            return block;
        }
        self.all.push(Block {
            timers: [NONE; ROOM as usize],
            next: NONE,
        })
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{Blocks, ROOM, SlotList};

    /// Lists of a common store against vectors.
    #[test]
    fn lists_are_like_vectors() {
        let random = &mut fastrand::Rng::with_seed(5);
        let mut blocks = Blocks::new();
        let mut lists = [(); 3].map(|()| (SlotList::EMPTY, Vec::new()));
        let mut most = 0;
        for number in 0..50_000 {
            most = most.max(lists.iter().map(|(_, like)| like.len()).sum());
            // They grow, and shrink.
            let grows = number / 5000 % 2 == 0;
            let (list, like) = &mut lists[random.usize(..3)];
            if random.u8(..) < if grows { 160 } else { 96 } {
                let place = blocks.push(list, number);
                like.push((number, place));
                if random.bool() {
                    let (other, place) = like[random.usize(..like.len())];
                    blocks.replace(place, other);
                }
            } else {
                assert_eq!(blocks.pop(list), like.pop().map(|(number, _)| number));
            }
            assert_eq!(
                (list.len() as usize, list.is_empty()),
                (like.len(), like.is_empty())
            );
            for removed in [0, 1, 7, ROOM - 1] {
                let at = like.len().checked_sub(removed as usize + 1);
                assert_eq!(blocks.after(*list, removed), at.map(|at| like[at].0));
            }
        }
        // Each list has one that is not full, and was never longer than this.
        let made = blocks.all.iter().count();
        assert!(made <= most / ROOM as usize + 2 * lists.len(), "{made} blocks");
    }
}
