//! Calls of rayon in a program that also uses Warpweft: under its tokens, and in its runtimes.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use rayon_core::{ThreadPool, ThreadPoolBuilder, broadcast, in_place_scope, join, join_context, scope};
use warpweft::cancel::CancelToken;
use warpweft::{GracefulShutdown, Runtime, ShutdownStep};

#[path = "../../../crates/warpweft/tests/support/in_time.rs"]
mod in_time;
use in_time::in_time;

const MINUTE: Duration = Duration::from_secs(60);

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new()
        .num_threads(threads)
        .panic_handler(|_| PANICS.set())
        .build()
        .expect("threads")
}

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("workers")
}

/// How many closures that nobody waits for have panicked.
static PANICS: Panics = Panics(AtomicUsize::new(0));

struct Panics(AtomicUsize);

impl Panics {
    fn set(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn number(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// A request that is cancelled has begun work that outlives it.
#[test]
fn the_callers_token_is_not_that_of_what_it_spawns() {
    in_time(|| {
        let (runtime, pool, token) = (runtime(1), pool(2), CancelToken::new());
        let (tell, told) = mpsc::channel();
        let (started, begun) = mpsc::channel();
        let cancelled = Arc::new(AtomicBool::new(false));
        let is_cancelled = Arc::clone(&cancelled);
        let request = runtime.spawn(token.run_async(async move {
            for way in 0..3 {
                let (tell, is_cancelled) = (tell.clone(), Arc::clone(&is_cancelled));
                let work = move || {
                    while !is_cancelled.load(Ordering::SeqCst) {
                        thread::sleep(Duration::from_millis(1));
                    }
                    tell.send((way, join(|| 1, || 2))).expect("the test waits");
                };
                match way {
                    0 => pool.spawn(work),
                    1 => pool.spawn_fifo(work),
                    _ => pool.spawn_broadcast(move |context| {
                        if context.index() == 1 {
                            work();
                        }
                    }),
                }
            }
            started.send(()).expect("the test waits");
            warpweft::time::sleep(MINUTE).await;
        }));
        begun.recv_timeout(MINUTE).expect("it begins");
        token.cancel();
        request.wait().expect("no panic").expect_err("it is cancelled");
        cancelled.store(true, Ordering::SeqCst);
        let mut ends: Vec<_> = (0..3)
            .map(|_| told.recv_timeout(MINUTE).expect("it runs to its end"))
            .collect();
        ends.sort_unstable();
        assert_eq!(ends, [(0, (1, 2)), (1, (1, 2)), (2, (1, 2))]);
        assert_eq!(PANICS.number(), 0);
    });
}

/// Those that wait behind others run, too.
#[test]
fn what_is_spawned_under_a_token_that_is_cancelled_runs() {
    in_time(|| {
        let (pool, token) = (pool(1), CancelToken::new());
        let (tell, told) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        pool.spawn(move || gone.recv().expect("the test sends"));
        let _ended = token.run(|| {
            for number in 0..3 {
                let (early, late) = (tell.clone(), tell.clone());
                pool.spawn(move || early.send(number).expect("the test waits"));
                pool.spawn_broadcast(move |_| late.send(number).expect("the test waits"));
            }
        });
        token.cancel();
        go.send(()).expect("the closure waits");
        drop(tell);
        assert_eq!(told.iter().count(), 6);
    });
}

/// In a task of a runtime the closures are the runtime's, and it waits for them.
#[test]
fn a_shutdown_that_cancels_waits_for_what_was_spawned() {
    in_time(|| {
        let (runtime, token) = (runtime(2), CancelToken::new());
        let (tell, told) = mpsc::channel();
        let (started, begun) = mpsc::channel();
        let request = token.run_async(async move {
            rayon_core::spawn(move || {
                started.send(()).expect("the test waits");
                thread::sleep(Duration::from_millis(20));
                let mut sum = join(|| 1, || 2).0;
                rayon_core::scope(|scope| scope.spawn(|_| sum += 1));
                tell.send(sum).expect("the test waits");
            });
            warpweft::time::sleep(MINUTE).await;
        });
        runtime.spawn(request).detach();
        begun.recv_timeout(MINUTE).expect("it begins");
        let shutdown = GracefulShutdown::within(MINUTE)
            .drain_for(Duration::from_millis(1))
            .then_cancel(&token);
        let step = runtime.shutdown_gracefully(&shutdown);
        assert_eq!(step.expect("in time"), ShutdownStep::Cancelled);
        assert_eq!(told.recv_timeout(MINUTE), Ok(2));
    });
}

/// A task of Warpweft may run when the pool on whose threads it is has been dropped.
#[test]
fn a_task_that_outlives_its_pool_forks_and_finds_the_pool() {
    in_time(|| {
        for _ in 0..20 {
            let pool = pool(2);
            let (started, begun) = mpsc::channel();
            let (go, gone) = mpsc::channel::<()>();
            let task = pool.install(|| {
                warpweft::spawn_job(move || {
                    started.send(()).expect("the test waits");
                    gone.recv().expect("the test sends");
                    let threads = rayon_core::current_num_threads();
                    let mut sum = 0;
                    rayon_core::scope(|scope| scope.spawn(|_| sum = join(|| 1, || 2).1));
                    // The pool runs no more of these, and says nothing.
                    rayon_core::spawn(|| ());
                    rayon_core::spawn_fifo(|| ());
                    (threads, sum)
                })
            });
            begun.recv_timeout(MINUTE).expect("it begins");
            drop(pool);
            // Its shutdown has begun when another thread of it has ended, which need not be waited for.
            thread::sleep(Duration::from_millis(2));
            go.send(()).expect("the task waits");
            assert_eq!(task.wait().expect("no panic"), (2, 2));
        }
    });
}

/// Wherever code of a runtime runs, rayon's functions use its workers: no second pool is there.
#[test]
fn code_that_a_runtime_runs_without_a_worker_uses_its_workers() {
    fn names() -> HashSet<String> {
        let names = Mutex::new(HashSet::new());
        let note = || {
            let name = thread::current().name().unwrap_or("?").to_owned();
            names.lock().expect("no panic").insert(name);
        };
        join(note, note);
        join_context(|_| note(), |_| note());
        scope(|scope| scope.spawn(|_| note()));
        in_place_scope(|scope| scope.spawn(|_| note()));
        broadcast(|_| note());
        let (tell, told) = mpsc::channel();
        let name = || thread::current().name().map(str::to_owned);
        rayon_core::spawn(move || tell.send(name()).expect("it waits"));
        let mut names = names.into_inner().expect("no panic");
        names.extend(told.recv_timeout(MINUTE).expect("it runs"));
        names
    }
    in_time(|| {
        let runtime = Runtime::builder()
            .name("ours")
            .workers(2)
            .build()
            .expect("workers");
        let all = [
            runtime.spawn_job(names).wait().expect("no panic"),
            runtime.block_on(async { names() }),
            runtime
                .spawn_job(|| warpweft::blocking(names))
                .wait()
                .expect("no panic"),
            runtime
                .block_on(async { warpweft::spawn_blocking(names).await })
                .expect("no panic"),
        ];
        for names in all {
            assert!(names.iter().all(|name| name.starts_with("ours-")), "{names:?}");
        }
        let slots = runtime.worker_slots();
        assert_eq!(
            runtime.block_on(async { rayon_core::current_num_threads() }),
            slots
        );
    });
}

/// A closure on a runtime that ends runs to its end, and finds the global pool where the runtime is closed.
#[test]
fn a_closure_on_a_runtime_that_ends_may_use_all_functions() {
    in_time(|| {
        let runtime = runtime(1);
        let (tell, told) = mpsc::channel();
        let (started, begun) = mpsc::channel();
        let pool = runtime.first().clone();
        let work = move || {
            started.send(()).expect("the test waits");
            while !pool.is_closed() {
                thread::yield_now();
            }
            let calls = AtomicUsize::new(0);
            let count = || {
                calls.fetch_add(1, Ordering::SeqCst);
            };
            join(count, count);
            scope(|scope| scope.spawn(|_| count()));
            let threads = broadcast(|_| ()).len();
            assert!(threads > 0);
            let (late, inner) = (tell.clone(), tell.clone());
            rayon_core::spawn(move || inner.send(10).expect("the test waits"));
            rayon_core::spawn_fifo(move || late.send(20).expect("the test waits"));
            tell.send(calls.into_inner()).expect("the test waits");
        };
        let again = work.clone();
        runtime.spawn_detached(|| rayon_core::spawn(work));
        begun.recv_timeout(MINUTE).expect("it begins");
        let blocking = runtime.block_on(async { warpweft::try_spawn_blocking(again) });
        begun.recv_timeout(MINUTE).expect("it begins");
        drop((blocking, runtime));
        let mut ends: Vec<_> = told.iter().collect();
        ends.sort_unstable();
        assert_eq!(ends, [3, 3, 10, 10, 20, 20]);
    });
}
