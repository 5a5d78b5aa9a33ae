//! *trace*: tasks that a flight recorder saw, replayed. Each arrives when it arrived, computes for as long
//! as it ran, and waits for what it waited for.
//!
//! | in the trace | in the replay |
//! |---|---|
//! | a task from outside, or one whose spawner is not in the trace | arrives at its moment, from an external thread |
//! | a task that another one spawned | is spawned in that step of the other one, after as much of its work |
//! | a step | computes for as long, in time of the CPU |
//! | a wake by another task | the same, by `Wakeups` of this file for every runtime |
//! | a wake by anything else | a sleep until that moment |
//! | a yield | a yield |
//!
//! The load is open: arrivals do not wait for the tasks before them. A latency is the time from when a step
//! is runnable, by the schedule or by its wake, to its end. Closures of `spawn_blocking` are left out. The
//! time of a step in a trace is that of the clock: if its thread had to wait for a CPU, the replay computes
//! for that time.

use std::collections::VecDeque;
use std::future::{self, Future};
use std::hint;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use harness::{Begins, RecordedStep, RecordedTask, recorded_tasks};

use crate::kit::burn::burn;
use crate::kit::task_recorder::{TaskRecorder, record};
use crate::prelude::*;

/// Below this, a step spins by the clock: to ask for the time of the CPU costs more than it would be off.
const SHORT_NS: u64 = 5_000;
/// The external thread sleeps until so long before an arrival, and spins from then on.
const SPIN: Duration = Duration::from_micros(60);
/// Tasks that sleep before anything is measured: threads and timers are there then.
const WARM_UP: u64 = 64;

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    tasks: &'static [RecordedTask],
    /// In percent of the recorded speed.
    speed: u64,
}

/// Counts of a step: nanoseconds to compute, nanoseconds computed, tasks spawned, tasks woken.
const ASKED: usize = 0;
const COMPUTED: usize = 1;
const SPAWNED: usize = 2;
const WOKEN: usize = 3;

impl Program for Plan {
    const ABOUT: About = About {
        name: "trace",
        about: "a trace of the flight recorder is replayed: arrivals, run times, waits and wakes (trace:FILE)",
        unit: "tasks",
        latency: Some("from when a step is runnable to its end"),
        params: params! {
            Param::number("speed", "100", 1, 10_000, "arrivals and timers, in percent of the recorded speed");
            IO;
        },
        variants: variants! {
            IO_THREAD;
        },
        explored: &["warpweft", "tokio"],
        open_load: true,
        files: &[FileFlag {
            name: "trace",
            about: "The trace that the workload `trace` replays, written by `Snapshot::write_perfetto` [default: a small one]",
            many: false,
            recorded: true,
        }],
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Sleeps;
    const REFUSALS: &[(&str, &str)] = &[("may", "its tasks cannot wait for a waker of another library")];
    const CAVEATS: &[(&str, Caveat)] = &[(
        "tokio",
        Caveat::same("its timers tick in whole milliseconds, and waits that a timer ends are longer"),
    )];

    fn settle(asked: &mut Asked<'_>) -> Result<(), LabError> {
        // A file that is no trace is refused now, not by every run.
        recorded_tasks(asked.files.one("trace")).map(drop)
    }

    fn facts(request: &Request) -> Vec<(&'static str, String)> {
        let path = request
            .files
            .one("trace")
            .map_or("the example".into(), Path::to_string_lossy);
        vec![("trace", path.into_owned())]
    }

    fn load(request: &Request) -> Result<Self, LabError> {
        Ok(Self {
            tasks: recorded_tasks(request.files.one("trace"))?.leak(),
            speed: request.params.number("speed"),
        })
    }

    fn sleeps<P: TaskPool<Tasks: Sleeps>>(&self, pool: &P) -> Result<Outcome, LabError> {
        warm_up(pool);
        let base = base();
        let run: &'static Run = Box::leak(Box::new(Run {
            plan: *self,
            base,
            recorder: TaskRecorder::leaked(base, 0),
            wakeups: self.tasks.iter().map(|_| Wakeups::default()).collect(),
        }));
        run.recorder.begin();
        run.arrive(pool);
        let steps = self.steps().count() as u64;
        let recorded = record(&[run.recorder], steps);
        let expected = self.expected();
        let counted = [ASKED, SPAWNED, WOKEN].map(|at| recorded.counts[at]);
        check("work in ns, spawns, wakes", &counted, &expected)?;
        if recorded.counts[COMPUTED] < expected[0] {
            return Err(LabError::Wrong(format!(
                "computed for {} ns of {}",
                recorded.counts[COMPUTED], expected[0]
            )));
        }
        Ok(Outcome::new(self.tasks.len() as u64, recorded.elapsed)
            .with_latency(&recorded.histogram)
            .with_measure("steps", steps as f64)
            .with_measure("work_ms", recorded.counts[COMPUTED] as f64 / 1e6))
    }
}

impl Plan {
    fn steps(&self) -> impl Iterator<Item = &'static RecordedStep> {
        self.tasks.iter().flat_map(|task| &task.steps)
    }

    /// Work in nanoseconds, spawns and wakes by tasks.
    fn expected(&self) -> [u64; 3] {
        let pushes = || self.steps().flat_map(|step| &step.pushes);
        let spawns = pushes().filter(|push| push.spawns).count() as u64;
        [
            self.steps().map(|step| step.run_ns).sum(),
            spawns,
            pushes().count() as u64 - spawns,
        ]
    }

    /// Returns the moment of the replay, in nanoseconds, for one of the trace.
    fn due(&self, recorded_ns: u64) -> u64 {
        u64::try_from(u128::from(recorded_ns) * 100 / u128::from(self.speed)).unwrap_or(u64::MAX)
    }
}

/// Lets some tasks sleep, so that threads and timers are there.
fn warm_up<P: TaskPool<Tasks: Sleeps>>(pool: &P) {
    let recorder = TaskRecorder::leaked(base(), 0);
    for _ in 0..WARM_UP {
        pool.start(async move {
            <P::Tasks as Sleeps>::sleep_until(Instant::now() + Duration::from_millis(1)).await;
            recorder.count();
        });
    }
    record(&[recorder], WARM_UP);
}

/// What all tasks of a run share.
struct Run {
    plan: Plan,
    base: Instant,
    recorder: &'static TaskRecorder,
    /// One for each task.
    wakeups: Vec<Wakeups>,
}

impl Run {
    /// Starts the tasks that no other task spawns, each at its moment.
    fn arrive<P: TaskPool<Tasks: Sleeps>>(&'static self, pool: &P) {
        let mut arrivals: Vec<(u64, usize)> = (self.plan.tasks.iter().enumerate())
            .filter_map(|(task, recorded)| match recorded.steps[0].begins {
                Begins::Pushed => None,
                Begins::At(ns) => Some((self.plan.due(ns), task)),
                Begins::Again => Some((0, task)),
            })
            .collect();
        arrivals.sort_unstable();
        for (due, task) in arrivals {
            let moment = self.base + Duration::from_nanos(due);
            thread::sleep(
                moment
                    .saturating_duration_since(Instant::now())
                    .saturating_sub(SPIN),
            );
            while Instant::now() < moment {
                hint::spin_loop();
            }
            pool.start(live(self, task, pool.tasks(), due));
        }
    }

    /// Computes as a step did, and spawns and wakes what it spawned and woke.
    fn compute<S: Sleeps>(&'static self, step: &RecordedStep, tasks: S) -> [u64; 4] {
        let (mut counts, mut asked) = ([0; 4], 0);
        for push in &step.pushes {
            let until = push.offset_ns.clamp(asked, step.run_ns);
            counts[COMPUTED] += spend(until - asked);
            asked = until;
            if push.spawns {
                counts[SPAWNED] += 1;
                tasks.launch(live(self, push.task, tasks, self.recorder.now()));
            } else {
                counts[WOKEN] += 1;
                self.wakeups[push.task].wake(self.recorder.now());
            }
        }
        counts[COMPUTED] += spend(step.run_ns - asked);
        counts[ASKED] = step.run_ns;
        counts
    }
}

/// Computes for so long. Returns for how long it did.
fn spend(ns: u64) -> u64 {
    if ns >= SHORT_NS {
        return burn(Duration::from_nanos(ns)).as_nanos() as u64;
    }
    let start = Instant::now();
    while (start.elapsed().as_nanos() as u64) < ns {
        hint::spin_loop();
    }
    ns
}

/// The life of a task that is runnable since `arrived`. In a box, because a task may spawn another one.
fn live<S: Sleeps>(
    run: &'static Run,
    task: usize,
    tasks: S,
    arrived: u64,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let mut runnable = arrived;
        for (at, step) in run.plan.tasks[task].steps.iter().enumerate() {
            if at > 0 {
                runnable = match step.begins {
                    Begins::Pushed => run.wakeups[task].wait().await,
                    Begins::At(ns) => {
                        let due = run.plan.due(ns);
                        if run.recorder.now() < due {
                            S::sleep_until(run.base + Duration::from_nanos(due)).await;
                        }
                        due
                    }
                    Begins::Again => {
                        let now = run.recorder.now();
                        tasks.yield_now().await;
                        now
                    }
                };
            }
            let counts = run.compute(step, tasks);
            run.recorder.finish(runnable, counts);
        }
    })
}

/// Where a task waits for wakes by others. A wake that comes early is kept.
#[derive(Default)]
struct Wakeups(Mutex<Wakes>);

#[derive(Default)]
struct Wakes {
    /// When each of those came that were not waited for yet.
    kept: VecDeque<u64>,
    waker: Option<Waker>,
}

impl Wakeups {
    fn lock(&self) -> MutexGuard<'_, Wakes> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, now: u64) {
        let waker = {
            let mut wakes = self.lock();
            wakes.kept.push_back(now);
            wakes.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits for the next wake. Returns when it came.
    fn wait(&self) -> impl Future<Output = u64> + Send {
        future::poll_fn(|context| {
            let mut wakes = self.lock();
            match wakes.kept.pop_front() {
                Some(since) => Poll::Ready(since),
                None => {
                    wakes.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_is_kept_until_the_task_waits() {
        let wakeups = Wakeups::default();
        wakeups.wake(3);
        wakeups.wake(5);
        let both = async { (wakeups.wait().await, wakeups.wait().await) };
        assert_eq!(futures_lite::future::block_on(both), (3, 5));
        thread::scope(|scope| {
            let waits = scope.spawn(|| futures_lite::future::block_on(wakeups.wait()));
            wakeups.wake(8);
            assert_eq!(waits.join().unwrap(), 8);
        });
    }

    #[test]
    fn moments_follow_the_speed() {
        let plan = Plan {
            tasks: &[],
            speed: 200,
        };
        assert_eq!(plan.due(1_000), 500);
        assert_eq!(Plan { speed: 1, ..plan }.due(u64::MAX), u64::MAX);
    }

    #[test]
    fn the_example_has_work() {
        let plan = Plan::load(&crate::kit::request("trace", &[])).unwrap();
        let [work, spawns, wakes] = plan.expected();
        assert!(work > 0 && spawns == 12 && wakes > 0, "{work} {spawns} {wakes}");
    }
}
