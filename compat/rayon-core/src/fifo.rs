//! Queues by which closures run oldest first, although the pool takes the newest first.
//!
//! Each closure is put into a queue, and a job is spawned that takes the oldest one of that queue. So it does
//! not matter in which order the jobs run.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// A closure that waits.
pub(crate) type Boxed<'a> = Box<dyn FnOnce() + Send + 'a>;

/// A queue for each thread of the pool, and one for all others.
pub(crate) struct Fifos<'a>(Box<[Mutex<VecDeque<Boxed<'a>>>]>);

/// Which queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueIndex(usize);

impl<'a> Fifos<'a> {
    pub(crate) fn new(threads: usize) -> Self {
        Self((0..=threads).map(|_| Mutex::default()).collect())
    }

    /// Puts a closure into the queue of that thread of the pool, or of those outside.
    pub(crate) fn push(&self, thread: Option<usize>, job: Boxed<'a>) -> QueueIndex {
        let place = QueueIndex(thread.unwrap_or(self.0.len() - 1));
        self.queue(place).push_back(job);
        place
    }

    /// Runs the oldest closure of that queue.
    pub(crate) fn run_oldest(&self, place: QueueIndex) {
        let oldest = self.queue(place).pop_front();
        match oldest {
            Some(job) => job(),
            None => unreachable!("each job finds the closure of one push"),
        }
    }

    /// Drops the oldest closure of that queue.
    pub(crate) fn drop_oldest(&self, place: QueueIndex) {
        let oldest = self.queue(place).pop_front();
        drop(oldest);
    }

    fn queue(&self, place: QueueIndex) -> std::sync::MutexGuard<'_, VecDeque<Boxed<'a>>> {
        self.0[place.0].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
