//! The end of a context: after its pool's last thread, and before the pool's owner goes on.
//!
//! ```text
//!   the pool's last thread             the context's thread
//!   leaves the pool, which has closed
//!     ├──────── asks for the end ─────▶ ends: drops tokio's tasks, and waits for closures that block
//!   waits ◀──────────────────────────── has ended
//!   ends, and the drop of the runtime returns
//! ```
//!
//! So a drop of the runtime waits for closures of `tokio::task::spawn_blocking` that run, and for writes to
//! files, as a drop of tokio's runtime does. A shutdown with a limit of time does not wait for that thread
//! beyond the limit.

use std::sync::Arc;
use tokio::sync::oneshot;
use warpweft::Pool;
use warpweft_platform::clock::now_ns;
use warpweft_platform::sync::{Condvar, Mutex};

/// How long the context's thread may take until it begins to end, in nanoseconds. It is late if it polls a
/// task of tokio that blocks, perhaps in the drop of this very runtime. Then it is left.
const BEGINS_WITHIN_NS: u64 = 1_000_000_000;

/// How far the context's thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Runs,
    /// It drops what is left.
    Ends,
    Ended,
}

/// What a context's thread and the threads of its pool have in common.
#[derive(Debug)]
pub(crate) struct ContextEnd {
    users: Mutex<Users>,
    phase: Mutex<Phase>,
    changed: Condvar,
}

#[derive(Debug)]
struct Users {
    number: usize,
    /// Asks for the end when it is dropped.
    end: Option<oneshot::Sender<()>>,
}

impl ContextEnd {
    /// Returns it, and what is ready when the end is asked for.
    pub(crate) fn new() -> (Arc<Self>, oneshot::Receiver<()>) {
        let (end, ended) = oneshot::channel();
        let users = Users {
            number: 0,
            end: Some(end),
        };
        let this = Self {
            users: Mutex::new(users),
            phase: Mutex::new(Phase::Runs),
            changed: Condvar::new(),
        };
        (Arc::new(this), ended)
    }

    pub(crate) fn note(&self, phase: Phase) {
        *self.phase.lock() = phase;
        self.changed.notify_all();
    }

    /// Waits until the context's thread has ended what it ends.
    fn wait(&self) {
        let begins_by = now_ns().saturating_add(BEGINS_WITHIN_NS);
        let mut phase = self.phase.lock();
        loop {
            let left_ns = match *phase {
                Phase::Runs => begins_by.saturating_sub(now_ns()),
                Phase::Ends => u64::MAX,
                Phase::Ended => return,
            };
            if left_ns == 0 {
                return;
            }
            phase = self.changed.wait_for(phase, left_ns);
        }
    }
}

/// A thread that runs code of the pool. The last one to leave a pool that has closed ends the context.
pub(crate) struct ContextUser {
    end: Arc<ContextEnd>,
    pool: Pool,
}

impl ContextUser {
    pub(crate) fn new(end: &Arc<ContextEnd>, pool: Pool) -> Self {
        end.users.lock().number += 1;
        Self {
            end: Arc::clone(end),
            pool,
        }
    }
}

impl Drop for ContextUser {
    fn drop(&mut self) {
        let end = {
            // In a forked child the lock may be lost, and the context's thread is not there.
            let Some(mut users) = self.end.users.lock_unless_lost() else {
                return;
            };
            users.number -= 1;
            // While the pool is open, other threads come.
            let is_last = users.number == 0 && self.pool.is_closed();
            is_last.then(|| users.end.take()).flatten()
        };
        if end.is_some() {
            drop(end);
            self.end.wait();
        }
    }
}
