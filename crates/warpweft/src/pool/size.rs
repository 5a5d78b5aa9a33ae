//! How many of a pool's workers run: the size of the pool, and where it comes from.
//!
//! # Invariants
//!
//! - At least one worker runs, and at most as many as the pool was built for.
//! - One thread at a time changes the size.
//! - The worker with a number below the size runs, or is on its way to a thread. One with a number from the
//!   size on rests, or rests as soon as its task returns. See `docs/decisions/0088-resize.md`.

use std::fmt;
use std::time::Duration;
use warpweft_platform::atomic::{AtomicBool, AtomicUsize, Ordering};
use warpweft_platform::sync::{Mutex, MutexGuard};
use warpweft_policy::PoolSize;

/// The largest number of workers of a pool.
pub(crate) const MOST_WORKERS: usize = 4096;

/// The function that says how many CPUs the process may use.
pub(crate) type Cpus = fn() -> usize;

/// How the size follows the CPUs that the process may use.
#[derive(Clone, Copy)]
pub(crate) struct Follow {
    /// The least time between two looks.
    pub(crate) every: Duration,
    pub(crate) cpus: Cpus,
}

impl fmt::Debug for Follow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Follow").field(&self.every).finish()
    }
}

impl Follow {
    /// Returns the longest time in nanoseconds that the monitor may sleep: at least a millisecond.
    pub(crate) fn tick_ns(&self) -> u64 {
        u64::try_from(self.every.as_nanos())
            .unwrap_or(u64::MAX)
            .max(1_000_000)
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Size {
    /// What policies see of it.
    pub(crate) policy: PoolSize,
    /// Workers below this number have had a thread.
    started: AtomicUsize,
    follow: Option<Follow>,
    /// False if the program has set the size itself.
    follows: AtomicBool,
    changes: Mutex<()>,
}

impl Size {
    pub(crate) fn new(first: usize, most: usize, follow: Option<Follow>) -> Self {
        Self {
            policy: PoolSize::new(first, most),
            started: AtomicUsize::new(first),
            follow,
            follows: AtomicBool::new(follow.is_some()),
            changes: Mutex::new(()),
        }
    }

    /// Returns how many workers run, those that are about to rest not counted.
    #[inline]
    pub(crate) fn now(&self) -> usize {
        self.policy.now()
    }

    /// Returns how many workers run and have a thread: fewer than [`now`](Self::now) while the pool grows.
    pub(crate) fn with_threads(&self) -> usize {
        self.now().min(self.started())
    }

    /// Returns how many workers have ever had a thread.
    pub(crate) fn started(&self) -> usize {
        self.started.load(Ordering::Relaxed)
    }

    /// Waits until no other thread changes the size.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.changes.lock()
    }

    /// Sets the size. The caller holds the lock.
    pub(crate) fn set(&self, workers: usize) {
        self.policy.set(workers);
    }

    /// Notes that that worker has got its first thread. The caller holds the lock.
    pub(crate) fn set_started(&self, worker: usize) {
        self.started.fetch_max(worker + 1, Ordering::Relaxed);
    }

    /// Returns how the size follows the machine, unless the program has set it.
    pub(crate) fn follow(&self) -> Option<Follow> {
        self.follow.filter(|_| self.follows.load(Ordering::Relaxed))
    }

    /// Notes that the program has set the size.
    pub(crate) fn stop_following(&self) {
        self.follows.store(false, Ordering::Relaxed);
    }
}

/// The reason why a pool was not resized. Its size is what it was, with one exception: see
/// [`Thread`](ResizeError::Thread).
#[derive(Debug)]
#[non_exhaustive]
pub enum ResizeError {
    /// A pool has at least one worker.
    Zero,
    /// The pool was built for fewer workers.
    AboveMaximum {
        /// The number that was asked for.
        asked: usize,
        /// The largest possible one: [`Builder::max_workers`](crate::Builder::max_workers).
        most: usize,
    },
    /// The pool is shutting down, or has shut down.
    Closed,
    /// This is a child made by `fork()`, and the pool's workers stayed in its parent.
    Forked,
    /// The system gives no thread for one of the workers. The pool has as many workers as have one.
    Thread {
        /// The number of workers that the pool has now.
        workers: usize,
        /// The number that was asked for.
        asked: usize,
        /// The system's error.
        source: std::io::Error,
    },
}

impl fmt::Display for ResizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("a pool cannot have 0 workers: ask for 1 or more"),
            Self::AboveMaximum { asked, most } if *asked > MOST_WORKERS => write!(
                f,
                "{asked} workers are more than the pool was built for, {most}, and no pool has more than {MOST_WORKERS}"
            ),
            Self::AboveMaximum { asked, most } => write!(
                f,
                "{asked} workers are more than the pool was built for, {most}: build it with `max_workers({asked})`"
            ),
            Self::Closed => f.write_str("the pool is shutting down, or has shut down: its workers leave it"),
            Self::Forked => f.write_str(
                "the pool's workers stayed in the parent of this process: build a runtime after the fork",
            ),
            Self::Thread {
                workers,
                asked,
                source,
            } => write!(
                f,
                "the pool has {workers} of the {asked} workers that were asked for, because the system gives no more threads: {source}"
            ),
        }
    }
}

impl std::error::Error for ResizeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Thread { source, .. } => Some(source),
            _ => None,
        }
    }
}
