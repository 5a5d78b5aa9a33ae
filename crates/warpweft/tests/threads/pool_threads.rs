//! What a program decides about a pool's threads: names, hooks, and how they are started.

use crate::eventually::eventually;
use crate::in_time::in_time;
use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use warpweft::effect::{Handler, handle};
use warpweft::policy::Count;
use warpweft::{
    BuildError, EnteredThread, JoinError, Pool, PoolThread, Runtime, TaskBuilder, block_on, blocking, fiber,
    spawn_job, yield_now,
};

/// A function that sends the threads that it should start, as long as `accepts` is true.
fn collect(
    accepts: &Arc<AtomicBool>,
) -> (
    impl Fn(PoolThread) -> io::Result<()> + Send + Sync + use<>,
    mpsc::Receiver<PoolThread>,
) {
    let (send, threads) = mpsc::channel();
    let (send, accepts) = (Mutex::new(send), Arc::clone(accepts));
    let collect = move |thread| {
        let send = send.lock().map_err(|_| io::Error::other("poisoned"))?;
        if !accepts.load(Ordering::SeqCst) {
            return Err(io::Error::other("no more"));
        }
        send.send(thread)
            .map_err(|_| io::Error::other("nobody starts threads"))
    };
    (collect, threads)
}

#[test]
fn each_thread_calls_its_hooks_once() {
    for workers in [1, 2, 5] {
        let calls: [Arc<Mutex<Vec<usize>>>; 2] = Default::default();
        let note = |which: usize| {
            let calls = Arc::clone(&calls[which]);
            move |worker| calls.lock().expect("no panic").push(worker)
        };
        let runtime = Runtime::builder()
            .workers(workers)
            .stuck_after(None)
            .thread_name(|number| format!("thread {number}"))
            .on_thread_start(note(0))
            .on_thread_stop(note(1))
            .build();
        let runtime = runtime.expect("workers");
        let names = runtime.broadcast(|_| thread::current().name().map(str::to_owned));
        let mut names = names.expect("it is open");
        names.sort();
        let expected: Vec<_> = (0..workers).map(|n| Some(format!("thread {n}"))).collect();
        assert_eq!(names, expected);
        drop(runtime);
        for calls in calls {
            let mut calls = std::mem::take(&mut *calls.lock().expect("no panic"));
            calls.sort_unstable();
            assert_eq!(calls, (0..workers).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_hook_that_panics_costs_nothing() {
    let runtime = Runtime::builder()
        .workers(2)
        .on_thread_start(|_| panic!("a hook panics"))
        .on_thread_stop(|_| panic!("a hook panics"))
        .build();
    let runtime = runtime.expect("workers");
    assert_eq!(runtime.spawn_job(|| 7).wait().expect("no panic"), 7);
}

#[test]
fn the_program_starts_the_threads() {
    let started = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&started);
    let runtime = Runtime::builder()
        .workers(3)
        .start_threads(move |thread| {
            count.fetch_add(1, Ordering::SeqCst);
            let name = format!("own {}", thread.name());
            thread::Builder::new()
                .name(name)
                .spawn(move || thread.run())
                .map(drop)
        })
        .build();
    let runtime = runtime.expect("workers");
    let names = runtime.broadcast(|_| thread::current().name().map(str::to_owned));
    for name in names.expect("it is open") {
        assert!(name.expect("a name").starts_with("own warpweft-"));
    }
    // A frame that waits needs a thread more.
    let waited = runtime.spawn_job(|| spawn_job(|| 7).wait().expect("no panic"));
    assert_eq!(waited.wait().expect("no panic"), 7);
    assert!(started.load(Ordering::SeqCst) >= 3);
}

/// The frame keeps its worker, and others run on its stack.
#[test]
fn a_frame_waits_although_no_thread_is_to_be_had() {
    let (collect, threads) = collect(&Arc::new(AtomicBool::new(true)));
    let runtime = Runtime::builder()
        .workers(1)
        .stuck_after(None)
        .start_threads(collect)
        .build();
    let runtime = runtime.expect("a worker");
    let thread = threads.recv().expect("one thread");
    drop(threads);
    let thread = thread::spawn(move || thread.run());
    let waited = runtime.spawn_job(|| spawn_job(|| 7).wait().expect("no panic"));
    assert_eq!(waited.wait().expect("no panic"), 7);
    assert!(runtime.counters().total().get(Count::Stacked) > 0);
    drop(runtime);
    thread.join().expect("no panic");
}

#[test]
fn a_thread_that_is_refused_is_an_error() {
    in_time(|| {
        let started = Arc::new(AtomicUsize::new(0));
        for drops in [false, true] {
            let started = Arc::clone(&started);
            let error = Runtime::builder()
                .workers(3)
                .start_threads(move |thread| match thread.number() {
                    2 if drops => {
                        drop(thread);
                        Ok(())
                    }
                    2 => Err(io::Error::other("no more")),
                    _ => {
                        started.fetch_add(1, Ordering::SeqCst);
                        thread::Builder::new().spawn(move || thread.run()).map(drop)
                    }
                })
                .build();
            match error {
                Err(BuildError::Thread { worker, source, .. }) => {
                    assert_eq!(worker, 2);
                    let text = if drops { "has dropped this one" } else { "no more" };
                    assert!(source.to_string().contains(text), "{source}");
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(started.load(Ordering::SeqCst), 4);
    });
}

/// A pool that relies on a thread that never comes closes, instead of waiting for it.
#[test]
fn a_thread_that_is_dropped_closes_its_pool() {
    let (collect, threads) = collect(&Arc::new(AtomicBool::new(true)));
    let runtime = Runtime::builder().workers(2).start_threads(collect).build();
    let runtime = runtime.expect("workers");
    let first = threads.recv().expect("two threads");
    let running = thread::spawn(move || first.run());
    drop(threads.recv().expect("two threads"));
    running.join().expect("it ends");
    assert!(matches!(runtime.spawn_job(|| 7).wait(), Err(JoinError::Shutdown)));
}

/// A thread carries a worker outside of any task: it waits as in one, and leaves when it is told to.
#[test]
fn a_thread_enters_a_pool_and_leaves_it() {
    for workers in [1, 2] {
        let accepts = Arc::new(AtomicBool::new(true));
        let (collect, threads) = collect(&accepts);
        let runtime = Runtime::builder()
            .workers(workers)
            .stuck_after(None)
            .start_threads(collect)
            .build();
        let runtime = runtime.expect("workers");
        let entered = threads.recv().expect("a thread for each worker").enter();
        let others: Vec<_> = (1..workers)
            .map(|_| threads.recv().expect("a thread for each worker"))
            .map(|other| thread::spawn(move || other.run()))
            .collect();
        accepts.store(false, Ordering::SeqCst);
        assert_eq!(Pool::current_worker(), Some(0));
        assert_eq!(
            runtime.install(|cx| cx.join(|_| 1, |_| 2)).expect("it is open"),
            (1, 2)
        );
        block_on(async { yield_now().await });
        let jobs: Vec<_> = (0..100).map(|n| spawn_job(move || n)).collect();
        let sum: usize = jobs.into_iter().map(|job| job.wait().expect("no panic")).sum();
        assert_eq!(sum, 4950);
        accepts.store(true, Ordering::SeqCst);
        let successor = thread::spawn(move || threads.recv().map(PoolThread::run));
        let late = spawn_job(|| 7);
        drop(entered);
        assert_eq!(Pool::current_worker(), None);
        assert_eq!(late.wait().expect("another thread has the worker"), 7);
        drop(runtime);
        others
            .into_iter()
            .for_each(|other| other.join().expect("no panic"));
        assert!(successor.join().is_ok());
    }
}

/// Nothing keeps a program from leaving inside of a fork: what the frames below need is still there.
#[test]
fn a_thread_leaves_a_pool_inside_of_a_fork() {
    thread_local!(static ENTERED: Cell<Option<EnteredThread>> = const { Cell::new(None) });
    let (collect, threads) = collect(&Arc::new(AtomicBool::new(true)));
    let runtime = Runtime::builder()
        .workers(1)
        .stuck_after(None)
        .start_threads(collect)
        .build();
    let runtime = runtime.expect("a worker");
    ENTERED.set(Some(threads.recv().expect("one thread").enter()));
    let successor = thread::spawn(move || threads.recv().map(PoolThread::run));
    let sum = runtime.install(|cx| {
        let (first, second) = cx.join(
            |cx| {
                drop(ENTERED.take());
                let (first, second) = cx.join(|_| 1, |_| 2);
                first + second
            },
            |_| 4,
        );
        first + second
    });
    assert_eq!(sum.expect("it is open"), 7);
    assert_eq!(Pool::current_worker(), None);
    assert_eq!(runtime.spawn_job(|| 7).wait().expect("the successor runs it"), 7);
    drop(runtime);
    assert!(successor.join().is_ok());
}

/// The fork below is on the worker's offer, which is the next thread's afterwards.
#[test]
fn a_thread_that_leaves_takes_its_offer_back() {
    thread_local!(static ENTERED: Cell<Option<EnteredThread>> = const { Cell::new(None) });
    for closes in [false, true] {
        let accepts = Arc::new(AtomicBool::new(true));
        let (collect, threads) = collect(&accepts);
        let runtime = Runtime::builder()
            .workers(2)
            .stuck_after(None)
            .start_threads(collect)
            .build();
        let runtime = runtime.expect("workers");
        ENTERED.set(Some(threads.recv().expect("two threads").enter()));
        let other = threads.recv().expect("two threads");
        let other = thread::spawn(move || other.run());
        // The other worker takes no fork meanwhile.
        let (begun, begins) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let busy = TaskBuilder::new().on(&runtime).spawn_pinned(1, move || {
            begun.send(()).expect("somebody waits");
            ends.recv().expect("it is sent");
        });
        begins.recv().expect("it begins");
        accepts.store(!closes, Ordering::SeqCst);
        let successor = (!closes).then(|| thread::spawn(move || threads.recv().map(PoolThread::run)));
        let ran = AtomicUsize::new(0);
        let sum = runtime.install(|cx| {
            cx.join(
                |cx| {
                    drop(ENTERED.take());
                    assert_eq!(Pool::current_worker(), None);
                    cx.join(|_| 1, |_| 2)
                },
                |_| ran.fetch_add(1, Ordering::SeqCst),
            )
        });
        assert_eq!(sum.expect("it is open"), ((1, 2), 0));
        end.send(()).expect("it waits");
        busy.wait().expect("no panic");
        assert_eq!(ran.load(Ordering::SeqCst), 1);
        drop(runtime);
        other.join().expect("no panic");
        if let Some(thread) = successor {
            thread.join().expect("no panic").expect("a thread");
        }
    }
}

/// Frames that need the worker afterwards are on the thread. It stays, and so does its pool.
#[test]
fn a_thread_does_not_leave_in_the_middle_of_a_task() {
    thread_local!(static ENTERED: Cell<Option<EnteredThread>> = const { Cell::new(None) });
    fn leaves() -> bool {
        let leave = || drop(ENTERED.take().expect("it has entered"));
        match catch_unwind(AssertUnwindSafe(leave)) {
            Ok(()) => true,
            Err(payload) => {
                let text = payload.downcast_ref::<&str>().expect("a text");
                assert!(text.contains("needs the worker"), "{text}");
                false
            }
        }
    }
    type Case = (&'static str, fn() -> bool);
    let cases: [Case; 6] = [
        ("in a body", || handle(leaves, Handler::new())),
        ("in blocking", || blocking(leaves)),
        ("in a fiber", || fiber::spawn(leaves).wait().expect("no panic")),
        ("in a job on top", || spawn_job(leaves).wait().expect("no panic")),
        ("in a body in blocking", || {
            blocking(|| handle(leaves, Handler::new()))
        }),
        ("on its own stack", leaves),
    ];
    for (name, call) in cases {
        let (told, tells) = mpsc::channel();
        thread::spawn(move || {
            let accepts = Arc::new(AtomicBool::new(true));
            let (collect, threads) = collect(&accepts);
            let runtime = Runtime::builder()
                .workers(1)
                .stuck_after(None)
                .start_threads(collect)
                .build();
            let runtime = runtime.expect("a worker");
            ENTERED.set(Some(threads.recv().expect("a thread").enter()));
            // In `blocking` another thread has the worker. Otherwise this one runs what it waits for.
            accepts.store(name.contains("blocking"), Ordering::SeqCst);
            let _others = thread::spawn(move || threads.into_iter().for_each(PoolThread::run));
            told.send((call(), Pool::current_worker()))
                .expect("somebody waits");
            if Pool::current_worker().is_some() {
                std::mem::forget(runtime);
            }
        });
        let (left, worker) = tells.recv().expect("it ends");
        assert_eq!(left, name == "on its own stack", "{name}");
        assert_eq!(worker.is_none(), left, "{name}");
    }
}

#[test]
fn a_pinned_job_runs_where_it_is_told() {
    let runtime = Runtime::builder()
        .workers(3)
        .stuck_after(None)
        .build()
        .expect("workers");
    for worker in 0..3 {
        let job = TaskBuilder::new()
            .on(&runtime)
            .spawn_pinned(worker, Pool::current_worker);
        assert_eq!(job.wait().expect("no panic"), Some(worker));
    }
    runtime
        .install(|cx| {
            let count = AtomicUsize::new(0);
            cx.scope(|scope| {
                for worker in 0..3 {
                    let count = &count;
                    scope.spawn_pinned(worker, move |_| {
                        assert_eq!(Pool::current_worker(), Some(worker));
                        count.fetch_add(1, Ordering::SeqCst);
                    });
                }
            });
            assert_eq!(count.into_inner(), 3);
        })
        .expect("it is open");
    eventually("all are done", || runtime.idle_workers().1 > 0);
}

#[test]
#[should_panic(expected = "there is no worker 3 in pool `warpweft`: its workers are 0 to 2")]
fn a_job_for_no_worker_is_an_error() {
    let runtime = Runtime::builder().workers(3).build().expect("workers");
    TaskBuilder::new().on(&runtime).spawn_pinned(3, || ()).detach();
}

/// `std::thread::spawn` panics where the system gives no thread.
#[test]
fn functions_of_the_program_that_panic_are_errors() {
    let build = |builder: warpweft::Builder| builder.workers(2).build().map(drop);
    let starts = build(Runtime::builder().start_threads(|_| panic!("no thread")));
    let names = build(Runtime::builder().thread_name(|_| panic!("no name")));
    // With a null byte the standard library would panic.
    let null = build(Runtime::builder().thread_name(|_| String::from("a\0b")));
    for (built, expected) in [
        (starts, "the function that starts the pool's threads panicked"),
        (names, "the function that names the pool's threads panicked"),
        (null, r#"the name of a thread cannot have a null byte: "a\0b""#),
    ] {
        let error = match built {
            Err(BuildError::Thread {
                worker: 0, source, ..
            }) => source.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(error, expected);
    }
}

/// A frame that waits finds no thread for its worker, and keeps the worker.
#[test]
fn a_starter_that_panics_later_costs_nothing() {
    let panics = Arc::new(AtomicBool::new(false));
    let later = Arc::clone(&panics);
    let runtime = Runtime::builder()
        .workers(1)
        .stuck_after(None)
        .start_threads(move |thread| {
            assert!(!later.load(Ordering::SeqCst), "no more threads");
            thread::Builder::new().spawn(move || thread.run()).map(drop)
        })
        .build();
    let runtime = runtime.expect("a worker");
    panics.store(true, Ordering::SeqCst);
    let waited = runtime.spawn_job(|| spawn_job(|| 7).wait().expect("no panic"));
    assert_eq!(waited.wait().expect("no panic"), 7);
    assert_eq!(runtime.threads().all, 1);
}

#[test]
fn a_thread_of_another_pool_cannot_enter_and_the_pool_of_the_thread_closes() {
    let (collect, threads) = collect(&Arc::new(AtomicBool::new(true)));
    let runtime = Runtime::builder().workers(1).start_threads(collect).build();
    let runtime = runtime.expect("a worker");
    let thread = threads.recv().expect("one thread");
    drop(threads);
    let other = Runtime::builder().workers(1).build().expect("a worker");
    let entered = other.spawn_job(move || drop(thread.enter())).wait();
    assert!(matches!(entered, Err(JoinError::Panicked(_))), "{entered:?}");
    assert!(runtime.first().is_closed());
    drop(runtime);
}
