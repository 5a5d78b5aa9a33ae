//! The matrix and other waits where the system or the tasks misbehave. Signals, refused threads and forks
//! affect the whole process, so each test has a child process.
#![cfg(target_os = "linux")]
#![cfg(all(feature = "net", not(any(warpweft_loom, warpweft_shuttle))))]

#[path = "support/again.rs"]
mod again;
#[allow(dead_code, reason = "a part of the table is used")]
#[path = "support/matrix.rs"]
mod support;
#[allow(dead_code, reason = "a part of the table is used")]
#[path = "support/waits.rs"]
mod waits;

use again::in_child;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};
use support::{builder, every_cell, every_column_at_once};
use warpweft::net::UnixStream;
use warpweft::time::sleep;
use warpweft::{JoinError, Runtime, SpawnError, block_on, fiber};
use warpweft_platform::thread::refuse;

#[test]
fn the_matrix_in_a_storm_of_signals() {
    in_child("the_matrix_in_a_storm_of_signals", || {
        extern "C" fn nothing(_: libc::c_int) {}
        // SAFETY: an all-zero `sigaction` is a valid one: no flags, so that system calls are interrupted, and
        // an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler does nothing, which is allowed in a handler.
        let set = unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) };
        assert_eq!(set, 0);
        let process = std::process::id();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for task in std::fs::read_dir("/proc/self/task").expect("threads").flatten() {
                        let number = task.file_name().to_string_lossy().parse::<libc::pid_t>();
                        let number = number.expect("a number");
                        // SAFETY: it sends a signal, which has a handler, to a thread of this process.
                        unsafe { libc::syscall(libc::SYS_tgkill, process, number, libc::SIGUSR1) };
                    }
                    thread::sleep(Duration::from_micros(300));
                }
            });
            let runtime = Arc::new(builder(2, "fifo").build().expect("workers"));
            every_cell("signals", &runtime, true);
            every_column_at_once("signals", &runtime, true);
            stop.store(true, Ordering::Relaxed);
        });
    });
}

/// No further threads can be started; those for `spawn_blocking` exist already.
#[test]
fn the_matrix_while_threads_are_refused() {
    in_child("the_matrix_while_threads_are_refused", || {
        // Threads outside of tasks run their forks here.
        assert!(warpweft::default_runtime().workers() > 0);
        for workers in [1, 2] {
            let runtime = builder(workers, "fifo")
                .blocking_keep_alive(Duration::MAX)
                .build();
            let runtime = Arc::new(runtime.expect("workers"));
            let hold = Arc::new(AtomicBool::new(true));
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    let hold = Arc::clone(&hold);
                    let closure = move || {
                        while hold.load(Ordering::Relaxed) {
                            thread::sleep(Duration::from_millis(1));
                        }
                    };
                    runtime.try_spawn_blocking(closure).expect("a thread")
                })
                .collect();
            hold.store(false, Ordering::Relaxed);
            for thread in threads {
                thread.wait().expect("no panic");
            }
            refuse(usize::MAX);
            every_cell("no threads", &runtime, false);
            refuse(0);
            assert!(runtime.threads().kept > 0, "{:?}", runtime.threads());
        }
    });
}

/// A future that wakes itself for ever takes turns with other ready tasks: the bound is one of its polls per
/// turn, with the work of one poll.
#[test]
fn a_future_that_wakes_itself_for_ever() {
    for workers in [1, 2] {
        for policy in ["fifo", "lifo", "prows", "parsimonious"] {
            let runtime = builder(workers, policy).build().expect("workers");
            let polls = Arc::new(AtomicUsize::new(0));
            let tasks: Vec<_> = (0..workers + 1)
                .map(|_| {
                    let polls = Arc::clone(&polls);
                    runtime.spawn(std::future::poll_fn(move |cx| {
                        polls.fetch_add(1, Ordering::Relaxed);
                        cx.waker().wake_by_ref();
                        Poll::<()>::Pending
                    }))
                })
                .collect();
            while polls.load(Ordering::Relaxed) < 1000 {
                thread::yield_now();
            }
            let (here, there) = runtime.block_on(async { UnixStream::pair() }).expect("a pair");
            let echo = runtime.spawn(async move {
                let mut byte = [0];
                there.read_exact(&mut byte).await.expect("a byte");
                sleep(Duration::from_millis(1)).await;
                there.write_all(&byte).await.expect("room");
            });
            let others = [
                runtime.spawn_job(|| ()),
                runtime.spawn_fiber(|| block_on(sleep(Duration::from_millis(1)))),
                runtime.spawn_fiber(|| fiber::spawn(|| ()).wait().expect("no panic")),
            ];
            let start = Instant::now();
            block_on(here.write_all(&[7])).expect("room");
            block_on(here.read_exact(&mut [0])).expect("an echo");
            echo.wait().expect("no panic");
            for other in others {
                other.wait().expect("no panic");
            }
            assert!(start.elapsed() < Duration::from_secs(30), "it is served");
            runtime.shutdown();
            for task in tasks {
                assert!(matches!(task.wait(), Err(JoinError::Shutdown)));
            }
        }
    }
}

/// A waker that panics harms neither the task that calls it, unless that calls it itself, nor tasks that are
/// woken with it.
#[test]
fn a_waker_that_panics_is_its_callers_alone() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new("in a waker"));
        }
    }
    /// So long that it is not over before it is polled.
    const LONG: Duration = Duration::from_millis(300);
    for workers in [1, 2] {
        let runtime = builder(workers, "fifo").build().expect("workers");
        let waker = Waker::from(Arc::new(Panics));
        let (here, there) = runtime.block_on(async { UnixStream::pair() }).expect("a pair");
        let mut byte = [0];
        let mut read = Box::pin(here.read(&mut byte));
        assert!(read.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let mut timed_park = Box::pin(sleep(LONG));
        let polled = runtime.block_on(async { timed_park.as_mut().poll(&mut Context::from_waker(&waker)) });
        assert!(polled.is_pending());
        let mut handle = Box::pin(runtime.spawn_fiber(|| block_on(sleep(LONG))));
        assert!(
            handle
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        block_on(there.write_all(&[7])).expect("room");
        let after = runtime.spawn_fiber(|| block_on(sleep(LONG + LONG / 4)));
        after.wait().expect("it is woken all the same");
        assert_eq!(block_on(read).expect("a byte"), 1);
        runtime.block_on(timed_park);
        block_on(handle).expect("it has ended");
        assert_eq!(runtime.spawn_job(|| 1).wait().expect("no panic"), 1);
    }
}

/// In a forked child each call returns an error, or does what it can do alone; none hangs.
#[test]
fn every_call_in_a_forked_child() {
    in_child("every_call_in_a_forked_child", || {
        let runtime = builder(2, "fifo").build().expect("workers");
        runtime.block_on(sleep(Duration::from_millis(1)));
        let before = runtime.spawn_fiber(|| block_on(std::future::pending::<()>()));
        // SAFETY: the child touches only what is its own, as far as a test can, and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: it ends a child that hangs, and the test with it.
            unsafe { libc::alarm(30) };
            let failed = catch_unwind(AssertUnwindSafe(|| in_the_child(&runtime))).is_err();
            std::mem::forget(before);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(failed)) };
        }
        let mut status = 0;
        // SAFETY: waits for the child that was just made; `status` is valid for a write.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((waited, status), (child, 0));
        assert_eq!(runtime.spawn_job(|| 1).wait().expect("no panic"), 1);
        drop(before);
    });
}

fn in_the_child(runtime: &Runtime) {
    let forked = |end: Result<(), JoinError>| assert!(matches!(end, Err(JoinError::Forked)), "{end:?}");
    forked(runtime.spawn_job(|| ()).wait());
    forked(runtime.spawn(async {}).wait());
    forked(runtime.spawn_fiber(|| ()).wait());
    forked(runtime.spawn_blocking(|| ()).wait());
    assert!(matches!(runtime.install(|_| ()), Err(SpawnError::Forked)));
    assert!(matches!(runtime.broadcast(|_| ()), Err(SpawnError::Forked)));
    assert!(matches!(runtime.try_spawn_job(|| ()), Err(SpawnError::Forked)));
    assert!(runtime.try_spawn_fiber(|| ()).is_err());
    assert!(runtime.try_spawn_blocking(|| ()).is_err());
    assert_eq!(warpweft::blocking(|| 1), 1);
    let timed_park = || runtime.block_on(sleep(Duration::from_millis(1)));
    assert!(catch_unwind(AssertUnwindSafe(timed_park)).is_err());
    // Operations that need no other thread still work.
    let lock = warpweft::sync::Mutex::new(1);
    *lock.lock().wait() += 1;
    let (sender, receiver) = warpweft::sync::channel::unbounded();
    sender.send(7).wait().expect("room");
    assert_eq!(receiver.recv().wait(), Ok(7));
    drop(sender);
    assert!(receiver.recv().wait().is_err());
    assert_eq!(block_on(async { *lock.lock().await }), 2);
    runtime.shutdown();
    // A new runtime works as well as any.
    let own = builder(1, "fifo").build().expect("a worker");
    let seven = own.spawn_fiber(|| fiber::wait(waits::later()));
    assert_eq!(seven.wait().expect("no panic"), 7);
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the number of descriptors and threads of this process.
fn open() -> (usize, usize) {
    let count = |path| std::fs::read_dir(path).expect("this process").count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

#[test]
fn a_runtime_goes_with_a_hundred_thousand_who_wait() {
    in_child("a_runtime_goes_with_a_hundred_thousand_who_wait", || {
        let before = open();
        let alive = Arc::new(AtomicUsize::new(0));
        let runtime = builder(2, "fifo").build().expect("workers");
        let pairs: Vec<_> = runtime.block_on(async {
            let pair = || Arc::new(UnixStream::pair().expect("descriptors"));
            (0..100).map(|_| pair()).collect()
        });
        for number in 0..100_000 {
            alive.fetch_add(1, Ordering::Relaxed);
            let counted = Counted(Arc::clone(&alive));
            let pair = Arc::clone(&pairs[number % pairs.len()]);
            let wait = async move {
                let _counted = counted;
                match number % 2 {
                    0 => sleep(Duration::from_secs(3600)).await,
                    _ => assert!(pair.0.read(&mut [0]).await.is_err(), "nobody writes"),
                }
            };
            if number % 100 < 2 {
                runtime.spawn_fiber(move || block_on(wait)).detach();
            } else {
                runtime.spawn(wait).detach();
            }
        }
        while runtime.idle_workers().1 < runtime.workers() {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(alive.load(Ordering::Relaxed), 100_000);
        assert_eq!(runtime.fibers().live, 2000);
        let start = Instant::now();
        drop(runtime);
        let took = start.elapsed();
        assert_eq!(alive.load(Ordering::Relaxed), 0);
        drop(pairs);
        assert_eq!(open(), before);
        assert!(took < Duration::from_secs(60), "{took:?}");
    });
}
