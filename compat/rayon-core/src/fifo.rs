//! Queues by which closures run oldest first, although the pool takes the newest first.
//!
//! Each closure is put into a queue, and a job is spawned that takes the oldest one of that queue. So it does
//! not matter in which order the jobs run.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// A closure that waits.
pub(crate) type Boxed<'a> = Box<dyn FnOnce() + Send + 'a>;

/// A queue for each thread.
pub(crate) struct Fifos<'a>(Box<[Mutex<VecDeque<Boxed<'a>>>]>);

impl<'a> Fifos<'a> {
    pub(crate) fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| Mutex::default()).collect())
    }

    pub(crate) fn push(&self, thread: usize, job: Boxed<'a>) {
        self.queue(thread).push_back(job);
    }

    /// Runs the oldest closure of that thread's queue.
    pub(crate) fn run_oldest(&self, thread: usize) {
        let oldest = self.queue(thread).pop_front();
        match oldest {
            Some(job) => job(),
            None => unreachable!("each job finds the closure of one push"),
        }
    }

    /// Drops the oldest closure of that thread's queue.
    pub(crate) fn drop_oldest(&self, thread: usize) {
        let oldest = self.queue(thread).pop_front();
        drop(oldest);
    }

    fn queue(&self, thread: usize) -> std::sync::MutexGuard<'_, VecDeque<Boxed<'a>>> {
        self.0[thread].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
