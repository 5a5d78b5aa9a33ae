//! A dump of all tasks of a runtime: what each does, what it waits for, and which waits cannot end.
//!
//! | file | job |
//! |---|---|
//! | this one | the values of a dump |
//! | `graph` | from what was collected to a dump: who waits for whom |
//! | `waits` | the waits of a dump, from those that were collected |
//! | `addresses` | a table by addresses |
//! | `blocking` | which closures have the threads for which others wait |
//! | `permits` | which tasks have the permits for which others wait |
//! | `sockets` | what the descriptors are for which tasks wait |
//! | `stuck` | the tasks that can never continue, and the circles among them |
//! | `idle` | a runtime in which nothing runs, and nothing is to come |
//! | `kernel` | what the threads of tasks that run do in the kernel |
//! | `unattended` | the tasks that wait long for what no living task is known to bring |
//! | `task_set`, `weights`, `groups` | sets of tasks; tasks with weights, and in groups |
//! | `alike` | findings that say the same of many tasks, and their order |
//! | `text` | a dump for a terminal |
//! | `json`, `names` | a dump for programs; the names in it |
//!
//! # Invariants
//!
//! - A dump is a copy. Nothing in it refers to a task.

pub(crate) mod addresses;
mod alike;
mod blocking;
pub(crate) mod graph;
mod groups;
mod idle;
mod json;
mod kernel;
mod names;
mod permits;
mod sockets;
mod stuck;
pub(crate) mod task_set;
mod text;
mod unattended;
mod waits;
mod weights;

use super::stack::{NoStack, Stack};
use std::panic::Location;
use std::time::Duration;
use warpweft_platform::thread_state::ThreadState;
use warpweft_task::TaskKind;

/// What all tasks of a runtime do, and what they wait for: the result of
/// [`Runtime::dump`](crate::Runtime::dump), or of [`dump_all`](crate::dump_all) for all runtimes.
///
/// As text (`{}`) it is meant for a terminal: tasks of one spawn site that wait for the same come together,
/// the oldest first, and long lists are cut. `{:#}` shows all of them. [`to_json`](Self::to_json) is for
/// programs, and has all.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dump {
    /// The pools.
    pub pools: Vec<PoolDump>,
    /// The tasks, and the threads that wait. Their numbers are their indices.
    pub tasks: Vec<TaskDump>,
    /// What is wrong, for all that is known. Each finding was seen twice, or has been so for a second. Those
    /// that are [certain](Finding::is_certain) come first.
    pub findings: Vec<Finding>,
}

/// A pool in a [`Dump`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolDump {
    /// Its name.
    pub name: String,
    /// Its policy, as text.
    pub policy: String,
    /// The number of its workers.
    pub workers: usize,
    /// It shuts down, or has shut down.
    pub closed: bool,
    /// This process was made by `fork()`, and the pool's workers stayed in the parent.
    pub forked: bool,
    /// How many tasks its policy has in queues at about this moment.
    pub ready: usize,
    /// How many of these are not among [`Dump::tasks`]: those beyond 65,536, and, unless they have waited
    /// before, those in queues that only their owner can read. These are the queues of `negele` and `prows`,
    /// the slot of `tokio`, and those of policies without [`show_queued`](crate::Policy::show_queued). Where
    /// the system has no process-wide barrier (`membarrier` of Linux), it is all that have never waited.
    pub unlisted: usize,
    /// How many tasks that have waited are not among [`Dump::tasks`], although they exist. It is 0, but for
    /// what [remains](crate::Remaining) of a shutdown: that has to be told within some milliseconds.
    pub left_out: usize,
}

/// A task, or a thread that waits, in a [`Dump`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskDump {
    /// Identifies it among the dumps of a process, for as long as it exists.
    pub id: u64,
    /// Its kind; `None` for a thread that runs none of the runtime's tasks.
    pub kind: Option<TaskKind>,
    /// The name that its spawner gave it, or that of the thread.
    pub name: Option<String>,
    /// Where it was spawned.
    pub spawned_at: Option<&'static Location<'static>>,
    /// The name of its pool.
    pub pool: Option<String>,
    /// What it does.
    pub state: TaskState,
    /// For how long it has done so, if that is known, within about 10 ms. Of a task that runs it is known if
    /// the monitor of [stuck workers](crate::Builder::stuck_after) has seen the same step twice, and within
    /// its ticks, half of that time. Of a future or a fiber that waits it is the longest of its
    /// [waits](WaitDump::since). If that is not known, it is the time since it was polled last or left: it
    /// has waited for at least that, and for less than 300 ms longer.
    pub since: Option<Duration>,
    /// What it waits for. It continues when one of these comes. Empty while it waits: something that is not
    /// of this crate.
    pub waits: Vec<WaitDump>,
    /// What it waits for, or did when it was polled last, in the words of its code: see
    /// [`describe_wait`](crate::describe_wait).
    pub described: Vec<String>,
    /// Its cancellation was requested.
    pub cancelled: bool,
    /// It is a job of the runtime itself, which runs parts of a join or scope of a task that waits.
    pub internal: bool,
    /// How many wakers of it exist, if that is known. Without any it is never woken.
    pub wakers: Option<u64>,
    /// What its thread does, as the kernel says, if it runs. Known on Linux, of at most 256 tasks.
    pub thread_state: Option<ThreadState>,
    /// Its stack, or why there is none. `None` if it was not asked for, as by
    /// [`Runtime::dump`](crate::Runtime::dump), or is not known of such a task: see
    /// [`Runtime::dump_with_stacks`](crate::Runtime::dump_with_stacks).
    pub stack: Option<Result<Stack, NoStack>>,
}

/// What a task does, in a [`Dump`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskState {
    /// It is ready, and waits for a worker.
    Queued,
    /// It runs, on that worker if one is known.
    Running(Option<usize>),
    /// It waits.
    Waiting,
    /// It runs a closure of [`blocking`](crate::blocking()), without a worker.
    Blocking,
    /// It is a closure of [`spawn_blocking`](crate::spawn_blocking) that runs.
    SpawnedBlocking,
}

/// One thing that a task waits for, in a [`Dump`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitDump {
    /// What it is.
    pub on: WaitsFor,
    /// Identifies the object among the dumps of a process, for as long as it exists; 0 if it has no identity.
    pub object: u64,
    /// For how long it has waited, if that is known, within about 10 ms. It is not known of the wait of a
    /// future or a fiber for a task, a part of a join or a timer: there a look at the clock, of 8 ns, would
    /// be a sixth of what it costs to spawn a task and to await it. See [`TaskDump::since`] for that task.
    pub since: Option<Duration>,
    /// It was given what it waited for, or was woken to look, and has not looked since.
    pub told: bool,
    /// The tasks on which it depends, by their numbers: all of them have to go on. Where it waits for a
    /// [thread](WaitsFor::BlockingPlace), one of them is enough. Where it waits for
    /// [permits](WaitsFor::Permits), as many of them are enough as have those that are missing.
    pub holders: Vec<usize>,
    /// The tasks on which it probably depends. They used the other end of a channel last, and may have passed
    /// it on. Or they have no name and are known to have permits by their address, which an earlier task of
    /// the same spawn site may have had.
    pub likely: Vec<usize>,
    /// A task that has the lock, or permits without which this wait does not end, is not in the dump. It has
    /// ended and not given them back, as [`mem::forget`](std::mem::forget) of a guard does. Or it is queued
    /// and has not waited yet, or is another runtime's: see [`dump_all`](crate::dump_all).
    pub is_holder_missing: bool,
    /// It leads to the task by a waker of another crate, as in a future that polls several: the task was
    /// polled as the wait began. It may wait for more, of which nothing is known.
    pub is_indirect: bool,
}

/// The kinds of things that a task waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitsFor {
    /// The end of a task.
    Join,
    /// A half of a join that another worker has taken, or the tasks of a scope.
    Fork,
    /// A lock. The owner is the task that has it, if it is known, even if it is not in the dump.
    Lock {
        /// What kind of lock.
        kind: &'static str,
        /// The name, if it has one, and the spawn site of the task that has it.
        owner: Option<String>,
    },
    /// Permits of a semaphore, a read-write lock or a bounded pool.
    Permits {
        /// Of what.
        kind: &'static str,
        /// How many it wants.
        wanted: usize,
        /// How many are free.
        free: usize,
        /// The name, if it has one, and the spawn site of a task that has some: of one that is
        /// [missing](WaitDump::is_holder_missing), or else of the first that is known.
        owner: Option<String>,
        /// How many permits each of [`WaitDump::holders`] has, and then each of [`WaitDump::likely`].
        held: Vec<usize>,
        /// Of how many of these, and of the absent ones, the first waiter is short, even if all others come
        /// back. So none of these tasks has to go on if it is 0.
        missing: usize,
        /// How many permits are with tasks that are not in the dump.
        absent: usize,
        /// How many permits there are, or places in a pool or a scope; 0 if that is not known.
        all: usize,
        /// The name of the pool, if it waits for a place in one.
        pool: Option<String>,
        /// The first task in line, if there are enough permits for this one, but that one wants more. For a
        /// read-write lock it is a writer.
        behind: Option<usize>,
    },
    /// A notification.
    Event {
        /// Of what.
        kind: &'static str,
        /// The last task that has notified.
        last: Option<String>,
        /// Where it was made, if that is known: a oneshot channel.
        made_at: Option<&'static Location<'static>>,
    },
    /// The other tasks of a barrier.
    Barrier {
        /// How many tasks have arrived.
        arrived: usize,
        /// How many have to.
        size: usize,
    },
    /// A value from a channel, which is empty.
    Receive {
        /// The channel's capacity; `usize::MAX` if it has no bound.
        capacity: usize,
        /// How many senders exist.
        senders: usize,
        /// The last task that has sent, if no sender was cloned since.
        last: Option<String>,
        /// Where the channel was made.
        made_at: &'static Location<'static>,
    },
    /// Room in a channel, which is full.
    Send {
        /// How many values are in the channel.
        queued: usize,
        /// The channel's capacity.
        capacity: usize,
        /// How many receivers exist.
        receivers: usize,
        /// The last task that has received, if no receiver was cloned since.
        last: Option<String>,
        /// Where the channel was made.
        made_at: &'static Location<'static>,
    },
    /// A timer, which is due after this time.
    Timer(Duration),
    /// The deadline of the token under which it waits, which is after this time: then it is cancelled, if
    /// nothing else has come.
    Deadline(Duration),
    /// A socket, or another descriptor.
    Socket {
        /// The descriptor's number.
        descriptor: Option<u64>,
        /// It waits to write; otherwise to read.
        write: bool,
        /// What it is at about this moment, such as `listener at 127.0.0.1:80`, `from` one address `to`
        /// another one, or `pipe:[4711]`. It is known on Unix with the feature `net`, of 4096 descriptors.
        name: Option<String>,
    },
    /// A thread of [`spawn_blocking`](crate::spawn_blocking). It depends on the closures that have all of
    /// them, if each of these waits as well.
    BlockingPlace,
    /// The cancellation of a [token](crate::cancel::CancelToken).
    Cancellation,
}

/// A fault that a [`Dump`] shows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// Each of these tasks waits for the next one, and the last for the first: none of them can go on.
    Cycle {
        /// Their numbers.
        tasks: Vec<usize>,
        /// This is likely, and not certain. A waker of one of them exists in a place that this crate does not
        /// know, so that it may still be woken. Or one of them depends on the next one by a channel, whose
        /// other end that task [used last](WaitDump::likely), or by permits which it probably has. Or it is
        /// one task that waits for a lock or permits of its own, and others can go on: the task may have
        /// moved the guard to one of them.
        uncertain: bool,
    },
    /// The tasks wait, and no waker of them exists. They are of one spawn site.
    NobodyCanWake {
        /// Their numbers.
        tasks: Vec<usize>,
    },
    /// The tasks wait for a channel whose only other end was used last by a task that is stuck, or that waits
    /// for them, or by the task itself; or that has ended, and they have waited for a second. This is a
    /// suspicion: the end may have been passed on, and not been used since.
    Abandoned {
        /// Their numbers.
        tasks: Vec<usize>,
    },
    /// A part of the task was given a lock, or was woken for it, and is not polled, while another part of the
    /// same task waits. (This has been called *futurelock*.)
    NotPolled {
        /// Its number.
        task: usize,
    },
    /// No task of the runtime runs or is queued, and there is no timer, no socket and no closure that blocks
    /// for which one waits. So these tasks wait for ever, unless a thread outside of the runtime acts, or the
    /// task that called for the dump. A thread outside is known only after it has used what they wait for:
    /// then there is no such finding. Nor is there one while a task waits for what is not of this crate.
    ///
    /// [`Runtime::dump`](crate::Runtime::dump) looks for it, once the tasks have waited for 100 ms.
    NothingRuns {
        /// The numbers of the tasks that wait for no other known task.
        tasks: Vec<usize>,
    },
    /// The tasks have waited for a second or more for what another task has to bring, such as a value, a
    /// notification or permits, and no living task is known that does: none that has used the other side, and
    /// no thread outside. This is a suspicion. Whoever is to bring it may not have done so yet.
    ///
    /// They wait for the same objects, such as one channel.
    Unattended {
        /// Their numbers.
        tasks: Vec<usize>,
    },
    /// These tasks have blocked their threads in the kernel for 50 ms, without a single turn, on the word at
    /// that address: a lock, condition or channel of the standard library, which no task of this list gives
    /// free. One of them keeps a worker, or there are several. This is a suspicion.
    BlocksInKernel {
        /// Their numbers.
        tasks: Vec<usize>,
        /// The address of the word.
        word: u64,
    },
}

impl Finding {
    /// Returns the numbers of the tasks that it names.
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// let dump = runtime.dump();
    /// assert!(dump.findings.iter().all(|finding| finding.tasks().len() < dump.tasks.len()));
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    #[must_use]
    pub fn tasks(&self) -> &[usize] {
        match self {
            Self::Cycle { tasks, .. }
            | Self::NobodyCanWake { tasks }
            | Self::Abandoned { tasks }
            | Self::NothingRuns { tasks }
            | Self::Unattended { tasks }
            | Self::BlocksInKernel { tasks, .. } => tasks,
            Self::NotPolled { task } => std::slice::from_ref(task),
        }
    }

    /// Returns true if the tasks that it names cannot go on by themselves: a circle that is not uncertain, a
    /// task without a waker, and a part that is not polled. These are worth an alert. A task may still be
    /// cancelled, and a task of a circle may have moved its guard to another one.
    ///
    /// The others are suspicions. A program that is well has some at times, such as a server for which a
    /// thread outside of its runtime has not sent anything yet.
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// assert!(!runtime.dump().findings.iter().any(warpweft::Finding::is_certain));
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_certain(&self) -> bool {
        match self {
            Self::Cycle { uncertain, .. } => !uncertain,
            Self::NobodyCanWake { .. } | Self::NotPolled { .. } => true,
            Self::Abandoned { .. }
            | Self::NothingRuns { .. }
            | Self::Unattended { .. }
            | Self::BlocksInKernel { .. } => false,
        }
    }
}
