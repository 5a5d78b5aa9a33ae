//! An event: tasks wait for it until it is set. It is written here so that it is the same for every runtime.
//!
//! The waiting future is one pointer. The wakers are in chunks that are allocated, and touched, before any
//! task waits. So the memory of waiting tasks is the runtime's alone.
//!
//! No waiter is lost: it looks at `set` while it holds the lock of its shard. The task that sets the event
//! sets the flag first and then takes every lock. Either the waiter sees the flag, or its waker is in the
//! shard when that task comes.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::task_recorder::thread_number;

/// Shards of the list of wakers, so that registering does not queue up.
const SHARDS: usize = 16;
/// Wakers per chunk.
const CHUNK: usize = 4096;

/// Nothing here can panic while a lock is held, so a poisoned lock holds what it should.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An event; see the module.
pub(crate) struct Event {
    set: AtomicBool,
    waiting: AtomicUsize,
    spare: Mutex<Vec<Vec<Waker>>>,
    shards: [Mutex<Vec<Vec<Waker>>>; SHARDS],
}

impl Event {
    /// An event that is not set, with room for `expected` waiters. More may come; their wakers are allocated
    /// when they do.
    pub(crate) fn for_waiters(expected: usize) -> Self {
        // Each shard may leave one chunk half empty.
        let chunks = expected.div_ceil(CHUNK) + SHARDS;
        let touched = || {
            let mut chunk = vec![Waker::noop().clone(); CHUNK];
            chunk.clear();
            chunk
        };
        Self {
            set: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            spare: Mutex::new((0..chunks).map(|_| touched()).collect()),
            shards: std::array::from_fn(|_| Mutex::new(Vec::with_capacity(chunks))),
        }
    }

    /// Returns the number of tasks that wait.
    pub(crate) fn waiting(&self) -> usize {
        // Acquire, partner of the release in `register`: a thread that sees them waiting sees all they did
        // before.
        self.waiting.load(Ordering::Acquire)
    }

    /// A future that ends when the event is set.
    pub(crate) fn wait(&'static self) -> Wait {
        Wait(self)
    }

    /// Sets the event and wakes all that wait.
    pub(crate) fn set(&self) {
        // Release, partner of the acquire in `poll`. The locks order it before every later look under a lock.
        self.set.store(true, Ordering::Release);
        for shard in &self.shards {
            let chunks = std::mem::take(&mut *lock(shard));
            for waker in chunks.into_iter().flatten() {
                waker.wake();
            }
        }
    }

    /// Adds a waker; false if the event is set already.
    fn register(&self, waker: &Waker) -> bool {
        let mut chunks = lock(&self.shards[thread_number() % SHARDS]);
        if self.set.load(Ordering::Acquire) {
            return false;
        }
        if chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            chunks.push(
                lock(&self.spare)
                    .pop()
                    .unwrap_or_else(|| Vec::with_capacity(CHUNK)),
            );
        }
        chunks
            .last_mut()
            .expect("a chunk was pushed if there was none")
            .push(waker.clone());
        drop(chunks);
        // Release, partner of `waiting`.
        self.waiting.fetch_add(1, Ordering::Release);
        true
    }
}

/// Waits for the event. It registers at every poll that finds it not set: the runtimes here poll a task only
/// when it was woken, so that is once.
pub(crate) struct Wait(&'static Event);

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Acquire, partner of the release in `set`.
        if self.0.set.load(Ordering::Acquire) || !self.0.register(context.waker()) {
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn all_who_wait_pass_when_it_opens() {
        let event: &'static Event = Box::leak(Box::new(Event::for_waiters(4)));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| futures_lite::future::block_on(event.wait()));
            }
            while event.waiting() < 8 {
                thread::yield_now();
            }
            event.set();
        });
        futures_lite::future::block_on(event.wait());
    }

    #[test]
    fn opening_while_they_come_loses_nobody() {
        for _ in 0..200 {
            let event: &'static Event = Box::leak(Box::new(Event::for_waiters(2)));
            thread::scope(|scope| {
                scope.spawn(|| futures_lite::future::block_on(event.wait()));
                scope.spawn(|| event.set());
            });
        }
    }
}
