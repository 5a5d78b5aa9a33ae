//! A buffer that several fill and several empty, as the textbooks have it: a ring under a lock, a semaphore for the room in it and
//! another for the goods.

use std::collections::VecDeque;

use crate::peers::apps::Apps;

pub(super) struct Buffer<W: Apps> {
    room: W::Semaphore,
    goods: W::Semaphore,
    ring: W::Lock<VecDeque<u64>>,
}

impl<W: Apps> Buffer<W> {
    pub(super) fn new(room: usize) -> Self {
        Self {
            room: W::semaphore(room),
            goods: W::semaphore(0),
            ring: W::lock(VecDeque::with_capacity(room)),
        }
    }

    /// Puts a unit in, once there is room.
    #[inline]
    pub(super) async fn put(&self, unit: u64) {
        W::acquire(&self.room).await;
        W::with(&self.ring, |ring| ring.push_back(unit)).await;
        W::release(&self.goods);
    }

    /// Takes the oldest unit out, once there is one.
    #[inline]
    pub(super) async fn take(&self) -> u64 {
        W::acquire(&self.goods).await;
        let unit = W::with(&self.ring, VecDeque::pop_front).await;
        W::release(&self.room);
        unit.expect("who has a permit of `goods` finds a unit")
    }
}
