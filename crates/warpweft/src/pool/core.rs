//! The state of a pool that does not depend on its policy.
//!
//! # Invariants
//!
//! - `header` is the first field, and the core is the first field of a pool: a pointer to the header is a
//!   pointer to the pool.
//! - The threads, workers and tasks are counted here. The state that the policy holds is in
//!   `scheduler/pool.rs`.

use super::in_order::InOrder;
use super::info::PoolInfo;
use super::ledger::Ledger;
use super::lifecycle::Lifecycle;
use super::owned_tasks::OwnedTasks;
use super::panics::Panics;
use super::size::{Follow, Size};
use crate::coroutine::stack::Stacks;
use crate::driver::core::Driver;
use crate::driver::forked;
use crate::driver::owner::DriverOwner;
use crate::fork::offer_board::OfferBoard;
use crate::idle::Idle;
use crate::observe::raw::FiberView;
use crate::observe::recorder::event::{ANY_WORKER, Kind};
use crate::observe::recorder::snapshot::Snapshot;
use crate::observe::recorder::{PoolRecorder, Settings};
use crate::threads::monitor::Monitor;
use crate::threads::thread_set::ThreadSet;
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};
use warpweft_platform::atomic::AtomicUsize;
use warpweft_platform::process;
use warpweft_policy::{Count, Counters, Wake, WorkerId};
use warpweft_queue::Locked;
use warpweft_task::frame::Frame;
use warpweft_task::pool::PoolHeader;
use warpweft_task::registry::Registry;
use warpweft_task::{Pending, Runnable};

/// See the [module](self).
#[repr(C)]
pub(crate) struct PoolCore {
    pub(crate) header: PoolHeader,
    /// The largest number of requested workers; some of them may rest.
    pub(crate) asked: usize,
    /// How many of them run.
    pub(crate) size: Size,
    /// The largest number of workers, compensating workers included.
    slots: usize,
    pub(crate) info: PoolInfo,
    /// The least urgent level of a task that was ever pushed, where tasks lend priorities. A hint.
    pub(crate) least_urgent: AtomicUsize,
    pub(crate) idle: Idle,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) owned_tasks: OwnedTasks,
    pub(crate) threads: ThreadSet,
    pub(crate) monitor: Monitor,
    pub(crate) stacks: Arc<Stacks>,
    pub(crate) driver: DriverOwner,
    pub(crate) offer_board: OfferBoard,
    /// Closures that begin in the order in which they were spawned.
    pub(crate) in_order: Arc<InOrder<Box<dyn FnOnce() + Send>>>,
    /// Tasks that the policy dropped. They are cancelled where none of the policy's code is on the stack.
    pub(crate) lost: Locked<Runnable>,
    pub(crate) ledger: Ledger,
    /// The fault of the policy, if the pool closed for one, or the policy kept tasks beyond the end.
    pub(crate) fault: OnceLock<String>,
    pub(crate) panics: Panics,
    pub(crate) recorder: PoolRecorder,
    /// The fibers of all threads.
    pub(crate) fibers: Registry<dyn FiberView>,
    /// What external threads counted.
    pub(crate) outside: Counters,
    /// The policy words, other than 0, of tasks that ended where no worker was, if the policy watches ends.
    pub(crate) ended_detached: Locked<NonZeroUsize>,
    /// The generation of the process that the workers run in.
    generation: u64,
    _listed: process::Listed,
}

/// The parts of which a pool is made.
pub(crate) struct PoolParts {
    /// The number of workers that run at first.
    pub(crate) first: usize,
    /// How the number follows the machine.
    pub(crate) follow: Option<Follow>,
    pub(crate) info: PoolInfo,
    pub(crate) threads: ThreadSet,
    pub(crate) monitor: Monitor,
    pub(crate) stacks: Stacks,
    pub(crate) driver: DriverOwner,
    pub(crate) panics: Panics,
    pub(crate) recorder: Settings,
}

impl PoolCore {
    /// Creates the core of the pool at `address`, which has that header.
    pub(crate) fn new(parts: PoolParts, header: PoolHeader, address: usize) -> Self {
        let (asked, slots) = (parts.info.workers, parts.info.slots);
        let idle = Idle::new(asked);
        // No thread has seen them yet.
        (parts.first..asked).for_each(|worker| idle.rest(worker));
        let recorder = PoolRecorder::new(parts.recorder, slots, parts.info.priorities);
        for worker in parts.first..asked {
            // SAFETY: no thread carries a worker yet, and no other thread has the recorder.
            unsafe { recorder.worker(worker).park(&recorder) };
        }
        Self {
            header,
            asked,
            size: Size::new(parts.first, asked, parts.follow),
            slots,
            info: parts.info,
            least_urgent: AtomicUsize::new(0),
            idle,
            lifecycle: Lifecycle::new(parts.first),
            owned_tasks: OwnedTasks::new(slots),
            threads: parts.threads,
            monitor: parts.monitor,
            stacks: Arc::new(parts.stacks),
            driver: parts.driver,
            offer_board: OfferBoard::new(slots, asked),
            in_order: InOrder::new(),
            lost: Locked::new(),
            ledger: Ledger::new(),
            fault: OnceLock::new(),
            panics: parts.panics,
            recorder,
            fibers: Registry::new(),
            outside: Counters::default(),
            ended_detached: Locked::new(),
            generation: process::generation(),
            _listed: process::Listed::new(address),
        }
    }

    /// Returns true in a forked child of the process that the workers run in.
    #[inline]
    pub(crate) fn is_in_forked_child(&self) -> bool {
        process::generation() != self.generation
    }

    /// Calls `see` for the frames of threads that wait or block, under the lock of their register.
    ///
    /// A forked child has none: the system gives the stacks of its parent's threads, where the frames were,
    /// to the child's own threads.
    pub(crate) fn each_frame(&self, mut see: impl FnMut(&Frame)) {
        if self.is_in_forked_child() {
            return;
        }
        for frames in [self.threads.frames(), &self.threads.blocking().frames] {
            frames.for_each(&mut see);
        }
    }

    /// Wakes the worker that the policy named, and returns true if it slept. Counts the wake for the worker
    /// that pushed, if there is one; that worker records it. Otherwise it is recorded here.
    pub(crate) fn wake(&self, wake: Wake, counters: Option<&Counters>) -> bool {
        let woken = match wake {
            Wake::None => false,
            Wake::Worker(worker) if worker.0 < self.asked => self.idle.wake(worker.0),
            // If the policy names a worker that does not exist, any worker is woken.
            Wake::Any | Wake::Worker(_) => self.idle.wake_one(),
        };
        if woken {
            match counters {
                Some(counters) => counters.add(Count::Wakes, 1),
                None => {
                    self.outside.add_shared(Count::Wakes, 1);
                    self.recorder.note_outside(Kind::WakeWorker, worker_word(wake));
                }
            }
        }
        woken
    }

    /// Wakes the worker for something visible that only the thread that carries it looks at.
    pub(crate) fn wake_worker(&self, worker: usize) {
        if worker < self.asked {
            let _ = self.wake(Wake::Worker(WorkerId(worker)), None);
        } else {
            // Compensating workers sleep in the poller only, and are not among the sleepers that pushes wake.
            self.driver.wake_standby(worker);
        }
    }

    /// Returns the driver of the pool's sockets and timers. The first call makes it.
    ///
    /// # Errors
    ///
    /// This is a forked child, the pool has ended, or the system gives no poller.
    pub(crate) fn driver(&self) -> io::Result<Arc<Driver>> {
        if self.is_in_forked_child() {
            return Err(forked());
        }
        self.driver.driver(self.slots, &self.idle)
    }

    /// Returns a copy of what the flight recorder has.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            pools: vec![self.recorder.snapshot(&self.info.name, self.asked)],
        }
    }

    /// Enters a task that has a place in this pool.
    pub(crate) fn admit(&self, task: &mut Pending) {
        self.owned_tasks.enter_admitted(task);
    }

    /// Begins the end: spawns are refused, and workers leave after their present task.
    pub(crate) fn close(&self) {
        self.threads.blocking().close();
        // Before the end begins: the places that it frees must not go to a waiting task, which would move in
        // and end with the pool.
        self.info.close();
        self.lifecycle.close();
        self.monitor.close();
        self.idle.wake_all();
        self.driver.begin_close();
    }

    /// Closes the pool because of a fault of its policy. The first fault is kept.
    #[cold]
    pub(crate) fn close_for(&self, fault: &dyn fmt::Display) {
        let _ = self.fault.set(fault.to_string());
        self.close();
    }
}

/// Returns the number by which a wake of a worker is recorded.
pub(crate) fn worker_word(wake: Wake) -> u64 {
    match wake {
        Wake::Worker(worker) => worker.0 as u64,
        Wake::Any | Wake::None => ANY_WORKER,
    }
}
