//! *timers*: a great many tasks that sleep, each until its own moment. How late they wake, and what each
//! costs in memory.
//!
//! ```text
//!  start          all asleep        base                                      base + spread
//!  │ tasks are made │  (memory)       │ . .. . ... .. . . .. .. .  deadlines   │
//!  └─────────────── lead ────────────┘  1 ms ……………………………………………………… spread ┘
//! ```
//!
//! With a lead, all sleep at once before the first wakes, and nothing but waking is measured; a lead that is
//! too short fails the run. Without one (`lead=0`) each sleeps from the moment it begins, while others are
//! still made: that is measured as well then.
//!
//! No task may wake early: the run fails then. The lateness is the error. It ends when the task runs, not
//! when the timer is due, so it holds the runtime's whole way from the clock to the task.

use std::thread;
use std::time::{Duration, Instant};

use harness::resident_bytes;

use crate::kit::task_recorder::{TaskRecorder, record};
use crate::prelude::*;

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    n: u64,
    spread: Duration,
    lead: Option<Duration>,
}

/// The shortest sleep.
const SHORTEST: Duration = Duration::from_millis(1);
/// After this number of tasks, the one that makes them lets others run.
const BATCH: u64 = 256;

/// Where tasks count that they are about to sleep, and that they woke: apart, so that the one is not in the
/// other's figures.
#[derive(Clone, Copy)]
struct Lanes {
    asleep: &'static TaskRecorder,
    woken: &'static TaskRecorder,
    time_zero: Instant,
}

impl Lanes {
    /// One task's life.
    async fn sleep<S: Sleeps>(self, from: Option<Instant>, duration: Duration) {
        let deadline = from.unwrap_or_else(Instant::now) + duration;
        self.asleep.count();
        S::sleep_until(deadline).await;
        let early = u64::from(Instant::now() < deadline);
        let due = deadline.duration_since(self.time_zero).as_nanos() as u64;
        self.woken.finish(due, [early, 0, 0, 0]);
    }
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "timers",
        about: "tasks that sleep until moments that are spread over a second: how late they wake, and bytes per task",
        unit: "sleeps",
        latency: Some("from the deadline to when the task runs"),
        params: params! {
            Param::number("n", "1m", 1, 20_000_000, "tasks that sleep");
            Param::number("spread", "1000", 1, 60_000,
                "milliseconds over which the deadlines are spread; the first is after 1 ms");
            Param::number("lead", "4000", 0, 60_000,
                "milliseconds for all to fall asleep before; 0: each sleeps from when it begins");
            IO;
        },
        variants: variants! {
            Variant::new("100k", &[("n", "100k"), ("lead", "500")], "a tenth of that");
            Variant::new("10k", &[("n", "10k"), ("lead", "100")], "a hundredth of it");
            Variant::new("at-once", &[("lead", "0")], "each sleeps from when it begins, while others are made");
            IO_THREAD;
        },
        smoke: &[("n", "1000"), ("spread", "100"), ("lead", "500")],
        explored: &["warpweft", "tokio", "go"],
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Sleeps;
    const ALSO: &[&str] = &["go"];
    const CAVEATS: &[(&str, Caveat)] = &[
        ("may", Caveat::other("two mappings per task; n is bounded")),
        ("tokio", Caveat::same("its timers tick in whole milliseconds")),
    ];

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        let lead = Duration::from_millis(params.number("lead"));
        Ok(Self {
            n: params.number("n"),
            spread: Duration::from_millis(params.number("spread")),
            lead: (!lead.is_zero()).then_some(lead),
        })
    }

    fn sleeps<P: TaskPool<Tasks: Sleeps>>(&self, pool: &P) -> Result<Outcome, LabError> {
        let time_zero = base();
        let recorders = || Lanes {
            asleep: TaskRecorder::leaked(time_zero, 0),
            woken: TaskRecorder::leaked(time_zero, 0),
            time_zero,
        };
        // Threads, the poller and the first pages are there before anything is measured.
        self.start(pool, recorders(), 64, Some(time_zero));

        let recorders = recorders();
        let before = resident_bytes();
        let start = Instant::now();
        let first = self.lead.map(|lead| start + lead);
        recorders.woken.begin();
        self.launch(pool, recorders, self.n, first);
        let bytes = first.and_then(|first| {
            while recorders.asleep.done() < self.n && Instant::now() < first {
                thread::sleep(Duration::from_millis(1));
            }
            Some(resident_bytes()?.saturating_sub(before?))
        });
        let created = start.elapsed();
        if first.is_some_and(|first| Instant::now() >= first) {
            return Err(LabError::Wrong(format!(
                "after the lead of {} ms only {} of {} tasks sleep: a longer one is needed, such as lead={}",
                self.lead.unwrap_or_default().as_millis(),
                recorders.asleep.done(),
                self.n,
                2 * self.lead.unwrap_or_default().as_millis()
            )));
        }
        let recorded = record(&[recorders.woken], self.n);
        check("tasks that woke early", &recorded.counts[0], &0)?;
        let mut outcome = Outcome::new(self.n, recorded.elapsed).with_latency(&recorded.histogram);
        if let Some(bytes) = bytes {
            outcome = outcome
                .with_measure("bytes_per_task", bytes as f64 / self.n as f64)
                .with_measure("create_ns", created.as_nanos() as f64 / self.n as f64);
        }
        Ok(outcome)
    }
}

impl Plan {
    /// Runs a few tasks to their end.
    fn start<P: TaskPool<Tasks: Sleeps>>(&self, pool: &P, recorders: Lanes, n: u64, first: Option<Instant>) {
        let few = Self {
            spread: Duration::from_millis(2),
            ..*self
        };
        few.launch(pool, recorders, n, first);
        record(&[recorders.woken], n);
    }

    /// Makes `n` tasks from a task of the pool.
    fn launch<P: TaskPool<Tasks: Sleeps>>(&self, pool: &P, recorders: Lanes, n: u64, first: Option<Instant>) {
        let (tasks, spread) = (pool.tasks(), self.spread);
        pool.start(async move {
            // The same deadlines for all contestants, in no order.
            let mut random = fastrand::Rng::with_seed(0x7133);
            let shortest = SHORTEST.min(spread).as_nanos() as u64;
            for made in 1..=n {
                let duration = Duration::from_nanos(random.u64(shortest..=spread.as_nanos() as u64));
                tasks.launch(recorders.sleep::<P::Tasks>(first, duration));
                if made % BATCH == 0 {
                    tasks.yield_now().await;
                }
            }
        });
    }
}
