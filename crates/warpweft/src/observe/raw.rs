//! What a dump collects, before it is put in order: tasks, and waits, by addresses that identify them.

use super::stack::NoStack;
use std::panic::Location;
use std::sync::Arc;
use warpweft_platform::stack_copy::StackCopy;
use warpweft_task::frame::Who;
use warpweft_task::registry::Registry;
use warpweft_task::{TaskKind, Told, told_of};

/// What dumps call the places of a bounded scope.
pub(crate) const BOUNDED_SCOPE: &str = "bounded scope";
/// What dumps call the places of a concurrency limit.
pub(crate) const LIMIT: &str = "concurrency limit";
/// What dumps call the places of a bounded pool.
pub(crate) const POOL: &str = "pool";

/// A task, or a thread that waits, at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct RawTask {
    /// What identifies it while it exists.
    pub(crate) id: usize,
    /// The addresses by which waits refer to it: its waker's data, and a latch. 0: none.
    pub(crate) keys: [usize; 2],
    /// `None`: a thread outside of tasks.
    pub(crate) kind: Option<TaskKind>,
    pub(crate) name: Option<String>,
    pub(crate) site: Option<&'static Location<'static>>,
    /// The address in the word that leads to its name and spawn site; 0 if that is not known.
    pub(crate) origin: usize,
    /// It has a place in its pool, which is bounded.
    pub(crate) has_place: bool,
    pub(crate) state: RawState,
    pub(crate) worker: Option<usize>,
    /// The kernel's number of its thread, if it runs.
    pub(crate) thread: Option<u32>,
    pub(crate) since_ns: Option<u64>,
    /// How many wakers of it exist, if that is known.
    pub(crate) wakers: Option<u64>,
    /// The words of the waker of the task that joins it.
    pub(crate) joiner: Option<[usize; 2]>,
    pub(crate) cancelled: bool,
    /// It is a job of the runtime itself, which runs forks of a task that waits.
    pub(crate) is_internal: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RawState {
    #[default]
    Waiting,
    Queued,
    Running,
    /// It waits for a fork that another thread has, or for the tasks of a scope: see the second key.
    Joining,
    Blocking,
    SpawnedBlocking,
}

/// A wait of a task, which a waker ends.
#[derive(Debug, Clone)]
pub(crate) struct RawWait {
    /// The address of the waker's data; 0 if the waker was taken.
    pub(crate) waiter: usize,
    /// What identifies the task that began to wait; 0 if that is not known. The waker may be that of a future
    /// in between, which polls several.
    pub(crate) task: usize,
    /// The address of what it waits for.
    pub(crate) object: usize,
    pub(crate) since_ns: Option<u64>,
    /// It was given what it waits for, or was woken to look, and has not looked.
    pub(crate) told: bool,
    pub(crate) what: RawWhat,
}

#[derive(Debug, Clone)]
pub(crate) enum RawWhat {
    Lock {
        kind: &'static str,
        owner: Who,
    },
    Permits {
        kind: &'static str,
        wanted: usize,
        free: usize,
        /// How many there are; 0 if that is not known.
        all: usize,
        /// How many the first waiter wants: the others come after it.
        first: usize,
        /// The tasks that are known to have some, and how many.
        holders: Arc<[(Who, usize)]>,
    },
    Event {
        kind: &'static str,
        /// The last task that notified.
        last: Who,
        made_at: Option<&'static Location<'static>>,
    },
    Barrier {
        arrived: usize,
        size: usize,
    },
    Receive {
        capacity: usize,
        senders: usize,
        last: Who,
        made_at: &'static Location<'static>,
    },
    Send {
        queued: usize,
        capacity: usize,
        receivers: usize,
        last: Who,
        made_at: &'static Location<'static>,
    },
    Timer {
        until_ns: u64,
    },
    /// The deadline of the token under which it waits.
    Deadline {
        until_ns: u64,
    },
    Socket {
        descriptor: Option<u64>,
        write: bool,
    },
    BlockingPlace,
    /// The end of all these tasks, by what identifies them.
    Tasks(Vec<usize>),
    Cancellation,
    /// What the code says, in addition to what is known.
    Described(String),
}

/// A pool all of whose threads for closures that block have one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FullThreads {
    /// The index of the pool.
    pub(crate) pool: usize,
    /// What a [`RawWhat::BlockingPlace`] of the pool has as its object.
    pub(crate) object: usize,
}

/// A bounded pool, for whose places a task has waited.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BoundedPool {
    /// The index of the pool.
    pub(crate) pool: usize,
    /// What a [`RawWhat::Permits`] of the pool has as its object.
    pub(crate) object: usize,
    /// How many places there are.
    pub(crate) capacity: usize,
}

/// A fiber that a dump can look at.
pub(crate) trait FiberView: Send + Sync {
    /// Returns what it does; `None` if it has no body.
    fn look(&self) -> Option<RawTask>;

    /// Returns true if it is ready on the thread that carries this worker.
    fn is_ready_behind(&self, worker: usize) -> bool;

    /// Copies the stack of the fiber, if it is suspended and `wants` the task with that identity. Returns
    /// `None` otherwise.
    fn copy_stack(&self, wants: &dyn Fn(usize) -> bool) -> Option<(usize, Result<StackCopy, NoStack>)>;
}

/// An object on which tasks wait.
pub(crate) trait Watched {
    /// Calls `see` for each task that waits on it.
    fn look(&self, see: &mut dyn FnMut(RawWait));
}

/// Returns the objects of this process on which tasks have waited. Under the checkers, where a static would
/// outlive a schedule, there is none.
pub(crate) fn objects() -> Option<&'static Registry<dyn Watched>> {
    static OBJECTS: std::sync::OnceLock<Registry<dyn Watched>> = std::sync::OnceLock::new();
    (!cfg!(any(warpweft_loom, warpweft_shuttle))).then(|| OBJECTS.get_or_init(Registry::new))
}

/// Returns the name, spawn site and kind of a task, which may have ended.
pub(crate) fn told(who: Who) -> Option<Told> {
    // SAFETY: the words of a `Who` are those of a task, or null.
    unsafe { told_of(who.origin) }
}
