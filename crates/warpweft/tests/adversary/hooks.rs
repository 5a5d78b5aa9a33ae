//! Hooks of a policy that panic, lie, change their answers or call back into the runtime.
#![forbid(unsafe_code)]

use crate::acts::{Act, Acts, acting, work};
use crate::keepers::{ALL, Hooks, Hostile, Queue, all_answer, eventually};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;
use warpweft::policy::{Count, Cx, TaskRef, Waiting, Wake, Why, WorkerId};
use warpweft::{JoinError, Pool, Runtime, fiber, spawn_job, yield_now};

/// Panics in one hook, in the call of that number.
struct Panics {
    hook: &'static str,
    calls: AtomicUsize,
    at: usize,
    armed: AtomicBool,
}

impl Act for Panics {
    fn act(&self, hook: &'static str) {
        if hook == self.hook && self.armed.load(Ordering::Relaxed) {
            let call = self.calls.fetch_add(1, Ordering::Relaxed);
            assert_ne!(call, self.at, "the policy's {hook} panics");
        }
    }
}

/// Tries: each hook panics, in an early or a late call, with tasks of all kinds.
/// Expected: the pool closes, each joiner gets a result, nothing hangs.
#[test]
fn each_hook_panics() {
    program!(|world| {
        for hook in ALL {
            for at in [0, 5] {
                let panics = Panics {
                    hook,
                    calls: AtomicUsize::new(0),
                    at,
                    armed: AtomicBool::new(false),
                };
                let (runtime, hooks) = acting(world, panics);
                hooks.0.armed.store(true, Ordering::Relaxed);
                work(world, &runtime);
                drop(runtime);
            }
        }
    });
}

/// Dumps its pool in each hook.
struct Dumps {
    pool: Mutex<Option<Pool>>,
    dumps: AtomicUsize,
}

impl Act for Dumps {
    fn act(&self, _hook: &'static str) {
        let pool = self.pool.lock().expect("no panic").clone();
        if let Some(pool) = pool.filter(|_| self.dumps.fetch_add(1, Ordering::Relaxed).is_multiple_of(7)) {
            assert_eq!(pool.dump().pools.len(), 1);
        }
    }
}

/// Tries: hooks dump the pool that they belong to. Expected: they get a dump, and nothing hangs.
#[test]
fn hooks_dump_their_pool() {
    program!(|world| {
        let dumps = Dumps {
            pool: Mutex::new(None),
            dumps: AtomicUsize::new(0),
        };
        let (runtime, hooks) = acting(world, dumps);
        *hooks.0.pool.lock().expect("no panic") = Some(runtime.first().clone());
        work(world, &runtime);
        *hooks.0.pool.lock().expect("no panic") = None;
        assert_ne!(hooks.0.dumps.load(Ordering::Relaxed), 0);
        drop(runtime);
    });
}

/// Tries: `is_fast_path` panics while the pool is built. Expected: the panic comes out of `build`; a later
/// build works.
#[test]
fn keeps_panics_while_the_pool_is_built() {
    program!(|world| {
        let panics = Panics {
            hook: "is_fast_path",
            calls: AtomicUsize::new(0),
            at: 0,
            armed: AtomicBool::new(true),
        };
        let builder = world.builder().policy(Hostile::new(Acts(panics)).0);
        let built = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| builder.build()));
        assert!(built.is_err(), "the panic is the builder's");
        assert_eq!(world.runtime().spawn_job(|| 7).wait().expect("no panic"), 7);
    });
}

/// Tries: hooks that spawn tasks of their pool and of another one, and that ask for counters, threads and
/// names. Expected: all of these tasks run.
#[test]
fn hooks_spawn_and_ask() {
    struct Spawns(Mutex<Option<Arc<Runtime>>>, AtomicUsize, Arc<AtomicUsize>);
    impl Act for Spawns {
        fn act(&self, hook: &'static str) {
            if !self.1.fetch_add(1, Ordering::Relaxed).is_multiple_of(8) || hook == "push" {
                return;
            }
            let other = self.0.lock().expect("a lock").clone();
            let Some(other) = other else { return };
            let ran = Arc::clone(&self.2);
            other
                .spawn_job(move || ran.fetch_add(1, Ordering::Relaxed))
                .detach();
            if self.1.load(Ordering::Relaxed) < 1000 {
                spawn_job(|| ()).detach();
                fiber::spawn(|| ()).detach();
            }
            let here = Pool::current();
            if let Some(pool) = here {
                let _ = (
                    pool.counters(),
                    pool.threads(),
                    pool.idle_workers(),
                    pool.stalls(),
                    pool.is_here(),
                );
            }
            let _ = (other.counters(), other.fibers(), format!("{other:?}"));
        }
    }
    program!(|world| {
        let other = Arc::new(world.runtime());
        let ran = Arc::new(AtomicUsize::new(0));
        let spawns = Spawns(
            Mutex::new(Some(Arc::clone(&other))),
            AtomicUsize::new(0),
            Arc::clone(&ran),
        );
        let (runtime, hooks) = acting(world, spawns);
        work(world, &runtime);
        drop(runtime);
        hooks.0.0.lock().expect("a lock").take();
        eventually("hooks have spawned", || ran.load(Ordering::Relaxed) > 0);
    });
}

/// Tries: hooks that wake sleeping tasks of their pool, by value and by reference, and drop the last
/// waker of one. Expected: the tasks end.
#[test]
fn hooks_wake_again() {
    struct Wakes(Arc<Mutex<Vec<Waker>>>, AtomicUsize);
    impl Act for Wakes {
        fn act(&self, _: &'static str) {
            let wakers = std::mem::take(&mut *self.0.lock().expect("a lock"));
            for waker in wakers {
                match self.1.fetch_add(1, Ordering::Relaxed) % 3 {
                    0 => waker.wake_by_ref(),
                    1 => waker.wake_by_ref(),
                    _ => {
                        waker.wake_by_ref();
                        drop(waker);
                    }
                }
            }
        }
    }
    program!(|world| {
        let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
        let (runtime, _) = acting(world, Wakes(Arc::clone(&wakers), AtomicUsize::new(0)));
        let handles: Vec<_> = (0..20)
            .map(|_| {
                let wakers = Arc::clone(&wakers);
                let mut polls = 0;
                runtime.spawn(std::future::poll_fn(move |cx| {
                    polls += 1;
                    wakers.lock().expect("a lock").push(cx.waker().clone());
                    if polls < 10 {
                        Poll::Pending
                    } else {
                        Poll::Ready(())
                    }
                }))
            })
            .collect();
        // Each spawn calls a hook, so that no waker waits for a hook that does not come.
        eventually("all end", || {
            runtime.spawn_job(|| ()).detach();
            handles.iter().all(warpweft::JoinHandle::is_finished)
        });
        assert_eq!(all_answer(handles).done, 20);
    });
}

/// Tries: answers about which worker to wake that are wrong: a worker that is not there, and no worker at
/// all. Expected: with a worker that is not there every task runs; with no worker the pool may stall, but it
/// ends.
#[test]
fn wrong_answers_about_whom_to_wake() {
    struct Wakes(Wake);
    impl Hooks for Wakes {
        fn push(&self, queue: &Queue, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
            queue.push(task);
            self.0
        }
    }
    program!(|world| {
        for worker in [usize::MAX, 4096, world.workers, usize::MAX / 2 + 1] {
            let wakes = Wakes(Wake::Worker(WorkerId(worker)));
            let runtime = world
                .builder()
                .policy(Hostile::new(wakes).0)
                .build()
                .expect("a runtime");
            work(world, &runtime);
        }
        let runtime = world
            .builder()
            .policy(Hostile::new(Wakes(Wake::None)).0)
            .build()
            .expect("a runtime");
        let handles: Vec<_> = (0..100)
            .map(|_| runtime.spawn(async { yield_now().await }))
            .collect();
        drop(runtime);
        assert_eq!(all_answer(handles).all(), 100);
    });
}

/// Tries: `is_fast_path` and `watches_waits` that answer at random. Expected: every task runs.
#[test]
fn answers_that_change() {
    struct Changes(AtomicUsize);
    impl Changes {
        fn coin(&self) -> bool {
            self.0.fetch_add(0x9e37_79b9, Ordering::Relaxed) & 0x80 != 0
        }
    }
    impl Hooks for Changes {
        fn is_fast_path(&self, _: Why) -> bool {
            self.coin()
        }
        fn watches_waits(&self) -> bool {
            self.coin()
        }
        fn is_only_ready(&self) -> bool {
            self.coin()
        }
        fn push_local(&self, queue: &Queue, task: TaskRef) -> Result<(), TaskRef> {
            if self.coin() {
                queue.push(task);
                Ok(())
            } else {
                Err(task)
            }
        }
    }
    program!(|world| {
        for seed in 0..8 {
            let runtime = world
                .builder()
                .policy(Hostile::new(Changes(AtomicUsize::new(seed * 77))).0);
            work(world, &runtime.build().expect("a runtime"));
        }
    });
}

/// Tries: `evict` that gives back tasks that were not cancelled. Expected: they end; their joiners are
/// told, and not `Ok`.
#[test]
fn evict_gives_back_tasks_that_were_not_cancelled() {
    struct Evicts;
    impl Hooks for Evicts {
        const INTERVAL: u32 = 1;
        fn evict(&self, queue: &Queue) -> Vec<TaskRef> {
            std::iter::from_fn(|| queue.pop()).collect()
        }
    }
    program!(|world| {
        let runtime = world
            .builder()
            .policy(Hostile::new(Evicts).0)
            .build()
            .expect("a runtime");
        for _ in 0..world.count(50) {
            let ran = Arc::new(AtomicUsize::new(0));
            let handles: Vec<_> = (0..20)
                .map(|n| {
                    let ran = Arc::clone(&ran);
                    let handle = runtime.spawn_job(move || {
                        ran.fetch_add(1, Ordering::Relaxed);
                    });
                    if n == 7 {
                        handle.cancel();
                    }
                    handle
                })
                .collect();
            let answers = all_answer(handles);
            assert_eq!(answers.all(), 20);
            let ran = ran.load(Ordering::Relaxed);
            // The one that was cancelled may have run, and does not say `Ok`.
            assert!(
                (answers.done..=answers.done + 1).contains(&ran),
                "who says `Ok` has run"
            );
        }
    });
}

/// Tries: `scan` and `search` that see nothing although there are tasks.
/// Expected: the pool may stall, but at its end each joiner gets a result.
#[test]
fn a_scan_that_lies() {
    struct Lies;
    impl Hooks for Lies {
        fn next(&self, _: &Queue, cx: &Cx<'_>) -> Option<TaskRef> {
            cx.pause();
            None
        }
        fn search(&self, _: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
            None
        }
        fn scan(&self, _: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
            None
        }
    }
    program!(|world| {
        let runtime = world
            .builder()
            .policy(Hostile::new(Lies).0)
            .build()
            .expect("a runtime");
        let handles: Vec<_> = (0..100).map(|_| runtime.spawn_job(|| ())).collect();
        let fibers: Vec<_> = (0..10).map(|_| runtime.spawn_fiber(|| ())).collect();
        assert_eq!(
            runtime.broadcast(|worker| worker).expect("workers").len(),
            world.workers
        );
        drop(runtime);
        assert_eq!(all_answer(handles).shutdown, 100);
        assert_eq!(all_answer(fibers).shutdown, 10);
    });
}

/// Tries: a policy that claims to be alone, so that yields return at once, with tasks that yield for others.
/// Expected: the runtime ends.
#[test]
fn a_policy_that_says_it_is_alone() {
    struct Alone;
    impl Hooks for Alone {
        fn is_only_ready(&self) -> bool {
            true
        }
    }
    program!(|world| {
        let runtime = world
            .builder()
            .policy(Hostile::new(Alone).0)
            .build()
            .expect("a runtime");
        let spinner = runtime.spawn(async {
            loop {
                yield_now().await;
            }
        });
        let fibers: Vec<_> = (0..10)
            .map(|_| {
                runtime.spawn_fiber(|| {
                    for _ in 0..100 {
                        fiber::yield_now();
                    }
                })
            })
            .collect();
        // This policy decides whether the others run.
        std::thread::sleep(Duration::from_millis(5));
        drop(runtime);
        assert!(matches!(spinner.wait(), Err(JoinError::Shutdown)));
        assert_eq!(all_answer(fibers).all(), 10);
    });
}

/// Tries: counters that a policy forges, to the largest values and past them.
/// Expected: wrong counts, and nothing else: tasks run, stuck workers are found or not, the runtime ends.
#[test]
fn forged_counters() {
    struct Forges;
    impl Hooks for Forges {
        fn push(&self, queue: &Queue, task: TaskRef, _: Why, cx: &Cx<'_>) -> Wake {
            for count in Count::ALL {
                cx.count(count, u64::MAX - cx.counted(count) / 2);
            }
            queue.push(task);
            Wake::Any
        }
        fn next(&self, queue: &Queue, cx: &Cx<'_>) -> Option<TaskRef> {
            cx.tally().count(Count::Ran, u64::MAX);
            cx.tally().count(Count::Suspensions, 1 << 63);
            let _ = (
                cx.random(0),
                cx.random(usize::MAX),
                cx.now_ns(),
                cx.worker(),
                cx.workers(),
            );
            queue.pop()
        }
    }
    program!(|world| {
        let builder = world
            .builder()
            .policy(Hostile::new(Forges).0)
            .stuck_after(Some(Duration::from_millis(1)));
        let runtime = builder.build().expect("a runtime");
        for _ in 0..3 {
            work(world, &runtime);
        }
        let _ = runtime.counters().total();
    });
}

/// Tries: wakes of a task that its policy has in hand, from inside of `suspended`, again and again.
/// Expected: each task runs once for each wake that counts, and ends.
#[test]
fn a_task_is_woken_inside_of_suspended() {
    struct WakesTheSleeper(Arc<Mutex<Vec<Waker>>>);
    impl Hooks for WakesTheSleeper {
        fn suspended(&self, mut task: Waiting<'_>) {
            task.set_policy_word(u64::MAX);
            for waker in self.0.lock().expect("a lock").drain(..) {
                waker.wake_by_ref();
                waker.wake();
            }
        }
    }
    program!(|world| {
        let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
        let policy = Hostile::new(WakesTheSleeper(Arc::clone(&wakers))).0;
        let runtime = world.builder().policy(policy).build().expect("a runtime");
        let handles: Vec<_> = (0..50)
            .map(|_| {
                let (wakers, mut polls) = (Arc::clone(&wakers), 0);
                runtime.spawn(std::future::poll_fn(move |cx| {
                    polls += 1;
                    wakers.lock().expect("a lock").push(cx.waker().clone());
                    if polls < 20 {
                        Poll::Pending
                    } else {
                        Poll::Ready(())
                    }
                }))
            })
            .collect();
        eventually("all end", || {
            wakers.lock().expect("a lock").drain(..).for_each(Waker::wake);
            handles.iter().all(warpweft::JoinHandle::is_finished)
        });
        assert_eq!(all_answer(handles).done, 50);
    });
}
