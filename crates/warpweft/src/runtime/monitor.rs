//! The monitor: a worker that is stuck in one task does not hold up what waits behind it.
//!
//! ```text
//!   worker 0   ──task──task──a task that takes long ─────────────────────────────▶ … task──task──
//!   monitor        tick    tick    tick: stuck!   tick                              tick: it goes on
//!                                    │                                               │
//!   compensating worker                         └▶ carried by a spare thread: takes tasks ─────▶┘ gives back what it has
//! ```
//!
//! A *compensating worker* is a worker beyond those that were asked for, with a `Local` of its own. Whatever waits for the stuck worker is
//! within its reach, because a policy's `scan` finds every task, wherever it lies; so nothing of the stuck worker is touched, and its
//! own path costs nothing. What only the stuck thread may do waits for it: its started fibers, and tasks for this very worker.
//!
//! # Invariants
//!
//! - A compensating worker is vacant, or carried by a thread and counted among the pool's workers, or retired. `Lifecycle` counts it before it is
//!   assigned and after its thread is through with it.
//! - It does not take part in the idle protocol: it looks everywhere, and when there is nothing it retires. The monitor sends
//!   it again at the next tick, as long as somebody is stuck.
//! - It takes no forks: threads that compute are no reason for more threads that compute.
//! - A pool in which everybody sleeps makes no ticks. Who wakes up rings.

use super::forked::end_if;
use super::pool::{AnyPool, Pool};
use super::sleep_flag::SleepFlag;
use super::standby::TICK_NS;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::clock;
use warpweft_platform::sync::{Condvar, Mutex, MutexGuard};
use warpweft_platform::thread::{JoinHandle, spawn_named, yield_now};
use warpweft_platform::thread_state::{self, ThreadState};
use warpweft_platform::thread_word;
use warpweft_policy::Policy;

/// A worker is stuck when it has been in one task for so long, if nothing else is said.
pub(super) const STUCK_AFTER: Duration = Duration::from_millis(10);

/// The least time after which a worker counts as stuck. Under the checkers no time passes: two looks suffice.
const LEAST: Duration = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    Duration::ZERO
} else {
    Duration::from_micros(200)
};

/// After so many ticks in which everybody slept the monitor sleeps, too.
const QUIET_TICKS: u32 = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    1
} else {
    8
};

/// A worker that has been in one task for longer than [`Builder::stuck_after`](crate::Builder::stuck_after).
///
/// It is read beside the worker, which may go on meanwhile: a report that comes at the end of a task may tell of the next one.
/// As text it is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The name of the pool: that of the runtime, or what [`then`](crate::Builder::then) and [`silos`](crate::Builder::silos) were told.
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
    /// What the kernel says of the thread: whether it runs, and if it sleeps, in what. `None` where it does not tell. The stack of
    /// the task itself only a debugger can read while it runs: `eu-stack -1 -p` takes the number that is here.
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
pub(super) struct Watch {
    /// `None`: there is no monitor.
    pub(super) stuck_after: Option<Duration>,
    pub(super) on_stall: Option<OnStall>,
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
    pub(super) fn compensating(&self, workers: usize) -> usize {
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
    pub(super) fn new(watch: Watch, first: usize, end: usize) -> Self {
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
    pub(super) fn start(pool: &Arc<dyn AnyPool>, name: &str) -> io::Result<()> {
        let monitor = pool.monitor();
        if !monitor.is_there() {
            return Ok(());
        }
        let watched = Arc::clone(pool);
        let thread = spawn_named(&format!("{name}-watch"), None, move || {
            HERE.with(|here| here.set(watched.monitor()));
            AnyPool::watch(watched);
        })?;
        monitor.state.lock().thread = Some(thread);
        Ok(())
    }

    /// A worker wakes up: there is something to watch again.
    #[inline]
    pub(super) fn ring(&self) {
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
    pub(super) fn is_there(&self) -> bool {
        self.watch.stuck_after.is_some()
    }

    /// The present tick is over.
    #[cold]
    pub(super) fn hurry(&self) {
        let _state = self.state.lock();
        self.wakeup.notify_all();
    }

    /// Whether a compensating worker is not needed any more; if so it has to stand down.
    pub(super) fn lets_go(&self) -> bool {
        let needed = self.needed.load(Ordering::Relaxed);
        self.active.load(Ordering::Relaxed) > needed
    }

    /// Whether a compensating worker has to stand down, and to give its tasks back. A standby poller with a task that took long is none: such tasks are for
    /// the workers.
    pub(super) fn relieves(&self, was_long: bool) -> bool {
        self.lets_go() || was_long && !self.is_somebody_stuck()
    }

    /// Whether there are workers behind whom tasks may wait.
    pub(super) fn is_somebody_stuck(&self) -> bool {
        self.stuck.load(Ordering::Relaxed) > 0
    }

    /// How often a worker was found stuck.
    pub(crate) fn stalls(&self) -> usize {
        self.stalls.load(Ordering::Relaxed)
    }

    /// The pool closes.
    pub(super) fn close(&self) {
        self.state.lock().over = true;
        self.wakeup.notify_all();
    }

    /// The compensating workers that nobody carries, nor ever will: the pool has ended.
    pub(super) fn take_vacant(&self) -> Vec<usize> {
        std::mem::take(&mut self.state.lock().vacant)
    }

    /// Whether this is its thread.
    pub(super) fn is_here(&self) -> bool {
        std::ptr::eq(HERE.with(std::cell::Cell::get), self)
    }

    /// Waits for its thread.
    pub(super) fn join(&self) {
        let thread = self.state.lock().thread.take();
        if let Some(thread) = thread {
            // What panics there is the user's report, and is kept there.
            let _ = thread.join();
        }
    }

    /// Sleeps for a tick, or, if it may doze, until somebody rings. `false`: the pool closes.
    fn sleep(&self, tick_ns: u64, may_sleep: impl Fn() -> bool) -> bool {
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

/// What the monitor remembers of a worker.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    steps: u64,
    since_ns: u64,
    told: bool,
}

impl<P: Policy> Pool<P> {
    /// The life of the monitor's thread.
    pub(super) fn watch_workers(&self, any: &Arc<dyn AnyPool>) {
        let monitor = &self.monitor;
        let stuck_after = monitor.watch.stuck_after.unwrap_or(STUCK_AFTER).max(LEAST);
        let stuck_ns = u64::try_from(stuck_after.as_nanos()).unwrap_or(u64::MAX);
        let fresh = Seen {
            since_ns: clock::now_ns(),
            ..Seen::default()
        };
        let mut seen = vec![fresh; self.workers.len()];
        let mut quiet = 0;
        let is_asleep = |quiet| quiet >= QUIET_TICKS && self.everybody_sleeps();
        let standby = &self.driver_owner.standby;
        let tick_ns = || match standby.is_wanted() {
            true => (stuck_ns / 2).min(TICK_NS),
            false => stuck_ns / 2,
        };
        while monitor.sleep(tick_ns(), || is_asleep(quiet)) {
            quiet = if self.everybody_sleeps() { quiet + 1 } else { 0 };
            let stuck = self.count_stuck(&mut seen, stuck_ns);
            monitor.stuck.store(stuck, Ordering::Relaxed);
            standby.tick();
            if stuck > 0 {
                standby.want();
            }
            let needed = stuck + usize::from(self.driver_owner.wants_standby());
            monitor.needed.store(needed, Ordering::Relaxed);
            // Tasks that came meanwhile wake nobody in the poller.
            if stuck > 0 || monitor.lets_go() {
                self.driver_owner.relieve();
            }
            // Counted once: who finds nothing retires at once, and would be sent again for as long as the tick lasts.
            let missing = needed.saturating_sub(monitor.active.load(Ordering::Relaxed));
            for _ in 0..missing {
                if !self.send_compensating(any) {
                    standby.give_up();
                    break;
                }
            }
        }
    }

    fn everybody_sleeps(&self) -> bool {
        let compensating = self.monitor.active.load(Ordering::Relaxed);
        compensating == 0 && (0..self.asked).all(|worker| !self.idle.is_awake(worker))
    }

    /// How many workers, compensating workers too, have been in one task for too long.
    fn count_stuck(&self, seen: &mut [Seen], stuck_ns: u64) -> usize {
        let now = clock::now_ns();
        let mut stuck = 0;
        for (id, seen) in seen.iter_mut().enumerate() {
            let steps = self.workers[id].steps();
            // Of compensating workers only those are stuck that made a step since they were sent.
            let works = id >= self.asked || self.idle.is_awake(id);
            let rests =
                id >= self.asked && (!self.workers[id].is_carried() || self.driver_owner.standby.sleeps(id));
            if !works || steps != seen.steps || rests {
                *seen = Seen {
                    steps,
                    since_ns: now,
                    told: false,
                };
                continue;
            }
            let ns = now.saturating_sub(seen.since_ns);
            if ns >= stuck_ns {
                stuck += 1;
                if !std::mem::replace(&mut seen.told, true) {
                    // It may have drawn tasks from a common queue while others who looked there went to sleep.
                    self.idle.wake_one();
                    self.tell(id, ns);
                }
            }
        }
        stuck
    }

    fn tell(&self, worker: usize, ns: u64) {
        self.monitor.stalls.fetch_add(1, Ordering::Relaxed);
        if let Some(on_stall) = &self.monitor.watch.on_stall {
            let (name, spawned_at) = self.workers[worker].running().unzip();
            let stall = Stall {
                pool: self.info.name.clone(),
                worker,
                stuck_for: Duration::from_nanos(ns),
                name: name.flatten(),
                spawned_at,
                thread_state: self.thread_set().thread_with(worker).and_then(thread_state::of),
            };
            // Unwind: the report is the user's code, and the monitor goes on without it.
            let _ = catch_unwind(AssertUnwindSafe(|| on_stall(&stall)));
            end_if(self.is_forked());
        }
    }

    /// Gives a vacant compensating worker to a spare thread; whether it did.
    fn send_compensating(&self, any: &Arc<dyn AnyPool>) -> bool {
        if !self.lifecycle.enter() {
            return false;
        }
        let vacant = self.monitor.state.lock().vacant.pop();
        let spare = vacant.and_then(|id| match self.thread_set().reserve(any) {
            Ok(spare) => Some((id, spare)),
            Err(_) => {
                self.monitor.state.lock().vacant.push(id);
                None
            }
        });
        let Some((id, spare)) = spare else {
            self.leave(1);
            return false;
        };
        self.monitor.active.fetch_add(1, Ordering::Relaxed);
        self.workers[id].set_carried(true);
        spare.handoff.assign(Some(id));
        true
    }

    /// The calling thread has laid this compensating worker down, empty.
    pub(super) fn retire_compensating(&self, id: usize) {
        self.driver_owner.standby.discharge(id);
        self.workers[id].set_carried(false);
        self.monitor.active.fetch_sub(1, Ordering::Relaxed);
        self.monitor.state.lock().vacant.push(id);
        self.leave(1);
    }
}
