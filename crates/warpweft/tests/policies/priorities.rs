//! Priorities from the spawner to the queue, and nodes from the task's birth to its end.

use super::inversion::hold;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, ThreadId};
use warpweft::policy::order::{ChainOrder, FifoOrder, LifoOrder, Order, PriorityOrder, SlotOrder};
use warpweft::policy::{Cforall, Helping, Negele, NegeleLocal, Policy, Stealing};
use warpweft::sync::oneshot;
use warpweft::{Builder, Fifo, PolicySpec, Runtime, TaskBuilder, spawn_detached, yield_now};

fn runtime(policy: impl Policy + std::fmt::Display, workers: usize) -> Runtime {
    Runtime::builder()
        .workers(workers)
        .policy(policy)
        .build()
        .unwrap()
}

fn by_text(policy: &str, workers: usize) -> Runtime {
    let policy: PolicySpec = policy.parse().unwrap();
    Runtime::builder()
        .workers(workers)
        .policy_spec(policy)
        .build()
        .unwrap()
}

/// Levels in levels: the outer ones decide.
fn nested() -> impl Policy + std::fmt::Display {
    let levels = NonZeroUsize::new(4).unwrap();
    Stealing::with_order(PriorityOrder::new(PriorityOrder::new(FifoOrder, levels), levels))
}

#[test]
fn urgent_tasks_come_first() {
    for runtime in [
        runtime(Negele::new(), 1),
        runtime(NegeleLocal::new(), 1),
        runtime(nested(), 1),
        by_text("negele", 1),
        by_text("priority:4", 1),
        by_text("priority:4+woken=last+yield=local", 1),
    ] {
        let [urgent, normal, low, idle] = [0, 1, 2, 3].map(|level| runtime.priority(level).unwrap());
        let (order, (open, gate)) = (Arc::new(Mutex::new(Vec::new())), mpsc::channel::<()>());
        let spawned = Arc::clone(&order);
        let spawner = runtime.spawn_job(move || {
            gate.recv().unwrap();
            let mut tasks = Vec::new();
            for (priority, name) in [
                (Some(idle), "idle"),
                (Some(low), "low"),
                (None, "none"),
                (Some(urgent), "urgent"),
                (Some(normal), "normal"),
            ] {
                let spawned = Arc::clone(&spawned);
                let mut task = TaskBuilder::new();
                if let Some(priority) = priority {
                    task = task.priority(priority);
                }
                tasks.push(task.spawn(async move {
                    // Keeps its priority when it comes back.
                    yield_now().await;
                    spawned.lock().unwrap().push(name);
                }));
            }
            tasks
        });
        open.send(()).unwrap();
        for task in spawner.wait().unwrap() {
            task.wait().unwrap();
        }
        assert_eq!(
            *order.lock().unwrap(),
            ["urgent", "none", "normal", "low", "idle"]
        );
    }
}

#[test]
fn priorities_that_do_not_exist_are_errors() {
    let negele = runtime(Negele::new().levels(3), 1);
    let error = negele.priority(3).unwrap_err();
    assert_eq!(
        error.to_string(),
        "priority 3 of 3: there are 0, the most urgent, to 2"
    );
    for without in [
        runtime(Fifo::new(), 1),
        runtime(Cforall::new(), 1),
        by_text("slot:3", 1),
    ] {
        let error = without.priority(0).unwrap_err();
        assert_eq!((error.asked, error.priorities), (0, 0));
        assert!(error.to_string().contains("without priorities"), "{error}");
        assert!(
            error.to_string().contains("`priority:N` and `negele` have"),
            "{error}"
        );
    }
    let slot = NonZeroUsize::new(3).unwrap();
    let inside = Stealing::with_order(SlotOrder::new(PriorityOrder::new(FifoOrder, slot), slot));
    for (runtime, levels) in [
        (by_text("priority:3", 1), 3),
        (by_text("priority:64", 1), 64),
        (runtime(inside, 1), 3),
    ] {
        assert_eq!(runtime.priority(levels - 1).unwrap().level(), levels - 1);
        let error = runtime.priority(levels).unwrap_err();
        assert_eq!((error.asked, error.priorities), (levels, levels));
    }
    // A policy that cannot be is an error of the builder, before any thread is there.
    let error = Runtime::builder()
        .workers(1)
        .policy(Negele::new().levels(1))
        .build()
        .unwrap_err();
    assert!(error.to_string().contains("2 to 32"), "{error}");
}

#[test]
fn a_priority_of_another_runtime_says_nothing() {
    let (here, there) = (runtime(Negele::new(), 1), runtime(Negele::new(), 1));
    let idle = there.priority(3).unwrap();
    assert_eq!(idle.level(), 3);
    let task = TaskBuilder::new().on(&here).priority(idle).spawn_job(|| 1);
    assert_eq!(task.wait().ok(), Some(1));
}

#[test]
fn everything_comes_to_its_end() {
    for workers in [1, 2, 4] {
        for runtime in [
            runtime(Negele::new(), workers),
            runtime(NegeleLocal::new().balance(2), workers),
            by_text("priority:4", workers),
            by_text("priority:4+woken=last+capacity=2+overflow=locked", workers),
        ] {
            let levels = [0, 1, 2, 3].map(|level| runtime.priority(level).unwrap());
            let tasks: Vec<_> = (0..2_000usize)
                .map(|number| {
                    let task = TaskBuilder::new().on(&runtime).priority(levels[number % 4]);
                    task.spawn(async move {
                        for _ in 0..number % 5 {
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
            // A closure that waits gives its worker away, and a task that is nobody's takes its place.
            let waits = (0..20)
                .map(|_| runtime.spawn_job(|| warpweft::block_on(warpweft::spawn(async { 1 })).unwrap()));
            let waits: Vec<_> = waits.collect();
            assert_eq!(
                waits.into_iter().map(|wait| wait.wait().unwrap()).sum::<i32>(),
                20
            );
            runtime.shutdown();
        }
    }
}

/// How many less urgent tasks wait outside of the pool.
const LESS_URGENT: usize = 3_000;
/// After so many of them each worker stops, until the urgent one has come.
const STOP_AFTER: usize = 300;

/// How the urgent task becomes ready while the others wait.
#[derive(Debug, Clone, Copy)]
enum Ready {
    /// A thread that is no worker spawns it.
    Spawned,
    /// It waits for what such a thread does.
    Woken,
}

#[derive(Default)]
struct Stop {
    state: Mutex<Stopped>,
    changed: Condvar,
}

#[derive(Default)]
struct Stopped {
    started: usize,
    /// How many tasks each thread has started since the stop was over.
    by_thread: HashMap<ThreadId, usize>,
    held: usize,
    is_over: bool,
    /// What that was for the thread of the urgent task, when it ran.
    before_urgent: Option<usize>,
}

impl Stop {
    /// A less urgent task.
    fn run(&self) {
        let mut state = self.state.lock().unwrap();
        state.started += 1;
        *state.by_thread.entry(thread::current().id()).or_default() += 1;
        if state.started > STOP_AFTER && !state.is_over {
            state.held += 1;
            self.changed.notify_all();
            drop(self.changed.wait_while(state, |state| !state.is_over).unwrap());
        }
    }

    fn wait_until_held(&self, workers: usize) {
        let state = self.state.lock().unwrap();
        let held = self.changed.wait_while(state, |state| state.held < workers);
        drop(held.unwrap());
    }

    fn end(&self) {
        let mut state = self.state.lock().unwrap();
        state.by_thread.clear();
        state.is_over = true;
        self.changed.notify_all();
    }

    /// The urgent task.
    fn run_urgent(&self) {
        let mut state = self.state.lock().unwrap();
        let mine = state.by_thread.get(&thread::current().id());
        state.before_urgent = Some(mine.copied().unwrap_or_default());
    }
}

/// Every worker is in the middle of a less urgent task, and thousands of them wait outside. Then an urgent
/// one becomes ready, and the workers go on. How many others does the worker start before it that runs it?
fn passed_over(runtime: &Runtime, workers: usize, levels: (u8, u8), ready: Ready) -> usize {
    let [urgent, less] = [levels.0, levels.1].map(|level| runtime.priority(level).unwrap());
    let stop = Arc::new(Stop::default());
    let (wake, woken) = oneshot::channel::<()>();
    let (asleep, falls_asleep) = mpsc::channel();
    let sleeper = {
        let stop = Arc::clone(&stop);
        let task = TaskBuilder::new().on(runtime).priority(urgent);
        task.spawn(async move {
            asleep.send(()).unwrap();
            if woken.await.is_ok() {
                stop.run_urgent();
            }
        })
    };
    falls_asleep.recv().unwrap();
    let tasks: Vec<_> = (0..LESS_URGENT)
        .map(|_| {
            let stop = Arc::clone(&stop);
            let task = TaskBuilder::new().on(runtime).priority(less);
            task.spawn_job(move || stop.run())
        })
        .collect();
    stop.wait_until_held(workers);
    match ready {
        Ready::Spawned => {
            let spawned = Arc::clone(&stop);
            let task = TaskBuilder::new().on(runtime).priority(urgent);
            let task = task.spawn_job(move || spawned.run_urgent());
            stop.end();
            task.wait().unwrap();
            drop(wake);
        }
        Ready::Woken => {
            wake.send(()).unwrap();
            stop.end();
        }
    }
    sleeper.wait().unwrap();
    tasks.into_iter().for_each(|task| task.wait().unwrap());
    let before = stop.state.lock().unwrap().before_urgent;
    before.expect("the urgent task ran")
}

/// A runtime in which no thread takes over for a worker that is held up.
fn unwatched(workers: usize) -> Builder {
    Runtime::builder().workers(workers).stuck_after(None)
}

fn unwatched_by_text(policy: &str, workers: usize) -> Runtime {
    let policy: PolicySpec = policy.parse().unwrap();
    unwatched(workers).policy_spec(policy).build().unwrap()
}

fn levels<O: Order>(order: O) -> PriorityOrder<O> {
    PriorityOrder::new(order, NonZeroUsize::new(3).unwrap())
}

fn goes_before_thousands(policy: &str, workers: usize, runtime: &Runtime) {
    for (urgent, less) in [(0, 2), (0, 1), (1, 2)] {
        for ready in [Ready::Spawned, Ready::Woken] {
            let passed_over = passed_over(runtime, workers, (urgent, less), ready);
            // One is overdue perhaps, and a slot goes first three times.
            assert!(
                passed_over <= 4,
                "{policy}, {workers} workers, {ready:?}: {passed_over} tasks of priority {less} went before one of {urgent}"
            );
        }
    }
}

#[test]
fn an_urgent_task_from_outside_goes_before_thousands() {
    for workers in [1, 2] {
        for policy in [
            "priority:3",
            "priority:64",
            "priority:3+woken=last+yield=global",
            "priority:3+capacity=2+overflow=locked+help=tickets",
            "priority:3+capacity=2+overflow=multi:3",
            "negele",
            "negele-local:3+balance=1000000",
        ] {
            goes_before_thousands(policy, workers, &unwatched_by_text(policy, workers));
        }
    }
}

#[test]
fn an_urgent_task_from_outside_goes_before_thousands_however_orders_are_nested() {
    fn check(order: impl Order, workers: usize) {
        let policy = Stealing::with_order(order);
        let name = policy.to_string();
        let runtime = unwatched(workers).policy(policy).build().unwrap();
        goes_before_thousands(&name, workers, &runtime);
    }
    let slot = NonZeroUsize::new(3).unwrap();
    for workers in [1, 2] {
        check(levels(LifoOrder), workers);
        check(levels(ChainOrder), workers);
        check(levels(levels(FifoOrder)), workers);
        check(levels(SlotOrder::new(FifoOrder, slot)), workers);
        check(SlotOrder::new(levels(FifoOrder), slot), workers);
        let helping = unwatched(workers).policy(Helping::around(levels(FifoOrder)));
        goes_before_thousands("helping", workers, &helping.build().unwrap());
    }
}

#[test]
fn what_waits_outside_comes_by_priority_and_then_by_age() {
    const EACH: usize = 200;
    for policy in [
        "priority:3",
        "priority:3+woken=last",
        "negele:3",
        "negele-local:3",
    ] {
        let runtime = unwatched_by_text(policy, 1);
        let levels = [2, 0, 1].map(|level| (level, runtime.priority(level).unwrap()));
        let order = Arc::new(Mutex::new(Vec::new()));
        let (open, held) = hold(TaskBuilder::new().on(&runtime));
        let tasks: Vec<_> = (0..3 * EACH)
            .map(|number| {
                let (level, priority) = levels[number % 3];
                let order = Arc::clone(&order);
                let task = TaskBuilder::new().on(&runtime).priority(priority);
                task.spawn_job(move || order.lock().unwrap().push((level, number)))
            })
            .collect();
        open.send(()).unwrap();
        held.wait().unwrap();
        tasks.into_iter().for_each(|task| task.wait().unwrap());
        let order = order.lock().unwrap();
        assert_eq!(order.len(), 3 * EACH);
        // Every 61st step something is overdue, whatever its priority.
        let early = order.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!(
            early <= 3 * EACH / 61 + 1,
            "{policy}: {early} times something was out of order: {order:?}"
        );
    }
}

/// Urgent tasks are always ready, and the others run all the same.
#[test]
fn what_is_less_urgent_has_its_turns() {
    const LESS: usize = 20;
    for policy in [
        "priority:3",
        "priority:3+woken=last",
        "negele:3",
        "negele-local:3",
    ] {
        let runtime = unwatched_by_text(policy, 1);
        let [urgent, less] = [0, 1].map(|level| runtime.priority(level).unwrap());
        let (left, steps) = (Arc::new(AtomicUsize::new(LESS)), Arc::new(AtomicUsize::new(0)));
        let (open, held) = hold(TaskBuilder::new().on(&runtime));
        let streams: Vec<_> = (0..2)
            .map(|_| {
                let (left, steps) = (Arc::clone(&left), Arc::clone(&steps));
                let task = TaskBuilder::new().on(&runtime).priority(urgent);
                task.spawn(async move {
                    while left.load(SeqCst) > 0 {
                        steps.fetch_add(1, SeqCst);
                        yield_now().await;
                    }
                })
            })
            .collect();
        for _ in 0..LESS {
            let left = Arc::clone(&left);
            let task = TaskBuilder::new().on(&runtime).priority(less);
            task.spawn_job(move || left.fetch_sub(1, SeqCst)).detach();
        }
        open.send(()).unwrap();
        held.wait().unwrap();
        streams.into_iter().for_each(|task| task.wait().unwrap());
        // The bound is twice six places by turns, every 61st step one of them, three levels by turns in each.
        let steps = steps.load(SeqCst);
        assert!(steps < 2 * 6 * 61 * 3 * LESS, "{policy}: {steps} urgent steps");
    }
}
