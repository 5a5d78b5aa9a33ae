//! The monitor finds workers that are stuck in one task, so that the tasks that wait for them are not
//! delayed.
//!
//! It sends *compensating workers*, which have their own `Local` of the policy and are carried by spare
//! threads. A policy's `scan` finds every task, so nothing of the stuck worker is touched, and its own path
//! costs nothing. See `MONITOR.md` beside this file.
//!
//! # Invariants
//!
//! - A compensating worker is vacant, or carried by a thread and counted among the pool's workers, or
//!   retired. `Lifecycle` counts it before it is assigned and until its thread has left it.
//! - It does not take part in the idle protocol: it looks everywhere, and retires when it finds nothing. The
//!   monitor sends it again at the next tick at which a worker is stuck and a task is queued.
//! - It takes no forks: threads that compute are no reason for more threads that compute.
//! - A pool in which all workers sleep makes no ticks. A worker that wakes up wakes the monitor.
//! - While the pool closes the monitor sends no worker. It reports stalls until the last worker has left.

use super::pool_ref::PoolRef;
use super::sleep_flag::SleepFlag;
use super::stall::Stall;
use super::stall_record::RecordTo;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use warpweft_platform::atomic::{AtomicU64, AtomicUsize, Ordering};
use warpweft_platform::clock::now_ns;
use warpweft_platform::panics::contain;
use warpweft_platform::sync::{Condvar, Mutex, MutexGuard};
use warpweft_platform::thread::{JoinHandle, spawn_named, yield_now};
use warpweft_platform::thread_word;

/// The time in one task after which a worker counts as stuck, by default.
pub(crate) const STUCK_AFTER: Duration = Duration::from_millis(10);

/// The time in one task after which a stall is reported, by default. Tasks that compute for 10 ms are nothing
/// special: that they are replaced is enough.
const REPORT_AFTER: Duration = Duration::from_millis(200);

/// The least time after which a worker counts as stuck. Under the checkers no time passes: two looks suffice.
const LEAST: Duration = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    Duration::ZERO
} else {
    Duration::from_micros(200)
};

/// After this number of ticks in which all workers slept, the monitor sleeps, too.
pub(crate) const QUIET_TICKS: u32 = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    1
} else {
    8
};

type OnStall = Box<dyn Fn(&Stall) + Send + Sync>;

/// The signal by which stacks are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StackSignal {
    Usual,
    Number(i32),
    Off,
}

/// The monitor's settings.
pub(crate) struct Watch {
    /// `None` means that there is no monitor.
    pub(crate) stuck_after: Option<Duration>,
    pub(crate) on_stall: Option<OnStall>,
    /// When a stall is written to the standard error stream; `Some(None)` means never, and `None` the
    /// default.
    pub(crate) report_after: Option<Option<Duration>>,
    pub(crate) stack_signal: StackSignal,
    /// Where the flight recorder's snapshot goes when a stall is reported.
    pub(crate) record_to: Option<RecordTo>,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            // Under the checkers no time passes: a program gets a monitor only if it asks for one.
            stuck_after: (!cfg!(any(warpweft_loom, warpweft_shuttle))).then_some(STUCK_AFTER),
            on_stall: None,
            report_after: None,
            stack_signal: StackSignal::Usual,
            record_to: None,
        }
    }
}

impl Watch {
    /// Returns after what time a stall is reported: to the program, if it asked for that, or to the standard
    /// error stream.
    fn report_after(&self) -> Option<Duration> {
        let stuck_after = self.stuck_after?;
        if self.on_stall.is_some() {
            return Some(stuck_after);
        }
        // Under the checkers no time passes, and a model has no standard error stream.
        if cfg!(any(warpweft_loom, warpweft_shuttle)) {
            return None;
        }
        let usual = if stuck_after == STUCK_AFTER {
            REPORT_AFTER
        } else {
            stuck_after.max(STUCK_AFTER)
        };
        Some(self.report_after.unwrap_or(Some(usual))?.max(stuck_after))
    }

    /// Returns the number of compensating workers of a pool of `workers` workers: those that replace stuck
    /// ones, and the standby poller.
    pub(crate) fn compensating(&self, workers: usize) -> usize {
        self.stuck_after.map_or(0, |_| (workers / 2).clamp(1, 4) + 1)
    }
}

/// What there is to do after a sleep of the monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tick {
    /// All that a monitor does.
    Open,
    /// Reports only: the pool closes, and workers have not left.
    Closing,
    /// Nothing more.
    Over,
}

#[derive(Debug, Default)]
struct MonitorState {
    /// Compensating workers that no thread carries.
    vacant: Vec<usize>,
    /// The pool closes.
    closing: bool,
    /// The last worker has left.
    over: bool,
    /// When the last reports are to be done, if a time was given.
    reports_by_ns: Option<u64>,
    thread: Option<JoinHandle<()>>,
}

pub(crate) struct Monitor {
    watch: Watch,
    state: Mutex<MonitorState>,
    wakeup: Condvar,
    sleep_flag: SleepFlag,
    /// The number of workers at the last tick that were in one task for longer than `stuck_after`.
    long: AtomicUsize,
    /// The number of those that are stuck.
    stuck: AtomicUsize,
    /// The number of needed compensating workers: those in the place of others, and perhaps a standby poller.
    needed: AtomicUsize,
    /// The number of carried compensating workers.
    active: AtomicUsize,
    stalls: AtomicUsize,
    /// For each worker a step that the monitor has seen twice, and when it first did.
    long_steps: Box<[LongStep]>,
}

/// A step of a worker, for reports. A reader that finds the number of a step has its time, or that of a later
/// step, which is shorter ago.
#[derive(Debug, Default)]
struct LongStep {
    number: AtomicU64,
    since_ns: AtomicU64,
}

// The monitor whose thread this is.
thread_word!(static HERE: *const Monitor = std::ptr::null());

impl Monitor {
    /// For a pool whose workers from `first` to `end` are compensating workers.
    pub(crate) fn new(watch: Watch, first: usize, end: usize) -> Self {
        Self {
            watch,
            state: Mutex::new(MonitorState {
                vacant: (first..end).rev().collect(),
                ..MonitorState::default()
            }),
            wakeup: Condvar::new(),
            sleep_flag: SleepFlag::new(),
            long: AtomicUsize::new(0),
            stuck: AtomicUsize::new(0),
            needed: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            stalls: AtomicUsize::new(0),
            long_steps: (0..end).map(|_| LongStep::default()).collect(),
        }
    }

    /// Notes that the worker has been in the step with that number since then. Called by the monitor, once
    /// for each such step.
    pub(crate) fn note_long_step(&self, worker: usize, number: u64, since_ns: u64) {
        let step = &self.long_steps[worker];
        step.since_ns.store(since_ns, Ordering::Relaxed);
        // Ordering: Release pairs with the Acquire below, so that a number never comes with an older time.
        step.number.store(number, Ordering::Release);
    }

    /// Returns since when the worker has been in the step with that number, if the monitor has seen it twice.
    pub(crate) fn step_since_ns(&self, worker: usize, number: u64) -> Option<u64> {
        let step = self.long_steps.get(worker)?;
        let is_it = step.number.load(Ordering::Acquire) == number;
        // 0: the monitor has noted no step of this worker yet.
        is_it
            .then(|| step.since_ns.load(Ordering::Relaxed))
            .filter(|&ns| ns != 0)
    }

    /// Starts the monitor's thread, if the settings ask for one.
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

    pub(crate) fn set_here(&self) {
        HERE.with(|here| here.set(self));
    }

    /// Wakes the monitor, because a worker wakes up and there is something to watch again.
    #[inline]
    pub(crate) fn wake(&self) {
        if self.sleep_flag.must_wake() {
            self.wake_up();
        }
    }

    #[cold]
    fn wake_up(&self) {
        // Under the lock, so that the monitor is not on its way to sleep.
        let _state = self.state.lock();
        self.sleep_flag.wake();
        self.wakeup.notify_all();
    }

    pub(crate) fn is_there(&self) -> bool {
        self.watch.stuck_after.is_some()
    }

    #[cold]
    pub(crate) fn hurry(&self) {
        let _state = self.state.lock();
        self.wakeup.notify_all();
    }

    /// Returns true if one compensating worker too many is active. The caller must then retire.
    pub(crate) fn has_one_too_many(&self) -> bool {
        let needed = self.needed.load(Ordering::Relaxed);
        self.active.load(Ordering::Relaxed) > needed
    }

    /// Returns true if a compensating worker must retire and give its tasks back. A standby poller whose task
    /// took long must do so, too: long tasks are for the workers.
    pub(crate) fn must_retire(&self, was_long: bool) -> bool {
        self.has_one_too_many() || was_long && !self.is_any_stuck()
    }

    /// Returns true if any worker is in a long task, stuck or not: a task that yields does not return at
    /// once.
    pub(crate) fn is_any_long(&self) -> bool {
        self.long.load(Ordering::Relaxed) > 0
    }

    /// Returns true if any worker is stuck, so that tasks may wait behind it.
    pub(crate) fn is_any_stuck(&self) -> bool {
        self.stuck.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn stalls(&self) -> usize {
        self.stalls.load(Ordering::Relaxed)
    }

    /// Tells the monitor that the pool closes.
    pub(crate) fn close(&self) {
        self.state.lock().closing = true;
        self.wakeup.notify_all();
    }

    /// Ends the monitor, because the last worker has left.
    pub(crate) fn end(&self) {
        self.state.lock().over = true;
        self.wakeup.notify_all();
    }

    /// Makes the end of the pool wait for no report after that time. The pool is about to close.
    pub(crate) fn report_by(&self, by_ns: u64) {
        self.state.lock().reports_by_ns = Some(by_ns);
    }

    /// Returns until when the end of the pool, which is now, waits for what may take that long.
    pub(crate) fn last_wait(&self, longest_ns: u64) -> u64 {
        let end_ns = now_ns() + longest_ns;
        let by_ns = self.state.lock().reports_by_ns;
        by_ns.map_or(end_ns, |by_ns| by_ns.min(end_ns))
    }

    /// Takes the compensating workers that no thread carries, because the pool has ended.
    pub(crate) fn take_vacant(&self) -> Vec<usize> {
        std::mem::take(&mut self.state.lock().vacant)
    }

    pub(crate) fn is_here(&self) -> bool {
        std::ptr::eq(HERE.with(std::cell::Cell::get), self)
    }

    pub(crate) fn join(&self) {
        let thread = self.state.lock().thread.take();
        if let Some(thread) = thread {
            // Only the user's report can panic there, and that panic is caught there.
            let _ = thread.join();
        }
    }

    /// Returns the time in one task after which a worker counts as stuck, in nanoseconds.
    pub(crate) fn stuck_ns(&self) -> u64 {
        let stuck_after = self.watch.stuck_after.unwrap_or(STUCK_AFTER).max(LEAST);
        u64::try_from(stuck_after.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Stores the result of a tick: the numbers of workers in long tasks, of stuck ones among them, and of
    /// needed compensating workers. Returns the number of missing ones.
    pub(crate) fn set_needed(&self, long: usize, stuck: usize, needed: usize) -> usize {
        self.long.store(long, Ordering::Relaxed);
        self.stuck.store(stuck, Ordering::Relaxed);
        self.needed.store(needed, Ordering::Relaxed);
        needed.saturating_sub(self.active())
    }

    pub(crate) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// Takes a vacant compensating worker. It counts as carried from now on, until it is put back.
    pub(crate) fn take_one(&self) -> Option<usize> {
        let worker = self.state.lock().vacant.pop()?;
        self.active.fetch_add(1, Ordering::Relaxed);
        Some(worker)
    }

    /// Puts a compensating worker back that no thread carries any more.
    pub(crate) fn put_back(&self, worker: usize) {
        self.active.fetch_sub(1, Ordering::Relaxed);
        self.state.lock().vacant.push(worker);
    }

    /// Counts a stuck worker.
    pub(crate) fn count_stall(&self) {
        self.stalls.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns after what time a stall is reported, in nanoseconds; `None` if it is not.
    pub(crate) fn report_ns(&self) -> Option<u64> {
        let ns = self.watch.report_after()?.max(LEAST).as_nanos();
        Some(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Returns for how long a report waits for the names of functions, in nanoseconds: three quarters of the
    /// time after which it is due, and of a second at most. `None` for a program that gets the reports: it
    /// gets each of them once.
    pub(crate) fn names_within_ns(&self) -> Option<u64> {
        const MOST: Duration = Duration::from_secs(1);
        let report_after = self.watch.report_after().filter(|_| !self.has_hook())?;
        u64::try_from((report_after.min(MOST) * 3 / 4).as_nanos()).ok()
    }

    /// Returns true if the program gets the reports, and the standard error stream does not.
    pub(crate) fn has_hook(&self) -> bool {
        self.watch.on_stall.is_some()
    }

    pub(crate) fn stack_signal(&self) -> StackSignal {
        self.watch.stack_signal
    }

    /// Returns where snapshots of the flight recorder go, if the program wants them.
    pub(crate) fn record_to(&self) -> Option<&RecordTo> {
        self.watch.record_to.as_ref()
    }

    /// Calls the program's report, if there is one.
    pub(crate) fn call_hook(&self, stall: &Stall) {
        if let Some(on_stall) = &self.watch.on_stall {
            // The report is the program's code, and the monitor continues without it.
            contain(|| on_stall(stall));
        }
    }

    /// Sleeps for a tick, or, if it may, until a worker wakes it.
    pub(crate) fn sleep(&self, tick_ns: u64, may_sleep: impl Fn() -> bool) -> Tick {
        let mut state = self.state.lock();
        if state.over {
            return Tick::Over;
        }
        if !state.closing && self.sleep_flag.try_sleep(may_sleep) {
            while self.sleep_flag.is_sleeping() && !state.closing {
                state = self.wakeup.wait(state);
            }
        } else {
            state = self.pause(state, tick_ns);
        }
        match (state.over, state.closing) {
            (true, _) => Tick::Over,
            (false, true) => Tick::Closing,
            (false, false) => Tick::Open,
        }
    }

    /// Waits for a tick. Under the checkers, where no time passes, it is over at once.
    fn pause<'a>(
        &'a self,
        state: MutexGuard<'a, MonitorState>,
        tick_ns: u64,
    ) -> MutexGuard<'a, MonitorState> {
        if cfg!(any(warpweft_loom, warpweft_shuttle)) {
            drop(state);
            yield_now();
            return self.state.lock();
        }
        self.wakeup.wait_for(state, tick_ns)
    }
}
