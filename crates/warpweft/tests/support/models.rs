//! What the shuttle models of whole pools share.

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::{Config, Runner, thread};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use warpweft::Runtime;

fn iterations() -> usize {
    std::env::var("WARPWEFT_SHUTTLE_ITERATIONS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(200)
}

/// Runs `model` under random and under probabilistic-concurrency-testing schedules. A hang is a deadlock that
/// shuttle reports.
#[allow(dead_code, reason = "some files have models with loops only")]
pub(crate) fn check(model: fn()) {
    check_with(Arc::new(model));
}

/// The same with a model that has parameters.
#[allow(dead_code, reason = "as above")]
pub(crate) fn check_with(model: Arc<impl Fn() + Send + Sync + 'static>) {
    run(RandomScheduler::new(iterations()), Arc::clone(&model));
    run(PctScheduler::new(3, iterations()), model);
}

/// [`check`] with twenty times as many schedules: for what only a rare one shows.
#[allow(dead_code, reason = "not every file of models needs them")]
pub(crate) fn check_often(model: fn()) {
    let model = Arc::new(model);
    run(RandomScheduler::new(20 * iterations()), Arc::clone(&model));
    run(PctScheduler::new(3, 20 * iterations()), model);
}

/// For models with loops that wait: random schedules only, in which every thread continues at some time.
#[allow(dead_code, reason = "not every file of models has such loops")]
pub(crate) fn check_fairly(model: fn()) {
    run(RandomScheduler::new(5 * iterations()), Arc::new(model));
}

fn run(scheduler: impl Scheduler + 'static, model: Arc<impl Fn() + Send + Sync + 'static>) {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    Runner::new(scheduler, config).run(move || model());
}

#[allow(dead_code, reason = "not every file of models needs it")]
pub(crate) fn runtime(workers: usize, policy: &str) -> Runtime {
    let spec = policy.parse().expect("a policy");
    Runtime::builder()
        .workers(workers)
        .policy_spec(spec)
        .build()
        .expect("a small pool")
}

/// A pool with a monitor, for which two looks at the same step are enough.
#[allow(dead_code, reason = "not every file of models needs it")]
pub(crate) fn watched(workers: usize, policy: &str) -> Runtime {
    Runtime::builder()
        .workers(workers)
        .policy_spec(policy.parse().expect("a policy"))
        .stuck_after(Some(Duration::ZERO))
        .build()
        .expect("a small pool")
}

/// Keeps its worker until the flag is set.
#[allow(dead_code, reason = "not every file of models needs it")]
pub(crate) fn hog(flag: &AtomicBool) {
    while !flag.load(Ordering::SeqCst) {
        thread::yield_now();
    }
}

#[derive(Clone, Default)]
#[allow(dead_code, reason = "not every file of models needs it")]
pub(crate) struct Gate(Arc<Mutex<(bool, Option<Waker>)>>);

#[allow(dead_code, reason = "as above")]
impl Gate {
    pub(crate) fn open(&self) {
        let waker = {
            let mut gate = self.0.lock().expect("unpoisoned");
            gate.0 = true;
            gate.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Future for Gate {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut gate = self.0.lock().expect("unpoisoned");
        if gate.0 {
            return Poll::Ready(());
        }
        gate.1 = Some(cx.waker().clone());
        Poll::Pending
    }
}
