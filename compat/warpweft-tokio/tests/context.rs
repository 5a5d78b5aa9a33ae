//! Pools whose threads are all inside of a tokio context.

use std::collections::HashSet;
use std::future::pending;
use std::pin::pin;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Handle;
use warpweft::{
    Builder, JoinError, Pool, Runtime, block_on, blocking, fiber, join, spawn, spawn_blocking, spawn_job,
};
use warpweft_tokio::{BuilderExt as _, InTokioExt as _, TokioContext};

#[path = "../../../crates/warpweft/tests/support/eventually.rs"]
mod eventually;
use eventually::eventually;

const TICK: Duration = Duration::from_millis(1);

fn pool(name: &str, workers: usize) -> Builder {
    Runtime::builder().name(name).workers(workers)
}

fn with_context(name: &str, workers: usize) -> Runtime {
    let builder = pool(name, workers).tokio_context().expect("a thread");
    builder.build().expect("workers")
}

fn id() -> Option<tokio::runtime::Id> {
    Handle::try_current().ok().map(|handle| handle.id())
}

fn thread_name() -> String {
    std::thread::current().name().unwrap_or("?").to_owned()
}

/// The pool that free functions use here.
fn pool_name() -> Option<String> {
    Pool::current().map(|pool| pool.name().to_owned())
}

#[test]
fn every_thread_of_a_pool_is_inside_one_context() {
    for workers in [1, 2, 4] {
        let runtime = with_context("inside", workers);
        let own = runtime.block_on(async { id() });
        assert!(own.is_some());
        let mut seen = runtime.broadcast(|_| id()).expect("it is open");
        seen.extend([
            runtime.spawn_job(id).wait().expect("no panic"),
            runtime.spawn_job(|| blocking(id)).wait().expect("no panic"),
            runtime
                .spawn_job(|| fiber::spawn(id).wait().expect("no panic"))
                .wait()
                .expect("no panic"),
            runtime
                .block_on(async { spawn_blocking(id).await })
                .expect("no panic"),
        ]);
        // A frame that waits, and the thread that takes its worker over.
        let nested = runtime.spawn_job(|| [spawn_job(id).wait().expect("no panic"), id()]);
        seen.extend(nested.wait().expect("no panic"));
        assert!(seen.iter().all(|seen| *seen == own), "{seen:?}");
        assert_eq!(id(), None, "this thread has left");
    }
}

#[test]
fn two_pools_have_two_contexts() {
    let runtime = pool("first", 1)
        .tokio_context()
        .expect("a thread")
        .then("second", pool("", 1).tokio_context().expect("a thread"))
        .then("third", pool("", 1))
        .build()
        .expect("workers");
    let ids: Vec<_> = runtime
        .pools()
        .iter()
        .map(|pool| pool.spawn_job(id).wait().expect("no panic"))
        .collect();
    assert!(
        ids[0].is_some() && ids[1].is_some() && ids[0] != ids[1] && ids[2].is_none(),
        "{ids:?}"
    );
}

#[test]
fn timers_and_sockets_wake_our_tasks_where_they_run() {
    for workers in [1, 2, 4] {
        let runtime = with_context("ours", workers);
        runtime
            .block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
                let address = listener.local_addr()?;
                let server = spawn(async move {
                    let mut names = HashSet::new();
                    for _ in 0..20 {
                        let (mut stream, _) = listener.accept().await?;
                        names.insert(thread_name());
                        let mut text = [0; 4];
                        stream.read_exact(&mut text).await?;
                        tokio::time::sleep(TICK).await;
                        names.insert(thread_name());
                        stream.write_all(&text).await?;
                    }
                    std::io::Result::Ok(names)
                });
                for _ in 0..20 {
                    let mut stream = tokio::net::TcpStream::connect(address).await?;
                    stream.write_all(b"ping").await?;
                    let mut text = String::new();
                    stream.read_to_string(&mut text).await?;
                    assert_eq!(text, "ping");
                }
                let names = server.await.expect("no panic")?;
                assert!(names.iter().all(|name| name.starts_with("ours-")), "{names:?}");
                std::io::Result::Ok(())
            })
            .expect("no error");
    }
}

/// Waits a few times, and returns the number and how often a worker went on with it.
async fn theirs(n: usize) -> (usize, usize) {
    let mut on_workers = 0;
    for _ in 0..4 {
        tokio::time::sleep(TICK).await;
        assert_eq!(pool_name().as_deref(), Some("theirs"));
        let name = thread_name();
        if Pool::current_worker().is_some() {
            on_workers += 1;
            assert!(name.starts_with("theirs-"), "{name}");
        } else {
            assert_eq!(name, "warpweft-tokio");
        }
        // Both use the pool.
        assert_eq!(join(pool_name, pool_name).1.as_deref(), Some("theirs"));
        let child = spawn(async { (pool_name(), thread_name()) });
        let (pool, thread) = child.await.expect("no panic");
        assert!(pool.as_deref() == Some("theirs") && thread.starts_with("theirs-"));
    }
    (n, on_workers)
}

/// Most polls are on a worker. The others are on the context's thread, which is inside the pool.
#[test]
fn tasks_of_tokio_run_on_our_workers() {
    for workers in [1, 2, 4] {
        let runtime = with_context("theirs", workers);
        let tasks = runtime.block_on(async { (0..50).map(|n| tokio::spawn(theirs(n))).collect::<Vec<_>>() });
        let mut on_workers = 0;
        for (n, task) in tasks.into_iter().enumerate() {
            let (own, count) = runtime.block_on(task).expect("no panic");
            assert_eq!(own, n);
            on_workers += count;
        }
        assert!(on_workers > 100, "{on_workers} of 200");
    }
}

/// Tasks of tokio that always have something to do give the only worker to others in between.
#[test]
fn tasks_of_tokio_take_turns_with_ours() {
    let runtime = pool("turns", 1)
        .stuck_after(None)
        .tokio_context()
        .expect("a thread")
        .build()
        .expect("a worker");
    runtime.block_on(async {
        let busy = tokio::spawn(async {
            loop {
                tokio::task::yield_now().await;
            }
        });
        // Each needs the worker once more.
        for n in 0..20 {
            assert_eq!(spawn(async move { n }).await.expect("no panic"), n);
        }
        // tokio looks for its timers meanwhile.
        spawn(async { tokio::time::sleep(TICK).await })
            .await
            .expect("no panic");
        busy.abort();
        assert!(busy.await.expect_err("it never ends").is_cancelled());
    });
}

#[test]
fn tokio_io_in_direct_style_works_in_our_tasks() {
    for workers in [1, 2] {
        let runtime = with_context("direct", workers);
        let job = runtime.spawn_job(|| block_on(async { tokio::time::sleep(TICK).await }));
        job.wait().expect("no panic");
        let fiber = runtime.spawn_job(|| {
            let fibers: Vec<_> = (0..4)
                .map(|_| fiber::spawn(|| block_on(async { tokio::time::sleep(TICK).await })))
                .collect();
            fibers
                .into_iter()
                .for_each(|fiber| fiber.wait().expect("no panic"));
        });
        fiber.wait().expect("no panic");
    }
}

#[test]
fn other_contexts_nest_inside() {
    let runtime = with_context("nests", 2);
    let other = TokioContext::new().expect("a thread");
    let theirs = Some(other.handle().id());
    runtime.block_on(async {
        let own = id();
        assert_eq!(other.wrap(async { id() }).await, theirs);
        assert_eq!(async { id() }.in_tokio().expect("no thread is needed").await, own);
        assert_eq!(id(), own);
        let child = spawn(other.wrap(async {
            tokio::time::sleep(TICK).await;
            id()
        }));
        assert_eq!(child.await.expect("no panic"), theirs);
        let panics = spawn(other.wrap(async { panic!("on purpose") }));
        assert!(panics.await.is_err());
        assert_eq!(spawn(async { id() }).await.expect("no panic"), own);
    });
}

#[test]
fn a_context_that_exists_may_serve_several_pools() {
    let context = TokioContext::new().expect("a thread");
    let theirs = Some(context.handle().id());
    let build = |name| {
        pool(name, 1)
            .tokio_context_of(context.clone())
            .build()
            .expect("a worker")
    };
    let pools = [build("a"), build("b")];
    drop(context);
    for runtime in &pools {
        assert_eq!(runtime.spawn_job(id).wait().expect("no panic"), theirs);
        runtime
            .spawn(async { tokio::time::sleep(TICK).await })
            .wait()
            .expect("no panic");
    }
}

/// A future that says when it is dropped.
struct Says(mpsc::Sender<()>);

impl Drop for Says {
    fn drop(&mut self) {
        // The test may have ended.
        let _ = self.0.send(());
    }
}

#[test]
fn a_pool_that_ends_ends_its_context() {
    for workers in [1, 3] {
        let (sender, receiver) = mpsc::channel();
        let runtime = with_context("ends", workers);
        let says = Says(sender);
        let handle = runtime.block_on(async {
            tokio::spawn(async move {
                let _says = says;
                pending::<()>().await;
            });
            tokio::time::sleep(TICK).await;
            Handle::current()
        });
        drop(runtime);
        assert_eq!(receiver.recv(), Ok(()), "the task of tokio was dropped");
        drop(handle);
    }
}

#[test]
fn a_builder_that_builds_nothing_leaves_nothing() {
    let before = threads();
    drop(pool("nothing", 1).tokio_context().expect("a thread"));
    assert!(
        pool("nothing", 0)
            .tokio_context()
            .expect("a thread")
            .build()
            .is_err()
    );
    eventually("the threads have ended", || threads() <= before);
}

/// How many threads wait for tokio's events: tests that run beside this one have some, too.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("warpweft-tokio")).count()
}

#[test]
fn a_pool_may_end_at_once_and_in_the_middle_of_everything() {
    for round in 0..30 {
        let runtime = with_context("at once", 1 + round % 3);
        for _ in 0..round % 5 {
            runtime
                .spawn(async {
                    tokio::spawn(async { tokio::time::sleep(TICK).await });
                    tokio::time::sleep(TICK).await;
                })
                .detach();
        }
    }
}

/// What tokio says where there is no context. The documentation quotes it, and what is told of the panic says
/// how to get one.
#[test]
fn without_a_context_tokio_says_so() {
    let (tell, reports) = mpsc::channel();
    let runtime = pool("without", 1)
        .on_panic(move |report| tell.send(report.to_string()).expect("the test waits"))
        .build()
        .expect("a worker");
    let end = runtime.spawn(async { tokio::time::sleep(TICK).await }).wait();
    let Err(JoinError::Panicked(panic)) = end else {
        panic!("there is no context")
    };
    let text = panic.message().expect("a text");
    assert!(
        text.contains("there is no reactor running, must be called from the context of a Tokio 1.x runtime"),
        "{text}"
    );
    let mend = "`Builder::tokio_context` of the crate warpweft-tokio";
    let report = reports.recv().expect("a report");
    for line in [JoinError::Panicked(panic).to_string(), report] {
        assert!(line.contains(mend) && !line.contains('\n'), "{line}");
    }
}

#[test]
fn the_context_does_not_wake_an_idle_pool() {
    let runtime = with_context("idle", 1);
    let handle = runtime
        .block_on(async {
            // One that is there all the time, as the loop of a server that accepts.
            tokio::spawn(pending::<()>());
            tokio::spawn(async { tokio::time::sleep(TICK).await }).await?;
            Ok::<_, tokio::task::JoinError>(Handle::current())
        })
        .expect("no panic");
    let deadline = pin!(tokio_free_pause());
    runtime.block_on(deadline);
    eventually("it sleeps", || runtime.idle_workers() == (0, 1));
    let parks = || handle.metrics().worker_park_count(0);
    // On a busy machine the context's thread may be on its way to sleep in the first pauses. One that is
    // woken at each tick is so in each pause, and so is a worker that has turns without a reason.
    let mut seen = Vec::new();
    let is_quiet = (0..20).any(|_| {
        let parks_before = parks();
        let before = runtime.counters().total();
        let start = Instant::now();
        runtime.block_on(tokio_free_pause());
        let after = runtime.counters().total();
        assert!(start.elapsed() >= 20 * TICK);
        let ran = after.get(warpweft::policy::Count::Ran) - before.get(warpweft::policy::Count::Ran);
        seen.push((ran, parks() - parks_before));
        seen.last() == Some(&(0, 0))
    });
    assert!(
        is_quiet,
        "turns without a reason, and sleeps of the context's thread: {seen:?}"
    );
}

/// A pause that is no timer of tokio's.
async fn tokio_free_pause() {
    warpweft::time::sleep(20 * TICK).await;
}
