//! How many nodes the queues of `negele` and `negele-local` have in a pool under load: one for each task that
//! there is at a time, and a few.

use crate::eventually::eventually;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use warpweft::policy::Count;
use warpweft::sync::{Semaphore, oneshot};
use warpweft::{JoinError, JoinHandle, PolicySpec, Runtime, TaskBuilder, block_on, spawn, time, yield_now};

/// More than the machine has processors, so that they are preempted anywhere.
const WORKERS: usize = 8;
/// Threads outside that spawn and wake: more than there are places for external threads.
const OUTSIDE: usize = 6;
/// Places for external threads: the number that the policy reserves.
const EXTERNAL_THREADS: usize = 4;
/// Tasks of a round of one of those threads, with their children.
const ROUND: usize = 100;
const ROUNDS: usize = 30;
/// How often a task goes through the queues while all others are there.
const TURNS: usize = 50;

fn runtime(policy: &str) -> Runtime {
    let spec: PolicySpec = policy.parse().expect(policy);
    let builder = Runtime::builder().workers(WORKERS);
    builder.policy_spec(spec).build().expect("threads")
}

/// The nodes that were made for tasks. Those that the queues had from the beginning are not among them.
fn nodes(runtime: &Runtime) -> usize {
    runtime.counters().total().get(Count::Nodes) as usize
}

fn workers(runtime: &Runtime) -> usize {
    let counters = runtime.counters();
    counters.workers.len() + counters.compensating.len()
}

/// Those that there may be beyond one for each task: one that was left in each place.
fn places(runtime: &Runtime) -> usize {
    workers(runtime) + EXTERNAL_THREADS
}

/// With this priority, one after the other.
fn task(runtime: &Runtime, number: usize) -> TaskBuilder<'_> {
    let priority = runtime.priority((number % 4) as u8).expect("four levels");
    TaskBuilder::new().on(runtime).priority(priority)
}

/// What a task of a round does, and what the thread outside does to it.
enum Kind {
    /// It runs to its end.
    Runs,
    /// It waits until it is woken from outside.
    Woken(oneshot::Sender<()>),
    /// It is cancelled as soon as it was spawned: mostly in its queue.
    CancelledAtOnce,
    /// It waits for ever, until it is cancelled; the sender is kept.
    CancelledAsleep(oneshot::Sender<()>),
}

fn spawn_one(runtime: &Runtime, number: usize, gate: &Arc<Semaphore>) -> (Kind, JoinHandle<()>) {
    let task = task(runtime, number / 8);
    match number % 8 {
        0 => {
            let yields = async {
                for _ in 0..3 {
                    yield_now().await;
                }
            };
            (Kind::Runs, task.spawn(yields))
        }
        1 | 2 => {
            let (sender, receiver) = oneshot::channel();
            let waits = async move { receiver.await.expect("it is sent") };
            (Kind::Woken(sender), task.spawn(waits))
        }
        3 => {
            let (gate, more) = (Arc::clone(gate), Arc::clone(gate));
            let passes = async move {
                gate.acquire(1).await.expect("it stays open").forget();
                yield_now().await;
                more.add(1);
            };
            (Kind::Runs, task.spawn(passes))
        }
        4 => (Kind::CancelledAtOnce, task.spawn(async { yield_now().await })),
        5 => {
            let (sender, receiver) = oneshot::channel();
            let waits = async move { receiver.await.expect("it is cancelled before") };
            (Kind::CancelledAsleep(sender), task.spawn(waits))
        }
        6 => {
            let sleeps = time::sleep(Duration::from_micros(number as u64 % 700));
            (Kind::Runs, task.spawn(sleeps))
        }
        // It gives its worker away, and gets one again.
        _ => {
            let waits = || block_on(spawn(yield_now())).expect("its child ends");
            (Kind::Runs, task.spawn_job(waits))
        }
    }
}

/// A thread outside: rounds of tasks of all kinds, all joined before the next round.
fn load(runtime: &Runtime, most: &AtomicUsize) {
    let gate = Arc::new(Semaphore::new(1));
    for _ in 0..ROUNDS {
        let mut cancelled = 0;
        let mut tasks: Vec<_> = (0..ROUND)
            .map(|number| spawn_one(runtime, number, &gate))
            .collect();
        for (kind, handle) in &tasks {
            if matches!(kind, Kind::CancelledAtOnce) {
                cancelled += usize::from(handle.cancel());
            }
        }
        most.fetch_max(nodes(runtime), Ordering::Relaxed);
        // The youngest first: the kernel preempts this thread anywhere, and some sleep by then and some do
        // not.
        while let Some((kind, handle)) = tasks.pop() {
            match kind {
                Kind::Runs => handle.wait().expect("it runs"),
                Kind::Woken(sender) => {
                    sender.send(()).expect("it waits");
                    handle.wait().expect("it was woken");
                }
                Kind::CancelledAtOnce => drop(handle.wait()),
                Kind::CancelledAsleep(sender) => {
                    assert!(handle.cancel());
                    assert!(matches!(handle.wait(), Err(JoinError::Cancelled)));
                    drop(sender);
                    cancelled += 1;
                }
            }
        }
        assert!(cancelled >= ROUND / 8);
    }
}

/// As many nodes as tasks while all are there, and no more whatever they do afterwards.
fn keeps_its_bound(policy: &str) {
    let runtime = runtime(policy);
    // Of each round every eighth task has a child.
    let at_once = OUTSIDE * (ROUND + ROUND.div_ceil(8));
    let gate = Arc::new(Semaphore::new(0));
    let waiting = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..at_once)
        .map(|number| {
            let (gate, waiting) = (Arc::clone(&gate), Arc::clone(&waiting));
            task(&runtime, number).spawn(async move {
                for _ in 0..TURNS {
                    yield_now().await;
                }
                waiting.fetch_add(1, Ordering::Relaxed);
                gate.acquire(1).await.expect("it stays open").forget();
            })
        })
        .collect();
    eventually("all wait", || waiting.load(Ordering::Relaxed) == at_once);
    let (made, bound) = (nodes(&runtime), at_once + places(&runtime));
    println!("{policy}: {made} nodes for {at_once} tasks that are there, {bound} allowed");
    assert!(
        (at_once..=bound).contains(&made),
        "{policy}: {made} nodes for {at_once} tasks: {bound} would be enough"
    );
    gate.add(at_once);
    tasks.into_iter().for_each(|task| task.wait().expect("it passes"));

    let (most, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                most.fetch_max(nodes(&runtime), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(1));
            }
        });
        let loads: Vec<_> = (0..OUTSIDE)
            .map(|_| scope.spawn(|| load(&runtime, &most)))
            .collect();
        let ended: Vec<_> = loads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        over.store(true, Ordering::Relaxed);
        sampler.join().expect("it only looks");
        ended.into_iter().for_each(|ended| ended.expect("its tasks end"));
    });
    // A joiner may be quicker than the worker, which has the node in its hands.
    let bound = bound + workers(&runtime);
    let most = most.load(Ordering::Relaxed);
    println!("{policy}: {most} nodes; {at_once} tasks at a time, {bound} allowed");
    assert!(
        most <= bound,
        "{policy}: {most} nodes for {at_once} tasks at a time: {bound} would be enough"
    );
}

#[test]
fn queues_of_all_workers_have_a_node_for_each_task() {
    keeps_its_bound("negele");
}

#[test]
fn queues_of_each_worker_have_a_node_for_each_task() {
    keeps_its_bound("negele-local");
    // Tasks change their worker all the time.
    keeps_its_bound("negele-local+balance=1");
}
