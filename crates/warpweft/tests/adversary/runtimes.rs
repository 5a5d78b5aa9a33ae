//! Runtimes that start and end in odd places, many at a time, with odd settings.
#![forbid(unsafe_code)]

use crate::keepers::{all_answer, eventually, threads};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;
use warpweft::net::UnixStream;
use warpweft::time::sleep;
use warpweft::{
    EnterError, Io, JoinError, Pool, Runtime, SpawnError, block_on, blocking, default_runtime, fiber, spawn,
    spawn_blocking, spawn_job, yield_now,
};

/// Tries: 200 runtimes, built and dropped by several threads at once, with work of all kinds under way.
/// Expected: each ends, and all threads leave.
#[test]
fn two_hundred_runtimes_at_once() {
    program!(|world| {
        let before = threads();
        let builders: Vec<_> = (0..4)
            .map(|seed| {
                thread::spawn(move || {
                    for n in 0..world.count(50) {
                        let io = if (n + seed) % 3 == 0 {
                            Io::Thread
                        } else {
                            Io::Inline
                        };
                        let runtime = world.builder().io(io).build().expect("a runtime");
                        runtime
                            .spawn(async { sleep(Duration::from_secs(3600)).await })
                            .detach();
                        runtime
                            .spawn_fiber(|| fiber::wait(sleep(Duration::from_secs(3600))))
                            .detach();
                        runtime.spawn_job(|| drop(spawn_blocking(|| ()).wait())).detach();
                        runtime
                            .spawn(async {
                                let (a, b) = UnixStream::pair().expect("descriptors");
                                let _ = a.write_all(b"x").await;
                                let _ = b.read(&mut [0; 8]).await;
                                let _ = b.read(&mut [0; 8]).await;
                            })
                            .detach();
                        if n % 4 == seed % 4 {
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        builders
            .into_iter()
            .for_each(|builder| builder.join().expect("no panic"));
        eventually("all threads leave", || threads() <= before);
    });
}

/// Tries: a runtime that is dropped by its own job, future, fiber, blocking closure, waker-like destructor
/// and thread-local. Expected: it ends by itself; the task that dropped it runs to its end.
#[test]
fn a_runtime_is_dropped_from_inside() {
    type SharedRuntime = Arc<Mutex<Option<Runtime>>>;
    /// The lock is free while the runtime ends: its tasks may need it.
    fn end(place: &SharedRuntime) {
        let runtime = place.lock().expect("a lock").take();
        drop(runtime);
    }
    struct Ends(SharedRuntime);
    impl Drop for Ends {
        fn drop(&mut self) {
            end(&self.0);
        }
    }
    thread_local!(static LATE: std::cell::RefCell<Vec<Ends>> = const { std::cell::RefCell::new(Vec::new()) });
    program!(|world| {
        for way in 0..8 {
            for _ in 0..world.count(10) {
                let place = SharedRuntime::default();
                let (sender, ended) = mpsc::channel();
                let runtime = world.runtime();
                let ends = Ends(Arc::clone(&place));
                let (open, gate) = mpsc::channel::<()>();
                let told = move |ends: Ends| {
                    drop(ends);
                    let refused = Pool::current().map(|pool| pool.try_spawn_job(|| ()).is_err());
                    drop(sender.send(refused));
                };
                let asleep = runtime.spawn(std::future::pending::<()>());
                let wait = move || {
                    let _ = blocking(|| gate.recv());
                };
                match way {
                    0 => runtime.spawn_job(move || (wait(), told(ends)).1).detach(),
                    1 => runtime.spawn_fiber(move || (wait(), told(ends)).1).detach(),
                    2 => runtime
                        .spawn(async move {
                            wait();
                            yield_now().await;
                            told(ends);
                        })
                        .detach(),
                    3 => {
                        let closure = move || (wait(), told(ends)).1;
                        runtime.try_spawn_blocking(closure).expect("a thread").detach();
                    }
                    4 => {
                        // Its own destructor, at the end of the runtime that another task ends.
                        runtime
                            .spawn_fiber(move || {
                                let _ends = ends;
                                wait();
                                fiber::wait(std::future::pending::<()>());
                            })
                            .cancel();
                    }
                    5 => runtime
                        .spawn_job(move || {
                            wait();
                            LATE.with(|late| late.borrow_mut().push(ends));
                        })
                        .detach(),
                    6 => runtime
                        .spawn_job(move || {
                            wait();
                            warpweft::join(thread::yield_now, || told(ends));
                        })
                        .detach(),
                    _ => runtime
                        .spawn_job(move || {
                            wait();
                            blocking(|| told(ends));
                        })
                        .detach(),
                }
                *place.lock().expect("a lock") = Some(runtime);
                drop(open);
                if way == 4 || way == 5 {
                    thread::sleep(Duration::from_millis(1));
                    end(&place);
                } else {
                    let _ = ended.recv();
                }
                assert!(matches!(asleep.wait(), Err(JoinError::Shutdown)), "way {way}");
            }
        }
    });
}

/// Tries: runtimes that call each other in a circle: `install`, `block_on`, `broadcast`, `Pool::run`, on jobs
/// and fibers. Expected: each call ends, with one worker too.
#[test]
fn calls_between_runtimes_in_circles() {
    program!(|world| {
        let runtimes: Arc<Vec<Runtime>> = Arc::new((0..3).map(|_| world.runtime()).collect());
        fn turn(runtimes: &Arc<Vec<Runtime>>, n: usize) -> usize {
            if n == 0 {
                return 0;
            }
            let next = &runtimes[n % 3];
            1 + match n % 5 {
                0 => next.install(|_| turn(runtimes, n - 1)).expect("it is open"),
                1 => next.block_on(async { turn(runtimes, n - 1) }),
                2 => next.first().run(|| turn(runtimes, n - 1)).expect("it is open"),
                3 => {
                    let inner = Arc::clone(runtimes);
                    next.spawn_fiber(move || turn(&inner, n - 1))
                        .wait()
                        .expect("no panic")
                }
                _ => {
                    let all = next.broadcast(|worker| (worker == 0).then(|| turn(runtimes, n - 1)));
                    all.expect("it is open").into_iter().flatten().sum()
                }
            }
        }
        for n in 0..world.count(20) {
            let inside = Arc::clone(&runtimes);
            let job = runtimes[n % 3].spawn_job(move || turn(&inside, 12));
            let inside = Arc::clone(&runtimes);
            let fiber = runtimes[(n + 1) % 3].spawn_fiber(move || turn(&inside, 12));
            assert_eq!(turn(&runtimes, 12), 12);
            assert_eq!(job.wait().expect("no panic"), 12);
            assert_eq!(fiber.wait().expect("no panic"), 12);
        }
    });
}

/// Tries: `block_on` inside of `block_on`, on the same runtime, on others, and on one that ends meanwhile.
/// Expected: the right pool is found at each level, and again afterwards.
#[test]
fn visits_inside_of_visits() {
    program!(|world| {
        let build = |name: &str| world.builder().name(name).build().expect("a runtime");
        let (a, b) = (build("a"), build("b"));
        let name = || Pool::current().map(|pool| pool.name().to_owned());
        let nested = || {
            a.block_on(async {
                assert_eq!(name().as_deref(), Some("a"));
                b.block_on(async {
                    assert_eq!(name().as_deref(), Some("b"));
                    a.block_on(async { sleep(Duration::from_micros(50)).await });
                    let ends = build("c");
                    ends.block_on(async {
                        ends.shutdown();
                        assert!(matches!(ends.try_spawn_job(|| ()), Err(SpawnError::Closed)));
                        assert!(matches!(spawn(async {}).await, Err(JoinError::Shutdown)));
                    });
                    drop(ends);
                    let panics = catch_unwind(AssertUnwindSafe(|| a.block_on(async { panic!("inside") })));
                    assert!(panics.is_err());
                    assert_eq!(name().as_deref(), Some("b"));
                });
                assert_eq!(name().as_deref(), Some("a"));
                yield_now().await;
            });
        };
        for _ in 0..world.count(10) {
            nested();
            assert!(name().is_none());
            b.install(|_| {
                nested();
                assert_eq!(name().as_deref(), Some("b"));
            })
            .expect("it is open");
        }
    });
}

/// Tries: settings at the ends of their ranges. Expected: an error with a reason, or a runtime that works.
#[test]
fn settings_at_the_ends_of_their_ranges() {
    program!(|world| {
        for workers in [0, usize::MAX, 5000] {
            assert!(Runtime::builder().workers(workers).build().is_err());
        }
        assert!(world.builder().capacity(0).build().is_err());
        let runtimes = [
            world.builder().capacity(usize::MAX).build(),
            world.builder().capacity(1).build(),
            world.builder().max_threads(0).build(),
            world.builder().max_blocking_threads(0).build(),
            world.builder().blocking_keep_alive(Duration::ZERO).build(),
            world.builder().blocking_keep_alive(Duration::MAX).build(),
            world.builder().stuck_after(Some(Duration::ZERO)).build(),
            world.builder().stuck_after(Some(Duration::MAX)).build(),
            world.builder().quantum(1).build(),
            world.builder().quantum(u32::MAX).build(),
            world.builder().name("").build(),
            world.builder().name("a very long name ".repeat(1000)).build(),
        ];
        for (n, runtime) in runtimes.into_iter().enumerate() {
            let Ok(runtime) = runtime else { continue };
            let handles: Vec<_> = (0..20)
                .map(|n| match n % 3 {
                    0 => runtime.spawn_job(|| ()),
                    1 => runtime.spawn(async { sleep(Duration::from_micros(10)).await }),
                    _ => runtime.spawn_fiber(|| fiber::wait(sleep(Duration::from_micros(10)))),
                })
                .collect();
            assert_eq!(all_answer(handles).done, 20, "setting {n}");
            let _ = runtime.try_spawn_blocking(|| ());
            let called = runtime.spawn_job(|| blocking(|| 7));
            assert_eq!(called.wait().expect("no panic"), 7, "setting {n}");
        }
        let nul = catch_unwind(|| {
            world
                .builder()
                .name("a\0b")
                .build()
                .map(|runtime| runtime.workers())
        });
        assert!(nul.is_err() || nul.is_ok_and(|built| built.is_ok() || built.is_err()));
    });
}

/// Tries: pools, concurrency limits and silos that are used after their runtime has ended, and while it ends.
/// Expected: the documented errors.
#[test]
fn handles_of_pools_after_the_end() {
    program!(|world| {
        for _ in 0..world.count(20) {
            let second = || Runtime::builder().workers(1).capacity(2);
            let runtime = world
                .builder()
                .then("second", second())
                .silos("silo", 2, |_| second());
            let runtime = runtime.build().expect("a runtime");
            let pools: Vec<Pool> = runtime.pools().to_vec();
            let silos = runtime.silos("silo").expect("they are there");
            let views: Vec<_> = pools
                .iter()
                .map(|pool| pool.concurrency_limit(1).expect("a limit"))
                .collect();
            assert!(pools[0].concurrency_limit(0).is_err());
            assert_eq!(views[0].spawn_job(|| 7).wait().expect("no panic"), 7);
            let waiting = views[0].spawn(async { sleep(Duration::from_secs(3600)).await });
            let behind = views[0].spawn(async {});
            drop(runtime);
            assert!(matches!(waiting.wait(), Err(JoinError::Shutdown)));
            // The one before it gave its place up as it ended: this one may have come just then.
            let _: Result<(), JoinError> = behind.wait();
            for (pool, concurrency_limit) in pools.iter().zip(&views) {
                assert!(pool.is_closed() && !pool.is_here());
                assert!(matches!(pool.try_spawn_job(|| ()), Err(SpawnError::Closed)));
                assert!(matches!(pool.run(|| ()), Err(EnterError::Closed)));
                assert!(matches!(pool.spawn(async {}).wait(), Err(JoinError::Shutdown)));
                assert!(block_on(pool.enter()).is_err());
                assert!(concurrency_limit.spawn_job(|| ()).wait().is_err());
                let _ = (
                    pool.counters(),
                    pool.threads(),
                    pool.idle_workers(),
                    pool.free_places(),
                    concurrency_limit.free(),
                );
            }
            assert!(silos.of("key").is_closed());
            assert!(silos.get(usize::MAX).is_none());
        }
    });
}

/// Tries: a runtime that is dropped while sockets, timers, streams of connections and blocking closures are
/// in use, and used by other runtimes' tasks. Expected: each operation ends with an error or a result, and
/// sleeps go on in the other runtime.
#[test]
fn a_runtime_ends_while_its_driver_is_used_elsewhere() {
    program!(|world| {
        for round in 0..world.count(20) {
            let (owner, user) = (world.runtime(), world.runtime());
            let pairs: Vec<_> = owner.block_on(async {
                (0..10)
                    .map(|_| UnixStream::pair().expect("descriptors"))
                    .collect()
            });
            let users: Vec<_> = pairs
                .into_iter()
                .enumerate()
                .map(|(n, (a, b))| {
                    let future = async move {
                        for _ in 0..200 {
                            if a.write_all(b"hello").await.is_err() {
                                break;
                            }
                            if b.read_exact(&mut [0; 5]).await.is_err() {
                                break;
                            }
                        }
                        let _ = a.read(&mut [0; 1]).await;
                    };
                    if n % 2 == 0 {
                        user.spawn(future)
                    } else {
                        user.spawn_fiber(move || fiber::wait(future))
                    }
                })
                .collect();
            let (sender, timed_parks) = mpsc::channel();
            owner
                .spawn(async move {
                    for _ in 0..10 {
                        let mut timed_park = Box::pin(sleep(Duration::from_millis(5)));
                        std::future::poll_fn(|cx| {
                            let _ = timed_park.as_mut().poll(cx);
                            std::task::Poll::Ready(())
                        })
                        .await;
                        drop(sender.send(timed_park));
                    }
                })
                .wait()
                .expect("no panic");
            let timed_parks: Vec<_> = timed_parks
                .iter()
                .map(|timed_park| user.spawn(timed_park))
                .collect();
            thread::sleep(Duration::from_micros(50 * round as u64));
            drop(owner);
            assert_eq!(all_answer(timed_parks).all(), 10);
            assert_eq!(all_answer(users).all(), 10);
        }
    });
}

/// Spawns when it is dropped.
struct SpawnsAsItGoes(u32, Arc<AtomicUsize>);

impl Drop for SpawnsAsItGoes {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
        if let Some(less) = self.0.checked_sub(1) {
            let (a, b) = (
                SpawnsAsItGoes(less, Arc::clone(&self.1)),
                SpawnsAsItGoes(less, Arc::clone(&self.1)),
            );
            spawn_job(move || drop(a)).detach();
            spawn(async move {
                let _b = b;
                std::future::pending::<()>().await;
            })
            .detach();
        }
    }
}

/// Tries: destructors that spawn more of their kind during shutdown. Expected: all are dropped.
#[test]
fn destructors_spawn_during_shutdown() {
    program!(|world| {
        for _ in 0..world.count(10) {
            let count = Arc::new(AtomicUsize::new(0));
            let runtime = world.runtime();
            for _ in 0..10 {
                let goes = SpawnsAsItGoes(4, Arc::clone(&count));
                runtime
                    .spawn(async move {
                        let _goes = goes;
                        std::future::pending::<()>().await;
                    })
                    .detach();
            }
            drop(runtime);
            eventually("all go", || count.load(Ordering::Relaxed) == 10 * 31);
        }
    });
}

/// Tries: reports of stuck workers that panic, wait, and end the runtime. Expected: the runtime continues, or
/// ends.
#[test]
fn reports_that_misbehave() {
    program!(|world| {
        for way in 0..4 {
            let place: Arc<Mutex<Option<Arc<Runtime>>>> = Arc::default();
            let (inside, reports) = (Arc::clone(&place), Arc::new(AtomicUsize::new(0)));
            let counted = Arc::clone(&reports);
            let builder = world
                .builder()
                .stuck_after(Some(Duration::from_millis(2)))
                .on_stall(move |stall| {
                    counted.fetch_add(1, Ordering::Relaxed);
                    let _ = format!("{stall} {stall:?}");
                    match way {
                        0 => panic!("a report panics"),
                        1 => drop(default_runtime().spawn_job(|| ()).wait()),
                        2 => {
                            let runtime = inside.lock().expect("a lock").take();
                            drop(runtime);
                        }
                        _ => drop(warpweft::join(|| (), || ())),
                    }
                });
            let runtime = Arc::new(builder.build().expect("a runtime"));
            let stuck = runtime.spawn_job(|| thread::sleep(Duration::from_millis(30)));
            let others: Vec<_> = (0..10)
                .map(|_| runtime.spawn(async { yield_now().await }))
                .collect();
            *place.lock().expect("a lock") = Some(runtime);
            assert_eq!(all_answer(others).all(), 10);
            let _ = stuck.wait();
            eventually("it is reported", || reports.load(Ordering::Relaxed) > 0);
            let runtime = place.lock().expect("a lock").take();
            drop(runtime);
        }
    });
}

/// Tries: stacks of threads that are too small for anything. Expected: an error of `build`, or tasks that
/// run.
#[test]
fn stacks_of_threads_that_are_too_small() {
    program!(|world| {
        for bytes in [0, 1, 4096, 16 * 1024] {
            if let Ok(runtime) = world.builder().stack_size(bytes).build() {
                let handles = [
                    runtime.spawn_job(|| ()),
                    runtime.spawn(async { sleep(Duration::from_micros(10)).await }),
                ];
                assert_eq!(all_answer(handles).done, 2, "{bytes}");
            }
        }
        assert!(world.builder().stack_size(usize::MAX / 2).build().is_err());
    });
}
