//! Futures that are not `Send`: each is made, polled and dropped on one thread, whatever happens around it.

use crate::eventually::eventually;
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::thread::{self, ThreadId};
use std::time::Duration;
use warpweft::sync::oneshot;
use warpweft::{JoinError, Runtime, TaskBuilder, block_on, current_worker, spawn_local, time, yield_now};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("a runtime")
}

/// It counts that it is dropped, if that is on its own thread.
struct Bound {
    thread: ThreadId,
    dropped: Arc<AtomicUsize>,
    /// Not `Send`.
    own: Rc<Cell<u32>>,
}

impl Bound {
    fn new(dropped: &Arc<AtomicUsize>) -> Self {
        Self {
            thread: thread::current().id(),
            dropped: Arc::clone(dropped),
            own: Rc::default(),
        }
    }

    #[track_caller]
    fn touch(&self) {
        assert_eq!(thread::current().id(), self.thread);
        self.own.set(self.own.get() + 1);
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.touch();
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn it_stays_on_its_thread_over_all_kinds_of_waits() {
    let runtime = runtime(4);
    let dropped = Arc::new(AtomicUsize::new(0));
    let futures: Vec<_> = (0..32)
        .map(|n| {
            let dropped = Arc::clone(&dropped);
            runtime.spawn_local(move || {
                let bound = Bound::new(&dropped);
                async move {
                    for round in 0..20 {
                        match (n + round) % 5 {
                            0 => yield_now().await,
                            1 => time::sleep(Duration::from_micros(100)).await,
                            // Woken by another task, wherever that runs.
                            2 => warpweft::spawn(yield_now()).await.expect("no panic"),
                            3 => {
                                let (sender, receiver) = oneshot::channel();
                                warpweft::spawn_job(move || sender.send(1)).detach();
                                assert_eq!(receiver.await, Ok(1));
                            }
                            // A wait in direct style, on the same stack.
                            _ => block_on(yield_now()),
                        }
                        bound.touch();
                    }
                    bound.own.get()
                }
            })
        })
        .collect();
    for future in futures {
        assert_eq!(future.wait().expect("no panic"), 20);
    }
    assert_eq!(dropped.load(Ordering::SeqCst), 32);
}

#[test]
fn its_thread_may_block_in_another_task_meanwhile() {
    // One worker: it goes to another thread while the job waits, and the local future's thread is blocked.
    let runtime = runtime(1);
    let dropped = Arc::new(AtomicUsize::new(0));
    for _ in 0..50 {
        let (wake, woken) = oneshot::channel();
        let (done, gate) = oneshot::channel();
        let count = Arc::clone(&dropped);
        let local = runtime.spawn_local(move || {
            let bound = Bound::new(&count);
            async move {
                woken.await.expect("it is sent");
                bound.touch();
                done.send(()).expect("the job waits");
                bound.own.get()
            }
        });
        let job = runtime.spawn_job(move || {
            wake.send(()).expect("the future waits");
            block_on(gate)
        });
        assert_eq!(job.wait().expect("no panic"), Ok(()));
        assert_eq!(local.wait().expect("no panic"), 1);
    }
    assert_eq!(dropped.load(Ordering::SeqCst), 50);
}

#[test]
fn one_that_waits_is_dropped_on_its_thread_when_the_runtime_ends() {
    for workers in [1, 4] {
        let runtime = runtime(workers);
        let dropped = Arc::new(AtomicUsize::new(0));
        let started = Arc::new(AtomicUsize::new(0));
        let futures: Vec<_> = (0..16)
            .map(|_| {
                let (dropped, started) = (Arc::clone(&dropped), Arc::clone(&started));
                runtime.spawn_local(move || {
                    let bound = Bound::new(&dropped);
                    started.fetch_add(1, Ordering::SeqCst);
                    async move {
                        pending::<()>().await;
                        bound.touch();
                    }
                })
            })
            .collect();
        eventually("all have started", || started.load(Ordering::SeqCst) == 16);
        drop(runtime);
        assert_eq!(dropped.load(Ordering::SeqCst), 16);
        for future in futures {
            assert!(matches!(future.wait(), Err(JoinError::Shutdown)));
        }
    }
}

#[test]
fn a_runtime_that_has_ended_makes_none() {
    let runtime = runtime(1);
    runtime.shutdown();
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let refused = runtime.spawn_local(move || {
        count.fetch_add(1, Ordering::SeqCst);
        pending::<()>()
    });
    assert!(matches!(refused.wait(), Err(JoinError::Shutdown)));
    assert_eq!(made.load(Ordering::SeqCst), 0);
}

#[test]
fn a_cancelled_one_is_not_made_or_is_dropped_when_it_is_woken() {
    let runtime = runtime(1);
    // Before it starts: the worker is busy.
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let busy = runtime.spawn_job(move || gate.recv().is_ok());
    let late = runtime.spawn_local(|| -> std::future::Pending<()> { unreachable!("it is cancelled") });
    assert!(late.cancel());
    open.send(()).expect("it waits");
    assert!(busy.wait().expect("no panic"));
    assert!(matches!(late.wait(), Err(JoinError::Cancelled)));
    // While it waits.
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&dropped);
    let (wake, woken) = oneshot::channel::<()>();
    let (started, begun) = std::sync::mpsc::channel();
    let local = runtime.spawn_local(move || {
        let bound = Bound::new(&count);
        async move {
            started.send(()).expect("the test waits");
            let _ = woken.await;
            bound.touch();
            unreachable!("it is cancelled");
        }
    });
    begun.recv().expect("it starts");
    runtime.spawn_job(|| ()).wait().expect("it waits now");
    assert!(local.cancel());
    wake.send(()).expect("it waits");
    let local: Result<(), _> = local.wait();
    assert!(matches!(local, Err(JoinError::Cancelled)), "{local:?}");
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[test]
fn a_panic_of_the_maker_or_of_the_future_is_its_result() {
    let runtime = runtime(2);
    let maker = runtime.spawn_local(|| -> std::future::Ready<()> { panic!("beans") });
    assert!(matches!(maker.wait(), Err(JoinError::Panicked(_))));
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&dropped);
    let future = runtime.spawn_local(move || {
        let bound = Bound::new(&count);
        async move {
            yield_now().await;
            bound.touch();
            panic!("beans");
        }
    });
    let future: Result<(), _> = future.wait();
    assert!(matches!(future, Err(JoinError::Panicked(_))));
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[test]
fn a_pinned_one_starts_with_that_worker_and_then_stays() {
    let runtime = runtime(3);
    for worker in 0..3 {
        let started = TaskBuilder::new()
            .on(&runtime)
            .name("pinned")
            .spawn_pinned_local(worker, || {
                let (at, thread) = (current_worker(), thread::current().id());
                async move {
                    for _ in 0..20 {
                        yield_now().await;
                        time::sleep(Duration::from_micros(10)).await;
                        assert_eq!(thread::current().id(), thread);
                    }
                    at
                }
            });
        assert_eq!(started.info().name(), Some("pinned"));
        assert_eq!(started.wait().expect("no panic"), Some(worker));
    }
    assert_eq!(current_worker(), None);
}

#[test]
#[should_panic(expected = "there is no worker 3")]
fn a_pinned_one_needs_a_worker() {
    let runtime = runtime(3);
    drop(TaskBuilder::new().on(&runtime).spawn_pinned_local(3, || async {}));
}

#[test]
fn without_a_stack_there_is_an_error_and_nothing_is_made() {
    let runtime = Runtime::builder()
        .workers(1)
        .max_fiber_stacks(1)
        .build()
        .expect("a runtime");
    let (open, gate) = oneshot::channel::<()>();
    let holds = runtime.spawn_local(move || gate);
    runtime.spawn_job(|| ()).wait().expect("it has started");
    let make = || -> std::future::Ready<()> { unreachable!("there is no stack") };
    assert!(matches!(
        runtime.spawn_local(make).wait(),
        Err(JoinError::NoStack)
    ));
    assert!(matches!(
        runtime.try_spawn_local(make),
        Err(warpweft::SpawnError::NoStack)
    ));
    open.send(()).expect("it waits");
    assert_eq!(holds.wait().expect("no panic"), Ok(()));
}

#[test]
fn from_a_task_and_in_each_other() {
    let runtime = runtime(2);
    let sum = runtime.spawn(async {
        spawn_local(|| async {
            let sum = Rc::new(RefCell::new(Vec::new()));
            for n in 0..10 {
                let inner = spawn_local(move || async move {
                    let own = Rc::new(n);
                    yield_now().await;
                    *own
                });
                let number = inner.await.expect("no panic");
                sum.borrow_mut().push(number);
            }
            sum.take()
        })
        .await
    });
    let numbers = sum.wait().expect("no panic").expect("no panic");
    assert_eq!(numbers, (0..10).collect::<Vec<_>>());
}

#[test]
fn a_dropped_handle_lets_it_go_on() {
    let runtime = runtime(1);
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&dropped);
    let mut polls = 0;
    runtime
        .spawn_local(move || {
            let bound = Bound::new(&count);
            poll_fn(move |cx| {
                bound.touch();
                polls += 1;
                if polls < 100 {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(())
            })
        })
        .detach();
    eventually("it ends", || dropped.load(Ordering::SeqCst) == 1);
}
