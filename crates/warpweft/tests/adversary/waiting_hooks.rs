//! Hooks of a policy that wait, and hooks that end runtimes.
//!
//! A hook that waits would give its worker to another thread while it has the worker's state. `keepers` notes
//! that.
#![forbid(unsafe_code)]

use crate::acts::{Act, Acts, acting, work};
use crate::child::World;
use crate::keepers::{ALL, Hooks, Hostile, Queue, all_answer};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use warpweft::effect::{Effect, Handler, handle, perform};
use warpweft::policy::{Cx, TaskRef, Wake, Why};
use warpweft::time::sleep;
use warpweft::{Runtime, block_on, blocking, fiber, yield_now};

/// Ways to wait.
#[derive(Debug, Clone, Copy)]
enum Direction {
    BlockOn,
    Blocking,
    Join,
    Handle,
    Yield,
    Install,
    Effect,
}

const WAYS: [Direction; 7] = [
    Direction::BlockOn,
    Direction::Blocking,
    Direction::Join,
    Direction::Handle,
    Direction::Yield,
    Direction::Install,
    Direction::Effect,
];

/// Waits in one hook, now and then.
struct Waits {
    hook: &'static str,
    way: Direction,
    calls: AtomicUsize,
    armed: AtomicBool,
    other: Runtime,
}

thread_local!(static INSIDE: Cell<bool> = const { Cell::new(false) });

impl Act for Waits {
    fn act(&self, hook: &'static str) {
        let waits = hook == self.hook && self.armed.load(Ordering::Relaxed);
        // A wait may call hooks of its own.
        if !waits || INSIDE.replace(true) {
            return;
        }
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                INSIDE.set(false);
            }
        }
        let _leave = Leave;
        if self.calls.fetch_add(1, Ordering::Relaxed) % 4 != 1 {
            return;
        }
        let timed_park = Duration::from_micros(300);
        match self.way {
            Direction::BlockOn => {
                block_on(self.other.spawn(async move { sleep(timed_park).await })).expect("no panic");
            }
            Direction::Blocking => blocking(|| std::thread::sleep(timed_park)),
            Direction::Join => {
                warpweft::join(
                    || std::thread::sleep(timed_park),
                    || std::thread::sleep(timed_park),
                );
            }
            Direction::Handle => {
                self.other
                    .spawn_job(move || std::thread::sleep(timed_park))
                    .wait()
                    .expect("no panic");
            }
            Direction::Yield => {
                fiber::yield_now();
            }
            Direction::Install => {
                self.other
                    .install(|_| std::thread::sleep(timed_park))
                    .expect("it is open");
            }
            Direction::Effect => {
                struct Ask;
                impl Effect for Ask {
                    type Answer = ();
                }
                handle(|| perform(Ask), Handler::new().on(|Ask, k| k.resume(())));
            }
        }
    }
}

/// Each way to wait in each of `hooks`. The pool may close with a panic of the policy; nothing else may
/// happen.
fn wait_in(world: World, hooks: &[&'static str]) {
    for &hook in hooks {
        for way in WAYS {
            let other = Runtime::builder().workers(1).build().expect("a runtime");
            let waits = Waits {
                hook,
                way,
                calls: AtomicUsize::new(0),
                armed: AtomicBool::new(false),
                other,
            };
            let (runtime, hooks) = acting(world, waits);
            hooks.0.armed.store(true, Ordering::Relaxed);
            work(world, &runtime);
            drop(runtime);
        }
    }
}

/// Tries: all ways to wait in the hooks that push.
/// Expected: the pool closes with a panic that says why, or the wait is harmless; nothing hangs.
#[test]
fn the_hooks_that_push_wait() {
    program!(|world| wait_in(world, &["push", "push_local", "yielded"]));
}

/// Tries: all ways to wait in the questions that a policy is asked. Expected: as above.
#[test]
fn the_questions_wait() {
    program!(|world| wait_in(world, &["is_fast_path", "watches_waits", "is_only_ready"]));
}

/// Tries: all ways to wait in the hooks that give out tasks. Expected: as above.
#[test]
fn the_hooks_that_give_out_tasks_wait() {
    program!(|world| wait_in(
        world,
        &[
            "next",
            "poll_global",
            "search",
            "steal_from_stuck",
            "scan",
            "drain"
        ]
    ));
}

/// Tries: all ways to wait in the hooks that only listen. Expected: as above.
#[test]
fn the_hooks_that_listen_wait() {
    program!(|world| wait_in(world, &["suspended", "evict", "completed"]));
}

/// Tries: `watches_waits` and `is_fast_path` that wait while many tasks suspend and are pushed, so that
/// another thread gets the worker meanwhile. Expected: one thread at a time has the worker's state.
#[test]
fn a_question_that_waits_does_not_share_the_workers_state() {
    struct SleepingHook(&'static str, AtomicUsize);
    impl SleepingHook {
        fn timed_park(&self, hook: &str) {
            if hook == self.0 && self.1.fetch_add(1, Ordering::Relaxed) % 16 == 3 {
                block_on(sleep(Duration::from_micros(200)));
            }
        }
    }
    impl Hooks for SleepingHook {
        fn is_fast_path(&self, _: Why) -> bool {
            self.timed_park("is_fast_path");
            true
        }
        fn watches_waits(&self) -> bool {
            self.timed_park("watches_waits");
            true
        }
        fn next(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
            // Longer, so that two threads meet.
            std::thread::sleep(Duration::from_micros(50));
            queue.pop()
        }
        fn suspended(&self, _: warpweft::policy::Waiting<'_>) {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    program!(|world| {
        for hook in ["watches_waits", "is_fast_path"] {
            let (policy, _) = Hostile::new(SleepingHook(hook, AtomicUsize::new(0)));
            let built = std::panic::catch_unwind(|| world.builder().policy(policy).build());
            let Ok(Ok(runtime)) = built else { continue };
            let handles: Vec<_> = (0..world.count(400))
                .map(|_| {
                    runtime.spawn(async {
                        yield_now().await;
                        sleep(Duration::from_micros(10)).await;
                        drop(warpweft::spawn(async {}).await);
                    })
                })
                .collect();
            all_answer(handles);
        }
    });
}

/// Tries: a `push` from outside of the pool that waits, called by tasks of another runtime, whose workers go
/// elsewhere meanwhile. Expected: all tasks end.
#[test]
fn a_push_from_outside_waits_on_a_foreign_worker() {
    struct Slow;
    impl Hooks for Slow {
        fn push(&self, queue: &Queue, task: TaskRef, _: Why, cx: &Cx<'_>) -> Wake {
            if cx.worker().is_none() {
                block_on(sleep(Duration::from_micros(100)));
            }
            queue.push(task);
            Wake::Any
        }
    }
    program!(|world| {
        let slow = Arc::new(
            world
                .builder()
                .policy(Hostile::new(Slow).0)
                .build()
                .expect("a runtime"),
        );
        let callers = world.runtime();
        let handles: Vec<_> = (0..world.count(100))
            .map(|n| {
                let slow = Arc::clone(&slow);
                let body = move || {
                    let handle = slow.spawn(async { yield_now().await });
                    handle.wait().expect("it runs");
                };
                if n % 2 == 0 {
                    callers.spawn_job(body)
                } else {
                    callers.spawn_fiber(body)
                }
            })
            .collect();
        let spawned = handles.len();
        assert_eq!(all_answer(handles).done, spawned);
    });
}

/// What a hook does to a runtime.
struct Ends(Mutex<Option<Arc<Runtime>>>, &'static str, AtomicUsize, bool);

impl Act for Ends {
    fn act(&self, hook: &'static str) {
        if hook != self.1 || self.2.fetch_add(1, Ordering::Relaxed) != 3 {
            return;
        }
        let runtime = self.0.lock().expect("a lock").take();
        match runtime {
            Some(runtime) if self.3 => {
                runtime.shutdown();
                *self.0.lock().expect("a lock") = Some(runtime);
            }
            runtime => drop(runtime),
        }
    }
}

/// Ends the runtime, if no hook has. The lock is free meanwhile.
fn take(ends: &Ends) {
    let runtime = ends.0.lock().expect("a lock").take();
    drop(runtime);
}

/// Each hook, called on a worker, ends its own runtime.
fn end_in_hooks(world: World, shuts_down: bool) {
    for hook in ALL {
        let ends = Ends(Mutex::new(None), hook, AtomicUsize::new(0), shuts_down);
        let (policy, hooks) = Hostile::new(Acts(ends));
        let runtime = world
            .builder()
            .policy(policy)
            .stuck_after(Some(Duration::from_millis(3)));
        let runtime = Arc::new(runtime.build().expect("a runtime"));
        // All that is pushed is pushed by a task of the pool, so that no hook runs on this thread.
        let inside = runtime.spawn_job(|| {
            let handles: Vec<_> = (0..20)
                .map(|n| {
                    let handle = warpweft::spawn(async {
                        yield_now().await;
                        sleep(Duration::from_micros(50)).await;
                    });
                    if n % 5 == 0 {
                        handle.cancel();
                    }
                    handle
                })
                .collect();
            std::thread::sleep(Duration::from_millis(8));
            handles
        });
        *hooks.0.0.lock().expect("a lock") = Some(runtime);
        if let Ok(handles) = inside.wait() {
            if hook == "steal_from_stuck" || hook == "drain" {
                // These may never be called: then this thread ends the runtime.
                take(&hooks.0);
            }
            let ended = |handle: &warpweft::JoinHandle<()>| handle.is_finished();
            let start = std::time::Instant::now();
            while !handles.iter().all(ended) && start.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(Duration::from_millis(1));
            }
            take(&hooks.0);
            assert_eq!(all_answer(handles).all(), 20);
        }
        take(&hooks.0);
    }
}

/// Tries: each hook shuts its own runtime down. Expected: each joiner is told, and the threads leave.
#[test]
fn each_hook_shuts_its_runtime_down() {
    program!(|world| end_in_hooks(world, true));
}

/// Tries: each hook drops the last owner of its own runtime. Expected: as above.
#[test]
fn each_hook_drops_its_runtime() {
    program!(|world| end_in_hooks(world, false));
}

/// Tries: `push`, called by a thread that is no worker, shuts the runtime down that it pushes to, and later
/// another one. Expected: the call ends; each joiner is told.
#[test]
fn a_push_from_outside_shuts_its_runtime_down() {
    struct ShutsDown(Mutex<Option<Arc<Runtime>>>);
    impl Hooks for ShutsDown {
        fn push(&self, queue: &Queue, task: TaskRef, _: Why, cx: &Cx<'_>) -> Wake {
            let runtime = self.0.lock().expect("a lock").take();
            if cx.worker().is_none()
                && let Some(runtime) = runtime
            {
                runtime.shutdown();
            }
            queue.push(task);
            Wake::Any
        }
    }
    program!(|world| {
        let (policy, hooks) = Hostile::new(ShutsDown(Mutex::new(None)));
        let runtime = Arc::new(world.builder().policy(policy).build().expect("a runtime"));
        let before = runtime.spawn(std::future::pending::<()>());
        *hooks.0.lock().expect("a lock") = Some(Arc::clone(&runtime));
        let after = runtime.spawn_job(|| ());
        drop(runtime);
        assert_eq!(all_answer([before, after]).all(), 2);
    });
}

/// Waits in the push of a thread without a worker, once it is armed.
struct WaitsWithoutWorker {
    armed: AtomicBool,
    waited: AtomicBool,
    other: Runtime,
}

impl Act for WaitsWithoutWorker {
    fn act(&self, hook: &'static str) {
        let waits = hook == "push" && warpweft::current_worker().is_none();
        if waits && self.armed.swap(false, Ordering::Relaxed) {
            let pause = self.other.spawn(sleep(Duration::from_millis(60)));
            block_on(pause).expect("no panic");
            self.waited.store(true, Ordering::Relaxed);
        }
    }
}

/// Tries: a thread with a ready fiber gives its worker away, lists itself as a spare one, asks for a worker,
/// and the push of that request waits, while another frame reserves the thread. Expected: the thread takes
/// what it is given when the hook is over; the frame is not disturbed.
#[test]
fn a_request_for_a_worker_waits() {
    program!(|world| {
        let act = WaitsWithoutWorker {
            armed: AtomicBool::new(false),
            waited: AtomicBool::new(false),
            other: Runtime::builder().workers(1).build().expect("a runtime"),
        };
        let (policy, hooks) = Hostile::new(Acts(act));
        let runtime = world
            .builder()
            .workers(1)
            .policy(policy)
            .build()
            .expect("a runtime");
        let stop = Arc::new(AtomicBool::new(false));
        let yields = {
            let stop = Arc::clone(&stop);
            move || {
                while !stop.load(Ordering::Relaxed) {
                    fiber::yield_now();
                }
            }
        };
        let frame = {
            let hooks = Arc::clone(&hooks);
            runtime.spawn_job(move || {
                // Its thread waits, and another one has the worker, and runs the fiber.
                let pause = hooks.0.other.spawn(sleep(Duration::from_millis(20)));
                let always_ready = fiber::spawn(yields);
                hooks.0.armed.store(true, Ordering::Relaxed);
                block_on(pause).expect("no panic");
                // Here again, with the worker of that thread.
                for _ in 0..10 {
                    blocking(|| std::thread::sleep(Duration::from_millis(4)));
                }
                stop.store(true, Ordering::Relaxed);
                always_ready.wait().expect("no panic");
            })
        };
        frame.wait().expect("no panic");
        assert!(hooks.0.waited.load(Ordering::Relaxed));
    });
}
