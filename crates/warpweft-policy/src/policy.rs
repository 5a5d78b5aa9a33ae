//! The trait that every scheduler is written against.

use crate::{Cx, WorkerId};
use std::fmt;
use warpweft_platform::topology::Place;
use warpweft_queue::CapacityError;
use warpweft_task::{TaskRef, Waiting, Why};

/// Where a task goes that yields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YieldTo {
    /// Into its worker's own queue (EBSL's soft yield). With FIFO that is behind all others; with LIFO behind
    /// the newest, so that it yields to one task, the one whose data is still in the cache.
    Local,
    /// Into queues of the pool that workers look at now and then (EBSL's hard yield): one for each two
    /// workers, eight at most.
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

/// Whom the framework should wake after a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Wake {
    /// No thread: a thread who is awake will find the task for certain.
    None,
    /// A sleeper, if there is one and no thread is searching.
    Any,
    /// That worker, if it sleeps; else as [`Any`](Wake::Any).
    Worker(WorkerId),
}

/// What a policy is built for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PoolEnv {
    /// How many workers the pool may have at a time; at least 1. The runtime's compensating workers for stuck
    /// workers are included, and have the highest numbers.
    pub workers: usize,
    /// Where each worker is, if they are pinned: who is near whom. Empty if they are not. The runtime's
    /// compensating workers for stuck workers, which come last, run anywhere; they have the places of the
    /// first workers here.
    pub places: Vec<Place>,
}

impl PoolEnv {
    /// An environment of `workers` workers, which are pinned nowhere.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        let places = Vec::new();
        Self { workers, places }
    }

    /// The same with workers at these places: one for each, or none.
    #[must_use]
    pub fn with_places(mut self, places: Vec<Place>) -> Self {
        self.places = places;
        self
    }
}

/// Why a policy could not be built.
#[derive(Debug)]
pub enum PolicyError {
    /// A queue of the asked capacity cannot be had.
    Capacity(CapacityError),
    /// Something else; the text says what was wrong and what would be right.
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

/// A scheduling policy: the handler of one pool's scheduling events.
///
/// The framework keeps what no policy may break: the task's state machine, the idle protocol (announce,
/// fence, [`scan`](Policy::scan), sleep), shutdown, panic containment. A policy that breaks its own duties
/// can waste time or starve a task; it cannot corrupt memory or lose a wake-up. The conformance kit checks
/// the duties.
///
/// # What a policy may do with a token
///
/// Look at it, set its word, keep it, hand it out, and drop it: a [`TaskRef`] has no other methods in safe
/// code. So a task runs where its pool's worker runs it, and nowhere else. What a policy does beyond its
/// duties is refused, or costs it its own pool:
///
/// | a policy | then |
/// |---|---|
/// | drops a token | the task is cancelled and counted; its joiner gets `JoinError::Dropped`, or `Shutdown` once the pool closes |
/// | keeps a token when its pool ends, in a `static` for instance | the pool says so on the standard error stream, and its memory stays until the last such token is dropped. The joiner waits as long |
/// | hands out a task of another pool | that task ends in its own pool as dropped; the policy's pool closes, and its `fault` names the policy |
/// | panics in a hook | the pool closes, and its `fault` says so |
/// | counts what [only the pool counts](crate::Count::is_of_pool) | nothing is counted |
/// | names a worker that is not there in a [`Wake`] | any worker is woken |
///
/// # Duties
///
/// - *Nothing lost*: a task that was pushed comes out of `next`, `poll_global`, `search` or `scan` of some
///   worker, once. A token that a policy drops is cancelled, counted, and reported to its joiner as dropped.
/// - *Nothing starved*: `poll_global` hands out, oldest first, what the order of `next` may pass over
///   forever: tasks from outside, yielded tasks, the bottom of a stack. The framework calls it once in
///   [`INTERVAL`](Policy::INTERVAL) tasks and whenever `next` has nothing.
/// - *What is urgent goes first*, if there are [`priorities`](Policy::priorities): a task with a priority
///   runs within one `INTERVAL` of steps of each worker, however many less urgent ones are ready. It does not
///   matter where it was pushed: from outside, spawned, woken, having given way. So every place where tasks
///   wait keeps their priorities, and `next` knows what waits outside of the worker's own half. The less
///   urgent tasks have their turns in `poll_global`.
/// - *`scan` is exhaustive*: it returns `None` only if every place where a task could lie was seen empty
///   during the call. It is the last look before sleep; a `scan` that gives up loses wake-ups.
/// - *Purity*: no thread, no sleeping, no blocking. Hooks run on the hot path; they must be short.
///
/// A hook that panics shuts the pool down: every task ends, joiners get an error, nothing hangs.
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
    /// What all workers of a pool share.
    type Shared: Send + Sync;
    /// The owner's half: one per worker.
    type Local: Send;

    /// Every how many tasks of a worker the framework asks [`poll_global`](Policy::overdue).
    const INTERVAL: u32 = 61;

    /// True if [`completed`](Policy::retired) wants to be called; it costs a look at every task before it
    /// runs.
    const WATCHES_COMPLETIONS: bool = false;

    /// How many priorities a spawner may choose from, 0 being the most urgent one; none, unless a policy says
    /// otherwise.
    ///
    /// A task that is spawned with priority `p` is first pushed with a [policy word](TaskRef::policy_word) of
    /// [`priority::word(p)`](crate::priority::word), one without a priority with 0. The framework refuses
    /// priorities beyond.
    fn priorities(&self) -> u8 {
        0
    }

    /// Makes the state of a pool: one `Local` per worker.
    ///
    /// # Errors
    ///
    /// The configuration is impossible, or memory is short. The error says what would be right.
    fn build(&self, env: &PoolEnv) -> Result<(Self::Shared, Vec<Self::Local>), PolicyError>;

    /// A task is runnable: put it somewhere, and say whom to wake.
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
    /// nowhere else, if there is room: [`push_local`](Policy::push_own) puts it there. It is asked when the
    /// pool begins, and also later: the answer is to stay the same.
    ///
    /// What is provided says `false`, and [`push`](Policy::push) is called.
    #[inline]
    fn is_fast_path(shared: &Self::Shared, why: Why) -> bool {
        let _ = (shared, why);
        false
    }

    /// The short way of a push: puts the task into the worker's own half, or gives it back as it was, and
    /// then [`push`](Policy::push) is called. Where it kept the task, a thread is woken as after
    /// [`Wake::Any`]. Only for reasons that the policy [`keeps`](Policy::keeps).
    ///
    /// It is there for speed alone: as its answer is known and needs neither context nor what is shared, the
    /// rest of a push is out of the way of most tasks. `push` is to put a task where this would: it is called
    /// without this, too.
    #[inline]
    fn push_local(local: &mut Self::Local, task: TaskRef) -> Result<(), TaskRef> {
        let _ = local;
        Err(task)
    }

    /// The running task yields, and says itself where to: back to this worker (a *soft* yield), or to
    /// where all workers look now and then (a *hard* one). What is provided pushes it as any task that
    /// yields; a policy that has but one place for them may leave it at that.
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

    /// Returns true if [`suspended`](Policy::suspended) wants to be called. It is asked once, when the pool
    /// is built.
    #[inline]
    fn watches_waits(shared: &Self::Shared) -> bool {
        let _ = shared;
        true
    }

    /// The running task of this worker waits. Only if [`watches_waits`](Policy::watches_waits). Called before
    /// it can be woken: a wake that came earlier becomes a `push(Woken)` after this returns.
    fn suspended(shared: &Self::Shared, local: &mut Self::Local, task: Waiting<'_>, cx: &Cx<'_>) {
        let _ = (shared, local, task, cx);
    }

    /// The next task of this worker's own; cheap.
    fn next(shared: &Self::Shared, local: &mut Self::Local, cx: &Cx<'_>) -> Option<TaskRef>;

    /// The oldest of what `next` may pass over: from outside, yielded, at the bottom. Called every
    /// [`INTERVAL`](Policy::INTERVAL) tasks, and when `next` has nothing.
    fn poll_global(shared: &Self::Shared, local: &mut Self::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        let _ = (shared, local, cx);
        None
    }

    /// A task of someone else's; may be random, may give up. Called again and again, with growing pauses,
    /// until the worker's patience ends.
    fn search(shared: &Self::Shared, local: &mut Self::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        Self::scan(shared, local, cx)
    }

    /// A worker is stuck in a task, and this one, which may have tasks of its own that always yield, looks
    /// after what is behind it: something that is with another worker. Called every other time in place
    /// of `poll_global`, as long as a thread is stuck; may give up.
    fn steal_from_stuck(shared: &Self::Shared, local: &mut Self::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        Self::search(shared, local, cx)
    }

    /// The last look before sleep: every place, in a fixed order, whatever it takes.
    ///
    /// The one exception: a place that only its owner can reach, such as a slot for the latest spawn. It may
    /// be left out where the push into it answered [`Wake::None`], because its owner is awake and looks there
    /// before it sleeps.
    fn scan(shared: &Self::Shared, local: &mut Self::Local, cx: &Cx<'_>) -> Option<TaskRef>;

    /// A task that is with this worker, which retires: it was there for one that was stuck. Called until
    /// there is none; each is pushed again, as from outside. Where `next` draws on what all workers share
    /// this is to return `None`, or that would be turned over.
    fn drain(shared: &Self::Shared, local: &mut Self::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        Self::next(shared, local, cx)
    }

    /// Returns true if nothing else is ready for this worker, so that a yield may return at once. A hint:
    /// `false` is always right.
    fn is_only_ready(shared: &Self::Shared, local: &Self::Local) -> bool {
        let _ = (shared, local);
        false
    }

    /// Takes out tasks that were cancelled while they lay here, so that what they hold is freed before their
    /// turn comes. The framework ends what it returns; a policy that returns nothing, as the provided
    /// function does, lets each task wait for its turn, which is when it is found cancelled.
    ///
    /// Called when a worker looks up, [`INTERVAL`](Policy::INTERVAL) tasks after the last time, if anything
    /// was cancelled meanwhile in this process: `cancellations` is how many were since the pool began. To
    /// look at everything for each one would be too much; how many are worth it is the policy's to say.
    /// Whatever it puts back need not be announced: the framework wakes a thread afterwards.
    fn evict(
        shared: &Self::Shared,
        local: &mut Self::Local,
        cancellations: u64,
        cx: &Cx<'_>,
    ) -> Vec<TaskRef> {
        let _ = (shared, local, cancellations, cx);
        Vec::new()
    }

    /// A task of this pool ended on this worker, having run or been cancelled: take back what travelled with
    /// it. `policy_word` is what it carried when it was last taken or suspended. Only if
    /// [`WATCHES_COMPLETIONS`](Policy::WATCHES_ENDS); not for tasks that end with their pool.
    fn completed(shared: &Self::Shared, local: &mut Self::Local, policy_word: u64) {
        let _ = (shared, local, policy_word);
    }
}
