//! A task reference in the hands of a policy that does not give it back as it should.
#![forbid(unsafe_code)]

use crate::child::Ends;
use crate::keepers::{Hooks, Hostile, Queue, all_answer, eventually};
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use warpweft::policy::{Cx, TaskRef, Waiting, Wake, Why};
use warpweft::sync::Notify;
use warpweft::{JoinError, Runtime, yield_now};

/// Where a policy puts references.
type Stash = Mutex<Vec<TaskRef>>;

static KEPT: Stash = Mutex::new(Vec::new());

/// Puts every second task that is pushed for a reason of `why` into a stash.
struct Keeps<S: AsRef<Stash> + Send + Sync + 'static> {
    stash: S,
    why: &'static [Why],
    seen: AtomicUsize,
}

/// The static stash, as a reference that a policy can hold.
#[derive(Clone, Copy)]
struct InStatic;

impl AsRef<Stash> for InStatic {
    fn as_ref(&self) -> &Stash {
        &KEPT
    }
}

impl<S: AsRef<Stash> + Send + Sync + 'static> Hooks for Keeps<S> {
    fn push(&self, queue: &Queue, task: TaskRef, why: Why, _: &Cx<'_>) -> Wake {
        if self.why.contains(&why) && self.seen.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            self.stash.as_ref().lock().expect("a lock").push(task);
            return Wake::None;
        }
        queue.push(task);
        Wake::Any
    }
}

const FROM_OUTSIDE: &[Why] = &[Why::Injected, Why::Spawned];
const WOKEN: &[Why] = &[Why::Woken, Why::Yielded];

fn keeping<S: AsRef<Stash> + Send + Sync + 'static>(stash: S, why: &'static [Why]) -> Hostile<Keeps<S>> {
    let hooks = Keeps {
        stash,
        why,
        seen: AtomicUsize::new(0),
    };
    Hostile::new(hooks).0
}

/// An owned stash.
#[derive(Clone, Default)]
struct Owned(Arc<Stash>);

impl AsRef<Stash> for Owned {
    fn as_ref(&self) -> &Stash {
        &self.0
    }
}

/// Tries: references in a static, dropped after their pool is gone.
/// Expected: their joiners are told, and no freed memory is read.
#[test]
fn task_refs_in_a_static_outlive_their_pool() {
    program!(|world| {
        let runtime = world
            .builder()
            .policy(keeping(InStatic, FROM_OUTSIDE))
            .build()
            .expect("a runtime");
        let handles: Vec<_> = (0..20).map(|_| runtime.spawn_job(|| ())).collect();
        drop(runtime);
        let kept = std::mem::take(&mut *KEPT.lock().expect("a lock"));
        assert_eq!(kept.len(), 10);
        drop(kept);
        let answers = all_answer(handles);
        assert!(answers.dropped + answers.shutdown >= 10, "{answers:?}");
    });
}

/// A policy with a name that is looked for in a message.
struct Hoarder(Owned);

impl Hooks for Hoarder {
    fn push(&self, _: &Queue, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
        self.0.as_ref().lock().expect("a lock").push(task);
        Wake::None
    }
}

/// Tries: a policy that still has references when its pool ends.
/// Expected: the end says so, and names the policy.
#[test]
fn the_end_of_a_pool_names_the_policy_that_keeps_task_refs() {
    program!(Ends::Saying("Hoarder"), |world| {
        let stash = Owned::default();
        let runtime = world
            .builder()
            .policy(Hostile::new(Hoarder(stash.clone())).0)
            .build();
        let runtime = runtime.expect("a runtime");
        let handles: Vec<_> = (0..3).map(|_| runtime.spawn_job(|| ())).collect();
        drop(runtime);
        stash.0.lock().expect("a lock").clear();
        all_answer(handles);
    });
}

/// Tries: references of tasks that have slept, kept in a static when the pool ends.
/// Expected: the pool ends all the same, and the joiners are told when the references go.
#[test]
fn task_refs_of_tasks_that_have_slept_do_not_keep_a_pool_from_ending() {
    program!(|world| {
        let stash = Owned::default();
        let runtime = world
            .builder()
            .policy(keeping(stash.clone(), WOKEN))
            .build()
            .expect("a runtime");
        let wakeup = Arc::new(Notify::new());
        let handles: Vec<_> = (0..20)
            .map(|_| {
                let wakeup = Arc::clone(&wakeup);
                runtime.spawn(async move { wakeup.notified().await })
            })
            .collect();
        let asleep = || {
            runtime
                .counters()
                .total()
                .get(warpweft::policy::Count::Suspensions)
                >= 20
        };
        eventually("all sleep", asleep);
        wakeup.notify_all();
        eventually("half are kept", || stash.0.lock().expect("a lock").len() >= 10);
        drop(runtime);
        stash.0.lock().expect("a lock").clear();
        let answers = all_answer(handles);
        assert_eq!(answers.all(), 20);
    });
}

/// Tries: references that another thread drops while the runtime ends.
/// Expected: each joiner gets a result, whichever thread is faster.
#[test]
fn task_refs_dropped_by_another_thread_while_the_pool_ends() {
    program!(|world| {
        for round in 0..world.count(60) {
            let stash = Owned::default();
            let why = if round % 2 == 0 { FROM_OUTSIDE } else { WOKEN };
            let runtime = world
                .builder()
                .policy(keeping(stash.clone(), why))
                .build()
                .expect("a runtime");
            let handles: Vec<_> = (0..20)
                .map(|_| {
                    runtime.spawn(async {
                        yield_now().await;
                        yield_now().await;
                    })
                })
                .collect();
            let dropper = thread::spawn(move || {
                for _ in 0..100 {
                    let taken = stash.0.lock().expect("a lock").pop();
                    drop(taken);
                    thread::yield_now();
                }
                thread::sleep(std::time::Duration::from_millis(2));
                stash
            });
            drop(runtime);
            let stash = dropper.join().expect("no panic");
            stash.0.lock().expect("a lock").clear();
            assert_eq!(all_answer(handles).all(), 20);
        }
    });
}

/// Tries: references in the `Shared` and in a `Local`-like queue of the policy, dropped with them at the end.
/// Expected: `Dropped` or `Shutdown` for each.
#[test]
fn task_refs_that_go_with_the_policys_state() {
    struct Buries;
    impl Hooks for Buries {
        fn is_fast_path(&self, _: Why) -> bool {
            true
        }
        fn push_local(&self, queue: &Queue, task: TaskRef) -> Result<(), TaskRef> {
            queue.push(task);
            Ok(())
        }
        fn next(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
            // The first one, which spawns the others.
            queue.pop()
        }
    }
    program!(|world| {
        for _ in 0..world.count(20) {
            let runtime = world
                .builder()
                .policy(Hostile::new(Buries).0)
                .build()
                .expect("a runtime");
            let inside = runtime.spawn_job(|| {
                let spawn = |_| warpweft::spawn(async { yield_now().await });
                (0..50).map(spawn).collect::<Vec<_>>()
            });
            let handles = inside.wait().expect("no panic");
            let outside: Vec<_> = (0..50).map(|_| runtime.spawn_job(|| ())).collect();
            drop(runtime);
            assert_eq!(all_answer(handles).all(), 50);
            assert_eq!(all_answer(outside).all(), 50);
        }
    });
}

/// Tries: references that a thread-local destructor drops, on a thread that ends after the pool.
/// Expected: each joiner gets a result.
#[test]
fn task_refs_dropped_by_a_thread_local_destructor() {
    thread_local!(static KEPT_HERE: RefCell<Vec<TaskRef>> = const { RefCell::new(Vec::new()) });
    struct InThreadLocal;
    impl Hooks for InThreadLocal {
        fn push(&self, _: &Queue, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
            KEPT_HERE.with(|kept| kept.borrow_mut().push(task));
            Wake::None
        }
    }
    program!(|world| {
        let runtime = world
            .builder()
            .policy(Hostile::new(InThreadLocal).0)
            .build()
            .expect("a runtime");
        let runtime = Arc::new(runtime);
        let spawner = Arc::clone(&runtime);
        let (sender, handles) = std::sync::mpsc::channel();
        let (go, gate) = std::sync::mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            for _ in 0..10 {
                sender.send(spawner.spawn_job(|| ())).expect("a receiver");
            }
            drop((sender, spawner));
            let _ = gate.recv();
        });
        let handles: Vec<_> = handles.iter().collect();
        drop(runtime);
        drop(go);
        thread.join().expect("no panic");
        assert_eq!(all_answer(handles).all(), 10);
    });
}

/// Tries: `mem::forget` of references, of tasks that have slept and of others.
/// Expected: the runtime ends; the handles say that their tasks have not ended.
#[test]
fn forgotten_task_refs_are_leaked_and_nothing_hangs() {
    struct Forgets(AtomicUsize);
    impl Hooks for Forgets {
        fn push(&self, queue: &Queue, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
            match self.0.fetch_add(1, Ordering::Relaxed) % 4 {
                3 => std::mem::forget(task),
                _ => queue.push(task),
            }
            Wake::Any
        }
    }
    program!(|world| {
        let runtime = world
            .builder()
            .policy(Hostile::new(Forgets(AtomicUsize::new(0))).0)
            .build();
        let runtime = runtime.expect("a runtime");
        let handles: Vec<_> = (0..100)
            .map(|_| runtime.spawn(async { yield_now().await }))
            .collect();
        eventually("most end", || {
            handles.iter().filter(|handle| handle.is_finished()).count() >= 30
        });
        drop(runtime);
        let unfinished = handles.iter().filter(|handle| !handle.is_finished()).count();
        assert!(unfinished > 0, "some references were forgotten");
        for handle in &handles {
            handle.cancel();
        }
        drop(handles);
    });
}

/// Tries: references in reference cycles, of which one holds the pool's own future.
/// Expected: a leak, and an end.
#[test]
fn task_refs_in_cycles() {
    program!(|world| {
        let stash = Owned::default();
        let runtime = world
            .builder()
            .policy(keeping(stash.clone(), FROM_OUTSIDE))
            .build()
            .expect("a runtime");
        // The task holds the stash that holds its reference.
        let inside = stash.clone();
        let handle = runtime.spawn(async move {
            yield_now().await;
            inside.0.lock().expect("a lock").len()
        });
        assert_eq!(stash.0.lock().expect("a lock").len(), 1);
        drop(stash);
        drop(runtime);
        assert!(!handle.is_finished());
        drop(handle);
    });
}

/// Tries: wakers of a task whose reference the policy has kept, called after the pool is gone.
/// Expected: nothing happens.
#[test]
fn wakers_of_a_kept_task_are_called_after_the_end() {
    program!(|world| {
        let stash = Owned::default();
        let runtime = world
            .builder()
            .policy(keeping(stash.clone(), WOKEN))
            .build()
            .expect("a runtime");
        let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
        let handles: Vec<_> = (0..20)
            .map(|_| {
                let wakers = Arc::clone(&wakers);
                let mut polls = 0;
                runtime.spawn(std::future::poll_fn(move |cx| {
                    polls += 1;
                    wakers.lock().expect("a lock").push(cx.waker().clone());
                    if polls < 3 { Poll::Pending } else { Poll::Ready(()) }
                }))
            })
            .collect();
        eventually("all have been polled", || {
            wakers.lock().expect("a lock").len() >= 20
        });
        wakers.lock().expect("a lock").iter().for_each(Waker::wake_by_ref);
        eventually("some are kept", || stash.0.lock().expect("a lock").len() >= 5);
        drop(runtime);
        let late = std::mem::take(&mut *wakers.lock().expect("a lock"));
        let late: Vec<_> = late
            .into_iter()
            .flat_map(|waker| [waker.clone(), waker])
            .collect();
        thread::spawn(move || late.into_iter().for_each(Waker::wake))
            .join()
            .expect("no panic");
        stash.0.lock().expect("a lock").clear();
        assert_eq!(all_answer(handles).all(), 20);
    });
}

/// Tries: a policy that drops references in each hook in which it can.
/// Expected: the joiners are told `Dropped`, and no other task is lost.
#[test]
fn task_refs_dropped_inside_of_hooks() {
    struct Drops(&'static str, AtomicUsize);
    impl Drops {
        fn drops(&self, hook: &str) -> bool {
            hook == self.0 && self.1.fetch_add(1, Ordering::Relaxed) % 3 == 2
        }
        fn pop(&self, hook: &str, queue: &Queue) -> Option<TaskRef> {
            let task = queue.pop()?;
            if !self.drops(hook) {
                return Some(task);
            }
            drop(task);
            queue.pop()
        }
    }
    impl Hooks for Drops {
        const INTERVAL: u32 = 2;
        fn push(&self, queue: &Queue, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
            if !self.drops("push") {
                queue.push(task);
            }
            Wake::Any
        }
        fn next(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
            self.pop("next", queue)
        }
        fn poll_global(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
            self.pop("poll_global", queue)
        }
        fn scan(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
            self.pop("scan", queue)
        }
        fn evict(&self, queue: &Queue) -> Vec<TaskRef> {
            drop(self.pop("evict", queue));
            Vec::new()
        }
        fn suspended(&self, task: Waiting<'_>) {
            assert!(task.policy_word() < u64::MAX);
        }
    }
    program!(|world| {
        for hook in ["push", "next", "poll_global", "scan", "evict"] {
            let runtime = world
                .builder()
                .policy(Hostile::new(Drops(hook, AtomicUsize::new(0))).0)
                .build();
            let runtime = runtime.expect("a runtime");
            let handles: Vec<_> = (0..world.count(300))
                .map(|n| {
                    let handle = runtime.spawn(async { yield_now().await });
                    if hook == "evict" && n % 7 == 0 {
                        handle.cancel();
                    }
                    handle
                })
                .collect();
            let spawned = handles.len();
            let answers = all_answer(handles);
            assert_eq!(answers.all(), spawned, "{hook}: {answers:?}");
            assert_eq!(answers.shutdown + answers.panicked, 0, "{hook}: {answers:?}");
        }
    });
}

/// Tries: a `push_local` that gives back another task than it was given, or keeps both.
/// Expected: each task runs once.
#[test]
fn a_short_way_that_gives_back_another_task() {
    struct Swaps(Mutex<Option<TaskRef>>);
    impl Hooks for Swaps {
        fn is_fast_path(&self, _: Why) -> bool {
            true
        }
        fn push_local(&self, _: &Queue, task: TaskRef) -> Result<(), TaskRef> {
            match self.0.lock().expect("a lock").replace(task) {
                Some(other) => Err(other),
                None => Ok(()),
            }
        }
        fn scan(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
            queue.pop().or_else(|| self.0.lock().expect("a lock").take())
        }
    }
    program!(|world| {
        let runtime = world
            .builder()
            .policy(Hostile::new(Swaps(Mutex::new(None))).0)
            .build();
        let runtime = runtime.expect("a runtime");
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let outer = runtime.spawn(async move {
            let mut handles = Vec::new();
            for _ in 0..1000 {
                let runs = Arc::clone(&counted);
                handles.push(warpweft::spawn(async move {
                    yield_now().await;
                    runs.fetch_add(1, Ordering::Relaxed);
                }));
            }
            for handle in handles {
                handle.await.expect("each runs");
            }
        });
        outer.wait().expect("no panic");
        assert_eq!(runs.load(Ordering::Relaxed), 1000);
    });
}

/// Tries: references of cancelled tasks that are kept, looked at and dropped late, while their handles ask
/// again.
/// Expected: the joiners are told; `is_cancelled` and `info` answer.
#[test]
fn task_refs_of_cancelled_tasks() {
    program!(|world| {
        let stash = Owned::default();
        let runtime = world
            .builder()
            .policy(keeping(stash.clone(), FROM_OUTSIDE))
            .build()
            .expect("a runtime");
        let handles: Vec<_> = (0..40)
            .map(|_| runtime.spawn(async { yield_now().await }))
            .collect();
        for handle in &handles {
            handle.cancel();
            handle.cancel();
        }
        let kept = std::mem::take(&mut *stash.0.lock().expect("a lock"));
        for (n, mut task) in kept.into_iter().enumerate() {
            assert!(task.is_cancelled());
            assert!(task.info().name().is_none());
            assert!(task.info().location().file().ends_with("task_refs.rs"));
            task.set_policy_word(u64::MAX - n as u64);
            assert_eq!(task.waiting().policy_word(), u64::MAX - n as u64);
            if n % 2 == 0 {
                thread::spawn(move || drop(task)).join().expect("no panic");
            }
        }
        for handle in handles {
            assert!(matches!(
                handle.wait(),
                Err(JoinError::Cancelled | JoinError::Dropped)
            ));
        }
        assert!(!runtime.spawn_job(|| ()).is_finished());
        Runtime::shutdown(&runtime);
    });
}
