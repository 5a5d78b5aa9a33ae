//! What the runtime calls beside tasks forks: a hook of a policy, a waker, a report, a destructor. The child
//! runs nothing of the parent.

use crate::children::{End, FAILED, RETURNED, Shared, end_of, fork};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;
use warpweft::policy::{Cx, Policy, PolicyError, PoolEnv, TaskRef, Wake as Wakes, Why};
use warpweft::{Runtime, TaskBuilder, fiber, spawn_blocking, spawn_job, time};
use warpweft_queue::Locked;

const ROUNDS: usize = 10;
const TASKS: usize = 50;

/// The child that a callback has forked; 0 until then.
#[derive(Debug, Default)]
struct Child(AtomicI32);

impl Child {
    /// Forks.
    fn make(&self) {
        self.0.store(fork(), Ordering::SeqCst);
    }

    /// Waits until it was forked.
    fn get(&self) -> libc::pid_t {
        loop {
            match self.0.load(Ordering::SeqCst) {
                0 => std::thread::sleep(Duration::from_micros(100)),
                child => return child,
            }
        }
    }
}

/// First in, first out; forks once, in `next` or in `push`, when that has been called so often.
struct Forks {
    in_next: bool,
    after: u32,
    child: Arc<Child>,
}

struct Queue {
    tasks: Locked<TaskRef>,
    forks: Forks,
    calls: AtomicU32,
}

impl Queue {
    fn called(&self, next: bool) {
        if next == self.forks.in_next && self.calls.fetch_add(1, Ordering::SeqCst) == self.forks.after {
            self.forks.child.make();
        }
    }
}

impl Policy for Forks {
    type Shared = Queue;
    type Local = ();

    fn build(&self, env: &PoolEnv) -> Result<(Queue, Vec<()>), PolicyError> {
        let forks = Self {
            child: Arc::clone(&self.child),
            ..*self
        };
        let queue = Queue {
            tasks: Locked::new(),
            forks,
            calls: AtomicU32::new(0),
        };
        Ok((queue, vec![(); env.workers]))
    }

    fn push(queue: &Queue, local: Option<&mut ()>, task: TaskRef, _: Why, _: &Cx<'_>) -> Wakes {
        queue.tasks.push(task);
        if local.is_some() {
            queue.called(false);
        }
        Wakes::Any
    }

    fn next(queue: &Queue, (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        let task = queue.tasks.pop();
        if task.is_some() {
            queue.called(true);
        }
        task
    }

    fn scan(queue: &Queue, (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        queue.tasks.pop()
    }
}

#[test]
fn a_hook_does_not_return_in_the_child() {
    for round in 0..2 * ROUNDS {
        let child = Arc::new(Child::default());
        let forks = Forks {
            in_next: round % 2 == 0,
            after: round as u32 / 2,
            child: Arc::clone(&child),
        };
        let runtime = Runtime::builder()
            .workers(1)
            .stuck_after(None)
            .policy(forks)
            .build();
        let runtime = runtime.expect("a worker");
        let ran = Shared::new(TASKS);
        let all = runtime.spawn_job(move || {
            let jobs: Vec<_> = (0..TASKS).map(|n| spawn_job(move || ran.count(n))).collect();
            jobs.into_iter().for_each(|job| job.wait().expect("no panic"));
        });
        all.wait().expect("no panic");
        assert_eq!(end_of(child.get()), FAILED);
        assert_eq!(ran.all(), [1; TASKS]);
    }
}

struct ForkingWaker(Child);

impl Wake for ForkingWaker {
    fn wake(self: Arc<Self>) {
        self.0.make();
    }
}

#[test]
fn a_waker_that_is_called_by_a_timer_forks() {
    for round in 0..ROUNDS {
        let io = if round % 2 == 0 {
            warpweft::Io::Inline
        } else {
            warpweft::Io::Thread
        };
        let runtime = Runtime::builder().workers(1 + round % 3).io(io).build();
        let runtime = runtime.expect("workers");
        let waker = Arc::new(ForkingWaker(Child::default()));
        // On a busy machine a sleep may be over before it is asked.
        let _sleep = loop {
            let mut sleep = Box::pin(time::sleep(Duration::from_millis(5)));
            let sleeps = runtime.block_on(async {
                let waker = Waker::from(Arc::clone(&waker));
                sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending()
            });
            if sleeps {
                break sleep;
            }
        };
        let ran = Shared::new(TASKS);
        let tasks: Vec<_> = (0..TASKS)
            .map(|n| {
                runtime.spawn(async move {
                    time::sleep(Duration::from_millis(5)).await;
                    ran.count(n);
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.wait().expect("no panic"));
        assert_eq!(end_of(waker.0.get()), RETURNED);
        assert_eq!(ran.all(), [1; TASKS]);
    }
}

#[test]
fn a_report_of_a_stuck_worker_forks() {
    let child = Arc::new(Child::default());
    let reported = Arc::clone(&child);
    let runtime = Runtime::builder()
        .workers(1)
        .stuck_after(Some(Duration::from_millis(1)))
        .on_stall(move |_| {
            if reported.0.load(Ordering::SeqCst) == 0 {
                reported.make();
            }
        })
        .build()
        .expect("a worker");
    let ran = Shared::new(TASKS);
    let long = runtime.spawn_job(|| std::thread::sleep(Duration::from_millis(20)));
    let jobs: Vec<_> = (0..TASKS)
        .map(|n| runtime.spawn_job(move || ran.count(n)))
        .collect();
    assert_eq!(end_of(child.get()), RETURNED);
    long.wait().expect("no panic");
    jobs.into_iter().for_each(|job| job.wait().expect("no panic"));
    assert_eq!(ran.all(), [1; TASKS]);
}

/// Counts when it is dropped, and forks if it is told to.
struct Dropped(Shared, usize, Option<Arc<Child>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.count(self.1);
        if let Some(child) = &self.2 {
            child.make();
        }
    }
}

/// The runtime ends, and drops what has not run: one of those forks. Each other one is dropped once, in the
/// parent.
#[test]
fn a_destructor_forks_while_the_pool_ends() {
    for round in 0..4 * ROUNDS {
        let runtime = Runtime::builder()
            .workers(1 + round % 2)
            .max_blocking_threads(1)
            .build();
        let runtime = runtime.expect("a worker");
        let (dropped, child) = (Shared::new(TASKS), Arc::new(Child::default()));
        let forks = round * 7 % TASKS;
        let asleep = Shared::new(1);
        for n in 0..TASKS {
            let it = Dropped(dropped, n, (n == forks).then(|| Arc::clone(&child)));
            match round % 4 {
                0 => runtime
                    .spawn(async move {
                        let _it = it;
                        asleep.count(0);
                        std::future::pending::<()>().await;
                    })
                    .detach(),
                1 => runtime
                    .spawn_fiber(move || {
                        let _it = it;
                        asleep.count(0);
                        fiber::wait(std::future::pending::<()>());
                    })
                    .detach(),
                2 => runtime
                    .spawn(spawn_blocking(move || {
                        asleep.count(0);
                        std::thread::sleep(Duration::from_micros(100));
                        drop(it);
                    }))
                    .detach(),
                _ => runtime
                    .spawn_job(move || {
                        asleep.count(0);
                        std::thread::sleep(Duration::from_micros(100));
                        drop(it);
                    })
                    .detach(),
            }
        }
        // Pending tasks that nobody can wake end at once; the others are to wait.
        while asleep.get(0) == 0 {
            std::thread::yield_now();
        }
        drop(runtime);
        assert_eq!(end_of(child.get()), RETURNED, "round {round}");
        // A closure that blocks may end a moment after the runtime.
        for _ in 0..1000 {
            if !dropped.all().contains(&0) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(dropped.all(), [1; TASKS], "round {round}");
    }
}

/// A task waits for a place in a pool that closes. Its waker forks while the pool begins to close.
#[test]
fn a_waker_that_forks_while_a_pool_closes_starts_no_thread_in_the_child() {
    struct ForksWhenWoken(Child);
    impl Wake for ForksWhenWoken {
        fn wake(self: Arc<Self>) {
            if self.0.0.load(Ordering::SeqCst) == 0 {
                self.0.make();
            }
        }
    }
    let runtime = Runtime::builder().workers(1).capacity(1).build();
    let runtime = runtime.expect("a worker");
    let first = TaskBuilder::new().on(&runtime);
    let sleeps = first.spawn_with_permit(time::sleep(Duration::from_millis(50)));
    runtime.block_on(sleeps).expect("there is a place").detach();
    let waker = Arc::new(ForksWhenWoken(Child::default()));
    let mut waits = Box::pin(TaskBuilder::new().on(&runtime).spawn_with_permit(async {}));
    let wakes = Waker::from(Arc::clone(&waker));
    assert!(waits.as_mut().poll(&mut Context::from_waker(&wakes)).is_pending());
    let parent = std::process::id();
    runtime.shutdown();
    if std::process::id() != parent {
        // A thread that polled would end this process, when the timer fires.
        std::thread::sleep(Duration::from_millis(100));
        let threads = std::fs::read_dir("/proc/self/task").expect("procfs").count();
        // SAFETY: it takes a number, and ends the process.
        unsafe { libc::_exit(if threads == 1 { 7 } else { 8 }) };
    }
    assert_eq!(end_of(waker.0.get()), End::Status(7));
}
