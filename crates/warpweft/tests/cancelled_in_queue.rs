//! Tasks that are cancelled in a queue leave it before their turn, under each policy that evicts.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use warpweft::policy::Count;
use warpweft::{JoinError, JoinHandle, PolicySpec, Runtime, spawn, spawn_job};

const TASKS: usize = 2_000;

/// Cancellations are counted for the whole process, so those of another test make a policy look for tasks
/// that are not there. Therefore one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn one_test_at_a_time() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts its drops.
struct CountsDrops(Arc<AtomicUsize>);

impl Drop for CountsDrops {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// What the tasks of a test own and record.
#[derive(Clone, Default)]
struct Log {
    dropped: Arc<AtomicUsize>,
    /// The number of drops when the n-th task ran.
    seen: Arc<Mutex<Vec<usize>>>,
}

impl Log {
    fn job(&self) -> impl FnOnce() + Send + 'static {
        let (held, log) = (CountsDrops(Arc::clone(&self.dropped)), self.clone());
        move || {
            let dropped = log.dropped.load(Ordering::SeqCst);
            log.seen.lock().expect("unpoisoned").push(dropped);
            drop(held);
        }
    }
}

fn runtime(policy: &str) -> Runtime {
    let spec: PolicySpec = policy.parse().expect(policy);
    let builder = Runtime::builder().workers(1).stuck_after(None);
    builder.policy_spec(spec).build().expect("a worker")
}

/// Fills the queues of a worker that is kept busy, cancels half of the tasks, and lets the worker continue.
fn half_is_cancelled(policy: &str, from_outside: bool) {
    let runtime = runtime(policy);
    let log = Log::default();
    let (go, gate) = mpsc::channel::<()>();
    let (handles, filled) = mpsc::channel::<Vec<JoinHandle<()>>>();
    let inside = log.clone();
    let blocker = runtime.spawn_job(move || {
        let tasks = if from_outside { 0 } else { TASKS };
        handles
            .send((0..tasks).map(|_| spawn_job(inside.job())).collect())
            .expect("the test waits");
        let _ = gate.recv();
    });
    let mut tasks = filled.recv().expect("the blocker runs");
    if from_outside {
        tasks = (0..TASKS).map(|_| runtime.spawn_job(log.job())).collect();
    }
    for task in tasks.iter().skip(1).step_by(2) {
        assert!(task.cancel());
    }
    go.send(()).expect("the blocker waits");
    for (number, task) in tasks.into_iter().enumerate() {
        match task.wait() {
            Ok(()) => assert!(
                number.is_multiple_of(2),
                "{policy}: {number} was cancelled and ran"
            ),
            Err(JoinError::Cancelled) => assert!(!number.is_multiple_of(2), "{policy}: {number}"),
            Err(other) => panic!("{policy}: {number}: {other}"),
        }
    }
    blocker.wait().expect("no panic");
    assert_eq!(log.dropped.load(Ordering::SeqCst), TASKS, "{policy}");
    let seen = log.seen.lock().expect("unpoisoned");
    assert_eq!(seen.len(), TASKS / 2, "{policy}");
    // The worker looks once in 61 tasks, a cancelled one that it meets included; then all are gone.
    assert!(
        seen[70] >= TASKS / 2,
        "{policy}: when the 70th ran, {} were dropped",
        seen[70]
    );
    let evicted = runtime.counters().total().get(Count::Evicted);
    assert!(evicted as usize > TASKS / 2 - 70, "{policy}: {evicted}");
}

#[test]
fn cancelled_tasks_leave_every_queue_before_their_turn() {
    let _guard = one_test_at_a_time();
    for policy in [
        "fifo",
        "lifo",
        "fifo+capacity=16+overflow=locked",
        "lifo+capacity=16+overflow=multi:3",
        "fifo+capacity=16+overflow=lockfree",
        "alternate:1",
        "stochastic:80",
        "reverse:256",
        "slot:3",
        "priority:2",
    ] {
        half_is_cancelled(policy, false);
    }
    for policy in ["fifo", "lifo"] {
        half_is_cancelled(policy, true);
    }
}

/// One among very many is not worth a search: it is found when its turn comes.
#[test]
fn few_among_many_wait_for_their_turn() {
    let _guard = one_test_at_a_time();
    let runtime = runtime("fifo");
    let log = Log::default();
    let (go, gate) = mpsc::channel::<()>();
    let blocker = runtime.spawn_job(move || {
        let _ = gate.recv();
    });
    let tasks: Vec<_> = (0..TASKS).map(|_| runtime.spawn_job(log.job())).collect();
    assert!(tasks[TASKS - 1].cancel());
    drop(go);
    let ended = tasks.into_iter().map(JoinHandle::wait);
    assert_eq!(ended.filter(Result::is_err).count(), 1);
    blocker.wait().expect("no panic");
    assert_eq!(log.dropped.load(Ordering::SeqCst), TASKS);
    let seen = log.seen.lock().expect("unpoisoned");
    assert!(
        seen.iter()
            .enumerate()
            .take(1_000)
            .all(|(ran, &dropped)| dropped == ran),
        "one was dropped early"
    );
}

/// The `Drop` of a cancelled task may spawn and wait, as a task may.
#[test]
fn a_drop_that_spawns_and_waits_is_no_trouble() {
    struct Busy(Arc<AtomicUsize>);
    impl Drop for Busy {
        fn drop(&mut self) {
            let ran = Arc::clone(&self.0);
            let child = spawn_job(move || ran.fetch_add(1, Ordering::SeqCst));
            let _ = child.wait();
        }
    }
    let _guard = one_test_at_a_time();
    for workers in [1, 2, 4] {
        let runtime = Runtime::builder().workers(workers).build().expect("workers");
        let ran = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&ran);
        runtime
            .block_on(runtime.spawn(async move {
                let tasks: Vec<_> = (0..300)
                    .map(|_| {
                        let busy = Busy(Arc::clone(&counted));
                        spawn(async move { drop(busy) })
                    })
                    .collect();
                tasks.iter().for_each(|task| {
                    task.cancel();
                });
                for task in tasks {
                    let _ = task.await;
                }
            }))
            .expect("no panic");
        assert_eq!(ran.load(Ordering::SeqCst), 300, "{workers} workers");
    }
}
