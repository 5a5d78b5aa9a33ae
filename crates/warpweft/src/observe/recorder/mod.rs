//! The flight recorder of a pool: what its workers did lately.
//!
//! *Sparse* events are rare ones, such as sleep and wake-up of workers. They are always recorded. *Steps* are
//! recorded on request: each begin and end of a task's step, and each push. See the decision record 0062.
//!
//! # Invariants
//!
//! - A worker's records are written by the thread that carries it. All other threads of a pool share one
//!   ring, under a lock.
//! - A snapshot stops no worker.

mod copy;
pub(crate) mod event;
pub(crate) mod json;
mod numbers;
pub(crate) mod perfetto;
pub(crate) mod ring;
pub(crate) mod sites;
mod sleep_time;
pub(crate) mod snapshot;
pub(crate) mod times;
pub(crate) mod worker;

use event::{Kind, Push, StepEnd, record, stamp_of, task_word};
use ring::Ring;
use sites::{Numbers, Sites, TaskSite};
use std::sync::OnceLock;
use std::time::Duration;
use times::{Distribution, PushTimes};
use warpweft_platform::CachePadded;
use warpweft_platform::counter::Gauge;
use warpweft_platform::sync::Mutex;
use warpweft_platform::thread;
use warpweft_platform::ticks::{Pair, Scale, TickClock};
use warpweft_task::TaskRef;
use worker::WorkerRecorder;

/// The bytes of steps for each worker, by default.
pub(crate) const STEP_BYTES: usize = 4 << 20;
/// The part of it that sparse events may have in addition.
const SPARSE_PART: usize = 32;
/// How old a record should become before it is overwritten, by default.
pub(crate) const MIN_AGE: Duration = Duration::from_secs(10);
/// A push whose task has made no step after this time is forgotten, in nanoseconds.
const STALE_NS: f64 = 10e9;

/// The settings of a recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    /// For the steps of each worker; also bounds the sparse events.
    pub(crate) bytes: usize,
    pub(crate) min_age: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            bytes: STEP_BYTES,
            min_age: MIN_AGE,
        }
    }
}

/// What is done at each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mode(u8);

impl Mode {
    const STEPS: u8 = 1;
    const TIMES: u8 = 2;

    /// Returns true if steps are recorded.
    #[inline]
    pub(crate) fn has_steps(self) -> bool {
        self.0 & Self::STEPS != 0
    }

    /// Returns true if steps are measured, for histograms.
    #[inline]
    pub(crate) fn has_times(self) -> bool {
        self.0 & Self::TIMES != 0
    }

    /// Returns true if steps are recorded, and nothing else is done with them.
    #[inline]
    pub(crate) fn is_only_steps(self) -> bool {
        self.0 == Self::STEPS
    }

    /// Returns true if anything is done at each step.
    #[inline]
    pub(crate) fn is_on(self) -> bool {
        self.0 != 0
    }

    fn with(self, bit: u8, on: bool) -> Self {
        Self(if on { self.0 | bit } else { self.0 & !bit })
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct PoolRecorder {
    clock: TickClock,
    start: Pair,
    min_age: Duration,
    priorities: u8,
    mode: Gauge,
    /// Taken while the mode changes.
    changes: Mutex<()>,
    workers: Box<[CachePadded<WorkerRecorder>]>,
    outside: Mutex<Outside>,
    sites: Sites,
    pushes: OnceLock<PushTimes>,
}

/// What threads without a worker of the pool recorded.
#[derive(Debug)]
struct Outside {
    ring: Ring,
    /// The names of those that made tasks runnable.
    threads: Numbers<str>,
}

impl PoolRecorder {
    /// Makes the recorder of a pool with so many workers, compensating ones included, and priorities.
    pub(crate) fn new(settings: Settings, workers: usize, priorities: u8) -> Self {
        let clock = TickClock::new();
        let sparse = settings.bytes / SPARSE_PART;
        let recorder = || CachePadded::new(WorkerRecorder::new(sparse, settings.bytes));
        Self {
            clock,
            start: clock.pair(),
            min_age: settings.min_age,
            priorities,
            mode: Gauge::default(),
            changes: Mutex::default(),
            workers: (0..workers).map(|_| recorder()).collect(),
            outside: Mutex::new(Outside {
                ring: Ring::new(settings.bytes / 4),
                threads: Numbers::default(),
            }),
            sites: Sites::default(),
            pushes: OnceLock::new(),
        }
    }

    #[inline]
    pub(crate) fn mode(&self) -> Mode {
        Mode(self.mode.get() as u8)
    }

    /// Changes the mode, and calls `follow` with the new one if it is another one.
    fn change(&self, bit: u8, on: bool, follow: impl FnOnce(Mode)) {
        let Some(_changes) = self.changes.lock_unless_lost() else {
            return;
        };
        let (before, after) = (self.mode(), self.mode().with(bit, on));
        if before != after {
            self.mode.set(u64::from(after.0));
            follow(after);
        }
    }

    /// Sets whether steps are recorded.
    pub(crate) fn set_steps(&self, on: bool, follow: impl FnOnce(Mode)) {
        self.change(Mode::STEPS, on, follow);
    }

    /// Sets whether steps are measured.
    pub(crate) fn set_times(&self, on: bool, follow: impl FnOnce(Mode)) {
        self.change(Mode::TIMES, on, follow);
    }

    #[inline]
    pub(crate) fn worker(&self, worker: usize) -> &WorkerRecorder {
        &self.workers[worker]
    }

    /// Records a rare event, from a thread without a worker of the pool. Takes a lock.
    #[cold]
    pub(crate) fn note_outside(&self, kind: Kind, word: u64) {
        self.write_outside(kind, 0, word);
    }

    /// Notes that a task became runnable, on a thread without a worker of the pool. Takes a lock.
    #[cold]
    pub(crate) fn pushed_outside(&self, push: Push, task: &TaskRef) {
        let mode = self.mode();
        if mode.has_times() {
            self.pushes().pushed(task.id_word(), push, self.clock.now());
        }
        if mode.has_steps() {
            self.push_outside(push, task.id_word());
        }
    }

    /// Records that a closure waits for a thread for closures that block. Takes a lock if no worker calls.
    ///
    /// # Safety
    ///
    /// The calling thread carries `worker`, if there is one.
    pub(crate) unsafe fn blocking_pushed(&self, worker: Option<usize>, task: &TaskRef) {
        let push = worker.map_or(Push::Injected, |_| Push::Spawned);
        // SAFETY: by contract the calling thread carries `worker`.
        unsafe { self.write_push(worker, push, task.id_word()) };
    }

    /// Records that the fiber of that task was woken by another thread than its own, if steps are recorded.
    /// Takes a lock if no worker calls.
    ///
    /// # Safety
    ///
    /// The calling thread carries `worker`, if there is one.
    pub(crate) unsafe fn fiber_woken(&self, worker: Option<usize>, task: usize) {
        if self.mode().has_steps() {
            // SAFETY: by contract the calling thread carries `worker`.
            unsafe { self.write_push(worker, Push::Woken, task) };
        }
    }

    /// # Safety
    ///
    /// The calling thread carries `worker`, if there is one.
    #[cold]
    unsafe fn write_push(&self, worker: Option<usize>, push: Push, task: usize) {
        match worker {
            // SAFETY: by contract the calling thread carries `worker`.
            Some(worker) => unsafe { self.worker(worker).write_push(self, push, task_word(task, 0)) },
            None => self.push_outside(push, task),
        }
    }

    /// Notes that a closure begins on a thread for closures that block, if steps are recorded. Returns its
    /// word, for [`blocking_ended`](Self::blocking_ended). Takes two locks.
    pub(crate) fn blocking_begins(&self, task: &TaskRef) -> Option<u64> {
        self.mode().has_steps().then(|| {
            let site = self.sites.number(TaskSite::of(task.info()));
            let word = task_word(task.id_word(), site);
            self.write_outside(Kind::Blocking, 0, word);
            word
        })
    }

    /// Notes that the closure of that word has ended. Takes a lock.
    #[cold]
    pub(crate) fn blocking_ended(&self, word: u64) {
        self.write_outside(Kind::Blocking, StepEnd::Ended as u8, word);
    }

    /// Records that the calling thread made the task of that address runnable.
    fn push_outside(&self, push: Push, task: usize) {
        let name = thread::current_name();
        self.write_outside_as(Kind::Push, push as u8, |threads| {
            task_word(task, name.map_or(0, |name| threads.number(name)))
        });
    }

    fn write_outside(&self, kind: Kind, detail: u8, word: u64) {
        self.write_outside_as(kind, detail, |_| word);
    }

    fn write_outside_as(&self, kind: Kind, detail: u8, word: impl FnOnce(&mut Numbers<str>) -> u64) {
        if let Some(mut outside) = self.outside.lock_unless_lost() {
            let word = word(&mut outside.threads);
            // Under the lock, so that stamps ascend.
            let now = self.clock.now();
            // SAFETY: writers hold the lock.
            unsafe {
                outside.ring.write(record(now, kind, detail, word), |oldest| {
                    self.is_young(stamp_of(oldest), now)
                });
            }
        }
    }

    fn scale(&self) -> (Scale, Pair) {
        let now = self.clock.pair();
        (Scale::new(self.start, now), now)
    }

    /// Returns true if a record of that stamp is younger than records should become.
    #[cold]
    fn is_young(&self, stamp: u64, now: u64) -> bool {
        let ticks = now.wrapping_sub(event::whole_stamp([stamp << 8, 0], now));
        self.scale().0.span_ns(ticks) < self.min_age.as_nanos() as f64
    }

    #[inline]
    fn pushes(&self) -> &PushTimes {
        self.pushes
            .get_or_init(|| PushTimes::new(self.scale().0.ticks(STALE_NS) as u64))
    }

    /// Returns for how long each of the first `workers` workers has been awake, and for how long the pool has
    /// existed.
    pub(crate) fn busy(&self, workers: usize) -> (Vec<Duration>, Duration) {
        let (scale, now) = self.scale();
        let age = Duration::from_nanos(now.ns.saturating_sub(self.start.ns));
        let awake = |worker: &CachePadded<WorkerRecorder>| {
            let slept = scale.span_ns(worker.slept(now.ticks));
            let awake = age.saturating_sub(Duration::from_nanos(slept as u64));
            Duration::from_nanos(worker.at_least(awake.as_nanos() as u64))
        };
        (self.workers.iter().take(workers).map(awake).collect(), age)
    }

    /// Returns what was measured of steps: queue delay, wake to run and run time of each class.
    pub(crate) fn times(&self) -> Vec<[Distribution; 3]> {
        let scale = self.scale().0;
        let mut sums = Vec::new();
        for times in self.workers.iter().filter_map(|worker| worker.times()) {
            times.add_to(&mut sums, scale);
        }
        sums
    }
}
