//! Code of a user that the runtime calls between two hooks of a policy: destructors and wakers that wait.
//!
//! While such code waits, another thread carries the worker. What the runtime does next must not use the
//! worker.
#![forbid(unsafe_code)]

use crate::child::World;
use crate::keepers::{Hooks, Hostile, Queue, all_answer, eventually};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake as Wakes, Waker};
use std::time::Duration;
use warpweft::policy::{Count, Cx, TaskRef, Waiting, Wake, Why};
use warpweft::time::{Sleep, sleep};
use warpweft::{JoinHandle, Runtime, block_on, default_runtime, yield_now};

/// Waits for something that another runtime does, so that its thread gives the worker away.
fn wait_elsewhere() {
    let timed_park = default_runtime().spawn_job(|| std::thread::sleep(Duration::from_micros(300)));
    timed_park.wait().expect("no panic");
}

/// Waits when it is dropped.
struct WaitsAsItGoes;

impl Drop for WaitsAsItGoes {
    fn drop(&mut self) {
        wait_elsewhere();
    }
}

/// Tasks that yield until they are told to stop, so that all workers are in their hooks most of the time.
struct Busy(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl Busy {
    fn new(runtime: &Runtime) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let spawn = |_| {
            let over = Arc::clone(&over);
            runtime.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    yield_now().await;
                }
            })
        };
        let handles = (0..2 * runtime.workers()).map(spawn).collect();
        Self(over, handles)
    }

    /// Ends them. They are all there: the pool has not closed.
    fn end(self) {
        self.0.store(true, Ordering::Relaxed);
        let answers = all_answer(self.1);
        assert_eq!((answers.shutdown, answers.panicked), (0, 0), "{answers:?}");
    }
}

/// A hook takes so long, so that two threads in it meet.
fn take_a_while() {
    std::thread::sleep(Duration::from_micros(30));
}

/// Drops every third task, and spends time in its hooks.
struct Drops(AtomicUsize);

impl Hooks for Drops {
    const INTERVAL: u32 = 1;
    const WATCHES_COMPLETIONS: bool = true;

    fn push(&self, queue: &Queue, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
        if self.0.fetch_add(1, Ordering::Relaxed) % 3 != 2 {
            queue.push(task);
        }
        Wake::Any
    }
    fn next(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
        take_a_while();
        queue.pop()
    }
    fn scan(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
        take_a_while();
        queue.pop()
    }
    fn evict(&self, _: &Queue) -> Vec<TaskRef> {
        take_a_while();
        Vec::new()
    }
    fn completed(&self, _: u64) {
        take_a_while();
    }
    fn suspended(&self, _: Waiting<'_>) {
        take_a_while();
    }
}

/// Tries: a policy drops tasks that wait when they are dropped; the worker ends them between two hooks.
/// Expected: one thread at a time has the worker's state.
#[test]
fn dropped_tasks_wait_as_they_go() {
    program!(|world| {
        let runtime = world
            .builder()
            .policy(Hostile::new(Drops(AtomicUsize::new(0))).0)
            .build();
        let runtime = runtime.expect("a runtime");
        let busy = Busy::new(&runtime);
        for _ in 0..world.count(20) {
            let handles: Vec<_> = (0..30)
                .map(|n| {
                    let waits = WaitsAsItGoes;
                    let handle = runtime.spawn(async move {
                        let _waits = waits;
                        yield_now().await;
                    });
                    if n % 4 == 0 {
                        handle.cancel();
                    }
                    handle
                })
                .collect();
            assert_eq!(all_answer(handles).all(), 30);
        }
        busy.end();
    });
}

/// Keeps all tasks, and spends time in its hooks.
struct SlowHooks;

impl Hooks for SlowHooks {
    const INTERVAL: u32 = 1;
    const WATCHES_COMPLETIONS: bool = true;

    fn next(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
        take_a_while();
        queue.pop()
    }
    fn scan(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
        take_a_while();
        queue.pop()
    }
    fn search(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
        take_a_while();
        queue.pop()
    }
    fn poll_global(&self, _: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
        take_a_while();
        None
    }
    fn evict(&self, queue: &Queue) -> Vec<TaskRef> {
        take_a_while();
        let mut cancelled = Vec::new();
        queue.extract(&mut cancelled, TaskRef::is_cancelled);
        cancelled
    }
    fn completed(&self, _: u64) {
        take_a_while();
    }
    fn suspended(&self, _: Waiting<'_>) {
        take_a_while();
    }
}

/// Tries: a future that no thread can wake or join any more, which is dropped when it suspends, and waits as
/// it goes. Expected: as above; the policy hears of its end once.
#[test]
fn orphans_wait_as_they_go() {
    program!(|world| {
        let runtime = world
            .builder()
            .policy(Hostile::new(SlowHooks).0)
            .build()
            .expect("a runtime");
        let busy = Busy::new(&runtime);
        let tasks = world.count(300);
        for _ in 0..tasks {
            let waits = WaitsAsItGoes;
            runtime
                .spawn(async move {
                    let _waits = waits;
                    std::future::pending::<()>().await;
                })
                .detach();
        }
        eventually("all have begun", || {
            runtime.counters().total().get(Count::Suspensions) >= tasks as u64
        });
        busy.end();
        let after: Vec<_> = (0..50)
            .map(|_| runtime.spawn(async { yield_now().await }))
            .collect();
        assert_eq!(all_answer(after).done, 50);
    });
}

/// Tries: cancelled tasks that a policy gives back from `evict`, and which wait when they are dropped.
/// Expected: as above.
#[test]
fn evicted_tasks_wait_as_they_go() {
    program!(|world| {
        let runtime = world
            .builder()
            .policy(Hostile::new(SlowHooks).0)
            .build()
            .expect("a runtime");
        let busy = Busy::new(&runtime);
        for _ in 0..world.count(20) {
            let handles: Vec<_> = (0..30)
                .map(|_| {
                    let waits = WaitsAsItGoes;
                    runtime.spawn(async move {
                        let _waits = waits;
                        yield_now().await;
                    })
                })
                .collect();
            handles.iter().skip(1).for_each(|handle| {
                handle.cancel();
            });
            assert_eq!(all_answer(handles).all(), 30);
        }
        busy.end();
    });
}

/// A waker that waits when it is called, for another runtime or for a timer of its runtime. On a worker
/// the wait is refused by a panic.
struct WaitsWhenWoken(Mutex<Option<Waker>>, bool);

impl Wakes for WaitsWhenWoken {
    fn wake(self: Arc<Self>) {
        let waits = || {
            if self.1 {
                block_on(sleep(Duration::from_micros(300)));
            } else {
                wait_elsewhere();
            }
        };
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(waits));
        if let Some(waker) = self.0.lock().expect("a lock").take() {
            waker.wake();
        }
    }
}

/// A sleep that is polled with such a waker.
struct Slow(Sleep, bool);

impl Future for Slow {
    type Output = ();

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = Waker::from(Arc::new(WaitsWhenWoken(
            Mutex::new(Some(cx.waker().clone())),
            self.1,
        )));
        std::pin::Pin::new(&mut self.0).poll(&mut Context::from_waker(&waker))
    }
}

/// Tasks that sleep with such wakers, on busy and on idle workers.
fn sleep_with_slow_wakers(world: World, for_a_timer: bool) {
    for is_busy in [true, false] {
        let runtime = world
            .builder()
            .policy(Hostile::new(SlowHooks).0)
            .build()
            .expect("a runtime");
        let busy = is_busy.then(|| Busy::new(&runtime));
        let handles: Vec<_> = (0..world.count(50))
            .map(|n| {
                runtime.spawn(async move {
                    for _ in 0..3 {
                        Slow(sleep(Duration::from_micros(100 + 10 * n as u64)), for_a_timer).await;
                    }
                })
            })
            .collect();
        let spawned = handles.len();
        assert_eq!(all_answer(handles).done, spawned);
        busy.into_iter().for_each(Busy::end);
    }
}

/// Tries: wakers that wait for another runtime when a timer calls them, on the worker that polls. Expected:
/// as above.
#[test]
fn wakers_wait_for_another_runtime_when_a_timer_calls_them() {
    program!(|world| sleep_with_slow_wakers(world, false));
}

/// Tries: wakers that wait for a timer when a timer calls them, so that the thread that polls waits for a
/// poll. Expected: as above.
#[test]
fn wakers_wait_for_a_timer_when_a_timer_calls_them() {
    program!(|world| sleep_with_slow_wakers(world, true));
}

/// Tries: a waker whose call drops the last owner of a future that waits when it is dropped. Expected: as
/// above.
#[test]
fn wakers_drop_tasks_that_wait_as_they_go() {
    struct Holds(
        Mutex<Option<warpweft::sync::oneshot::Sender<()>>>,
        #[allow(dead_code, reason = "it is there to be dropped")] WaitsAsItGoes,
    );
    impl Wakes for Holds {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().expect("a lock").take());
        }
    }
    program!(|world| {
        let runtime = world
            .builder()
            .policy(Hostile::new(SlowHooks).0)
            .build()
            .expect("a runtime");
        let handles: Vec<_> = (0..world.count(100))
            .map(|_| {
                let (sender, receiver) = warpweft::sync::oneshot::channel();
                let holds = Arc::new(Holds(Mutex::new(Some(sender)), WaitsAsItGoes));
                runtime.spawn(async move {
                    let waker = Waker::from(holds);
                    let mut timed_park = sleep(Duration::from_micros(200));
                    let polled = std::pin::Pin::new(&mut timed_park).poll(&mut Context::from_waker(&waker));
                    drop(waker);
                    if polled.is_ready() {
                        return;
                    }
                    let told = receiver.await;
                    assert!(told.is_err());
                    drop(timed_park);
                })
            })
            .collect();
        let spawned = handles.len();
        assert_eq!(all_answer(handles).done, spawned);
    });
}

/// Tries: a stuck worker, compensating workers that give their tasks back, and a push from outside that waits
/// meanwhile. Expected: as above.
#[test]
fn a_compensating_gives_tasks_back_to_a_push_that_waits() {
    struct GivesBack(Mutex<usize>);
    impl Hooks for GivesBack {
        const INTERVAL: u32 = 1;
        fn push(&self, queue: &Queue, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
            queue.push(task);
            if cx.worker().is_none() && why == Why::Woken {
                block_on(sleep(Duration::from_micros(200)));
            }
            Wake::Any
        }
        fn drain(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
            take_a_while();
            let mut left = self.0.lock().expect("a lock");
            *left = left.checked_sub(1)?;
            queue.pop()
        }
        fn next(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
            take_a_while();
            queue.pop()
        }
    }
    program!(|world| {
        let (policy, hooks) = Hostile::new(GivesBack(Mutex::new(0)));
        let builder = world
            .builder()
            .policy(policy)
            .stuck_after(Some(Duration::from_millis(1)));
        let runtime = builder.build().expect("a runtime");
        for _ in 0..world.count(10) {
            *hooks.0.lock().expect("a lock") = 20;
            let stuck: Vec<_> = (0..world.workers)
                .map(|_| runtime.spawn_job(|| std::thread::sleep(Duration::from_millis(12))))
                .collect();
            let handles: Vec<_> = (0..100)
                .map(|_| runtime.spawn(async { yield_now().await }))
                .collect();
            assert_eq!(all_answer(stuck).all(), world.workers);
            assert_eq!(all_answer(handles).all(), 100);
        }
    });
}
