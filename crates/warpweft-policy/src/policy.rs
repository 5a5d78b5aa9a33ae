//! The trait that every scheduler implements.

use crate::{Cx, WorkerId};
use std::fmt;
use warpweft_platform::topology::CoreLocation;
use warpweft_queue::CapacityError;
use warpweft_task::{QueueViewer, TaskRef, Waiting, Why};

/// The destination of a task that yields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum YieldTo {
    /// Its worker's own queue (EBSL's soft yield). With FIFO the task is behind all others. With LIFO it is
    /// behind the newest only, whose data is still in the cache.
    Local,
    /// Queues of the pool that workers look at now and then (EBSL's hard yield): one for each two workers,
    /// eight at most.
    Global,
}

impl fmt::Display for YieldTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Global => "global",
        })
    }
}

/// The worker that the framework should wake after a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Wake {
    /// None: a worker that is awake will certainly find the task.
    None,
    /// A sleeping worker, if there is one and none is searching.
    Any,
    /// That worker, if it sleeps; else as [`Any`](Wake::Any).
    Worker(WorkerId),
}

/// The pool for which a policy is built.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PoolEnv {
    /// How many workers the pool may have at a time; at least 1. This includes the runtime's compensating
    /// workers, which have the highest numbers.
    pub workers: usize,
    /// The place of each worker, if workers are pinned; otherwise empty. The runtime's compensating workers,
    /// which come last, run anywhere; they have the places of the first workers here.
    pub places: Vec<CoreLocation>,
}

impl PoolEnv {
    /// Makes an environment of `workers` workers, none of them pinned.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        let places = Vec::new();
        Self { workers, places }
    }

    /// Sets the places of the workers: one for each, or none.
    #[must_use]
    pub fn with_places(mut self, places: Vec<CoreLocation>) -> Self {
        self.places = places;
        self
    }
}

/// The reason for which a policy could not be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum PolicyError {
    /// A queue cannot have the requested capacity.
    Capacity(CapacityError),
    /// Another reason; the text says what was wrong and what would be right.
    Other(String),
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capacity(error) => write!(f, "the policy's queue: {error}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for PolicyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Capacity(error) => Some(error),
            Self::Other(_) => None,
        }
    }
}

impl From<CapacityError> for PolicyError {
    fn from(error: CapacityError) -> Self {
        Self::Capacity(error)
    }
}

/// A scheduling policy handles the scheduling events of one pool.
///
/// The framework keeps what no policy may break: the task's state machine, the idle protocol (announce,
/// fence, [`scan`](Policy::scan), sleep), shutdown, and panic containment. A policy that breaks its duties
/// can waste time or starve a task; it cannot corrupt memory or lose a wake-up. The conformance kit checks
/// the duties.
///
/// # What a policy may do with a task
///
/// It may look at a [`TaskRef`], set its word, keep it, hand it out, and drop it; safe code has no other
/// methods. So only a worker of the task's pool runs the task. Anything beyond that is refused, or costs the
/// policy its pool:
///
/// | a policy | then |
/// |---|---|
/// | drops a task | the task is cancelled and counted; its joiner gets `JoinError::Dropped`, or `Shutdown` once the pool closes |
/// | keeps a task when its pool ends, in a `static` for instance | the pool reports it on the standard error stream, and its memory stays until the last such task is dropped. The joiner waits as long |
/// | hands out a task of another pool | that task ends in its own pool as dropped; the policy's pool closes, and its `fault` names the policy |
/// | panics in a hook | the pool closes, and its `fault` says so |
/// | counts what [only the pool counts](crate::Count::is_of_pool) | nothing is counted |
/// | names a worker that does not exist in a [`Wake`] | any worker is woken |
///
/// # Duties
///
/// - *Nothing lost*: a task that was pushed comes out of `next`, `poll_global`, `search` or `scan` of some
///   worker, once. A task that a policy drops is cancelled, counted, and reported to its joiner as dropped.
/// - *Nothing starved*: `poll_global` hands out, oldest first, what the order of `next` may pass over
///   forever: tasks from outside, yielded tasks, the bottom of a stack. The framework calls it once in
///   [`INTERVAL`](Policy::INTERVAL) tasks and whenever `next` has nothing.
/// - *Urgent tasks first*, if there are [`priorities`](Policy::priorities): a task with a priority runs
///   within one `INTERVAL` of steps of each worker, however many less urgent ones are ready. It does not
///   matter how it became ready: from outside, spawned, woken, or by yielding. So every place where tasks
///   wait keeps their priorities, and `next` also considers what waits outside of the worker's own half. The
///   less urgent tasks have their turns in `poll_global`.
/// - *Shares are kept*, if there are [`shares`](Policy::shares): a priority that always has tasks gets its
///   share of each worker's time.
/// - *`scan` is exhaustive*: it returns `None` only if every place where a task could be was seen empty
///   during the call. It is the last look before sleep; a `scan` that gives up loses wake-ups.
/// - *A worker that rests leaves nothing behind*: a pool may get smaller and larger while it runs. What is in
///   the worker's own half comes out of [`drain`](Policy::drain). What others push for it afterwards is found
///   by the others, within the same bounds as all else. [`Cx::rests`] says which workers rest.
/// - *Purity*: no thread, no sleeping, no blocking. Hooks run on the hot path; they must be short.
///
/// A hook that panics shuts the pool down: every task ends, joiners get an error, no thread waits forever.
///
/// # Examples
///
/// One locked queue for all workers, as in a textbook:
///
/// ```
/// use warpweft_policy::{Cx, Policy, PolicyError, PoolEnv, TaskRef, Wake, Why};
/// use warpweft_queue::Locked;
///
/// struct OneQueue;
///
/// impl Policy for OneQueue {
///     type Shared = Locked<TaskRef>;
///     type Local = ();
///
///     fn build(&self, env: &PoolEnv) -> Result<(Self::Shared, Vec<()>), PolicyError> {
///         Ok((Locked::new(), vec![(); env.workers]))
///     }
///     fn push(queue: &Self::Shared, _: Option<&mut ()>, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
///         queue.push(task);
///         Wake::Any
///     }
///     fn next(queue: &Self::Shared, _: &mut (), _: &Cx<'_>) -> Option<TaskRef> {
///         queue.pop()
///     }
///     fn scan(queue: &Self::Shared, _: &mut (), _: &Cx<'_>) -> Option<TaskRef> {
///         queue.pop()
///     }
/// }
/// ```
pub trait Policy: Send + Sync + Sized + 'static {
    /// The state that all workers of a pool share.
    type Shared: Send + Sync;
    /// The state of one worker.
    type Local: Send;

    /// How many tasks a worker runs at most between two calls of [`poll_global`](Policy::poll_global). In a
    /// pool with sockets or timers it calls sooner if tasks take long.
    const INTERVAL: u32 = 61;

    /// True if [`completed`](Policy::completed) is to be called. That costs a look at every task before it
    /// runs.
    const WATCHES_COMPLETIONS: bool = false;

    /// True if a task that a task of the same pool spawns or forks has that task's priority, unless its
    /// spawner gives it one. The framework then keeps the priority of what each worker runs. The default is
    /// `false`: such a task is pushed without a priority.
    const INHERITS_PRIORITY: bool = false;

    /// Returns how many priorities a spawner may choose from, where 0 is the most urgent one. The default is
    /// none.
    ///
    /// A task that is spawned with priority `p` is first pushed with a [policy word](TaskRef::policy_word) of
    /// [`priority::word(p)`](crate::priority::word); without a priority the word is 0, or that of the
    /// spawning task's priority if it is [inherited](Policy::INHERITS_PRIORITY). The framework refuses larger
    /// priorities.
    fn priorities(&self) -> u8 {
        0
    }

    /// Returns true if a spawner may give a task a [deadline](crate::deadline). Such a task is first pushed
    /// with a [policy word](TaskRef::policy_word) of [`deadline::word(at)`](crate::deadline::word). By
    /// default it returns `false`, and the framework refuses deadlines.
    fn uses_deadlines(&self) -> bool {
        false
    }

    /// Returns the least share of each priority in percent of the time of each worker; empty if the policy
    /// guarantees none, as by default. The conformance kit checks it.
    fn shares(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Makes the state of a pool: one `Local` per worker.
    ///
    /// # Errors
    ///
    /// The configuration is impossible, or memory is short. The error says what would be right.
    fn build(&self, env: &PoolEnv) -> Result<(Self::Shared, Vec<Self::Local>), PolicyError>;

    /// Stores a ready task, and returns the worker to wake.
    ///
    /// `local` is the pushing worker's; `None` for a push from outside the pool.
    fn push(
        shared: &Self::Shared,
        local: Option<&mut Self::Local>,
        task: TaskRef,
        why: Why,
        cx: &Cx<'_>,
    ) -> Wake;

    /// Returns true if a task that a worker pushes for this reason belongs in the worker's own half and
    /// nowhere else, if there is room. Then [`push_local`](Policy::push_local) puts it there. The framework
    /// calls it when the pool begins, and also later; the answer must not change.
    ///
    /// By default it returns `false`, and [`push`](Policy::push) is called.
    #[inline]
    fn is_fast_path(shared: &Self::Shared, why: Why) -> bool {
        let _ = (shared, why);
        false
    }

    /// The fast path of a push: puts the task into the worker's own half. If it cannot, it returns the task
    /// unchanged, and [`push`](Policy::push) is called. If it kept the task, a worker is woken as after
    /// [`Wake::Any`]. It is called only for reasons for which [`is_fast_path`](Policy::is_fast_path) returns
    /// true.
    ///
    /// It exists for speed alone. Its answer needs neither the context nor the shared state, so the rest of a
    /// push is out of the way of most tasks. `push` must put a task at the same place, because it is also
    /// called without this.
    #[inline]
    fn push_local(local: &mut Self::Local, task: TaskRef) -> Result<(), TaskRef> {
        let _ = local;
        Err(task)
    }

    /// Stores the running task, which yields and names the destination: this worker (a *soft* yield), or
    /// queues where all workers look now and then (a *hard* one). By default it is pushed with
    /// `Why::Yielded`; a policy with only one place for such tasks may leave it at that.
    fn yielded(
        shared: &Self::Shared,
        local: &mut Self::Local,
        task: TaskRef,
        to: YieldTo,
        cx: &Cx<'_>,
    ) -> Wake {
        let _ = to;
        Self::push(shared, Some(local), task, Why::Yielded, cx)
    }

    /// Returns true if [`suspended`](Policy::suspended) is to be called. It is called once, when the pool is
    /// built.
    #[inline]
    fn watches_waits(shared: &Self::Shared) -> bool {
        let _ = shared;
        true
    }

    /// Reports that the running task of this worker waits. Only if [`watches_waits`](Policy::watches_waits).
    /// It is called before the task can be woken: a wake that came earlier becomes a `push(Woken)` after this
    /// returns.
    fn suspended(shared: &Self::Shared, local: &mut Self::Local, task: Waiting<'_>, cx: &Cx<'_>) {
        let _ = (shared, local, task, cx);
    }

    /// Returns the next task of this worker's own; it must be cheap.
    fn next(shared: &Self::Shared, local: &mut Self::Local, cx: &Cx<'_>) -> Option<TaskRef>;

    /// Returns the oldest of what `next` may pass over: from outside, yielded, at the bottom. Called at least
    /// every [`INTERVAL`](Policy::INTERVAL) tasks, and when `next` has nothing.
    fn poll_global(shared: &Self::Shared, local: &mut Self::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        let _ = (shared, local, cx);
        None
    }

    /// Returns a task from another worker; it may be random, and may give up. Called again and again, until
    /// the worker gives up. Between two calls the worker yields its CPU. If tasks of others are about to run,
    /// it then sleeps between further calls, for 50 µs each time.
    fn search(shared: &Self::Shared, local: &mut Self::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        Self::scan(shared, local, cx)
    }

    /// Returns a task that is with another worker, while a worker is stuck in a task. This worker may have
    /// tasks that always yield, and so never search. Called every other time in place of `poll_global`, as
    /// long as a worker is stuck; it may give up.
    fn steal_from_stuck(shared: &Self::Shared, local: &mut Self::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        Self::search(shared, local, cx)
    }

    /// Takes the last look before sleep: at every place, in a fixed order, at any cost.
    ///
    /// There is one exception: a place that only its owner can reach, such as a slot for the latest spawn. It
    /// may be left out if the push into it returned [`Wake::None`], because its owner is awake and looks
    /// there before it sleeps.
    fn scan(shared: &Self::Shared, local: &mut Self::Local, cx: &Cx<'_>) -> Option<TaskRef>;

    /// Returns a task of this worker, which is about to rest: a compensating worker that is no longer needed,
    /// or one too many after the pool was made [smaller](Cx::rests). Called until it returns `None`; each
    /// task is pushed again, as from outside. Afterwards nothing is left where only this worker looks. Where
    /// `next` draws on shared queues this must not, or their tasks would be moved round.
    fn drain(shared: &Self::Shared, local: &mut Self::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        Self::next(shared, local, cx)
    }

    /// Returns true if nothing else is ready for this worker, so that a yield may return at once. It is a
    /// hint: `false` is always correct.
    fn is_only_ready(shared: &Self::Shared, local: &Self::Local) -> bool {
        let _ = (shared, local);
        false
    }

    /// Returns about how many tasks are in that worker's own queue, for reports; `None` if that is not known.
    /// Any thread calls it, at any time: it takes no lock that a hook holds for long.
    fn queued(shared: &Self::Shared, worker: WorkerId) -> Option<usize> {
        let _ = (shared, worker);
        None
    }

    /// Returns about how many tasks are in the queues that no worker owns, such as those from outside; for
    /// reports, as [`queued`](Self::queued), and called likewise.
    fn queued_shared(shared: &Self::Shared) -> Option<usize> {
        let _ = shared;
        None
    }

    /// Shows the tasks that are in queues to a report, up to [the number](QueueViewer::room) that it wants,
    /// and takes none. By default it shows none, and the report only has their number.
    ///
    /// Any thread calls it, at any time, as [`queued`](Self::queued). The queues of `warpweft_queue` have
    /// methods for it, without a lock where the queue has none; a queue that only its worker can read is left
    /// out.
    fn show_queued(shared: &Self::Shared, viewer: &mut QueueViewer) {
        let _ = (shared, viewer);
    }

    /// Takes out tasks that were cancelled while they were queued, so that what they hold is freed before
    /// their turn comes. The framework ends what it returns. By default it returns nothing, and each task is
    /// found cancelled when its turn comes.
    ///
    /// Called [`INTERVAL`](Policy::INTERVAL) tasks after the last time, if anything was cancelled meanwhile
    /// in this process. `cancellations` is their number since the pool began. A look at all tasks for each
    /// cancellation would be too expensive; the policy decides how many are worth it. The policy need not
    /// announce what it puts back: the framework wakes a worker afterwards.
    fn evict(
        shared: &Self::Shared,
        local: &mut Self::Local,
        cancellations: u64,
        cx: &Cx<'_>,
    ) -> Vec<TaskRef> {
        let _ = (shared, local, cancellations, cx);
        Vec::new()
    }

    /// Takes out the queued tasks for which `wanted` returns true: those in this worker's half, and in queues
    /// that no worker owns. They have got another [priority](crate::priority), and the framework pushes them
    /// again. By default it takes none, and the priority holds from the next push on. It must not hand out
    /// others.
    ///
    /// Called only after a task has begun to wait for a lock or another task: at most once in
    /// [`INTERVAL`](Policy::INTERVAL) tasks, but sooner if [`queued`](Policy::queued) is at most 256, or 4
    /// for each task since the last call. The framework wakes a worker afterwards.
    fn extract(
        shared: &Self::Shared,
        local: &mut Self::Local,
        wanted: &dyn Fn(&TaskRef) -> bool,
        cx: &Cx<'_>,
    ) -> Vec<TaskRef> {
        let _ = (shared, local, wanted, cx);
        Vec::new()
    }

    /// Reports that a task of this pool ended on this worker, after it ran or was cancelled, so that the
    /// policy can take back what travelled with it. `policy_word` is its word when it was last taken or
    /// suspended. Only if [`WATCHES_COMPLETIONS`](Policy::WATCHES_COMPLETIONS); not for tasks that end with
    /// their pool.
    fn completed(shared: &Self::Shared, local: &mut Self::Local, policy_word: u64) {
        let _ = (shared, local, policy_word);
    }
}
