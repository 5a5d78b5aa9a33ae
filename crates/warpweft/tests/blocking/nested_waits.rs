//! Two kinds of waiting that meet: each test is a place where the parts of the runtime touch.
#![cfg(feature = "net")]

use crate::matrix::{ROWS, Wait, builder, within};
use crate::waits::{round_trip, slowly};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use warpweft::sync::{Mutex, Notify, Semaphore, broadcast, channel, oneshot, watch};
use warpweft::time::{sleep, timeout};
use warpweft::{JoinError, Runtime, block_on, blocking, fiber, join, spawn_blocking, spawn_job, yield_now};

/// Runs the program with 1, 2 and 4 workers and every way of placing what was woken. A hang is a failure.
fn everywhere(what: &str, program: fn(&Runtime)) {
    for workers in [1, 2, 4] {
        for policy in ["fifo", "lifo", "prows", "parsimonious"] {
            within(&format!("{what}: {workers} {policy}"), move || {
                program(&builder(workers, policy).build().expect("workers"));
            });
        }
    }
}

const SOON: Duration = Duration::from_millis(2);

#[test]
fn a_fiber_sleeps_with_a_lock_that_jobs_want() {
    everywhere("lock", |runtime| {
        let lock = Arc::new(Mutex::new(0));
        let tasks: Vec<_> = (0..20)
            .map(|number| {
                let lock = Arc::clone(&lock);
                let add = move || {
                    let mut sum = lock.lock().wait();
                    let before = *sum;
                    block_on(sleep(Duration::from_micros(300)));
                    *sum = before + 1;
                };
                match number % 4 {
                    0 => runtime.spawn_fiber(add),
                    1 => runtime.spawn_job(add),
                    2 => runtime.spawn_job(move || blocking(add)),
                    _ => runtime.spawn_fiber(move || blocking(add)),
                }
            })
            .collect();
        for task in tasks {
            task.wait().expect("no panic");
        }
        assert_eq!(*lock.lock().wait(), 20);
    });
}

#[test]
fn the_other_half_is_a_scope_of_fibers_that_wait_for_sockets() {
    everywhere("join", |runtime| {
        let sums = runtime.install(|_| {
            join(slowly, || {
                let done = AtomicUsize::new(0);
                fiber::scope(|scope| {
                    for _ in 0..5 {
                        scope.spawn(|_| {
                            block_on(round_trip());
                            done.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
                done.into_inner()
            })
        });
        assert_eq!(sums.expect("it is open"), (7, 5));
    });
}

/// A closure in `blocking` waits for what a fiber of the same thread has: with one worker both are on one
/// thread.
#[test]
fn blocking_waits_for_a_fiber_of_its_thread() {
    for in_fiber in [false, true] {
        for spares in [true, false] {
            within(&format!("in a fiber: {in_fiber}, spares: {spares}"), move || {
                // Without a compensating worker, on whose thread the second one might start.
                let mut builder = builder(1, "fifo").stuck_after(None);
                if !spares {
                    builder = builder.max_threads(1);
                }
                let runtime = builder.build().expect("a worker");
                let lock = Arc::new(Mutex::new(0));
                let (has_it, held) = oneshot::channel();
                let (go, gone) = oneshot::channel();
                let theirs = Arc::clone(&lock);
                let holder = runtime.spawn_fiber(move || {
                    let mut guard = theirs.lock().wait();
                    has_it.send(thread::current().id()).expect("somebody waits");
                    gone.wait().expect("it is said");
                    *guard += slowly();
                    thread::current().id()
                });
                let fibers = held.wait().expect("it has the lock");
                let wait = move || {
                    let before = thread::current().id();
                    let sum = blocking(|| {
                        go.send(()).expect("it waits");
                        fiber::yield_now();
                        let (sum, _) = join(|| *lock.lock().wait(), fiber::yield_now);
                        sum
                    });
                    assert_eq!(before, thread::current().id());
                    (sum, before)
                };
                let waiter = if in_fiber {
                    runtime.spawn_fiber(wait)
                } else {
                    runtime.spawn_job(wait)
                };
                assert_eq!(waiter.wait().expect("no panic"), (7, fibers));
                assert_eq!(holder.wait().expect("no panic"), fibers);
                assert_eq!(runtime.threads().blocked, 0);
                assert_eq!(runtime.spawn_job(|| 3).wait().expect("no panic"), 3);
            });
        }
    }
}

/// After a wait in `blocking` the closure still keeps nobody from anything.
#[test]
fn blocking_that_has_waited_holds_no_worker() {
    for in_fiber in [false, true] {
        within(&format!("in a fiber: {in_fiber}"), move || {
            let runtime = builder(1, "fifo").build().expect("a worker");
            let (go, gone) = oneshot::channel::<()>();
            // A fiber that waits on this thread, which then asks for a worker while the closure waits.
            let other = runtime.spawn_fiber(move || gone.wait());
            while runtime.fibers().live == 0 {
                thread::yield_now();
            }
            let body = move || {
                blocking(|| {
                    go.send(()).expect("it waits");
                    assert_eq!(slowly(), 7);
                    let (said, hear) = std::sync::mpsc::channel();
                    spawn_job(move || said.send(())).detach();
                    // In the system: only another thread with the worker can do it.
                    hear.recv_timeout(Duration::from_secs(10)).is_ok()
                })
            };
            let task = if in_fiber {
                runtime.spawn_fiber(body)
            } else {
                runtime.spawn_job(body)
            };
            assert!(task.wait().expect("no panic"), "the closure keeps the worker");
            other.wait().expect("no panic").expect("it was told");
        });
    }
}

#[test]
fn the_pool_closes_while_blocking_waits() {
    everywhere("close", |runtime| {
        let never = runtime.spawn(pending::<()>());
        let never = Arc::new(Mutex::new(Some(never)));
        let waiting = Arc::new(AtomicUsize::new(0));
        let wait = {
            let (never, waiting) = (Arc::clone(&never), Arc::clone(&waiting));
            move || {
                blocking(|| {
                    let mut handle = never.lock().wait();
                    waiting.fetch_add(1, Ordering::Relaxed);
                    let ended = handle.take().map(warpweft::JoinHandle::wait);
                    assert!(!matches!(ended, Some(Ok(()))));
                });
            }
        };
        let tasks = [
            runtime.spawn_fiber(wait.clone()),
            runtime.spawn_fiber(wait.clone()),
            runtime.spawn_job(wait.clone()),
            runtime.spawn_job(wait),
        ];
        while waiting.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        runtime.shutdown();
        for task in tasks {
            let end = task.wait();
            assert!(matches!(end, Ok(()) | Err(JoinError::Shutdown)), "{end:?}");
        }
    });
}

#[test]
fn waits_that_time_out_lose_nothing() {
    everywhere("timeout", |runtime| {
        let permits = Arc::new(Semaphore::new(1));
        let lock = Arc::new(Mutex::new(0_u32));
        let (sender, receiver) = channel::bounded::<u32>(1);
        let told = Arc::new(Notify::new());
        let tasks: Vec<_> = (0..24)
            .map(|number| {
                let (permits, lock, sender, told) = (
                    Arc::clone(&permits),
                    Arc::clone(&lock),
                    sender.clone(),
                    Arc::clone(&told),
                );
                let limit = Duration::from_micros(100 * (number % 5));
                let all = move || {
                    block_on(async {
                        let mut sent = 0;
                        for _ in 0..10 {
                            if let Ok(permit) = timeout(limit, permits.acquire(1)).await {
                                sleep(limit / 2).await;
                                drop(permit);
                            }
                            if let Ok(mut sum) = timeout(limit, lock.lock()).await {
                                *sum += 1;
                                yield_now().await;
                            }
                            if let Ok(end) = timeout(limit, sender.send(1)).await {
                                end.expect("somebody reads");
                                sent += 1;
                            }
                            // Nobody tells.
                            assert!(timeout(limit, told.notified()).await.is_err());
                        }
                        sent
                    })
                };
                match number % 3 {
                    0 => runtime.spawn_fiber(all),
                    1 => runtime.spawn_job(all),
                    _ => runtime.spawn(async move { all() }),
                }
            })
            .collect();
        drop(sender);
        let received = runtime.spawn_fiber(move || {
            let mut sum = 0;
            while let Ok(one) = receiver.recv().wait() {
                sum += one;
            }
            sum
        });
        let sent: u32 = tasks.into_iter().map(|task| task.wait().expect("no panic")).sum();
        // What was taken in the very moment when its time was up counts as late.
        assert!(received.wait().expect("no panic") >= sent);
        assert_eq!(permits.free(), 1);
        assert!(lock.try_lock().is_some());
        told.notify_one();
        runtime.block_on(async {
            timeout(Duration::from_secs(60), told.notified())
                .await
                .expect("told");
        });
    });
}

#[test]
fn a_time_limit_for_a_handle_detaches_the_task() {
    everywhere("handle", |runtime| {
        let ended = Arc::new(AtomicUsize::new(0));
        let (open, gate) = watch::channel(false);
        let waits = move |ended: &Arc<AtomicUsize>| {
            let (ended, mut gate) = (Arc::clone(ended), gate.clone());
            move || {
                while !*gate.get() {
                    gate.changed().wait().expect("it is opened");
                }
                ended.fetch_add(1, Ordering::Relaxed);
            }
        };
        let counted = Arc::clone(&ended);
        let limits = move || {
            let mut handle = spawn_job(waits(&counted));
            block_on(async {
                let late = timeout(SOON, spawn_job(waits(&counted))).await;
                assert!(late.is_err());
                let late = timeout(SOON, fiber::spawn(waits(&counted))).await;
                assert!(late.is_err());
                let late = timeout(SOON, spawn_blocking(waits(&counted))).await;
                assert!(late.is_err());
                assert!(timeout(SOON, &mut handle).await.is_err());
            });
            handle
        };
        let handle = runtime.spawn_fiber(limits.clone()).wait().expect("no panic");
        let other = runtime.spawn_job(limits).wait().expect("no panic");
        open.send(true).expect("they look");
        handle.wait().expect("it goes on");
        other.wait().expect("it goes on");
        while ended.load(Ordering::Relaxed) < 8 {
            thread::yield_now();
        }
    });
}

#[test]
fn foreign_threads_listen_while_the_pool_closes() {
    everywhere("listeners", |runtime| {
        let (calls, call) = broadcast::channel(4);
        let (posts, post) = watch::channel(0);
        let (stream, numbers) = channel::bounded(2);
        let threads: Vec<_> = (0..3)
            .map(|kind| {
                let (mut call, mut post, numbers) = (calls.subscribe(), post.clone(), numbers.clone());
                thread::spawn(move || match kind {
                    0 => while !matches!(call.recv().wait(), Err(broadcast::RecvError::Closed)) {},
                    1 => while post.changed().wait().is_ok() {},
                    _ => while numbers.recv().wait().is_ok() {},
                })
            })
            .collect();
        drop((call, post, numbers));
        // Their ends of the channels end with the pool, wherever they are in their loops.
        let fiber = runtime.spawn_fiber(move || {
            for number in 0_u64.. {
                let _ = calls.send(number);
                block_on(sleep(Duration::from_micros(100)));
            }
        });
        let future = runtime.spawn(async move {
            for number in 0_u64.. {
                let _ = posts.send(number);
                yield_now().await;
            }
        });
        let other = runtime.spawn_fiber(move || {
            for number in 0_u64.. {
                let _ = stream.send(number).wait();
            }
        });
        thread::sleep(SOON);
        runtime.shutdown();
        for thread in threads {
            thread.join().expect("no panic");
        }
        for end in [fiber.wait(), future.wait(), other.wait()] {
            assert!(matches!(end, Err(JoinError::Shutdown)), "{end:?}");
        }
    });
}

/// Workers without spare threads run what only they may run on top of the frames that wait for it.
#[test]
fn every_worker_is_called_from_one_that_has_no_spare() {
    for workers in [1, 2] {
        within(&format!("{workers}"), move || {
            let runtime = builder(workers, "fifo").max_threads(workers).build();
            let runtime = Arc::new(runtime.expect("workers"));
            let inside = Arc::clone(&runtime);
            let numbers = runtime.spawn_job(move || inside.broadcast(|worker| worker));
            let numbers = numbers.wait().expect("no panic").expect("it is open");
            assert_eq!(numbers, (0..workers).collect::<Vec<_>>());
        });
    }
}

/// The first sleep of all begins when the pool closes already: it is a wait like any other, at which the task
/// ends.
#[test]
fn a_task_that_sleeps_for_ever_ends_with_its_pool() {
    for fiber in [false, true] {
        within(&format!("fiber: {fiber}"), move || {
            let runtime = Arc::new(builder(1, "fifo").build().expect("a worker"));
            let (inside, began) = (Arc::clone(&runtime), Arc::new(AtomicUsize::new(0)));
            let begins = Arc::clone(&began);
            let task = async move {
                begins.store(1, Ordering::Relaxed);
                while inside.try_spawn_job(|| ()).is_ok() {
                    thread::yield_now();
                }
                drop(inside);
                loop {
                    sleep(Duration::from_micros(10)).await;
                }
            };
            let task = if fiber {
                runtime.spawn_fiber(move || block_on(task))
            } else {
                runtime.spawn(task)
            };
            while began.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            runtime.shutdown();
            let end: Result<(), JoinError> = task.wait();
            assert!(matches!(end, Err(JoinError::Shutdown)), "{end:?}");
        });
    }
}

/// Nor can they be handed over when the pool closes: they leave from where they are.
#[test]
fn the_pool_closes_over_frames_without_spares() {
    for workers in [1, 2] {
        within(&format!("{workers}"), move || {
            let runtime = builder(workers, "fifo").max_threads(workers).build();
            let runtime = runtime.expect("workers");
            let waiting = Arc::new(AtomicUsize::new(0));
            let wait = |never: warpweft::JoinHandle<()>| {
                let waiting = Arc::clone(&waiting);
                move || {
                    waiting.fetch_add(1, Ordering::Relaxed);
                    assert!(matches!(never.wait(), Err(JoinError::Shutdown)));
                    assert!(matches!(spawn_job(|| ()).wait(), Err(JoinError::Shutdown)));
                }
            };
            let fiber = runtime.spawn_fiber(|| block_on(pending::<()>()));
            let jobs: Vec<_> = (0..4)
                .map(|kind| {
                    let job = wait(runtime.spawn(pending::<()>()));
                    if kind == 0 {
                        runtime.spawn_job(move || blocking(job))
                    } else {
                        runtime.spawn_job(job)
                    }
                })
                .collect();
            while waiting.load(Ordering::Relaxed) < jobs.len() {
                thread::yield_now();
            }
            runtime.shutdown();
            for job in jobs {
                job.wait().expect("no panic");
            }
            assert!(matches!(fiber.wait(), Err(JoinError::Shutdown)));
        });
    }
}

/// A frame that unwinds waits, in a destructor, for a fiber of its thread that waits in turn.
#[test]
fn an_unwinding_job_waits_for_a_fiber_of_its_thread() {
    struct WaitsFor(Option<oneshot::Sender<()>>, Option<warpweft::JoinHandle<u32>>);
    impl Drop for WaitsFor {
        fn drop(&mut self) {
            self.0.take().map(|go| go.send(()));
            let fiber = self.1.take().expect("it is dropped once");
            assert_eq!(fiber.wait().expect("no panic"), 7);
        }
    }
    everywhere("unwinding", |runtime| {
        let (go, gone) = oneshot::channel();
        let fiber = runtime.spawn_fiber(move || {
            gone.wait().expect("it is said");
            slowly()
        });
        while runtime.fibers().live == 0 {
            thread::yield_now();
        }
        let waits = WaitsFor(Some(go), Some(fiber));
        let job = runtime.spawn_job(move || {
            let _waits = waits;
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(matches!(job.wait(), Err(JoinError::Panicked(_))));
    });
}

/// Everybody at once, while other runtimes of the same process come and go.
#[test]
fn a_crowd_while_runtimes_come_and_go() {
    within("crowd", || {
        let runtime = builder(2, "lifo").build().expect("workers");
        thread::scope(|scope| {
            for (_, call) in ROWS {
                let wait = Wait {
                    direct: || block_on(round_trip()),
                    pure: true,
                };
                let runtime = &runtime;
                scope.spawn(move || call(runtime, wait));
            }
            for _ in 0..20 {
                let short = builder(1, "fifo").build().expect("a worker");
                let tasks = [
                    short.spawn_fiber(|| block_on(pending::<()>())),
                    short.spawn(async { sleep(Duration::from_secs(3600)).await }),
                ];
                drop(short);
                for task in tasks {
                    assert!(matches!(task.wait(), Err(JoinError::Shutdown)));
                }
            }
        });
    });
}
