//! The system starts no more threads. Alone in its process, because the refusal affects all threads.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

use std::sync::mpsc;
use std::time::Duration;
use warpweft::time::sleep;
use warpweft::{BlockingError, BuildError, JoinError, Pool, Runtime, blocking, spawn_blocking, spawn_job};
use warpweft_platform::thread::refuse;

/// One test, because it changes the whole process.
#[test]
fn threads_that_cannot_be_had() {
    refuse(1);
    let error = Runtime::builder().workers(2).build().expect_err("no thread");
    assert!(matches!(error, BuildError::Thread { worker: 0, .. }), "{error}");

    let runtime = Runtime::builder()
        .workers(1)
        // A compensating worker would take one of the refusals.
        .stuck_after(None)
        .blocking_keep_alive(Duration::from_secs(3600))
        .build()
        .expect("one worker");

    // Without a thread there must be an error, not a task that never runs (tokio#8406).
    refuse(1);
    let refused = runtime.try_spawn_blocking(|| 7).expect_err("no thread");
    assert!(matches!(refused.error(), BlockingError::NoThread(_)), "{refused}");
    assert_eq!(refused.into_closure()(), 7);
    refuse(1);
    let task = runtime.spawn(async { spawn_blocking(|| 7).await });
    let error = task.wait().expect("no panic").expect_err("no thread");
    assert!(matches!(error, JoinError::NoThread(_)), "{error}");
    // The next one succeeds.
    let (open, gate) = mpsc::channel::<()>();
    let busy = runtime
        .try_spawn_blocking(move || gate.recv().is_ok())
        .expect("a thread");
    // With a thread there, the closure waits for that one.
    refuse(1);
    let queued = runtime.try_spawn_blocking(|| 8).expect("it waits");
    open.send(()).expect("it waits");
    assert!(busy.wait().expect("no panic"));
    assert_eq!(queued.wait().expect("no panic"), 8);
    assert_eq!(runtime.threads().blocking, 1);

    // `blocking` keeps its worker, and a wait works on top: nothing hangs.
    refuse(2);
    let job = runtime.spawn_job(|| blocking(|| 1) + spawn_job(|| 1).wait().expect("no panic"));
    assert_eq!(job.wait().expect("no panic"), 2);
    assert_eq!((runtime.threads().kept, runtime.threads().handed_over), (1, 0));
    refuse(0);
    let job = runtime.spawn_job(|| blocking(|| 1) + spawn_job(|| 1).wait().expect("no panic"));
    assert_eq!(job.wait().expect("no panic"), 2);
    assert_eq!((runtime.threads().kept, runtime.threads().handed_over), (1, 1));

    // No thread to poll while the pool closes: the first timer is set all the same.
    let closes = Runtime::builder().workers(1).stuck_after(None).build();
    let closes = closes.expect("one worker");
    let pool = closes.block_on(async { Pool::current() }).expect("its pool");
    let closing = pool.clone();
    let (began, begun) = mpsc::channel();
    let (go_on, held) = mpsc::channel::<()>();
    let last = closes.spawn_job(move || {
        began.send(()).expect("the test waits");
        let _closed = held.recv();
        pool.block_on(sleep(Duration::from_millis(1)));
    });
    begun.recv().expect("it begins");
    let ends = std::thread::spawn(move || closes.shutdown());
    while closing.try_spawn_job(|| ()).is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
    refuse(1);
    drop(go_on);
    ends.join().expect("no panic");
    assert!(
        matches!(last.wait(), Ok(()) | Err(JoinError::Shutdown)),
        "no panic"
    );
    refuse(0);

    // No thread to wait for the others: the caller looks itself, and keeps to its limit.
    refuse(1);
    assert_eq!(runtime.shutdown_timeout(Duration::from_secs(60)), Ok(()));
    let runtime = Runtime::builder()
        .workers(1)
        .stuck_after(None)
        .build()
        .expect("one worker");
    let (open, gate) = mpsc::channel::<()>();
    let (started, begun) = mpsc::channel();
    let stuck = runtime.spawn_job(move || {
        started.send(()).expect("the test waits");
        gate.recv().is_err()
    });
    begun.recv().expect("it starts");
    refuse(1);
    // On a thread of its own: a drop that waits for the closure must fail the test, and not hang it.
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let left = runtime.shutdown_timeout(Duration::from_millis(50));
        send.send(left).expect("the test waits");
    });
    let remaining = receive
        .recv_timeout(Duration::from_secs(20))
        .expect("the limit is kept");
    assert!(remaining.is_err_and(|remaining| remaining.to_string().contains("job")));
    drop(open);
    assert!(stuck.wait().expect("no panic"));
}
