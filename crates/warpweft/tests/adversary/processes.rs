//! `fork()`, sandboxes that are entered late, and threads that the system refuses.
#![forbid(unsafe_code)]

use crate::child::World;
use crate::keepers::{all_answer, eventually};
use crate::system::{Refuse, SharedCounter, enter_sandbox, fork, fork_and_return, leave, wait_for};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::Duration;
use warpweft::time::sleep;
use warpweft::{
    JoinError, Runtime, SpawnError, block_on, blocking, fiber, join, scope, spawn, spawn_job, yield_now,
};

/// Waits for the child of a task, and says that it has ended by itself. A signal is an end by itself only if
/// it is none.
fn ends_by_itself(child: i32) {
    let status = wait_for(child);
    assert_eq!(status & 0x7f, 0, "the child ended by a signal: {status:#x}");
}

/// Tries: one of 100 jobs forks and returns in both processes.
/// Expected: in parent and child together each job has run once; the child ends.
#[test]
fn a_job_forks_and_returns() {
    program!(|world| {
        for _ in 0..world.count(10) {
            let runtime = world.runtime();
            let runs = Arc::new(SharedCounter::new());
            let child = Arc::new(AtomicI32::new(0));
            let handles: Vec<_> = (0..100)
                .map(|n| {
                    let (runs, child) = (Arc::clone(&runs), Arc::clone(&child));
                    runtime.spawn_job(move || {
                        if n == 7 {
                            match fork_and_return() {
                                // The job itself counts once, in the parent.
                                0 => return,
                                process => child.store(process, Ordering::Relaxed),
                            }
                        }
                        runs.get().fetch_add(1, Ordering::Relaxed);
                    })
                })
                .collect();
            assert_eq!(all_answer(handles).done, 100);
            ends_by_itself(child.load(Ordering::Relaxed));
            assert_eq!(runs.get().load(Ordering::Relaxed), 100);
        }
    });
}

/// Tries: a future and a fiber fork, beside others that are ready on the same thread, and wait or yield
/// afterwards in both processes. Expected: as above.
#[test]
fn futures_and_fibers_fork_and_wait() {
    program!(|world| {
        for n in 0..world.count(12) {
            let runtime = world.runtime();
            let runs = Arc::new(SharedCounter::new());
            let child = Arc::new(AtomicI32::new(0));
            let others = |steps: usize| {
                let runs = Arc::clone(&runs);
                move || {
                    for _ in 0..steps {
                        fiber::yield_now();
                    }
                    runs.get().fetch_add(1, Ordering::Relaxed);
                }
            };
            let mut handles: Vec<_> = (0..20).map(|n| runtime.spawn_fiber(others(n))).collect();
            let told = Arc::clone(&child);
            let forks = move || {
                let process = fork_and_return();
                if process != 0 {
                    told.store(process, Ordering::Relaxed);
                }
            };
            handles.push(match n % 4 {
                0 => runtime.spawn_fiber(move || {
                    forks();
                    fiber::yield_now();
                    fiber::yield_now();
                }),
                1 => runtime.spawn_fiber(move || {
                    fiber::yield_now();
                    forks();
                    fiber::wait(sleep(Duration::from_micros(100)));
                }),
                2 => runtime.spawn(async move {
                    forks();
                    yield_now().await;
                }),
                _ => runtime.spawn(async move {
                    yield_now().await;
                    forks();
                    sleep(Duration::from_micros(100)).await;
                }),
            });
            handles.extend((0..20).map(|n| runtime.spawn_fiber(others(n))));
            assert_eq!(all_answer(handles).done, 41);
            ends_by_itself(child.load(Ordering::Relaxed));
            assert_eq!(runs.get().load(Ordering::Relaxed), 40);
        }
    });
}

/// Asks the runtime of the parent for everything. Each call is an error or a panic; none hangs. What the
/// child needs, it can create.
fn asks_in_vain(runtime: &Runtime, world: World) -> i32 {
    let ask = || {
        assert!(matches!(runtime.try_spawn_job(|| ()), Err(SpawnError::Forked)));
        assert!(matches!(runtime.spawn_job(|| ()).wait(), Err(JoinError::Forked)));
        assert!(matches!(runtime.install(|_| ()), Err(SpawnError::Forked)));
        assert!(runtime.try_spawn_blocking(|| ()).is_err());
        let timed_park = || runtime.block_on(async { sleep(Duration::from_millis(1)).await });
        assert!(catch_unwind(AssertUnwindSafe(timed_park)).is_err());
        runtime.shutdown();
        let own = world.runtime();
        let handles = [
            own.spawn_job(|| drop(join(|| (), || ()))),
            own.spawn_fiber(|| block_on(sleep(Duration::from_micros(10)))),
        ];
        assert_eq!(all_answer(handles).done, 2);
    };
    i32::from(catch_unwind(AssertUnwindSafe(ask)).is_err())
}

/// Tries: forks of the main thread, of a job, of a fiber, of a blocking closure and of an installed closure,
/// whose children ask the parent's runtime for everything. Expected: the documented errors; a runtime of the
/// child works.
#[test]
fn children_ask_the_parents_runtime() {
    program!(|world| {
        let runtime = Arc::new(world.runtime());
        let sleeper = runtime.spawn_fiber(|| block_on(std::future::pending::<()>()));
        let inside = || {
            let runtime = Arc::clone(&runtime);
            move || assert_eq!(fork(|| asks_in_vain(&runtime, world)), 0)
        };
        for _ in 0..world.count(5) {
            inside()();
            runtime.spawn_job(inside()).wait().expect("no panic");
            runtime.spawn_fiber(inside()).wait().expect("no panic");
            runtime.install(|_| inside()()).expect("it is open");
            let closure = inside();
            runtime
                .spawn_job(move || blocking(closure))
                .wait()
                .expect("no panic");
            runtime
                .try_spawn_blocking(inside())
                .expect("a thread")
                .wait()
                .expect("no panic");
            assert_eq!(runtime.spawn_job(|| 7).wait().expect("no panic"), 7);
        }
        assert!(sleeper.cancel());
    });
}

/// Tries: children that continue with what they had: a fork that others have, a scope, a handle, a lock, and
/// then return. Expected: the child ends by itself within its limit, with an error, a panic or the result.
#[test]
fn children_wait_for_what_is_the_parents() {
    program!(|world| {
        let runtime = Arc::new(world.runtime());
        for n in 0..world.count(8) {
            let child = Arc::new(AtomicI32::new(0));
            let told = Arc::clone(&child);
            let other = Arc::clone(&runtime);
            let end = runtime.spawn_job(move || {
                let handle = spawn(async { sleep(Duration::from_millis(2)).await });
                let forks = || {
                    let process = fork_and_return();
                    if process != 0 {
                        told.store(process, Ordering::Relaxed);
                    }
                };
                match n % 4 {
                    0 => {
                        // The second half may be another worker's.
                        join(
                            || {
                                thread::sleep(Duration::from_micros(300));
                                forks();
                            },
                            || thread::sleep(Duration::from_millis(2)),
                        );
                    }
                    1 => scope(|scope| {
                        scope.spawn(|_| thread::sleep(Duration::from_millis(1)));
                        forks();
                    }),
                    2 => {
                        forks();
                        drop(handle.wait());
                    }
                    _ => {
                        forks();
                        drop(other.spawn_job(|| ()).wait());
                        spawn_job(|| ()).detach();
                    }
                }
            });
            let _ = end.wait();
            ends_by_itself(child.load(Ordering::Relaxed));
        }
    });
}

/// Tries: a fork while other threads build and drop runtimes, and a child that returns from `main` by itself.
/// Expected: the child ends.
#[test]
fn forks_while_runtimes_come_and_go() {
    program!(|world| {
        let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let builder = thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let runtime = world.runtime();
                runtime.spawn_job(|| ()).wait().expect("no panic");
            }
        });
        for _ in 0..world.count(20) {
            let process = fork_and_return();
            if process == 0 {
                leave(0);
            }
            ends_by_itself(process);
        }
        over.store(true, Ordering::Relaxed);
        builder.join().expect("no panic");
    });
}

/// Tries: a sandbox that refuses `membarrier`, entered while a runtime works and sleeps.
/// Expected: work continues, without a panic and without a lost wake-up; a new runtime works, too.
#[test]
fn a_sandbox_refuses_the_barrier_later() {
    program!(|world| {
        let runtime = world.runtime();
        let work = |runtime: &Runtime| {
            let handles: Vec<_> = (0..50)
                .map(|n| match n % 4 {
                    0 => runtime.spawn_job(|| drop(join(|| thread::sleep(Duration::from_micros(20)), || ()))),
                    1 => runtime.spawn(async { sleep(Duration::from_micros(50)).await }),
                    2 => runtime.spawn_fiber(|| fiber::wait(sleep(Duration::from_micros(50)))),
                    _ => runtime.spawn_job(|| drop(spawn_job(|| ()).wait())),
                })
                .collect();
            assert_eq!(all_answer(handles).done, 50);
        };
        work(&runtime);
        if !enter_sandbox(Refuse::Membarrier) {
            eprintln!("the system allows no filter of system calls: skipped");
            return;
        }
        for _ in 0..world.count(50) {
            work(&runtime);
            thread::sleep(Duration::from_micros(500));
        }
        work(&world.runtime());
    });
}

/// A way to reach the default runtime, and its name.
type Direction = (&'static str, Box<dyn Fn()>);

/// Tries: a sandbox that refuses threads before there is a default runtime; all ways to reach it. Expected:
/// an error or a panic that can be caught, for each; the process continues, and work of an older runtime,
/// too.
#[test]
fn threads_are_refused_before_the_default_runtime() {
    program!(|world| {
        let runtime = world.runtime();
        assert_eq!(runtime.spawn_job(|| 7).wait().expect("no panic"), 7);
        if !enter_sandbox(Refuse::Threads) {
            eprintln!("the system allows no filter of system calls: skipped");
            return;
        }
        let hooks: Vec<Direction> = vec![
            ("spawn", Box::new(|| drop(spawn(async {})))),
            ("spawn_job", Box::new(|| drop(spawn_job(|| ())))),
            ("fiber", Box::new(|| drop(fiber::spawn(|| ())))),
            (
                "try fiber",
                Box::new(|| drop(fiber::try_spawn(|| ()).expect("no threads"))),
            ),
            ("join", Box::new(|| drop(join(|| (), || ())))),
            ("scope", Box::new(|| scope(|scope| scope.spawn(|_| ())))),
            ("par_for", Box::new(|| warpweft::par_for(0..10, 1, |_| ()))),
            (
                "fiber scope",
                Box::new(|| fiber::scope(|scope| scope.spawn(|_| ()))),
            ),
            ("sleep", Box::new(|| block_on(sleep(Duration::from_micros(10))))),
            (
                "blocking",
                Box::new(|| drop(warpweft::try_spawn_blocking(|| ()).expect("no threads"))),
            ),
            (
                "join_async",
                Box::new(|| drop(block_on(warpweft::join_async(async {}, async {})))),
            ),
            (
                "default",
                Box::new(|| assert!(warpweft::default_runtime().workers() > 0)),
            ),
        ];
        for (name, way) in &hooks {
            for _ in 0..2 {
                let end = catch_unwind(AssertUnwindSafe(way));
                let refused = end.is_err() || *name == "join_async";
                assert!(refused, "{name} worked without threads");
            }
        }
        assert!(world.builder().build().is_err());
        // The older one continues with the threads that it has.
        let handles: Vec<_> = (0..20)
            .map(|_| runtime.spawn_job(|| drop(spawn_job(|| 1).wait())))
            .collect();
        assert_eq!(all_answer(handles).done, 20);
        eventually("it is idle", || runtime.idle_workers().1 <= world.workers);
    });
}
