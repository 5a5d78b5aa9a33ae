//! How a pool gets threads: the first ones when the pool is built, so that the program's functions are called
//! on the building thread; others when a frame waits.

use crate::thread_builder::start;
use std::io;
use std::sync::{Mutex, PoisonError};
use warpweft::PoolThread;

/// Starts the threads of a pool.
pub(crate) struct Starts {
    phase: Mutex<Phase>,
    /// The size of the stacks of threads that it starts, in bytes.
    stack_size: Option<usize>,
}

pub(crate) enum Phase {
    /// While the pool is built.
    Collect(Vec<PoolThread>),
    Start,
    /// The threads of the pool are given: a frame that waits runs others on its stack.
    Refuse,
}

impl Starts {
    pub(crate) fn new(stack_size: Option<usize>) -> Self {
        Self {
            phase: Mutex::new(Phase::Collect(Vec::new())),
            stack_size,
        }
    }

    /// Starts a thread, or collects it.
    ///
    /// # Errors
    ///
    /// The pool has no more threads, or the system gives none.
    pub(crate) fn start(&self, thread: PoolThread) -> io::Result<()> {
        {
            let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *phase {
                Phase::Collect(threads) => {
                    threads.push(thread);
                    return Ok(());
                }
                Phase::Start => {}
                Phase::Refuse => {
                    return Err(io::Error::other(
                        "the pool has the threads that it was given, and no more",
                    ));
                }
            }
        }
        start(Some(thread.name().to_owned()), self.stack_size, move || {
            thread.run();
        })
    }

    /// Changes the phase. Returns the threads that were collected.
    pub(crate) fn next(&self, next: Phase) -> Vec<PoolThread> {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *phase, next) {
            Phase::Collect(threads) => threads,
            Phase::Start | Phase::Refuse => Vec::new(),
        }
    }
}
