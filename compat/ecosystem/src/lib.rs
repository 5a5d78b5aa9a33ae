//! What the tests of tokio's ecosystem share: a pool inside of tokio's context, and what its threads must be.

use std::time::Duration;
use warpweft::{Pool, Runtime, time::timeout};
use warpweft_tokio::BuilderExt as _;

/// The error of a test.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The name of the pool.
pub const POOL: &str = "eco";
const LONG: Duration = Duration::from_secs(60);
/// Crates of this kind have deep stacks, unoptimised: only their tests on fibers need this.
const FIBER: usize = 1 << 20;

/// Returns a pool inside of tokio's context.
///
/// # Panics
///
/// The system has no threads left.
pub fn pool(workers: usize) -> Runtime {
    let builder = Runtime::builder()
        .name(POOL)
        .workers(workers)
        .fiber_stack_size(FIBER);
    let builder = builder.tokio_context().expect("a thread");
    builder.build().expect("workers")
}

/// Runs a program on pools of 1, 2 and 4 workers, and checks that no other pool came to be.
///
/// # Panics
///
/// The program fails, or takes a minute.
pub fn on_pools<F: Future<Output = Result<(), Error>>>(program: impl Fn() -> F) {
    for workers in [1, 2, 4] {
        let runtime = pool(workers);
        runtime
            .block_on(timeout(LONG, program()))
            .expect("a hang")
            .unwrap_or_else(|error| panic!("{workers} workers: {error}"));
        no_other_pool();
    }
}

/// Checks that this is a task on a worker of the pool, and that what it forks and spawns stays there.
///
/// # Panics
///
/// It is not.
pub async fn on_a_worker() {
    let thread = std::thread::current().name().unwrap_or("?").to_owned();
    assert!(thread.starts_with("eco-"), "this runs on `{thread}`");
    assert!(Pool::current_worker().is_some(), "`{thread}` has no worker");
    in_the_pool().await;
}

/// Checks that this is a task of the pool, on a worker or on the thread of the context.
///
/// # Panics
///
/// It is not.
pub async fn in_the_pool() {
    on_a_thread_of_the_pool();
    let name = || Pool::current().map(|pool| pool.name().to_owned());
    let (own, forked) = warpweft::join(name, name);
    let spawned = warpweft::spawn(async move { name() }).await.expect("no panic");
    for seen in [own, forked, spawned] {
        assert_eq!(seen.as_deref(), Some(POOL));
    }
}

/// Checks that the calling thread is one of the pool's, or that of the context, which has entered the pool.
///
/// # Panics
///
/// It is not.
pub fn on_a_thread_of_the_pool() {
    let thread = std::thread::current().name().unwrap_or("?").to_owned();
    assert!(
        thread.starts_with("eco-") || thread == "warpweft-tokio",
        "this runs on `{thread}`"
    );
    let pool = Pool::current().map(|pool| pool.name().to_owned());
    assert_eq!(pool.as_deref(), Some(POOL), "this runs on `{thread}`");
}

/// Checks that no thread is one of Warpweft's default runtime, nor of a pool of tokio's for tasks.
///
/// # Panics
///
/// There is one.
pub fn no_other_pool() {
    for name in thread_names() {
        let others = name.starts_with("tokio-")
            || name.starts_with("warpweft-") && !name.starts_with("warpweft-tokio");
        assert!(!others, "there is a thread `{name}`");
    }
}

/// Returns the names of the threads of this process, where the system says so.
fn thread_names() -> impl Iterator<Item = String> {
    let threads = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    threads
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok())
        .map(|name| name.trim_end().to_owned())
}
