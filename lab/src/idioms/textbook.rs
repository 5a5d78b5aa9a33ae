//! A buffer that several fill and several empty, as the textbooks have it: a ring under a lock, a semaphore
//! for the room in it and another for the goods. Units without a value need no ring.

use std::collections::VecDeque;

use super::channels::{Actors, Store, Unit};

/// The buffer, made of a contestant's semaphores and lock.
pub(crate) struct Buffer<W: Actors, T: Unit> {
    room: W::Semaphore,
    goods: W::Semaphore,
    ring: W::Lock<VecDeque<T>>,
}

impl<W: Actors, T: Unit> Store<T> for Buffer<W, T> {
    fn with_room(room: usize) -> Self {
        Self {
            room: W::semaphore(room),
            goods: W::semaphore(0),
            ring: W::lock(VecDeque::with_capacity(room)),
        }
    }

    #[inline]
    async fn put(&self, unit: T) {
        W::acquire(&self.room).await;
        if size_of::<T>() > 0 {
            W::with(&self.ring, move |ring| ring.push_back(unit)).await;
        }
        W::release(&self.goods);
    }

    #[inline]
    async fn take(&self) -> T {
        W::acquire(&self.goods).await;
        let unit = if size_of::<T>() > 0 {
            W::with(&self.ring, VecDeque::pop_front).await
        } else {
            Some(T::default())
        };
        W::release(&self.room);
        unit.expect("who has a permit of `goods` finds a unit")
    }
}
