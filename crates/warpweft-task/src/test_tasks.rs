//! Numbered tasks, to test policies without a runtime.
//!
//! ```text
//!   TestTasks::task(7) ──▶ TaskRef ──▶ policy under test ──▶ TaskRef ──▶ number, run
//!         │                            │ drops it
//!         ▼                            ▼
//!   runs(7), lost(7)  ◀── counted by what the task holds ──┘
//! ```
//!
//! # Invariants
//!
//! - Each task counts exactly once: as run when it runs, as lost when it is dropped without having run.
//! - All belong to one static pool, which keeps nothing: a task that a policy drops ends at once.

use crate::header::Header;
use crate::join::JoinHandle;
use crate::pool::{PoolHeader, PoolVtable};
use crate::runnable::{Abandon, Ran, Runnable};
use crate::spawn::{SpawnInfo, detached_job, job};
use crate::task_ref::TaskRef;
use crate::why::Why;
use std::borrow::Cow;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_platform::counter::Counter;

/// Makes numbered tasks that do nothing, and counts what became of each.
///
/// ```
/// use warpweft_task::test_tasks::{TestTasks, number, run};
/// let probe = TestTasks::new(2);
/// let (first, second) = (probe.task(0), probe.task(1));
/// assert_eq!(number(&first), Some(0));
/// run(first);
/// drop(second);
/// assert_eq!((probe.runs(0), probe.lost(0)), (1, 0));
/// assert_eq!((probe.runs(1), probe.lost(1)), (0, 1));
/// assert_eq!(probe.lost_in_all(), 1);
/// ```
#[derive(Debug)]
pub struct TestTasks(Arc<Records>);

#[derive(Debug)]
struct Records {
    tasks: Box<[Record]>,
    lost: Counter,
}

#[derive(Debug, Default)]
struct Record {
    runs: Counter,
    lost: Counter,
}

/// The content of a task: it counts when it runs, or when it is dropped without having run.
struct Mark {
    records: Arc<Records>,
    number: usize,
    ran: bool,
}

impl Mark {
    fn run(mut self) {
        self.ran = true;
        self.records.tasks[self.number].runs.add_shared(1);
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if !self.ran {
            self.records.tasks[self.number].lost.add_shared(1);
            self.records.lost.add_shared(1);
        }
    }
}

impl TestTasks {
    /// Makes tasks with the numbers 0 to `tasks - 1` possible.
    #[must_use]
    pub fn new(tasks: usize) -> Self {
        let records = std::iter::repeat_with(Record::default).take(tasks).collect();
        Self(Arc::new(Records {
            tasks: records,
            lost: Counter::default(),
        }))
    }

    /// A new task with this number.
    ///
    /// # Panics
    ///
    /// `number` is not less than the argument of [`new`](TestTasks::new).
    #[must_use]
    pub fn task(&self, number: usize) -> TaskRef {
        let (mark, info) = self.parts(number);
        // SAFETY: the pool is static.
        unsafe { detached_job(move || mark.run(), info) }.into_task_ref()
    }

    /// A new task with this number, and the handle that cancels it. After that it counts as lost when it is
    /// run or dropped.
    ///
    /// ```
    /// use warpweft_task::test_tasks::{TestTasks, run};
    /// let probe = TestTasks::new(1);
    /// let (task, handle) = probe.cancellable(0);
    /// assert!(handle.cancel() && task.is_cancelled());
    /// run(task);
    /// assert_eq!((probe.runs(0), probe.lost(0)), (0, 1));
    /// ```
    ///
    /// # Panics
    ///
    /// As [`task`](TestTasks::task).
    #[track_caller]
    pub fn cancellable(&self, number: usize) -> (TaskRef, JoinHandle<()>) {
        let (mark, info) = self.parts(number);
        // SAFETY: the pool is static.
        let (runnable, handle) = unsafe { job(move || mark.run(), info) };
        (runnable.into_task_ref(), handle)
    }

    #[track_caller]
    fn parts(&self, number: usize) -> (Mark, SpawnInfo) {
        assert!(
            number < self.0.tasks.len(),
            "the probe was made for {} tasks",
            self.0.tasks.len()
        );
        let mark = Mark {
            records: Arc::clone(&self.0),
            number,
            ran: false,
        };
        let name = Some(Cow::Owned(number.to_string()));
        let info = SpawnInfo {
            pool: NonNull::from(&POOL),
            location: Location::caller(),
            name,
        };
        (mark, info)
    }

    /// Returns how often tasks with this number have run.
    #[must_use]
    pub fn runs(&self, number: usize) -> u64 {
        self.0.tasks[number].runs.get()
    }

    /// Returns how many tasks with this number were dropped without having run.
    #[must_use]
    pub fn lost(&self, number: usize) -> u64 {
        self.0.tasks[number].lost.get()
    }

    /// Returns how many tasks were dropped without having run.
    #[must_use]
    pub fn lost_in_all(&self) -> u64 {
        self.0.lost.get()
    }
}

/// The number of a [`TestTasks`]'s task; `None` for any other task.
#[must_use]
pub fn number(task: &TaskRef) -> Option<usize> {
    task.info().name()?.parse().ok()
}

/// Runs a [`TestTasks`]'s task, which a policy has handed out.
///
/// # Panics
///
/// The task belongs to another pool: it goes back to that pool, which cancels it.
pub fn run(task: TaskRef) {
    assert!(
        task.is_of(NonNull::from(&POOL)),
        "{:?} is a task of a runtime: only its own workers run it",
        task.info().location()
    );
    // SAFETY: the task is of the static pool of all `TestTasks`, which counts nothing and leaves its tasks to
    // the tests.
    let ran = unsafe { task.into_runnable() }.run();
    debug_assert!(matches!(ran, Ran::Ended), "a closure ends in one step");
}

static POOL: PoolHeader = PoolHeader::new(&PoolVtable {
    push,
    woken: |pool, runnable| push(pool, runnable, Why::Woken),
    dropped,
    panicked: |_, _| false,
    unregister,
});

fn push(_pool: NonNull<PoolHeader>, runnable: Runnable, _why: Why) {
    // A closure has no waker, so this is never called for one.
    runnable.abandon(Abandon::Dropped);
}

fn dropped(_pool: NonNull<PoolHeader>, runnable: Runnable) {
    runnable.abandon(Abandon::Dropped);
}

fn unregister(_pool: NonNull<PoolHeader>, _task: NonNull<Header>, _place: usize) {
    unreachable!("a closure is never suspended, so it is in no register");
}
