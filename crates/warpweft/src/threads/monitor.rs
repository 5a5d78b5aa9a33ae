//! The monitor: a worker that is stuck in one task does not hold up what waits behind it.
//!
//! ```text
//!   worker 0   ──task──task──a task that takes long ─────────────────────────────▶ … task──task──
//!   monitor        tick    tick    tick: stuck!   tick                              tick: it goes on
//!                                    │                                               │
//!   compensating worker                         └▶ carried by a spare thread: takes tasks ─────▶┘ gives back what it has
//! ```
//!
//! A *compensating worker* is a worker beyond those that were asked for, with a `Local` of its own. Whatever
//! waits for the stuck worker is within its reach, because a policy's `scan` finds every task, wherever it
//! lies; so nothing of the stuck worker is touched, and its own path costs nothing. What only the stuck
//! thread may do waits for it: its started fibers, and tasks for this very worker.
//!
//! # Invariants
//!
//! - A compensating worker is vacant, or carried by a thread and counted among the pool's workers, or
//!   retired. `Lifecycle` counts it before it is assigned and after its thread is through with it.
//! - It does not take part in the idle protocol: it looks everywhere, and when there is nothing it retires.
//!   The monitor sends it again at the next tick, as long as somebody is stuck.
//! - It takes no forks: threads that compute are no reason for more threads that compute.
//! - A pool in which everybody sleeps makes no ticks. Who wakes up rings.

use super::pool_ref::PoolRef;
use super::sleep_flag::SleepFlag;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::sync::{Condvar, Mutex, MutexGuard};
use warpweft_platform::thread::{JoinHandle, spawn_named, yield_now};
use warpweft_platform::thread_state::ThreadState;
use warpweft_platform::thread_word;

/// A worker is stuck when it has been in one task for so long, if nothing else is said.
pub(crate) const STUCK_AFTER: Duration = Duration::from_millis(10);

/// The least time after which a worker counts as stuck. Under the checkers no time passes: two looks suffice.
const LEAST: Duration = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    Duration::ZERO
} else {
    Duration::from_micros(200)
};

/// After so many ticks in which everybody slept the monitor sleeps, too.
pub(crate) const QUIET_TICKS: u32 = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    1
} else {
    8
};

/// A worker that has been in one task for longer than [`Builder::stuck_after`](crate::Builder::stuck_after).
///
/// It is read beside the worker, which may go on meanwhile: a report that comes at the end of a task may tell
/// of the next one. As text it is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The name of the pool: that of the runtime, or what [`then`](crate::Builder::then) and
    /// [`silos`](crate::Builder::silos) were told.
    pub pool: String,
    /// The number of the worker in its pool, from 0. From [`Pool::workers`](crate::Pool::workers) on it is a
    /// compensating worker's.
    pub worker: usize,
    /// For how long at least it had been in the task when it was noticed.
    pub stuck_for: Duration,
    /// The [name](crate::TaskBuilder::name) of the task, if it has one.
    pub name: Option<String>,
    /// Where the task was spawned. `None`: it is a fork, or had a name and has ended.
    pub spawned_at: Option<&'static Location<'static>>,
    /// What the kernel says of the thread: whether it runs, and if it sleeps, in what. `None` where it does
    /// not tell. The stack of the task itself only a debugger can read while it runs: `eu-stack -1 -p` takes
    /// the number that is here.
    pub thread_state: Option<ThreadState>,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.stuck_for.as_millis();
        let Self { pool, worker, .. } = self;
        write!(f, "worker {worker} of `{pool}` has been for {millis} ms in ")?;
        match (&self.name, self.spawned_at) {
            (Some(name), Some(site)) => write!(f, "the task `{name}`, spawned at {site}")?,
            (_, Some(site)) => write!(f, "a task spawned at {site}")?,
            _ => f.write_str("a fork, or a task that has ended")?,
        }
        match &self.thread_state {
            Some(thread_state) => write!(f, "; its {thread_state}"),
            None => Ok(()),
        }
    }
}

type OnStall = Box<dyn Fn(&Stall) + Send + Sync>;

/// What the monitor is asked to do.
pub(crate) struct Watch {
    /// `None`: there is no monitor.
    pub(crate) stuck_after: Option<Duration>,
    pub(crate) on_stall: Option<OnStall>,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            // Under the checkers no time passes: only who asks for it gets a monitor.
            stuck_after: (!cfg!(any(warpweft_loom, warpweft_shuttle))).then_some(STUCK_AFTER),
            on_stall: None,
        }
    }
}

impl Watch {
    /// How many compensating workers a pool of so many workers has.
    pub(crate) fn compensating(&self, workers: usize) -> usize {
        self.stuck_after.map_or(0, |_| (workers / 2).clamp(1, 4))
    }
}

#[derive(Debug, Default)]
struct State {
    /// Compensating workers that nobody carries.
    vacant: Vec<usize>,
    over: bool,
    thread: Option<JoinHandle<()>>,
}

pub(crate) struct Monitor {
    watch: Watch,
    state: Mutex<State>,
    wakeup: Condvar,
    sleep_flag: SleepFlag,
    /// How many workers were stuck at the last tick.
    stuck: AtomicUsize,
    /// How many compensating workers are needed: one for each of those, and perhaps a standby poller.
    needed: AtomicUsize,
    /// How many compensating workers are carried.
    active: AtomicUsize,
    stalls: AtomicUsize,
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor")
            .field("stuck_after", &self.watch.stuck_after)
            .field("stuck", &self.stuck)
            .field("active", &self.active)
            .finish_non_exhaustive()
    }
}

// The monitor whose thread this is.
thread_word!(static HERE: *const Monitor = std::ptr::null());

impl Monitor {
    /// For a pool whose workers from `first` to `end` are compensating workers.
    pub(crate) fn new(watch: Watch, first: usize, end: usize) -> Self {
        Self {
            watch,
            state: Mutex::new(State {
                vacant: (first..end).collect(),
                ..State::default()
            }),
            wakeup: Condvar::new(),
            sleep_flag: SleepFlag::new(),
            stuck: AtomicUsize::new(0),
            needed: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            stalls: AtomicUsize::new(0),
        }
    }

    /// Starts its thread, if one was asked for.
    ///
    /// # Errors
    ///
    /// The system gives no thread.
    pub(crate) fn start(&self, pool: Arc<dyn PoolRef>, name: &str) -> io::Result<()> {
        if !self.is_there() {
            return Ok(());
        }
        let thread = spawn_named(&format!("{name}-watch"), None, move || pool.run_monitor())?;
        self.state.lock().thread = Some(thread);
        Ok(())
    }

    /// The calling thread is the monitor's.
    pub(crate) fn set_here(&self) {
        HERE.with(|here| here.set(self));
    }

    /// A worker wakes up: there is something to watch again.
    #[inline]
    pub(crate) fn ring(&self) {
        if self.sleep_flag.is_to_be_rung() {
            self.wake_up();
        }
    }

    #[cold]
    fn wake_up(&self) {
        // Under the lock, so that it is not on its way to sleep.
        let _state = self.state.lock();
        self.sleep_flag.wake();
        self.wakeup.notify_all();
    }

    /// Whether there is one at all.
    pub(crate) fn is_there(&self) -> bool {
        self.watch.stuck_after.is_some()
    }

    /// The present tick is over.
    #[cold]
    pub(crate) fn hurry(&self) {
        let _state = self.state.lock();
        self.wakeup.notify_all();
    }

    /// Whether a compensating worker is not needed any more; if so it has to stand down.
    pub(crate) fn lets_go(&self) -> bool {
        let needed = self.needed.load(Ordering::Relaxed);
        self.active.load(Ordering::Relaxed) > needed
    }

    /// Whether a compensating worker has to stand down, and to give its tasks back. A standby poller with a
    /// task that took long is none: such tasks are for the workers.
    pub(crate) fn relieves(&self, was_long: bool) -> bool {
        self.lets_go() || was_long && !self.is_somebody_stuck()
    }

    /// Whether there are workers behind whom tasks may wait.
    pub(crate) fn is_somebody_stuck(&self) -> bool {
        self.stuck.load(Ordering::Relaxed) > 0
    }

    /// How often a worker was found stuck.
    pub(crate) fn stalls(&self) -> usize {
        self.stalls.load(Ordering::Relaxed)
    }

    /// The pool closes.
    pub(crate) fn close(&self) {
        self.state.lock().over = true;
        self.wakeup.notify_all();
    }

    /// The compensating workers that nobody carries, nor ever will: the pool has ended.
    pub(crate) fn take_vacant(&self) -> Vec<usize> {
        std::mem::take(&mut self.state.lock().vacant)
    }

    /// Whether this is its thread.
    pub(crate) fn is_here(&self) -> bool {
        std::ptr::eq(HERE.with(std::cell::Cell::get), self)
    }

    /// Waits for its thread.
    pub(crate) fn join(&self) {
        let thread = self.state.lock().thread.take();
        if let Some(thread) = thread {
            // What panics there is the user's report, and is kept there.
            let _ = thread.join();
        }
    }

    /// After how long in one task a worker counts as stuck, in nanoseconds.
    pub(crate) fn stuck_ns(&self) -> u64 {
        let stuck_after = self.watch.stuck_after.unwrap_or(STUCK_AFTER).max(LEAST);
        u64::try_from(stuck_after.as_nanos()).unwrap_or(u64::MAX)
    }

    /// What the last tick found: how many workers are stuck, and how many compensating workers are needed.
    /// How many of these are missing.
    pub(crate) fn set_needed(&self, stuck: usize, needed: usize) -> usize {
        self.stuck.store(stuck, Ordering::Relaxed);
        self.needed.store(needed, Ordering::Relaxed);
        needed.saturating_sub(self.active())
    }

    /// How many compensating workers are carried.
    pub(crate) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// A compensating worker that nothing carries. It counts as carried from now on, until it is put back.
    pub(crate) fn take_one(&self) -> Option<usize> {
        let worker = self.state.lock().vacant.pop()?;
        self.active.fetch_add(1, Ordering::Relaxed);
        Some(worker)
    }

    /// Nothing carries that compensating worker any more.
    pub(crate) fn put_back(&self, worker: usize) {
        self.active.fetch_sub(1, Ordering::Relaxed);
        self.state.lock().vacant.push(worker);
    }

    /// A worker was found stuck: counts it, and calls the program's report if there is one.
    pub(crate) fn report(&self, stall: impl FnOnce() -> Stall) {
        self.stalls.fetch_add(1, Ordering::Relaxed);
        if let Some(on_stall) = &self.watch.on_stall {
            let stall = stall();
            // Unwind: the report is the program's code, and the monitor goes on without it.
            let _ = catch_unwind(AssertUnwindSafe(|| on_stall(&stall)));
        }
    }

    /// Sleeps for a tick, or, if it may doze, until somebody rings. `false`: the pool closes.
    pub(crate) fn sleep(&self, tick_ns: u64, may_sleep: impl Fn() -> bool) -> bool {
        let mut state = self.state.lock();
        if state.over {
            return false;
        }
        if self.sleep_flag.try_sleep(may_sleep) {
            while self.sleep_flag.lies() && !state.over {
                state = self.wakeup.wait(state);
            }
        } else {
            state = self.pause(state, tick_ns);
        }
        !state.over
    }

    /// A tick. Under the checkers, where no time passes, it is over at once.
    fn pause<'a>(&'a self, state: MutexGuard<'a, State>, tick_ns: u64) -> MutexGuard<'a, State> {
        if cfg!(any(warpweft_loom, warpweft_shuttle)) {
            drop(state);
            yield_now();
            return self.state.lock();
        }
        self.wakeup.wait_for(state, tick_ns)
    }
}
