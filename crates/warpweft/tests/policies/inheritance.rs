//! A task has the priority of the task that spawned or forked it, however that one came to where it is.

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use warpweft::policy::order::{FifoOrder, PriorityOrder};
use warpweft::policy::{
    Cx, Helping, Negele, NegeleLocal, Policy, PolicyError, PoolEnv, TaskRef, Wake, Why, priority,
};
use warpweft::sync::oneshot;
use warpweft::{Builder, Runtime, TaskBuilder, block_on, blocking, join, scope, spawn, spawn_job, yield_now};
use warpweft_queue::Locked;

/// The priorities of the tasks that were spawned or forked inside of the pool.
type Pushed = Arc<Mutex<Vec<Option<u8>>>>;

/// One queue, which notes what comes.
struct Noting(Pushed);

impl Policy for Noting {
    type Shared = (Locked<TaskRef>, Pushed);
    type Local = ();
    const INHERITS_PRIORITY: bool = true;

    fn priorities(&self) -> u8 {
        4
    }
    fn build(&self, env: &PoolEnv) -> Result<(Self::Shared, Vec<()>), PolicyError> {
        Ok(((Locked::new(), Arc::clone(&self.0)), vec![(); env.workers]))
    }
    fn push(
        (queue, pushed): &Self::Shared,
        local: Option<&mut ()>,
        task: TaskRef,
        why: Why,
        _: &Cx<'_>,
    ) -> Wake {
        if local.is_some() && matches!(why, Why::Spawned | Why::Forked) {
            pushed.lock().unwrap().push(priority::of(task.policy_word()));
        }
        queue.push(task);
        Wake::Any
    }
    fn next((queue, _): &Self::Shared, (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        queue.pop()
    }
    fn scan((queue, _): &Self::Shared, (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        queue.pop()
    }
}

fn noting(workers: usize) -> (Runtime, Pushed) {
    noting_by(Runtime::builder().workers(workers))
}

fn noting_by(builder: Builder) -> (Runtime, Pushed) {
    let pushed = Pushed::default();
    let runtime = builder.policy(Noting(Arc::clone(&pushed))).build().unwrap();
    (runtime, pushed)
}

/// Everything that was pushed since the last time has that priority, and something was.
#[track_caller]
fn all_have(pushed: &Pushed, level: Option<u8>) {
    let pushed = std::mem::take(&mut *pushed.lock().unwrap());
    assert!(!pushed.is_empty());
    assert!(pushed.iter().all(|&of| of == level), "{pushed:?}");
}

#[test]
fn children_have_their_parents_priority() {
    let (runtime, pushed) = noting(1);
    for level in 0..4 {
        let priority = runtime.priority(level).unwrap();
        let task = || TaskBuilder::new().on(&runtime).priority(priority);
        let future = task().spawn(async {
            spawn(async { spawn_job(|| ()).await.unwrap() }).await.unwrap();
            yield_now().await;
            spawn_job(|| ()).await.unwrap();
        });
        future.wait().unwrap();
        all_have(&pushed, Some(level));
        task().spawn_job(|| drop(spawn_job(|| ()))).wait().unwrap();
        all_have(&pushed, Some(level));
    }
    // Without a priority there is none to inherit: what ran before does not matter.
    runtime.spawn_job(|| drop(spawn_job(|| ()))).wait().unwrap();
    all_have(&pushed, None);
}

#[test]
fn a_spawner_may_say_otherwise() {
    let (runtime, pushed) = noting(1);
    let [parent, child] = [3, 1].map(|level| runtime.priority(level).unwrap());
    let task = TaskBuilder::new().on(&runtime).priority(parent);
    let task = task.spawn_job(move || drop(TaskBuilder::new().priority(child).spawn_job(|| ())));
    task.wait().unwrap();
    all_have(&pushed, Some(1));
}

#[test]
fn a_fiber_keeps_its_priority_across_its_waits() {
    let (runtime, pushed) = noting(1);
    let [low, other] = [3, 0].map(|level| runtime.priority(level).unwrap());
    let (wake, woken) = oneshot::channel::<()>();
    let fiber = TaskBuilder::new().on(&runtime).priority(low).spawn_fiber(|| {
        let _ = block_on(woken);
        drop(spawn_job(|| ()));
    });
    // Another task runs meanwhile.
    let task = TaskBuilder::new().on(&runtime).priority(other);
    task.spawn_job(|| ()).wait().unwrap();
    wake.send(()).unwrap();
    fiber.wait().unwrap();
    all_have(&pushed, Some(3));
}

#[test]
fn a_job_keeps_its_priority_while_others_run_on_its_worker() {
    for workers in [1, 2] {
        let (runtime, pushed) = noting(workers);
        let [low, other] = [3, 0].map(|level| runtime.priority(level).unwrap());
        let waits = |wait: Box<dyn FnOnce() + Send>| {
            let job = move || {
                wait();
                drop(spawn_job(|| ()));
            };
            let job = TaskBuilder::new().on(&runtime).priority(low).spawn_job(job);
            job.wait().unwrap();
            let mut pushed = std::mem::take(&mut *pushed.lock().unwrap());
            assert_eq!(pushed.pop(), Some(Some(3)), "{pushed:?}");
        };
        waits(Box::new(move || {
            let task = TaskBuilder::new()
                .priority(other)
                .spawn(async { yield_now().await });
            block_on(task).unwrap();
        }));
        waits(Box::new(move || {
            let task = TaskBuilder::new().priority(other).spawn_job(|| ());
            blocking(|| task.wait()).unwrap();
        }));
    }
}

/// There is no thread that could take the worker of a job that waits.
#[test]
fn a_job_keeps_its_priority_while_others_run_on_its_stack() {
    let (runtime, pushed) = noting_by(Runtime::builder().workers(1).max_threads(1));
    let [low, other] = [3, 0].map(|level| runtime.priority(level).unwrap());
    let job = TaskBuilder::new().on(&runtime).priority(low).spawn_job(move || {
        let task = TaskBuilder::new()
            .priority(other)
            .spawn(async { yield_now().await });
        block_on(task).unwrap();
        drop(spawn_job(|| ()));
    });
    job.wait().unwrap();
    assert_eq!(*pushed.lock().unwrap(), [Some(0), Some(3)]);
}

#[test]
fn forks_and_what_they_spawn_have_the_priority_of_their_task() {
    let (runtime, pushed) = noting(2);
    let low = runtime.priority(3).unwrap();
    let task = TaskBuilder::new().on(&runtime).priority(low);
    let forks = task.spawn_job(|| {
        // The second half waits for the thief of the first.
        let stolen = AtomicBool::new(false);
        join(
            || {
                while !stolen.load(SeqCst) {
                    std::thread::yield_now();
                }
            },
            || {
                drop(spawn_job(|| ()));
                stolen.store(true, SeqCst);
            },
        );
        scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|_| drop(spawn_job(|| ())));
            }
        });
    });
    forks.wait().unwrap();
    all_have(&pushed, Some(3));
}

#[test]
fn every_policy_with_priorities_lets_them_be_inherited() {
    fn check(policy: impl Policy + std::fmt::Display) {
        let name = policy.to_string();
        let runtime = Runtime::builder().workers(1).policy(policy).build().unwrap();
        let [normal, low] = [1, 2].map(|level| runtime.priority(level).unwrap());
        let (order, (open, gate)) = (Arc::new(Mutex::new(Vec::new())), mpsc::channel::<()>());
        let all = Arc::clone(&order);
        let parent = TaskBuilder::new().on(&runtime).priority(low).spawn_job(move || {
            gate.recv().unwrap();
            let note = |name| {
                let order = Arc::clone(&all);
                move || order.lock().unwrap().push(name)
            };
            let child = spawn_job(note("child of low"));
            let task = TaskBuilder::new().priority(normal);
            [child, task.spawn_job(note("normal"))]
        });
        open.send(()).unwrap();
        for task in parent.wait().unwrap() {
            task.wait().unwrap();
        }
        assert_eq!(*order.lock().unwrap(), ["normal", "child of low"], "{name}");
    }
    let three = NonZeroUsize::new(3).unwrap();
    check(warpweft::policy::Stealing::with_order(PriorityOrder::new(
        FifoOrder, three,
    )));
    check(Helping::around(PriorityOrder::new(FifoOrder, three)));
    check(Negele::new().levels(3));
    check(NegeleLocal::new().levels(3));
}
