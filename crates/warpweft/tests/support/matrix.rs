//! Waiters × events: every cell of [`ROWS`] and [`COLUMNS`] is a small program that must end, with the
//! right result, and without another task on top of the frame that waits.

use crate::waits::*;
use std::cell::RefCell;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use warpweft::{Builder, Runtime, block_on, blocking, fiber, join, scope, spawn, spawn_blocking, spawn_job};

/// A waiter: it waits in one kind of task of that runtime, and returns when the wait is over.
type Row = (&'static str, fn(&Runtime, Wait));

#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = &[
    ("a job",                    |on, wait| on.spawn_job(move || wait.run()).wait().expect("no panic")),
    ("a future that blocks",     |on, wait| on.spawn(async move { wait.run() }).wait().expect("no panic")),
    ("a fiber",                  |on, wait| on.spawn_fiber(move || wait.run()).wait().expect("no panic")),
    ("blocking in a job",        |on, wait| on.spawn_job(move || blocking(|| wait.run())).wait().expect("no panic")),
    ("blocking in a future",     |on, wait| on.spawn(async move { blocking(|| wait.run()) }).wait().expect("no panic")),
    ("blocking in a fiber",      |on, wait| on.spawn_fiber(move || blocking(|| wait.run())).wait().expect("no panic")),
    ("spawn_blocking",           |on, wait| on.spawn_blocking(move || wait.run()).wait().expect("no panic")),
    ("both halves of a join",    |on, wait| on.install(|_| { join(|| wait.run(), || wait.run()); }).expect("it is open")),
    ("both halves, in a fiber",  |on, wait| on.spawn_fiber(move || { join(|| wait.run(), || wait.run()); }).wait().expect("no panic")),
    ("jobs of a scope",          |on, wait| on.install(|_| scope(|jobs| (0..3).for_each(|_| jobs.spawn(move |_| wait.run())))).expect("it is open")),
    ("fibers of a scope",        |on, wait| on.install(|_| fiber::scope(|fibers| (0..3).for_each(|_| fibers.spawn(move |_| wait.run())))).expect("it is open")),
    ("every worker",             |on, wait| { on.broadcast(|_| wait.run()).expect("it is open"); }),
    ("a foreign thread",         |on, wait| on.block_on(async { wait.run() })),
];

/// What for: in direct style, and to be awaited.
type Column = (
    &'static str,
    fn(),
    fn() -> Pin<Box<dyn Future<Output = ()> + Send>>,
);

#[rustfmt::skip]
pub(crate) const COLUMNS: &[Column] = &[
    ("block_on",         || block_on(a_while()),                || Box::pin(a_while())),
    ("a job",            || is_seven(spawn_job(slowly).wait()), || Box::pin(async { is_seven(spawn_job(slowly).await) })),
    ("a future",         || is_seven(spawn(later()).wait()),    || Box::pin(async { is_seven(spawn(later()).await) })),
    ("a fiber",          || is_seven(fiber::spawn(slowly).wait()),  || Box::pin(async { is_seven(fiber::spawn(slowly).await) })),
    ("a closure",        || is_seven(spawn_blocking(slowly).wait()), || Box::pin(async { is_seven(spawn_blocking(slowly).await) })),
    ("join",             halves,                                || Box::pin(async { halves() })),
    ("scope",            jobs,                                  || Box::pin(async { jobs() })),
    ("scope of fibers",  fibers,                                || Box::pin(async { fibers() })),
    ("Mutex",            direct_mutex,                          || Box::pin(mutex())),
    ("RwLock",           direct_rwlock,                         || Box::pin(rwlock())),
    ("Condvar",          direct_condvar,                        || Box::pin(condvar())),
    ("Barrier, Notify",  direct_meetings,                       || Box::pin(meetings())),
    ("oneshot",          direct_promise,                        || Box::pin(promise())),
    ("channel",          direct_channels,                       || Box::pin(channels())),
    ("broadcast, watch", direct_for_all,                        || Box::pin(for_all())),
    ("sleep",            || block_on(timed_park()),                    || Box::pin(timed_park())),
    ("a socket",         || block_on(round_trip()),             || Box::pin(round_trip())),
];

/// Runs all cells, in direct style for every row, and awaited by a future. `pure`: no spare threads are
/// lacking, so law 1 holds.
pub(crate) fn every_cell(setting: &str, runtime: &Arc<Runtime>, pure: bool) {
    for &(what, direct, awaited) in COLUMNS {
        let wait = Wait { direct, pure };
        for &(who, call) in ROWS {
            let on = Arc::clone(runtime);
            within(&format!("{setting}: {who} × {what}"), move || call(&on, wait));
        }
        let on = Arc::clone(runtime);
        within(&format!("{setting}: a future that awaits × {what}"), move || {
            on.spawn(awaited()).wait().expect("no panic");
        });
    }
}

/// All rows at once, for each column.
pub(crate) fn every_column_at_once(setting: &str, runtime: &Arc<Runtime>, pure: bool) {
    for &(what, direct, _) in COLUMNS {
        let on = Arc::clone(runtime);
        within(&format!("{setting}: everybody × {what}"), move || {
            thread::scope(|crowd| {
                for (_, call) in ROWS {
                    crowd.spawn(|| call(&on, Wait { direct, pure }));
                }
            });
        });
    }
}

/// A runtime for the matrix: its fibers' stacks are so large that frames that are [`NEAR`] each other are on
/// the same one.
pub(crate) fn builder(workers: usize, policy: &str) -> Builder {
    Runtime::builder()
        .workers(workers)
        .policy_spec(policy.parse().expect("a preset"))
        .fiber_stack_size(2 * NEAR)
}

/// Runs `cell` on a new thread, and panics with its name if it panics or is not over in time: a hang
/// is a failure like any other.
pub(crate) fn within(cell: &str, program: impl FnOnce() + Send + 'static) {
    let (over, wait) = mpsc::channel();
    let thread = thread::spawn(move || {
        program();
        // The receiver is gone if it took too long.
        let _ = over.send(());
    });
    match wait.recv_timeout(Duration::from_secs(60)) {
        Ok(()) => {}
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs: {cell}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {}
    }
    assert!(thread.join().is_ok(), "it panics: {cell}");
}

/// A wait of one column.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) direct: fn(),
    pub(crate) pure: bool,
}

impl Wait {
    /// Waits, while tasks that it does not wait for are ready.
    fn run(self) {
        let before: Vec<_> = (0..3).map(|_| spawn_job(is_on_top)).collect();
        marked(self.direct);
        for task in before {
            let on_top = task.wait().expect("no panic");
            assert!(
                !(self.pure && on_top),
                "a task ran on top of a frame that did not wait for it"
            );
        }
    }
}

/// Frames less than this apart are on the same stack.
const NEAR: usize = 128 << 10;

thread_local! {
    /// Where the frames of this thread are that wait, on its own stack and on those of its fibers.
    static FRAMES: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Calls `wait` with a mark on the stack.
#[inline(never)]
pub(crate) fn marked(wait: impl FnOnce()) {
    let here = address();
    FRAMES.with(|frames| frames.borrow_mut().push(here));
    wait();
    FRAMES.with(|frames| frames.borrow_mut().retain(|&frame| frame != here));
}

/// Returns true if this runs on top of a frame that waits. Stacks grow downwards.
#[inline(never)]
pub(crate) fn is_on_top() -> bool {
    let here = address();
    FRAMES.with(|frames| {
        let frames = frames.borrow();
        frames.iter().any(|&frame| here < frame && frame - here < NEAR)
    })
}

/// Of the caller's frame, about.
#[inline(always)]
fn address() -> usize {
    let mark = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&mark)).addr()
}
