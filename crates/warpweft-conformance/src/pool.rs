//! Runs a small pool under shuttle: the policy in the real runtime, in many random schedules.
//!
//! `WARPWEFT_SHUTTLE_ITERATIONS` is the number of schedules of each kind (default 50).

use std::pin::Pin;
use std::sync::Arc as StdArc;
use std::task::{Context, Poll, Waker};
use warpweft::{Runtime, spawn, spawn_detached, spawn_job, yield_now};
use warpweft_platform::shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use warpweft_platform::shuttle::{Config, Runner};
use warpweft_platform::sync::{Arc, Mutex};
use warpweft_platform::thread;
use warpweft_policy::Policy;

/// The number of priority changes in a schedule of probabilistic concurrency testing.
const DEPTH: usize = 3;

fn iterations() -> usize {
    let asked = std::env::var("WARPWEFT_SHUTTLE_ITERATIONS");
    asked.ok().and_then(|text| text.parse().ok()).unwrap_or(50)
}

/// Tests runtimes of two and three workers with this policy: trees of tasks, yields, wakes from outside,
/// spawners that race with workers on their way to sleep; then the shutdown. It uses random schedules, and
/// those of probabilistic concurrency testing.
///
/// # Panics
///
/// A task did not end, which is a deadlock to shuttle, or gave a wrong result; shuttle reports how to replay
/// the schedule.
pub fn small_pool<P: Policy>(make: impl Fn() -> P + Send + Sync + 'static) {
    let make = StdArc::new(make);
    for scene in [a_tree, yields, wakes, spawners] {
        let run = |scheduler: Box<dyn FnOnce(Config, Body)>| {
            let make = StdArc::clone(&make);
            let mut config = Config::new();
            config.stack_size = 1 << 18;
            scheduler(
                config,
                Box::new(move || {
                    scene(&|workers| {
                        let built = Runtime::builder().workers(workers).policy(make()).build();
                        built.unwrap_or_else(|error| panic!("{error}"))
                    });
                }),
            );
        };
        run(Box::new(|config, body| {
            under(RandomScheduler::new(iterations()), config, body);
        }));
        run(Box::new(|config, body| {
            under(PctScheduler::new(DEPTH, iterations()), config, body);
        }));
    }
}

type Body = Box<dyn Fn() + Send + Sync>;

fn under(scheduler: impl Scheduler + 'static, config: Config, body: Body) {
    Runner::new(scheduler, config).run(body);
}

fn a_tree(start: &dyn Fn(usize) -> Runtime) {
    fn leaves(depth: u32) -> Pin<Box<dyn Future<Output = usize> + Send>> {
        Box::pin(async move {
            if depth == 0 {
                return 1;
            }
            let left = spawn(leaves(depth - 1));
            let right = spawn_job(move || 1 << (depth - 1));
            left.await.unwrap_or(0) + right.await.unwrap_or(0)
        })
    }
    let runtime = start(3);
    let sum = runtime.spawn(leaves(3)).wait();
    assert_eq!(sum.ok(), Some(8));
    runtime.shutdown();
}

fn yields(start: &dyn Fn(usize) -> Runtime) {
    let runtime = start(2);
    let tasks: Vec<_> = (0..3)
        .map(|number| {
            runtime.spawn(async move {
                for _ in 0..2 {
                    spawn_detached(|| ());
                    yield_now().await;
                }
                number
            })
        })
        .collect();
    for (number, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.wait().ok(), Some(number));
    }
    runtime.shutdown();
}

/// Tasks wait here until it is opened, once.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Gate {
    fn open(&self) {
        let wakers = {
            let mut gate = self.0.lock();
            gate.0 = true;
            std::mem::take(&mut gate.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Future for Gate {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut gate = self.0.lock();
        if gate.0 {
            return Poll::Ready(());
        }
        gate.1.push(cx.waker().clone());
        Poll::Pending
    }
}

fn wakes(start: &dyn Fn(usize) -> Runtime) {
    let runtime = start(2);
    let gate = Gate::default();
    let sleepers: Vec<_> = (0..2)
        .map(|number| {
            let gate = gate.clone();
            runtime.spawn(async move {
                gate.await;
                spawn_job(move || number).await.unwrap_or(usize::MAX)
            })
        })
        .collect();
    let opener = thread::spawn(move || gate.open());
    for (number, sleeper) in sleepers.into_iter().enumerate() {
        assert_eq!(sleeper.wait().ok(), Some(number));
    }
    opener
        .join()
        .unwrap_or_else(|_| panic!("the opener does not panic"));
    runtime.shutdown();
}

fn spawners(start: &dyn Fn(usize) -> Runtime) {
    let runtime = Arc::new(start(2));
    let others: Vec<_> = (0..2)
        .map(|number| {
            let runtime = Arc::clone(&runtime);
            thread::spawn(move || {
                for _ in 0..2 {
                    assert_eq!(runtime.spawn_job(move || number).wait().ok(), Some(number));
                }
            })
        })
        .collect();
    others.into_iter().for_each(|other| {
        other
            .join()
            .unwrap_or_else(|_| panic!("a spawner got a wrong answer"));
    });
    runtime.shutdown();
}
