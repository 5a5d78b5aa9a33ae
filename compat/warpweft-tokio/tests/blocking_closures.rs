//! Closures of `tokio::task::spawn_blocking`, and accesses to files, on a pool with a context.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tokio::task::spawn_blocking;
use warpweft::{GracefulShutdown, Runtime, ShutdownStep};
use warpweft_tokio::BuilderExt as _;

#[path = "../../../crates/warpweft/tests/support/in_time.rs"]
mod in_time;
use in_time::in_time;

fn with_context(workers: usize) -> Runtime {
    let builder = Runtime::builder().workers(workers).tokio_context();
    builder.expect("a thread").build().expect("workers")
}

/// As on tokio, there are threads enough.
#[test]
fn closures_that_wait_for_long_keep_no_file_from_its_thread() {
    in_time(|| {
        let runtime = with_context(1);
        let waits: Vec<_> = (0..100).map(|_| mpsc::channel::<()>()).collect();
        let (senders, receivers): (Vec<_>, Vec<_>) = waits.into_iter().unzip();
        runtime.block_on(async {
            for receiver in receivers {
                drop(spawn_blocking(move || receiver.recv()));
            }
            let here = tokio::fs::metadata(".").await.expect("it is there");
            assert!(here.is_dir());
        });
        drop(senders);
    });
}

/// As on tokio. What has not begun never runs.
#[test]
fn the_drop_of_a_runtime_waits_for_closures_that_run() {
    in_time(|| {
        for workers in [1, 2] {
            let runtime = with_context(workers);
            let (tell, told) = mpsc::channel();
            let (started, begun) = mpsc::channel();
            runtime.block_on(async {
                drop(spawn_blocking(move || {
                    started.send(()).expect("the test waits");
                    thread::sleep(Duration::from_millis(30));
                    tell.send(()).expect("the test waits");
                }));
            });
            begun.recv().expect("it begins");
            drop(runtime);
            assert_eq!(told.try_recv(), Ok(()), "it has ended");
        }
    });
}

/// A file of tokio's is written by closures behind the program's back.
#[test]
fn the_drop_of_a_runtime_waits_for_writes_to_files() {
    use tokio::io::AsyncWriteExt as _;
    const PIECE: usize = 1 << 20;
    in_time(|| {
        let path = std::env::temp_dir().join(format!("warpweft-tokio-writes-{}", std::process::id()));
        for _ in 0..10 {
            let runtime = with_context(2);
            runtime.block_on(async {
                let mut file = tokio::fs::File::create(&path).await.expect("a file");
                for _ in 0..4 {
                    file.write_all(&[7; PIECE]).await.expect("room");
                }
            });
            drop(runtime);
            let bytes = std::fs::metadata(&path).expect("the file").len();
            assert_eq!(bytes, 4 * PIECE as u64);
        }
        std::fs::remove_file(&path).expect("the file");
    });
}

/// A limit of time is kept, and the closure runs on.
#[test]
fn a_shutdown_with_a_limit_waits_no_longer() {
    in_time(|| {
        let runtime = with_context(2);
        let (go, gone) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let (started, begun) = mpsc::channel();
        runtime.block_on(async {
            drop(spawn_blocking(move || {
                started.send(()).expect("the test waits");
                tell.send(gone.recv()).expect("the test waits");
            }));
        });
        begun.recv().expect("it begins");
        let ended = runtime.shutdown_timeout(Duration::from_millis(20));
        assert!(ended.is_err(), "the closure runs");
        go.send(()).expect("the closure waits");
        assert_eq!(told.recv(), Ok(Ok(())));
        // Nothing runs.
        let idle = with_context(2);
        idle.block_on(async { tokio::task::yield_now().await });
        assert!(idle.shutdown_timeout(Duration::from_secs(60)).is_ok());
    });
}

/// While what a runtime waits for runs, tokio's timers are served.
#[test]
fn a_job_that_a_drop_waits_for_has_the_context() {
    in_time(|| {
        let runtime = with_context(1);
        let (tell, told) = mpsc::channel();
        let (started, begun) = mpsc::channel();
        let pool = runtime.first().clone();
        runtime.spawn_detached(move || {
            started.send(()).expect("the test waits");
            while !pool.is_closed() {
                thread::yield_now();
            }
            let theirs = tokio::spawn(async { tokio::time::sleep(Duration::from_millis(2)).await });
            tokio::runtime::Handle::current()
                .block_on(theirs)
                .expect("no panic");
            tell.send(()).expect("the test waits");
        });
        begun.recv().expect("it begins");
        drop(runtime);
        assert_eq!(told.try_recv(), Ok(()));
    });
}

fn gracefully(runtime: Runtime) -> ShutdownStep {
    let shutdown = GracefulShutdown::within(Duration::from_secs(40));
    runtime.shutdown_gracefully(&shutdown).expect("in time")
}

/// Nothing of the context counts as work.
#[test]
fn an_idle_pool_with_a_context_is_drained() {
    in_time(|| {
        for workers in [1, 2] {
            assert_eq!(gracefully(with_context(workers)), ShutdownStep::Drained);
            let used = with_context(workers);
            used.block_on(async {
                let theirs = tokio::spawn(async { tokio::time::sleep(Duration::from_millis(2)).await });
                warpweft::spawn(async { tokio::time::sleep(Duration::from_millis(1)).await })
                    .await
                    .expect("no panic");
                theirs.await.expect("no panic");
            });
            assert_eq!(gracefully(used), ShutdownStep::Drained);
        }
    });
}

/// Tasks of tokio are work, also those that wait.
#[test]
fn a_pool_with_a_context_drains_tasks_of_tokio() {
    in_time(|| {
        for workers in [1, 2] {
            for _ in 0..20 {
                let runtime = with_context(workers);
                let (tell, told) = mpsc::channel();
                let (started, begun) = mpsc::channel();
                runtime.block_on(async {
                    drop(tokio::spawn(async move {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        started.send(()).expect("the test waits");
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        tokio::task::yield_now().await;
                        tell.send(()).expect("the test waits");
                    }));
                });
                begun.recv().expect("it begins");
                assert_eq!(gracefully(runtime), ShutdownStep::Drained);
                assert_eq!(told.try_recv(), Ok(()), "it has ended");
            }
        }
    });
}
