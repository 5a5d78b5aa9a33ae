//! *ticks*: an external thread starts an empty task every millisecond. What does it cost a runtime to fall
//! asleep and to be woken, over and over, with nothing to do between?
//!
//! The processor time is that of the whole process over the measured part, in percent of one processor. It
//! holds the thread that ticks, which does the same for every contestant.

use std::thread;
use std::time::{Duration, Instant};

use harness::process_cpu;

use crate::kit::task_recorder::{TaskRecorder, record};
use crate::prelude::*;

/// The workload, ready to run.
pub(crate) struct Ticks {
    n: u64,
    period: Duration,
}

impl Program for Ticks {
    const ABOUT: About = About {
        name: "ticks",
        about: "an empty task every so often, from outside: the processor time of a runtime that has nothing to do",
        unit: "ticks",
        latency: Some("from the start of a task to when it runs"),
        params: params! {
            count("1000", "ticks", 10_000_000);
            Param::number("rate", "1000", 1, 100_000, "ticks per second");
        },
        smoke: &[("n", "20")],
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Jobs;

    fn load(request: &Request) -> Result<Self, LabError> {
        Ok(Self {
            n: request.params.number("n"),
            period: Duration::from_secs(1) / request.params.number("rate") as u32,
        })
    }

    fn tasks<P: TaskPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        self.tick(|recorder, started| pool.start(async move { recorder.finish(started, [1, 0, 0, 0]) }))
    }

    fn jobs<P: JobPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        self.tick(|recorder, started| pool.start(move || recorder.finish(started, [1, 0, 0, 0])))
    }
}

impl Ticks {
    /// Starts the tasks, each at its own moment, and reads the figures.
    fn tick(&self, start: impl Fn(&'static TaskRecorder, u64)) -> Result<Outcome, LabError> {
        // Threads and their stacks are there before anything is measured.
        let first = TaskRecorder::leaked(base(), 0);
        start(first, first.begin());
        record(&[first], 1);

        let recorder = TaskRecorder::leaked(base(), 0);
        let before = process_cpu();
        recorder.begin();
        let begin = Instant::now();
        let mut due = begin;
        for _ in 0..self.n {
            due += self.period;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            start(recorder, recorder.now());
        }
        let recorded = record(&[recorder], self.n);
        let elapsed = begin.elapsed();
        let cpu = before
            .zip(process_cpu())
            .map(|(before, after)| after.saturating_sub(before));
        check("ticks", &recorded.counts[0], &self.n)?;
        let mut outcome = Outcome::new(self.n, recorded.elapsed).with_latency(&recorded.histogram);
        if let Some(cpu) = cpu {
            outcome = outcome.with_measure("cpu_percent", 100.0 * cpu.as_secs_f64() / elapsed.as_secs_f64());
        }
        Ok(outcome)
    }
}
