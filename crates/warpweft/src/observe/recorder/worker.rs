//! What one worker records.
//!
//! # Invariants
//!
//! - The thread that carries the worker calls everything here but `read` and the readers of counts. Threads
//!   take turns at that by the hand-over of the worker.
//! - The stamp of a boundary ends a step and begins the next one. A step that is not followed at once is
//!   [closed](WorkerRecorder::close).

use super::event::{Kind, Push, StepEnd, record, stamp_of, task_word};
use super::ring::Ring;
use super::sites::{Cache, TaskSite};
use super::sleep_time::SleepTime;
use super::times::{Measure, Times, class};
use super::{Mode, PoolRecorder};
use std::cell::{Cell, UnsafeCell};
use std::sync::OnceLock;
use warpweft_platform::atomic::{AtomicU64, Ordering};
use warpweft_policy::{Count, Counters, priority};
use warpweft_task::TaskRef;

/// The turn of a fiber.
#[derive(Debug)]
pub(crate) struct FiberTurn {
    /// What identifies its task.
    pub(crate) task: usize,
    pub(crate) site: Option<TaskSite>,
    pub(crate) end: StepEnd,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct WorkerRecorder {
    pub(super) sparse: Ring,
    pub(super) steps: Ring,
    /// How the last step ended, as a detail; 0 if that is recorded already, or a step runs.
    ended: Cell<u8>,
    /// True if the last record of a step is its begin.
    is_open: Cell<bool>,
    /// When the last step began, and its class.
    began: Cell<u64>,
    class: Cell<usize>,
    cache: UnsafeCell<Cache>,
    times: OnceLock<Times>,
    /// In ticks.
    sleep_time: SleepTime,
    /// The longest time for which it was said to have been awake, in nanoseconds.
    awake_ns: AtomicU64,
    /// What the counters said when they were recorded last: stolen and overflowed tasks.
    stolen: Cell<u64>,
    overflowed: Cell<u64>,
}

// SAFETY: the cells are touched only by the thread that carries the worker; see the module. The rest is
// `Sync`.
unsafe impl Sync for WorkerRecorder {}

impl WorkerRecorder {
    pub(super) fn new(sparse_bytes: usize, step_bytes: usize) -> Self {
        Self {
            sparse: Ring::new(sparse_bytes),
            steps: Ring::new(step_bytes),
            ended: Cell::new(0),
            is_open: Cell::new(false),
            began: Cell::new(0),
            class: Cell::new(0),
            cache: UnsafeCell::default(),
            times: OnceLock::new(),
            sleep_time: SleepTime::default(),
            awake_ns: AtomicU64::new(0),
            stolen: Cell::new(0),
            overflowed: Cell::new(0),
        }
    }

    /// Records a rare event.
    ///
    /// # Safety
    ///
    /// The calling thread carries the worker.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn note(&self, pool: &PoolRecorder, kind: Kind, word: u64) {
        // For measurements: a build without rare events.
        if cfg!(warpweft_unrecorded) {
            return;
        }
        let now = pool.clock.now();
        // SAFETY: by contract no other thread writes, and earlier ones have handed the worker over.
        unsafe {
            self.sparse.write(record(now, kind, 0, word), |oldest| {
                pool.is_young(stamp_of(oldest), now)
            });
        }
    }

    /// Notes that the worker falls asleep.
    /// Contract: as [`note`](Self::note).
    #[cold]
    pub(crate) unsafe fn park(&self, pool: &PoolRecorder) {
        self.sleep_time.begin(pool.clock.now());
        // SAFETY: by contract the calling thread carries the worker.
        unsafe { self.note(pool, Kind::Park, 0) };
    }

    /// Notes that the worker is awake again, if it slept.
    /// Contract: as [`note`](Self::note).
    #[cold]
    pub(crate) unsafe fn unpark(&self, pool: &PoolRecorder) {
        if self.sleep_time.end(pool.clock.now()) {
            // SAFETY: by contract the calling thread carries the worker.
            unsafe { self.note(pool, Kind::Unpark, 0) };
        }
    }

    /// Returns for how many ticks the worker has slept until `now`.
    pub(super) fn slept(&self, now: u64) -> u64 {
        self.sleep_time.until(now)
    }

    /// Returns how long it has been awake, which was computed as `awake_ns`, but never less than before: the
    /// rate of the clock's ticks is measured anew each time.
    pub(super) fn at_least(&self, awake_ns: u64) -> u64 {
        // Ordering: Relaxed. The number says nothing of other memory.
        self.awake_ns.fetch_max(awake_ns, Ordering::Relaxed).max(awake_ns)
    }

    /// Records what the worker's counters say of stolen and overflowed tasks since the last call.
    /// Contract: as [`note`](Self::note).
    #[inline]
    pub(crate) unsafe fn compare(&self, pool: &PoolRecorder, counters: &Counters) {
        if cfg!(warpweft_unrecorded) {
            return;
        }
        let (stolen, overflowed) = (counters.get(Count::Stolen), counters.get(Count::Overflowed));
        if stolen != self.stolen.get() || overflowed != self.overflowed.get() {
            // SAFETY: by contract the calling thread carries the worker.
            unsafe { self.note_counts(pool, stolen, overflowed) };
        }
    }

    /// Contract: as [`note`](Self::note).
    #[cold]
    #[inline(never)]
    unsafe fn note_counts(&self, pool: &PoolRecorder, stolen: u64, overflowed: u64) {
        let stolen = stolen.wrapping_sub(self.stolen.replace(stolen));
        let overflowed = overflowed.wrapping_sub(self.overflowed.replace(overflowed));
        for (kind, tasks) in [(Kind::Steal, stolen), (Kind::Overflow, overflowed)] {
            if tasks > 0 {
                // SAFETY: by contract the calling thread carries the worker.
                unsafe { self.note(pool, kind, tasks) };
            }
        }
    }

    /// Notes that a step of the task begins.
    /// Contract: as [`note`](Self::note).
    #[inline]
    pub(crate) unsafe fn begin(&self, pool: &PoolRecorder, mode: Mode, task: &TaskRef) {
        let now = pool.clock.now();
        // SAFETY: by contract this thread alone touches the cache, and the borrow ends here.
        let site = unsafe { &*self.cache.get() }.get(task.origin_word());
        // SAFETY: by contract the calling thread carries the worker.
        let slot = unsafe { self.steps.next_slot() };
        // Nearly always, and without a call, for which registers would be saved.
        if let (true, Some(site), Some(slot)) = (mode.is_only_steps(), site, slot) {
            let word = task_word(task.id_word(), site);
            slot.write(record(now, Kind::Begin, self.ended.replace(0), word));
            self.is_open.set(true);
            self.began.set(now);
        } else {
            // SAFETY: by contract the calling thread carries the worker.
            unsafe { self.begin_at(pool, mode, task, now) };
        }
    }

    /// Notes that a step begins, also where it is measured, its site is new, or the ring needs a decision.
    /// Contract: as [`note`](Self::note).
    #[cold]
    #[inline(never)]
    unsafe fn begin_at(&self, pool: &PoolRecorder, mode: Mode, task: &TaskRef, now: u64) {
        if mode.has_times() {
            // SAFETY: by contract the calling thread carries the worker.
            unsafe { self.measure(pool, task, now) };
        }
        if mode.has_steps() {
            // SAFETY: by contract this thread alone touches the cache, and the borrow ends here.
            let cache = unsafe { &mut *self.cache.get() };
            let site = cache.number(task.origin_word(), &pool.sites, || task.info());
            let word = task_word(task.id_word(), site);
            // SAFETY: by contract the calling thread carries the worker.
            unsafe { self.write_step(pool, now, Kind::Begin, self.ended.get(), word) };
            self.is_open.set(true);
        }
        self.ended.set(0);
        self.began.set(now);
    }

    /// Measures the step that ended at `now`, if one did, and how long the task waited that begins a step.
    /// Contract: as [`note`](Self::note).
    #[inline]
    unsafe fn measure(&self, pool: &PoolRecorder, task: &TaskRef, now: u64) {
        let times = self.times.get_or_init(|| Times::new(pool.priorities));
        if self.ended.get() != 0 {
            times.add(
                self.class.get(),
                Measure::RunTime,
                now.saturating_sub(self.began.get()),
            );
        }
        let class = class(priority::of(task.policy_word()));
        self.class.set(class);
        if let Some((measure, ticks)) = pool.pushes().take(task.id_word(), now) {
            times.add(class, measure, ticks);
        }
    }

    /// Notes how the step of a task has ended. Its end gets the stamp of the next boundary.
    #[inline]
    pub(crate) fn end(&self, end: StepEnd) {
        self.ended.set(end as u8);
    }

    /// Notes that the task of the last step was woken before it slept, and is pushed again.
    #[inline]
    pub(crate) fn goes_again(&self) {
        if self.ended.get() == StepEnd::Waits as u8 {
            self.end(StepEnd::Again);
        }
    }

    /// Records the end of the last step, if it is not recorded yet: no step follows at once.
    /// Contract: as [`note`](Self::note).
    #[inline]
    pub(crate) unsafe fn close(&self, pool: &PoolRecorder) {
        if self.ended.get() != 0 {
            // SAFETY: by contract the calling thread carries the worker.
            unsafe { self.close_step(pool) };
        }
    }

    /// Contract: as [`note`](Self::note).
    #[cold]
    #[inline(never)]
    unsafe fn close_step(&self, pool: &PoolRecorder) {
        let now = pool.clock.now();
        if pool.mode().has_times() {
            self.measure_end(now);
        }
        let ended = self.ended.replace(0);
        // Also where the recording was ended meanwhile: the step is in the ring.
        if self.is_open.replace(false) {
            // SAFETY: by contract the calling thread carries the worker.
            unsafe { self.write_step(pool, now, Kind::End, ended, 0) };
        }
    }

    /// Measures the step that ends now.
    #[cold]
    #[inline(never)]
    fn measure_end(&self, now: u64) {
        if let Some(times) = self.times.get() {
            times.add(
                self.class.get(),
                Measure::RunTime,
                now.saturating_sub(self.began.get()),
            );
        }
    }

    /// Records that a step ended here that had begun on another worker: the step that is open here continues
    /// elsewhere.
    /// Contract: as [`note`](Self::note).
    #[cold]
    pub(crate) unsafe fn leave(&self, pool: &PoolRecorder) {
        self.ended.set(0);
        if self.is_open.replace(false) {
            // SAFETY: by contract the calling thread carries the worker.
            unsafe { self.write_step(pool, pool.clock.now(), Kind::End, StepEnd::Left as u8, 0) };
        }
    }

    /// Records that the worker took a fork from the worker `from`, and runs it from now on.
    /// Contract: as [`note`](Self::note).
    pub(crate) unsafe fn begin_fork(&self, pool: &PoolRecorder, fork: usize, from: usize) {
        let now = pool.clock.now();
        let from = u16::try_from(from + 1).unwrap_or(0);
        // SAFETY: by contract the calling thread carries the worker.
        unsafe { self.write_step(pool, now, Kind::Push, Push::Taken as u8, task_word(fork, from)) };
        // SAFETY: by contract the calling thread carries the worker.
        unsafe { self.write_step(pool, now, Kind::BeginFork, 0, task_word(fork, 0)) };
        self.is_open.set(true);
    }

    /// Records the end of the fork, unless tasks ran on its stack meanwhile and ended its slice.
    /// Contract: as [`note`](Self::note).
    pub(crate) unsafe fn end_fork(&self, pool: &PoolRecorder) {
        if self.is_open.get() && self.ended.get() == 0 {
            self.end(StepEnd::Ended);
        }
        // SAFETY: by contract the calling thread carries the worker.
        unsafe { self.close(pool) };
    }

    /// Records the turn of a fiber, which `run` returns, or `None` if no fiber was ready. Which fiber it was
    /// is known when the turn is over, so a long one is in no record before.
    /// Contract: as [`note`](Self::note), at the call; and after `run`, if `is_still` returns true.
    #[inline(never)]
    pub(crate) unsafe fn around(
        &self,
        pool: &PoolRecorder,
        run: impl FnOnce() -> Option<FiberTurn>,
        is_still: impl FnOnce() -> bool,
        woken: impl FnOnce(&mut dyn FnMut(usize)),
    ) {
        let start = pool.clock.now();
        let Some(FiberTurn { task, site, end }) = run() else {
            return;
        };
        if !pool.mode().has_steps() || !is_still() {
            return;
        }
        let site = site.map_or(0, |site| pool.sites.number(site));
        // SAFETY: by contract the thread still carries the worker.
        unsafe { self.write_step(pool, start, Kind::BeginFiber, 0, task_word(task, site)) };
        // SAFETY: as above.
        unsafe { self.woke(pool, woken) };
        // SAFETY: as above.
        unsafe { self.write_step(pool, pool.clock.now(), Kind::End, end as u8, 0) };
    }

    /// Records that each task that `woken` passes on became runnable: a fiber of the same thread. The time
    /// is the present one, at the end of the step that woke them.
    /// Contract: as [`note`](Self::note).
    pub(crate) unsafe fn woke(&self, pool: &PoolRecorder, woken: impl FnOnce(&mut dyn FnMut(usize))) {
        if !pool.mode().has_steps() {
            return;
        }
        woken(&mut |address| {
            // SAFETY: by contract the calling thread carries the worker.
            unsafe { self.write_push(pool, Push::Woken, task_word(address, 0)) };
        });
    }

    /// Records a push now.
    /// Contract: as [`note`](Self::note).
    pub(super) unsafe fn write_push(&self, pool: &PoolRecorder, push: Push, word: u64) {
        // SAFETY: by contract the calling thread carries the worker.
        unsafe { self.write_step(pool, pool.clock.now(), Kind::Push, push as u8, word) };
    }

    /// Notes that a task became runnable, before its pool has it.
    /// Contract: as [`note`](Self::note).
    #[inline]
    pub(crate) unsafe fn pushed(&self, pool: &PoolRecorder, push: Push, task: &TaskRef) {
        // SAFETY: by contract the calling thread carries the worker.
        let slot = unsafe { self.steps.next_slot() };
        if let (true, Some(slot)) = (pool.mode().is_only_steps(), slot) {
            let word = task_word(task.id_word(), 0);
            slot.write(record(pool.clock.now(), Kind::Push, push as u8, word));
        } else {
            // SAFETY: by contract the calling thread carries the worker.
            unsafe { self.pushed_at(pool, push, task.id_word()) };
        }
    }

    /// Notes a push, also where it is measured or the ring needs a decision.
    /// Contract: as [`note`](Self::note).
    #[cold]
    #[inline(never)]
    unsafe fn pushed_at(&self, pool: &PoolRecorder, push: Push, task: usize) {
        let (mode, now) = (pool.mode(), pool.clock.now());
        if mode.has_times() {
            pool.pushes().pushed(task, push, now);
        }
        if mode.has_steps() {
            // SAFETY: by contract the calling thread carries the worker.
            unsafe { self.write_step(pool, now, Kind::Push, push as u8, task_word(task, 0)) };
        }
    }

    /// Contract: as [`note`](Self::note).
    #[inline]
    unsafe fn write_step(&self, pool: &PoolRecorder, now: u64, kind: Kind, detail: u8, word: u64) {
        // SAFETY: by contract the calling thread carries the worker.
        unsafe {
            self.steps.write(record(now, kind, detail, word), |oldest| {
                pool.is_young(stamp_of(oldest), now)
            });
        }
    }

    pub(super) fn times(&self) -> Option<&Times> {
        self.times.get()
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::WorkerRecorder;

    #[test]
    fn the_time_awake_never_goes_back() {
        let recorder = WorkerRecorder::new(1 << 12, 1 << 12);
        assert_eq!([5, 3, 8, 7].map(|ns| recorder.at_least(ns)), [5, 5, 8, 8]);
    }
}
