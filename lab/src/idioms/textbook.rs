//! A buffer that several fill and several empty, as the textbooks have it: a ring under a lock, a semaphore
//! for the room in it and another for the goods. Units without a value need no ring.
//!
//! The lock is the standard library's. It is held for a moment and never across a wait, and for that tokio's
//! documentation advises it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::channels::{Actors, Store, Unit};

/// The buffer, made of a contestant's semaphores.
pub(crate) struct Buffer<W: Actors, T: Unit> {
    room: W::Semaphore,
    goods: W::Semaphore,
    ring: Mutex<VecDeque<T>>,
}

impl<W: Actors, T: Unit> Buffer<W, T> {
    /// Locks the ring.
    #[inline]
    fn ring(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Actors, T: Unit> Store<T> for Buffer<W, T> {
    fn with_room(room: usize) -> Self {
        Self {
            room: W::semaphore(room),
            goods: W::semaphore(0),
            ring: Mutex::new(VecDeque::with_capacity(room)),
        }
    }

    #[inline]
    async fn put(&self, unit: T) {
        W::acquire(&self.room).await;
        if size_of::<T>() > 0 {
            self.ring().push_back(unit);
        }
        W::release(&self.goods);
    }

    #[inline]
    async fn take(&self) -> T {
        W::acquire(&self.goods).await;
        let unit = if size_of::<T>() > 0 {
            self.ring().pop_front()
        } else {
            Some(T::default())
        };
        W::release(&self.room);
        unit.expect("who has a permit of `goods` finds a unit")
    }
}
