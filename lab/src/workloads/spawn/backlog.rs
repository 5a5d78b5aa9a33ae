//! A backlog: closures of [`BYTES`] bytes, all launched before one of them is waited for, and no handles.
//!
//! A worker that runs one before the last one is launched, be it another worker or a compensating one,
//! sleeps in it until then. So all are outstanding at once, but for one per worker (`outstanding` says how
//! many were left; Go's program has no such wait). What the spawner pays for each is told apart from what it
//! takes until all have run, and the memory is looked at in between: the growth of the process's resident set
//! since just before the first one. The warm-up is small, so that it leaves little memory that could be used
//! again.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use harness::resident_bytes;

use super::wait_for;
use crate::kit::task_recorder::TaskRecorder;
use crate::prelude::*;

/// The data of a closure, two words, its recorder, and whether the last one is launched.
const BYTES: usize = 32;
/// Closures of the warm-up at most.
pub(super) const WARM: u64 = 1000;
/// The sleep of a closure that came too early.
const PAUSE: Duration = Duration::from_micros(200);

/// The figures at the time when the last one had been launched.
struct Pile {
    start: Instant,
    launching: Duration,
    bytes: Option<u64>,
    outstanding: u64,
}

impl Pile {
    /// Launches all.
    fn up<C: FnOnce() + Send + 'static>(
        n: u64,
        recorder: &'static TaskRecorder,
        launch: impl Fn(C),
        closure: impl Fn(u64, &'static TaskRecorder, &'static AtomicBool) -> C,
    ) -> Self {
        // As the recorder: it lives as long as the process.
        let all = &*Box::leak(Box::new(AtomicBool::new(false)));
        let before = resident_bytes();
        let start = Instant::now();
        (0..n).for_each(|number| launch(closure(number, recorder, all)));
        let launching = start.elapsed();
        let outstanding = n - recorder.done();
        let bytes = resident_bytes()
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before));
        all.store(true, Ordering::Release);
        Self {
            start,
            launching,
            bytes,
            outstanding,
        }
    }

    /// All have run.
    fn gone(self, n: u64, recorder: &TaskRecorder) -> Result<Outcome, LabError> {
        let elapsed = self.start.elapsed();
        check("tasks", &recorder.done(), &n)?;
        let each = |whole: f64| whole / n as f64;
        let outcome = Outcome::new(n, elapsed)
            .with_measure("ns_per_task", each(elapsed.as_nanos() as f64))
            .with_measure("ns_per_launch", each(self.launching.as_nanos() as f64))
            .with_measure("outstanding", self.outstanding as f64);
        Ok(match self.bytes {
            Some(bytes) => outcome.with_measure("bytes_per_task", each(bytes as f64)),
            None => outcome,
        })
    }
}

/// One closure.
fn closure(
    number: u64,
    recorder: &'static TaskRecorder,
    all: &'static AtomicBool,
) -> impl FnOnce() + Send + 'static {
    let load = [number, !number];
    let closure = move || {
        black_box(load);
        while !all.load(Ordering::Acquire) {
            std::thread::sleep(PAUSE);
        }
        recorder.count();
    };
    debug_assert_eq!(size_of_val(&closure), BYTES);
    closure
}

/// With tasks that are futures.
pub(super) fn tasks<P: TaskPool>(pool: &P, n: u64, from_inside: bool) -> Result<Outcome, LabError> {
    let (tasks, recorder) = (pool.tasks(), TaskRecorder::leaked(base(), 0));
    if from_inside {
        return inside(pool, async move {
            let pile = Pile::up(n, recorder, |job| tasks.launch_job(job), closure);
            while recorder.done() < n {
                tasks.yield_now().await;
            }
            pile.gone(n, recorder)
        })?;
    }
    let pile = Pile::up(n, recorder, |job| pool.submit_and_forget(job), closure);
    wait_for(recorder, n);
    pile.gone(n, recorder)
}

/// With tasks that are closures.
pub(super) fn jobs<P: JobPool>(pool: &P, n: u64, from_inside: bool) -> Result<Outcome, LabError> {
    let (jobs, recorder) = (pool.jobs(), TaskRecorder::leaked(base(), 0));
    if from_inside {
        return inside_job(pool, move || {
            let pile = Pile::up(n, recorder, |job| jobs.launch(job), closure);
            while recorder.done() < n {
                jobs.yield_now();
            }
            pile.gone(n, recorder)
        })?;
    }
    let pile = Pile::up(n, recorder, |job| pool.start(job), closure);
    wait_for(recorder, n);
    pile.gone(n, recorder)
}
