//! A bench with a slot for each task: how often a task has its turn, and how long it waited for it.
//!
//! ```text
//!  root      spawns all ──▶ parks until the last has entered ──▶ unparks those that begin ──▶ waits for all
//!  tasks         enter, park ··············································▶ turn, turn … until told to stop
//!  outside                                    sleeps an eighth │ counts │ sleeps │ counts, says stop
//! ```
//!
//! The figures are what was counted between two looks from a thread outside of the pool, which sleeps
//! meanwhile.
//!
//! Invariants
//! - Only the task of a slot writes its counts, so a plain load and store counts.
//! - No two slots share a cache line, or a pair of neighbour lines.

use std::future::Future;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::idioms::parks::{ParkSlot, Parks};
use crate::idioms::{SpawnApi, TaskPool};
use crate::kit::host::{self, AtomicBool, AtomicU64, AtomicUsize, Ordering};
use harness::LabError;
use harness::Params;
use harness::{Counters, Outcome};

/// The place and the counts of one task.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct TaskSlot<P> {
    pub(crate) place: P,
    turns: AtomicU64,
    /// When the last turn was, in nanoseconds since the beginning; with a clock only.
    last: AtomicU64,
    /// The longest time between two turns.
    longest: AtomicU64,
    /// The value that it was given by the task that unparked it, in the workloads where something is handed
    /// over.
    pub(crate) gift: AtomicUsize,
}

impl<P> TaskSlot<P> {
    /// The task of this slot has its turn number `turns`.
    #[inline]
    pub(crate) fn turn(&self, turns: u64, bench: &TaskBench<P>) {
        self.turns.store(turns, Ordering::Relaxed);
        if let Some(time_zero) = bench.clock {
            let now = host::since(time_zero).as_nanos() as u64;
            let waited = now.saturating_sub(self.last.load(Ordering::Relaxed));
            if waited > self.longest.load(Ordering::Relaxed) {
                self.longest.store(waited, Ordering::Relaxed);
            }
            self.last.store(now, Ordering::Relaxed);
        }
    }

    fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }
}

/// A value on its own cache line.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Apart<T>(pub(crate) T);

/// All slots, and what their tasks share.
pub(crate) struct TaskBench<P> {
    pub(crate) slots: Box<[TaskSlot<P>]>,
    stopped: Apart<AtomicBool>,
    /// The number of tasks that have not entered.
    missing: Apart<AtomicUsize>,
    /// The place where the root waits for them.
    root: P,
    clock: Option<Instant>,
}

impl<P: ParkSlot> TaskBench<P> {
    /// The calling task takes this slot. Returns when all have theirs and it is unparked for the first time.
    pub(crate) async fn enter(&self, slot: usize) -> &TaskSlot<P> {
        let own = &self.slots[slot];
        own.place.enter().await;
        // Ordering: AcqRel: the last one has seen all others enter, and so does the root that it unparks.
        if self.missing.0.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.root.unpark();
        }
        own.place.park().await;
        own
    }

    /// Returns true if it is time to end.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.stopped.0.load(Ordering::Relaxed)
    }
}

/// How much longer than asked a window may be, if no task had a turn in it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The way in which a run is measured.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    length: Duration,
    clock: bool,
    workers: usize,
}

/// The counts of a run.
pub(crate) struct Counted {
    /// Turns within the window, slot by slot.
    turns: Vec<u64>,
    /// All turns, slot by slot, when all had ended.
    pub(crate) all: Vec<u64>,
    /// The longest wait.
    longest: Option<Duration>,
    elapsed: Duration,
    counters: Option<Counters>,
    workers: usize,
}

impl Window {
    /// Reads the parameters.
    pub(crate) fn new(params: &Params, workers: usize) -> Self {
        Self {
            length: Duration::from_millis(params.number("ms")),
            clock: params.is("clock", "on"),
            workers,
        }
    }

    /// Runs the tasks and counts their turns. Those that are among the `first` have theirs without being
    /// unparked by another.
    pub(crate) fn count<P, F>(
        self,
        pool: &P,
        slots: usize,
        first: impl Fn(usize) -> bool + Send + 'static,
        task: impl Fn(Arc<TaskBench<ParkSlotOf<P>>>, usize) -> F + Send + Sync + 'static,
    ) -> Result<Counted, LabError>
    where
        P: TaskPool<Tasks: Parks>,
        F: Future<Output = ()> + Send + 'static,
    {
        self.count_in_groups(pool, slots, 1, first, task)
    }

    /// The same where a number of neighbours are started together: a leader as usual, which starts them
    /// beside itself and ends.
    pub(crate) fn count_in_groups<P, F>(
        self,
        pool: &P,
        slots: usize,
        group: usize,
        first: impl Fn(usize) -> bool + Send + 'static,
        task: impl Fn(Arc<TaskBench<ParkSlotOf<P>>>, usize) -> F + Send + Sync + 'static,
    ) -> Result<Counted, LabError>
    where
        P: TaskPool<Tasks: Parks>,
        F: Future<Output = ()> + Send + 'static,
    {
        let time_zero = host::now();
        let bench = Arc::new(TaskBench::<ParkSlotOf<P>> {
            slots: (0..slots).map(|_| TaskSlot::default()).collect(),
            stopped: Apart::default(),
            missing: Apart(AtomicUsize::new(slots)),
            root: ParkSlotOf::<P>::default(),
            clock: self.clock.then_some(time_zero),
        });
        let ((begun, begins), (ended, ends)) = (mpsc::channel(), mpsc::channel());
        pool.start({
            let (tasks, bench) = (pool.tasks(), Arc::clone(&bench));
            async move {
                bench.root.enter().await;
                let mut handles = Vec::with_capacity(slots);
                if group == 1 {
                    handles.extend((0..slots).map(|slot| tasks.spawn(task(Arc::clone(&bench), slot))));
                } else {
                    let task = Arc::new(task);
                    let lead = |first: usize| {
                        let (task, bench) = (Arc::clone(&task), Arc::clone(&bench));
                        tasks.spawn(async move {
                            let beside = |slot| tasks.spawn_here(task(Arc::clone(&bench), slot));
                            (first..first + group).map(beside).collect::<Vec<_>>()
                        })
                    };
                    let leaders: Vec<_> = (0..slots).step_by(group).map(lead).collect();
                    for leader in leaders {
                        handles.extend(leader.await);
                    }
                }
                bench.root.park().await;
                // The receivers are there: they wait for exactly this.
                begun.send(()).ok();
                for slot in (0..slots).filter(|slot| first(*slot)) {
                    bench.slots[slot].place.unpark();
                }
                for handle in handles {
                    handle.await;
                }
                ended.send(()).ok();
            }
        });
        host::receive(&begins).map_err(|_| dropped())?;
        let now = host::since(time_zero).as_nanos() as u64;
        for slot in &bench.slots {
            // A task that is never served has waited since now. One that was in the meantime has the later
            // time.
            slot.last.fetch_max(now, Ordering::Relaxed);
            slot.longest.store(0, Ordering::Relaxed);
        }
        host::sleep(self.length / 8);
        let (start, before, counters) = (host::now(), look(&bench), pool.counters());
        host::sleep(self.length);
        // A machine that pauses may let a short window pass without a single turn, which would say nothing.
        while look(&bench) == before && host::since(start) < self.length + PATIENCE {
            host::sleep(self.length);
        }
        let (elapsed, after) = (host::since(start), look(&bench));
        let counters = pool
            .counters()
            .map(|after| after.since(&counters.unwrap_or_default()));
        let longest = self.clock.then(|| longest(&bench, host::since(time_zero)));
        bench.stopped.0.store(true, Ordering::Relaxed);
        host::receive(&ends).map_err(|_| dropped())?;
        Ok(Counted {
            turns: after
                .iter()
                .zip(&before)
                .map(|(after, before)| after - before)
                .collect(),
            all: look(&bench),
            longest,
            elapsed,
            counters,
            workers: self.workers,
        })
    }
}

/// The place where a task of a pool parks.
pub(crate) type ParkSlotOf<P> = <<P as TaskPool>::Tasks as Parks>::ParkSlot;

fn look<P>(bench: &TaskBench<P>) -> Vec<u64> {
    bench.slots.iter().map(TaskSlot::turns).collect()
}

/// The longest wait of any task. Waits that are not over count.
fn longest<P>(bench: &TaskBench<P>, now: Duration) -> Duration {
    let waits = bench.slots.iter().map(|slot| {
        let last = Duration::from_nanos(slot.last.load(Ordering::Relaxed));
        let longest = Duration::from_nanos(slot.longest.load(Ordering::Relaxed));
        longest.max(now.saturating_sub(last))
    });
    waits.max().unwrap_or_default()
}

pub(crate) fn dropped() -> LabError {
    LabError::Wrong(String::from("a task was dropped before its end"))
}

impl Counted {
    /// The figures, where `together` neighbours are served together: a ring.
    pub(crate) fn outcome(self, together: usize) -> Outcome {
        let served: Vec<u64> = self
            .turns
            .chunks(together)
            .map(|turns| turns.iter().sum())
            .collect();
        let all: u64 = served.iter().sum();
        let mean = all as f64 / served.len() as f64;
        let least = served.iter().min().map_or(0.0, |least| *least as f64);
        let nanos = self.elapsed.as_nanos() as f64 * self.workers as f64;
        let mut outcome = Outcome::new(all, self.elapsed)
            .with_measure("least", least / mean.max(1.0))
            .with_measure("workers_over_throughput_ns", nanos / (all as f64).max(1.0));
        if let Some(longest) = self.longest {
            outcome = outcome.with_measure("longest_wait_us", longest.as_secs_f64() * 1e6);
        }
        outcome.counters = self.counters;
        outcome
    }
}
