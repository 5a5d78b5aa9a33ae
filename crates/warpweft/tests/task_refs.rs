//! What a policy in safe code may do with the task references that it is given: keep them, lose them, and
//! hand out those of others.
//!
//! Freed memory is overwritten in this binary, so that a use of it does not pass unnoticed.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

#[path = "support/in_time.rs"]
mod in_time;

use in_time::in_time;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::policy::{Count, Cx, PolicyError, PoolEnv, TaskRef, Waiting, Wake, Why};
use warpweft::{Fifo, JoinError, JoinHandle, Policy, Runtime, SpawnError};

/// The system's allocator. It overwrites what is freed, and counts what is not.
struct Overwriting;

static BYTES: AtomicIsize = AtomicIsize::new(0);

// SAFETY: everything is left to the system's allocator; the memory that is overwritten is about to be freed.
unsafe impl GlobalAlloc for Overwriting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        for offset in 0..layout.size() {
            // SAFETY: the block is of this size.
            let byte = unsafe { place.add(offset) };
            // Volatile: the compiler knows that nothing reads what is about to be freed.
            // SAFETY: by the caller's promise the block is not used any more.
            unsafe { byte.write_volatile(0xDD) };
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static OVERWRITING: Overwriting = Overwriting;

/// What takes milliseconds is not waited for any longer.
const LONG: Duration = Duration::from_secs(20);

/// One test at a time: the bytes are those of the whole process.
fn one_test_at_a_time() -> std::sync::MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Where a policy puts references that it does not hand out.
type Stash = Arc<Mutex<Vec<TaskRef>>>;

/// One locked queue. While `stashes` is set it puts what is pushed into a stash that outlives the pool.
#[derive(Clone, Default)]
struct Keeper {
    stashes: Arc<AtomicBool>,
    stash: Stash,
    queue: Stash,
}

impl Keeper {
    fn queue(&self) -> Vec<TaskRef> {
        std::mem::take(&mut *self.queue.lock().expect("not poisoned"))
    }

    fn stash(&self) -> Vec<TaskRef> {
        std::mem::take(&mut *self.stash.lock().expect("not poisoned"))
    }

    fn pop(&self) -> Option<TaskRef> {
        self.queue.lock().expect("not poisoned").pop()
    }
}

impl Policy for Keeper {
    type Shared = Self;
    type Local = ();

    fn build(&self, env: &PoolEnv) -> Result<(Self, Vec<()>), PolicyError> {
        Ok((self.clone(), vec![(); env.workers]))
    }

    fn push(shared: &Self, _: Option<&mut ()>, task: TaskRef, _: Why, cx: &Cx<'_>) -> Wake {
        // What it counts here is not counted: otherwise the pool would think that it had its tasks back.
        cx.count(Count::Ran, 1);
        let to = if shared.stashes.load(Ordering::SeqCst) {
            &shared.stash
        } else {
            &shared.queue
        };
        to.lock().expect("not poisoned").push(task);
        Wake::Any
    }

    fn suspended(_: &Self, (): &mut (), mut task: Waiting<'_>, cx: &Cx<'_>) {
        cx.count(Count::Evicted, 7);
        task.set_policy_word(u64::MAX);
    }

    fn next(shared: &Self, (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        shared.pop()
    }

    fn scan(shared: &Self, (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        shared.pop()
    }
}

fn build(workers: usize, policy: impl Policy) -> Runtime {
    let built = Runtime::builder().workers(workers).policy(policy).build();
    built.expect("a runtime")
}

/// A task that has slept once, and whose reference its policy keeps then; with its joiner, and what wakes it.
fn a_sleeper(
    runtime: &Runtime,
) -> (
    JoinHandle<()>,
    std::sync::mpsc::Sender<()>,
    thread::JoinHandle<()>,
) {
    let (wake, woken) = channel::<()>();
    let (asleep, sleeps) = channel();
    let task = runtime.spawn(async move {
        let mut polled = false;
        std::future::poll_fn(|cx| {
            if std::mem::replace(&mut polled, true) {
                return std::task::Poll::Ready(());
            }
            asleep.send(cx.waker().clone()).expect("the test listens");
            std::task::Poll::Pending
        })
        .await;
    });
    let waker = sleeps.recv().expect("it runs");
    let ringer = thread::spawn(move || {
        let _ = woken.recv();
        waker.wake();
    });
    (task, wake, ringer)
}

#[test]
fn task_refs_outlive_their_pool() {
    let _guard = one_test_at_a_time();
    in_time(|| {
        for workers in [1, 2, 4] {
            for _ in 0..20 {
                let policy = Keeper::default();
                let runtime = build(workers, policy.clone());
                let (sleeper, wake, ringer) = a_sleeper(&runtime);
                policy.stashes.store(true, Ordering::SeqCst);
                let fresh: Vec<_> = (0..3).map(|n| runtime.spawn_job(move || n)).collect();
                wake.send(()).expect("it listens");
                ringer.join().expect("no panic");
                let from_within = runtime.first().clone();
                drop(runtime);
                let fault = from_within.fault().map(str::to_owned);
                let fault = fault.expect("the pool says what its policy did");
                assert!(
                    fault.contains("Keeper") && fault.contains("kept 4 tasks"),
                    "{fault}"
                );
                drop(from_within);
                // The last handles to the pool are gone. Half of the runnables run on another thread.
                let mut refs = policy.stash();
                assert_eq!(refs.len(), 4);
                let half = refs.split_off(2);
                thread::spawn(move || drop(half)).join().expect("no panic");
                drop(refs);
                for task in fresh {
                    assert!(matches!(task.wait(), Err(JoinError::Shutdown)));
                }
                assert!(matches!(sleeper.wait(), Err(JoinError::Shutdown)));
            }
        }
    });
}

#[test]
fn a_pool_goes_with_the_last_task_ref() {
    let _guard = one_test_at_a_time();
    let left = || {
        let policy = Keeper::default();
        let runtime = build(2, policy.clone());
        policy.stashes.store(true, Ordering::SeqCst);
        for _ in 0..3 {
            runtime.spawn_job(|| ()).detach();
        }
        drop(runtime);
        drop(policy.stash());
    };
    // Whatever is made once is there.
    left();
    let before = BYTES.load(Ordering::Relaxed);
    for _ in 0..50 {
        left();
    }
    let more = BYTES.load(Ordering::Relaxed) - before;
    // One pool takes more than that.
    assert!(more < 50 * 2_000, "{more} bytes are left of 50 pools");
}

#[test]
fn task_refs_that_are_dropped_while_the_pool_is_open_are_cancelled() {
    let _guard = one_test_at_a_time();
    let policy = Keeper::default();
    let runtime = build(2, policy.clone());
    policy.stashes.store(true, Ordering::SeqCst);
    let tasks: Vec<_> = (0..10).map(|n| runtime.spawn_job(move || n)).collect();
    drop(policy.stash());
    for task in tasks {
        assert!(matches!(task.wait(), Err(JoinError::Dropped)));
    }
    let first = runtime.first().clone();
    drop(runtime);
    assert_eq!(first.fault(), None, "it has kept none");
}

#[test]
fn task_refs_that_are_dropped_while_the_pool_ends() {
    let _guard = one_test_at_a_time();
    for round in 0..200 {
        let policy = Keeper::default();
        let runtime = build(1 + round % 3, policy.clone());
        policy.stashes.store(true, Ordering::SeqCst);
        let tasks: Vec<_> = (0..4).map(|n| runtime.spawn_job(move || n)).collect();
        let mut refs = policy.stash();
        let last = refs.pop();
        let dropper = thread::spawn(move || refs.into_iter().for_each(drop));
        drop(runtime);
        drop(last);
        dropper.join().expect("no panic");
        for task in tasks {
            let error = task.wait().expect_err("it never ran");
            assert!(
                matches!(error, JoinError::Dropped | JoinError::Shutdown),
                "{error}"
            );
        }
    }
}

/// Two pools, whose policies hand out each other's tasks.
struct Swapped {
    own: Stash,
    others: Stash,
}

impl Policy for Swapped {
    type Shared = (Stash, Stash);
    type Local = ();

    fn build(&self, env: &PoolEnv) -> Result<(Self::Shared, Vec<()>), PolicyError> {
        Ok((
            (Arc::clone(&self.own), Arc::clone(&self.others)),
            vec![(); env.workers],
        ))
    }

    fn push(shared: &Self::Shared, _: Option<&mut ()>, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
        shared.0.lock().expect("not poisoned").push(task);
        Wake::Any
    }

    fn next(shared: &Self::Shared, (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        shared.1.lock().expect("not poisoned").pop()
    }

    fn scan(shared: &Self::Shared, local: &mut (), cx: &Cx<'_>) -> Option<TaskRef> {
        Self::next(shared, local, cx)
    }
}

#[test]
fn a_task_of_another_pool_is_refused_by_name() {
    let _guard = one_test_at_a_time();
    for workers in [1, 2, 4] {
        let stashes: [Stash; 2] = Default::default();
        let [first, second] = [0, 1].map(|own: usize| {
            let policy = Swapped {
                own: Arc::clone(&stashes[own]),
                others: Arc::clone(&stashes[1 - own]),
            };
            Runtime::builder()
                .name(["left", "right"][own])
                .workers(workers)
                .policy(policy)
                .build()
        });
        let (first, second) = (first.expect("a runtime"), second.expect("a runtime"));
        let tasks: Vec<_> = (0..10)
            .map(|n| [&first, &second][n % 2].spawn(async { warpweft::yield_now().await }))
            .collect();
        // Each wakes the other's workers until one of them has found a task that is not its own.
        let start = Instant::now();
        while first.first().fault().or(second.first().fault()).is_none() {
            assert!(start.elapsed() < LONG, "no pool refuses the other's tasks");
            for runtime in [&first, &second] {
                let _: Result<_, SpawnError> = runtime.try_spawn(async {}).map(JoinHandle::detach);
            }
        }
        let faults = [&first, &second].map(|runtime| runtime.first().fault().map(str::to_owned));
        let fault = faults.iter().flatten().next().expect("one of the two");
        assert!(
            fault.contains("Swapped") && fault.contains("another pool"),
            "{fault}"
        );
        assert!(fault.contains("`left`") || fault.contains("`right`"), "{fault}");
        drop((first, second));
        drop(stashes.map(|stash| std::mem::take(&mut *stash.lock().expect("not poisoned"))));
        for task in tasks {
            assert!(task.wait().is_err(), "no worker of its pool has run it");
        }
    }
}

/// What a policy evicts is its own.
struct Evicts(Keeper, Stash);

impl Policy for Evicts {
    type Shared = (Keeper, Stash);
    type Local = ();
    const INTERVAL: u32 = 1;

    fn build(&self, env: &PoolEnv) -> Result<(Self::Shared, Vec<()>), PolicyError> {
        Ok(((self.0.clone(), Arc::clone(&self.1)), vec![(); env.workers]))
    }

    fn push(shared: &Self::Shared, local: Option<&mut ()>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        Keeper::push(&shared.0, local, task, why, cx)
    }

    fn next(shared: &Self::Shared, (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        shared.0.pop()
    }

    fn scan(shared: &Self::Shared, (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        shared.0.pop()
    }

    fn evict(shared: &Self::Shared, (): &mut (), _: u64, _: &Cx<'_>) -> Vec<TaskRef> {
        std::mem::take(&mut *shared.1.lock().expect("not poisoned"))
    }
}

#[test]
fn a_task_of_another_pool_is_not_evicted() {
    let _guard = one_test_at_a_time();
    let keeper = Keeper::default();
    let owner = build(1, keeper.clone());
    keeper.stashes.store(true, Ordering::SeqCst);
    let theirs = owner.spawn_job(|| 1);
    let evicts = Evicts(Keeper::default(), Arc::new(Mutex::new(keeper.stash())));
    let runtime = build(1, evicts);
    // A cancellation, and tasks after which its worker handles it.
    let start = Instant::now();
    while runtime.first().fault().is_none() {
        assert!(
            start.elapsed() < LONG,
            "the pool does not refuse the other's task"
        );
        let task = runtime.spawn_job(|| ());
        task.cancel();
        let _: Result<(), JoinError> = task.wait();
    }
    assert!(matches!(theirs.wait(), Err(JoinError::Dropped)));
    assert_eq!(owner.first().fault(), None);
    keeper.stashes.store(false, Ordering::SeqCst);
    assert_eq!(owner.spawn_job(|| 2).wait().expect("its own pool goes on"), 2);
}

#[test]
fn a_pool_whose_hook_panics_says_so() {
    let _guard = one_test_at_a_time();
    struct Panics;
    impl Policy for Panics {
        type Shared = ();
        type Local = ();
        fn build(&self, env: &PoolEnv) -> Result<((), Vec<()>), PolicyError> {
            Ok(((), vec![(); env.workers]))
        }
        fn push((): &(), _: Option<&mut ()>, _: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
            panic!("by intent")
        }
        fn next((): &(), (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
            None
        }
        fn scan((): &(), (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
            None
        }
    }
    let runtime = build(1, Panics);
    // The hook drops its task as it unwinds, and the pool closes when it has. A worker that is awake may end
    // the task in between.
    assert!(matches!(
        runtime.spawn_job(|| ()).wait(),
        Err(JoinError::Shutdown | JoinError::Dropped)
    ));
    let fault = loop {
        match runtime.first().fault() {
            Some(fault) => break fault,
            None => thread::yield_now(),
        }
    };
    assert!(fault.contains("hook") && fault.contains("panicked"), "{fault}");
}

/// By the type: what a policy is given has no method that runs it, pushes it or ends it. An inherent
/// method would come before that of this trait.
#[test]
fn no_method_of_a_task_ref_runs_it() {
    let _guard = one_test_at_a_time();
    trait Absent: Sized {
        fn run(self) -> &'static str {
            "absent"
        }
        fn push(self, _: Why) -> &'static str {
            "absent"
        }
        fn abandon(self) -> &'static str {
            "absent"
        }
    }
    impl Absent for TaskRef {}
    fn name_of<T>(_: T) -> &'static str {
        std::any::type_name::<T>()
    }
    let policy = Keeper::default();
    let runtime = build(1, policy.clone());
    policy.stashes.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        runtime.spawn_job(|| ()).detach();
    }
    let mut refs = policy.stash().into_iter();
    let mut task = || refs.next().expect("three were kept");
    assert_eq!(name_of(task().run()), "&str");
    assert_eq!(name_of(task().push(Why::Woken)), "&str");
    assert_eq!(name_of(task().abandon()), "&str");
    drop(policy.queue());
}

#[test]
fn a_policy_that_keeps_nothing_is_not_blamed() {
    let _guard = one_test_at_a_time();
    for workers in [1, 2, 4] {
        let runtime = build(workers, Fifo::new());
        let tasks: Vec<_> = (0..500)
            .map(|_| {
                runtime.spawn(async {
                    warpweft::yield_now().await;
                    warpweft::spawn_job(|| warpweft::join(|| 1, || 2)).await
                })
            })
            .collect();
        for task in tasks.into_iter().take(100) {
            let _ = task.wait();
        }
        let _ = runtime.broadcast(|worker| worker);
        let fiber = runtime.spawn_fiber(|| warpweft::fiber::spawn_here(|| 1).wait());
        assert!(matches!(fiber.wait(), Ok(Ok(1))));
        let first = runtime.first().clone();
        drop(runtime);
        assert_eq!(first.fault(), None);
    }
}
