//! The state of a pool that does not depend on its policy.
//!
//! # Invariants
//!
//! - `header` is the first field, and the core is the first field of a pool: a pointer to the header is a
//!   pointer to the pool.
//! - What is counted of the threads, workers and tasks is counted here; what the policy holds is in
//!   `scheduler/pool.rs`.

use super::info::PoolInfo;
use super::ledger::Ledger;
use super::lifecycle::Lifecycle;
use super::owned_tasks::OwnedTasks;
use crate::coroutine::stack::Stacks;
use crate::driver::core::Driver;
use crate::driver::forked;
use crate::driver::owner::DriverOwner;
use crate::fork::offer_board::OfferBoard;
use crate::idle::Idle;
use crate::threads::monitor::Monitor;
use crate::threads::thread_set::ThreadSet;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use warpweft_platform::process;
use warpweft_policy::{Count, Counters, Wake, WorkerId};
use warpweft_queue::Locked;
use warpweft_task::pool::PoolHeader;
use warpweft_task::{Pending, Runnable};

/// See the [module](self).
#[repr(C)]
pub(crate) struct PoolCore {
    pub(crate) header: PoolHeader,
    /// How many workers were asked for.
    pub(crate) asked: usize,
    /// How many there may be, compensating workers included.
    slots: usize,
    pub(crate) info: PoolInfo,
    pub(crate) idle: Idle,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) owned_tasks: OwnedTasks,
    pub(crate) threads: ThreadSet,
    pub(crate) monitor: Monitor,
    pub(crate) stacks: Arc<Stacks>,
    pub(crate) driver: DriverOwner,
    pub(crate) offer_board: OfferBoard,
    /// Tasks that the policy dropped. They are cancelled where none of its code is on the stack.
    pub(crate) lost: Locked<Runnable>,
    pub(crate) ledger: Ledger,
    /// What the policy did wrong, if the pool closed for that, or kept tasks beyond the end.
    pub(crate) fault: OnceLock<String>,
    /// What was counted outside of workers.
    pub(crate) outside: Counters,
    /// Of the process that the workers run in.
    generation: u64,
    _listed: process::Listed,
}

/// What a pool is made of.
pub(crate) struct Parts {
    pub(crate) info: PoolInfo,
    pub(crate) threads: ThreadSet,
    pub(crate) monitor: Monitor,
    pub(crate) stacks: Stacks,
    pub(crate) driver: DriverOwner,
}

impl PoolCore {
    /// The core of the pool at `address`, which has that header.
    pub(crate) fn new(parts: Parts, header: PoolHeader, address: usize) -> Self {
        let (asked, slots) = (parts.info.workers, parts.info.slots);
        Self {
            header,
            asked,
            slots,
            info: parts.info,
            idle: Idle::new(asked),
            lifecycle: Lifecycle::new(asked),
            owned_tasks: OwnedTasks::new(slots),
            threads: parts.threads,
            monitor: parts.monitor,
            stacks: Arc::new(parts.stacks),
            driver: parts.driver,
            offer_board: OfferBoard::new(slots, asked),
            lost: Locked::new(),
            ledger: Ledger::new(),
            fault: OnceLock::new(),
            outside: Counters::default(),
            generation: process::generation(),
            _listed: process::Listed::new(address),
        }
    }

    /// Whether this is a forked child of the process that the workers run in.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        process::generation() != self.generation
    }

    /// Wakes the worker that the policy named, and counts it for the worker that pushed if there is one.
    pub(crate) fn wake(&self, wake: Wake, counters: Option<&Counters>) {
        let woken = match wake {
            Wake::None => false,
            Wake::Worker(worker) if worker.0 < self.asked => self.idle.wake(worker.0),
            // A policy that names a worker that is not there gets any.
            Wake::Any | Wake::Worker(_) => self.idle.wake_one(),
        };
        if woken {
            match counters {
                Some(counters) => counters.add(Count::Wakes, 1),
                None => self.outside.add_shared(Count::Wakes, 1),
            }
        }
    }

    /// Something became visible that only the thread that carries that worker looks at.
    pub(crate) fn wake_worker(&self, worker: usize) {
        if worker < self.asked {
            self.wake(Wake::Worker(WorkerId(worker)), None);
        } else {
            // Compensating workers sleep in the poller and nowhere else, and are not among the sleepers that
            // pushes wake.
            self.driver.wake_standby(worker);
        }
    }

    /// The driver of its sockets and timers; made at the first call.
    ///
    /// # Errors
    ///
    /// This is a forked child, the pool has ended, or the system gives no poller.
    pub(crate) fn driver(&self) -> io::Result<Arc<Driver>> {
        if self.is_forked() {
            return Err(forked());
        }
        self.driver.driver(self.slots, &self.idle)
    }

    /// The task, which has a place, is this pool's.
    pub(crate) fn admit(&self, task: &mut Pending) {
        self.owned_tasks.enter_admitted(task);
    }

    /// Begins the end: spawns are refused, workers leave after their present task.
    pub(crate) fn close(&self) {
        self.threads.blocking().close();
        // Before the end begins: of the places that it empties none may go to a task that waits, which would
        // move in and end with the pool.
        self.info.close();
        self.lifecycle.close();
        self.monitor.close();
        self.idle.wake_all();
        self.driver.unpark();
    }

    /// Closes the pool because its policy did something wrong. The first fault is remembered.
    #[cold]
    pub(crate) fn close_for(&self, fault: &dyn fmt::Display) {
        let _ = self.fault.set(fault.to_string());
        self.close();
    }
}
