//! *parked*: tasks that wait for one event, or for permits of one semaphore. What each costs in memory, and
//! how long it takes to create and to wake all of them.
//!
//! The memory is the growth of the process's resident set from just before the first task to when all wait,
//! divided by their number: the runtime's task with a future of two words in it. The list of wakers is the
//! workload's, is in pages that were touched before, and is not in the figure. A semaphore is the runtime's
//! own, and so its list of waiters is in the figure. A run has its own process, so nothing that an earlier
//! run left behind is used again.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use harness::resident_bytes;

use crate::kit::event::{Event, Wait};
use crate::kit::task_recorder::TaskRecorder;
use crate::prelude::*;

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    n: u64,
}

/// Returns true if the tasks wait for permits of a semaphore.
fn for_permits(params: &Params) -> bool {
    params.is("on", "semaphore")
}

/// The waiting task: two words and a state.
async fn parked(wait: Wait, recorder: &'static TaskRecorder) {
    wait.await;
    recorder.count();
}

/// The figures of the three stages.
struct Stages {
    create: Duration,
    wake: Duration,
    bytes: Option<u64>,
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "parked",
        about: "tasks that wait for one event: bytes per task, and the time to create and to wake all",
        unit: "tasks",
        params: params! {
            count("1m", "tasks", 20_000_000);
            Param::word("on", "event", &["event", "semaphore"],
                "event: the lab's own, whose list of waiters is not counted; semaphore: that of the runtime, a \
                 permit for each task");
        },
        variants: variants! {
            Variant::new("semaphore", &[("on", "semaphore")], "tasks that wait for permits of one semaphore");
            Variant::new("10m", &[("n", "10m")], "ten million tasks");
        },
        smoke: &[("n", "2000")],
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Jobs;
    const ALSO: &[&str] = &["go"];
    const REFUSALS: &[(&str, &str)] = &[
        ("rayon", "its jobs cannot wait without holding a worker"),
        ("rayon-fifo", "its jobs cannot wait without holding a worker"),
    ];

    fn idiom(params: &Params) -> Idiom {
        if for_permits(params) {
            Idiom::Actors
        } else {
            Self::IDIOM
        }
    }

    fn refusal(request: &Request) -> Result<Option<&'static str>, LabError> {
        let other = request.runtime == "go" && for_permits(&request.params);
        Ok(other.then_some("its program waits for an event"))
    }

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        Ok(Self {
            n: params.number("n"),
        })
    }

    fn tasks<P: TaskPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let (tasks, n) = (pool.tasks(), self.n);
        // Event and recorder live as long as the process: the tasks hold plain references.
        let event: &'static Event = Box::leak(Box::new(Event::for_waiters(n as usize)));
        let recorder = TaskRecorder::leaked(base(), 0);
        wake_once(pool);

        let before = resident_bytes();
        let start = Instant::now();
        pool.start(async move {
            for _ in 0..n {
                tasks.launch(parked(event.wait(), recorder));
            }
        });
        let create = until(start, || event.waiting() as u64 == n);
        let bytes = grown(before);

        let start = Instant::now();
        // From a task, as one task wakes another.
        pool.start(async move { event.set() });
        let wake = until(start, || recorder.done() == n);
        self.outcome(&Stages { create, wake, bytes }, recorder.done())
    }

    fn actors<P: TaskPool<Tasks: Actors>>(&self, pool: &P) -> Result<Outcome, LabError> {
        let (tasks, n) = (pool.tasks(), self.n);
        let permits: &'static <P::Tasks as Actors>::Semaphore = Box::leak(Box::new(P::Tasks::semaphore(0)));
        let (asleep, woken) = (TaskRecorder::leaked(base(), 0), TaskRecorder::leaked(base(), 0));
        wake_once(pool);

        let before = resident_bytes();
        let start = Instant::now();
        pool.start(async move {
            for _ in 0..n {
                tasks.launch(async move {
                    asleep.count();
                    P::Tasks::acquire(permits).await;
                    woken.count();
                });
            }
        });
        let create = until(start, || asleep.done() == n);
        let bytes = grown(before);

        let start = Instant::now();
        pool.start(async move {
            for _ in 0..n {
                P::Tasks::release(permits);
            }
        });
        let wake = until(start, || woken.done() == n);
        self.outcome(&Stages { create, wake, bytes }, woken.done())
    }

    fn jobs<P: JobPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let (jobs, n) = (pool.jobs(), self.n);
        let event: &'static ThreadEvent = Box::leak(Box::new(ThreadEvent::default()));
        let recorder = TaskRecorder::leaked(base(), 0);

        let before = resident_bytes();
        let start = Instant::now();
        pool.start(move || {
            for _ in 0..n {
                jobs.launch(move || {
                    event.wait();
                    recorder.count();
                });
            }
        });
        let create = until(start, || event.waiting() == n);
        let bytes = grown(before);

        let start = Instant::now();
        pool.start(move || event.set());
        let wake = until(start, || recorder.done() == n);
        self.outcome(&Stages { create, wake, bytes }, recorder.done())
    }
}

impl Plan {
    fn outcome(&self, stages: &Stages, ended: u64) -> Result<Outcome, LabError> {
        check("tasks that ended", &ended, &self.n)?;
        let each = |duration: Duration| duration.as_nanos() as f64 / self.n as f64;
        let mut outcome = Outcome::new(self.n, stages.create + stages.wake)
            .with_measure("create_ns", each(stages.create))
            .with_measure("wake_ns", each(stages.wake));
        if let Some(bytes) = stages.bytes {
            outcome = outcome.with_measure("bytes_per_task", bytes as f64 / self.n as f64);
        }
        Ok(outcome)
    }
}

/// Lets every part of the pool run once before memory is looked at: its threads' stacks are touched, its
/// queues there.
fn wake_once<P: TaskPool>(pool: &P) {
    let tasks = pool.tasks();
    let recorder = TaskRecorder::leaked(base(), 0);
    pool.start(async move {
        for _ in 0..64 {
            tasks.launch(async move {
                tasks.yield_now().await;
                recorder.count();
            });
        }
    });
    until(Instant::now(), || recorder.done() == 64);
}

/// Sleeps until something is so; returns how long it took since `start`, to a fifth of a millisecond.
fn until(start: Instant, so: impl Fn() -> bool) -> Duration {
    while !so() {
        thread::sleep(Duration::from_micros(200));
    }
    start.elapsed()
}

/// Returns by how many bytes the resident set has grown, if the system reports it.
fn grown(before: Option<u64>) -> Option<u64> {
    Some(resident_bytes()?.saturating_sub(before?))
}

/// The event of threads: a condition variable.
#[derive(Default)]
struct ThreadEvent {
    state: Mutex<(bool, u64)>,
    changed: Condvar,
}

impl ThreadEvent {
    fn wait(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 += 1;
        while !state.0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn waiting(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    fn set(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0 = true;
        self.changed.notify_all();
    }
}
