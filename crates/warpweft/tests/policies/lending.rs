//! A task of high priority awaits one of low priority, while thousands of middle priority are ready. The low
//! one has the high one's priority meanwhile, and so does what that one waits for.
#![allow(
    clippy::async_yields_async,
    reason = "a handle that has been looked at goes to another task"
)]

use super::eventually::eventually;
use super::inversion::{FEW, FLOOD, ROOM, YIELDS, hold, runtime, with_room};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{PoisonError, mpsc};
use std::task::{Context, Poll};
use warpweft::sync::{Mutex, oneshot};
use warpweft::{JoinHandle, Priority, Runtime, TaskBuilder, block_on, spawn, yield_now};

const POLICIES: [&str; 4] = [
    "priority:3",
    "priority:3(lifo)+yield=local",
    "priority:3+woken=last",
    "priority:3+capacity=2+overflow=multi:2",
];

/// The task that is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// A future that has not begun.
    Queued,
    /// A closure that has not begun.
    Job,
    /// A future that sleeps, and is woken once it is awaited.
    Sleeps,
    /// A fiber that has begun, and yields.
    Fiber,
    /// It waits for a lock whose owner, of low priority, too, is ready.
    WaitsForLock,
    /// It spawns another one of its priority once it runs, and awaits it.
    AwaitsChild,
}

/// How the task of high priority awaits.
#[derive(Debug, Clone, Copy)]
enum Awaits {
    Future,
    Fiber,
    Job,
}

/// Tasks on one worker that is held until all of them are there.
struct Stage<'a> {
    runtime: &'a Runtime,
    levels: [Priority; 3],
    flood: usize,
}

impl<'a> Stage<'a> {
    fn new(runtime: &'a Runtime) -> Self {
        let levels = [0, 1, 2].map(|level| runtime.priority(level).unwrap());
        Self {
            runtime,
            levels,
            flood: FLOOD,
        }
    }

    fn on(&self, level: usize) -> TaskBuilder<'a> {
        TaskBuilder::new().on(self.runtime).priority(self.levels[level])
    }

    /// Spawns the awaited task, which is where it is to be when this returns. The channel wakes it.
    fn low_one(&self, which: Awaited) -> (JoinHandle<()>, Option<oneshot::Sender<()>>) {
        let yields = async || {
            for _ in 0..YIELDS {
                yield_now().await;
            }
        };
        let (begun, begins) = mpsc::channel();
        match which {
            Awaited::Queued => (self.on(2).spawn(async move { yields().await }), None),
            Awaited::Job => (self.on(2).spawn_job(|| ()), None),
            Awaited::Sleeps => {
                let (wake, woken) = oneshot::channel();
                let task = self.on(2).spawn(async move {
                    begun.send(()).unwrap();
                    woken.await.unwrap();
                    yields().await;
                });
                begins.recv().unwrap();
                (task, Some(wake))
            }
            Awaited::Fiber => {
                let task = self
                    .on(2)
                    .spawn_fiber(|| (0..YIELDS).for_each(|_| block_on(yield_now())));
                (task, None)
            }
            Awaited::WaitsForLock => {
                let lock = Arc::new(Mutex::new(()));
                let (wake, woken) = oneshot::channel();
                let owned = Arc::clone(&lock);
                let owner = self.on(2).spawn(async move {
                    let _guard = owned.lock().await;
                    begun.send(()).unwrap();
                    woken.await.unwrap();
                    yields().await;
                });
                begins.recv().unwrap();
                let (begun, begins) = mpsc::channel();
                let task = self.on(2).spawn(async move {
                    begun.send(()).unwrap();
                    drop(lock.lock().await);
                    owner.await.unwrap();
                });
                begins.recv().unwrap();
                (task, Some(wake))
            }
            Awaited::AwaitsChild => {
                let task = self
                    .on(2)
                    .spawn(async move { spawn(async move { yields().await }).await.unwrap() });
                (task, None)
            }
        }
    }

    /// Returns how many of the flood ran while the high one waited.
    fn passed_over(&self, which: Awaited, awaits: Awaits) -> usize {
        let ran = Arc::new(AtomicUsize::new(0));
        // What has to run first does so before the worker is held. The others queue behind the flood.
        let is_first = matches!(which, Awaited::Sleeps | Awaited::WaitsForLock);
        let first = is_first.then(|| self.low_one(which));
        let (open, gate) = hold(self.on(0));
        let flood: Vec<_> = (0..self.flood)
            .map(|_| {
                let ran = Arc::clone(&ran);
                self.on(1).spawn_job(move || ran.fetch_add(1, SeqCst))
            })
            .collect();
        let (awaited, wake) = first.unwrap_or_else(|| self.low_one(which));
        let begin = move || {
            if let Some(wake) = wake {
                spawn(async move { wake.send(()) }).detach();
            }
        };
        let high_one = {
            let ran = Arc::clone(&ran);
            let on = self.on(0);
            match awaits {
                Awaits::Future => on.spawn(async move {
                    let before = ran.load(SeqCst);
                    begin();
                    awaited.await.unwrap();
                    ran.load(SeqCst) - before
                }),
                Awaits::Fiber => on.spawn_fiber(move || {
                    let before = ran.load(SeqCst);
                    begin();
                    awaited.wait().unwrap();
                    ran.load(SeqCst) - before
                }),
                Awaits::Job => on.spawn_job(move || {
                    let before = ran.load(SeqCst);
                    begin();
                    awaited.wait().unwrap();
                    ran.load(SeqCst) - before
                }),
            }
        };
        open.send(()).unwrap();
        gate.wait().unwrap();
        let passed_over = high_one.wait().unwrap();
        for task in flood {
            task.wait().unwrap();
        }
        passed_over
    }
}

#[test]
fn an_awaited_task_is_lent_the_priority_of_who_awaits_it() {
    let _room = with_room();
    for policy in POLICIES {
        let runtime = runtime(policy);
        let stage = Stage::new(&runtime);
        for which in [
            Awaited::Queued,
            Awaited::Job,
            Awaited::Sleeps,
            Awaited::Fiber,
            Awaited::WaitsForLock,
            Awaited::AwaitsChild,
        ] {
            for awaits in [Awaits::Future, Awaits::Fiber, Awaits::Job] {
                let passed_over = stage.passed_over(which, awaits);
                assert!(
                    passed_over <= 2 * FEW,
                    "{policy}: {awaits:?} awaits {which:?}: {passed_over} of {FLOOD} went first"
                );
            }
        }
    }
}

/// Where few are ready, the worker finds the awaited one in its queue at once.
#[test]
fn in_a_short_queue_an_awaited_task_is_the_next_one() {
    let _room = with_room();
    for policy in POLICIES {
        let runtime = runtime(policy);
        let stage = Stage {
            flood: 200,
            ..Stage::new(&runtime)
        };
        for which in [
            Awaited::Queued,
            Awaited::Job,
            Awaited::Sleeps,
            Awaited::WaitsForLock,
        ] {
            for awaits in [Awaits::Future, Awaits::Fiber, Awaits::Job] {
                let passed_over = stage.passed_over(which, awaits);
                assert!(
                    passed_over <= 2,
                    "{policy}: {awaits:?} awaits {which:?}: {passed_over} went first"
                );
            }
        }
    }
}

/// The awaited one has its own priority again once a task that is not more urgent awaits it.
#[test]
fn what_is_lent_by_a_handle_is_given_back() {
    let _room = with_room();
    let runtime = runtime("priority:3");
    let stage = Stage::new(&runtime);
    for _ in 0..100 {
        let (begun, begins) = mpsc::channel();
        let given_up = Arc::new(AtomicUsize::new(0));
        let awaited = {
            let given_up = Arc::clone(&given_up);
            let middle = stage.levels[1];
            stage.on(2).spawn(async move {
                begun.send(()).unwrap();
                while given_up.load(SeqCst) == 0 {
                    yield_now().await;
                }
                let ran = Arc::new(AtomicUsize::new(0));
                let other = Arc::clone(&ran);
                TaskBuilder::new()
                    .priority(middle)
                    .spawn_job(move || other.fetch_add(1, SeqCst))
                    .detach();
                yield_now().await;
                ran.load(SeqCst)
            })
        };
        begins.recv().unwrap();
        let high = stage.on(0).spawn(async move {
            let mut awaited = awaited;
            let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut awaited).poll(cx))).await;
            assert!(polled.is_pending());
            awaited
        });
        let awaited = high.wait().unwrap();
        // From here on the handle is with one that has nothing to lend.
        let low = stage.on(2).spawn(async move {
            let mut awaited = awaited;
            let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut awaited).poll(cx))).await;
            assert!(polled.is_pending());
            given_up.store(1, SeqCst);
            awaited.await.unwrap()
        });
        assert_eq!(low.wait().unwrap(), 1, "it went before one of middle priority");
    }
}

/// As many as the table has room for await others, and then give up, or get their results. If one of them
/// stayed there, a later one would have no room.
#[test]
fn waits_that_are_over_leave_no_trace() {
    const MANY: usize = 200;
    let _room = ROOM.write().unwrap_or_else(PoisonError::into_inner);
    let runtime = runtime("priority:3");
    let stage = Stage::new(&runtime);
    for gives_up in [true, false] {
        let (wake, woken): (Vec<_>, Vec<_>) = (0..MANY).map(|_| oneshot::channel::<()>()).unzip();
        // Wakers keep the memory of the tasks, so that no later one has the address of one of them.
        let wakers = Arc::new(std::sync::Mutex::new(Vec::new()));
        let awaited: Vec<_> = woken
            .into_iter()
            .map(|woken| {
                let wakers = Arc::clone(&wakers);
                stage.on(2).spawn(async move {
                    let waker = poll_fn(|cx: &mut Context<'_>| Poll::Ready(cx.waker().clone())).await;
                    wakers.lock().unwrap().push(waker);
                    woken.await.unwrap();
                })
            })
            .collect();
        let awaits: Vec<_> = awaited
            .into_iter()
            .map(|mut awaited| {
                let wakers = Arc::clone(&wakers);
                stage.on(0).spawn(async move {
                    let mut look =
                        |cx: &mut Context<'_>| (Pin::new(&mut awaited).poll(cx), cx.waker().clone());
                    let (polled, waker) = poll_fn(|cx| Poll::Ready(look(cx))).await;
                    assert!(polled.is_pending());
                    wakers.lock().unwrap().push(waker);
                    if gives_up {
                        drop(awaited);
                    } else {
                        awaited.await.unwrap();
                    }
                })
            })
            .collect();
        eventually("all wait, or have given up", || {
            wakers.lock().unwrap().len() == 2 * MANY
        });
        wake.into_iter().for_each(|wake| wake.send(()).unwrap());
        awaits.into_iter().for_each(|task| task.wait().unwrap());
        let passed_over = stage.passed_over(Awaited::Queued, Awaits::Future);
        assert!(
            passed_over <= FEW,
            "gives up: {gives_up}: {passed_over} of {FLOOD} went first"
        );
    }
}

/// An urgent task lends to one in a queue and gives up, and then another one awaits that one. What it is lent
/// in its queue is not its own.
#[test]
fn one_that_was_raised_is_lent_a_priority_again() {
    let _room = with_room();
    let runtime = runtime("priority:3");
    let stage = Stage::new(&runtime);
    let (ran, lock) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(())));
    let (wake, woken) = oneshot::channel();
    let (begun, begins) = mpsc::channel();
    let low = {
        let lock = Arc::clone(&lock);
        stage.on(2).spawn(async move {
            let _guard = lock.lock().await;
            begun.send(()).unwrap();
            woken.await.unwrap();
            for _ in 0..YIELDS {
                yield_now().await;
            }
        })
    };
    begins.recv().unwrap();
    let (open, gate) = hold(stage.on(0));
    for _ in 0..FLOOD {
        let ran = Arc::clone(&ran);
        stage.on(1).spawn_job(move || ran.fetch_add(1, SeqCst)).detach();
    }
    let urgent = stage.levels[0];
    let first = stage.on(0).spawn(async move {
        let second = TaskBuilder::new().priority(urgent).spawn(async move {
            low.await.unwrap();
            ran.load(SeqCst)
        });
        let mut waits = std::pin::pin!(lock.lock());
        let polled = poll_fn(|cx| Poll::Ready(waits.as_mut().poll(cx).is_pending())).await;
        assert!(polled);
        // It is pushed behind the second one, while it is lent the priority of this one.
        wake.send(()).unwrap();
        second
    });
    open.send(()).unwrap();
    let passed_over = first.wait().unwrap().wait().unwrap();
    assert!(passed_over <= FEW, "{passed_over} of {FLOOD} went first");
    gate.wait().unwrap();
}
