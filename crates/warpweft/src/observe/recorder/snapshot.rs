//! A copy of what a recorder has, as public values.

use super::event::{Push, StepEnd};
use super::sites::TaskSite;
use super::{json, perfetto};
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

/// What the workers of a runtime did lately: a copy of its flight recorder, made by
/// [`Recorder::snapshot`](crate::Recorder::snapshot).
///
/// ```
/// use warpweft::{Runtime, EventKind};
/// let runtime = Runtime::builder().workers(1).build()?;
/// runtime.recorder().record_steps(true);
/// runtime.spawn_job(|| 6 * 7).wait()?;
/// let snapshot = runtime.recorder().snapshot();
/// let steps = snapshot.events().filter(|event| matches!(event.kind, EventKind::Begin { .. }));
/// assert!(steps.count() >= 1);
/// let mut file = Vec::new();
/// snapshot.write_perfetto(&mut file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The pools, in the order of the runtime.
    pub pools: Vec<PoolEvents>,
}

/// What was recorded of one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolEvents {
    /// The name of the pool.
    pub name: String,
    /// The number of workers, without the compensating ones.
    pub workers: usize,
    /// A track for each worker, compensating ones included, and one for all other threads. Then a track for
    /// each name of threads without a worker that made tasks runnable while steps were recorded. Then tracks
    /// for closures of [`spawn_blocking`](crate::spawn_blocking), as many as ran at the same time.
    pub tracks: Vec<Track>,
}

/// What one worker, or all threads without a worker, recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Track {
    /// The number of the worker; `None` for threads that carry no worker of the pool.
    pub worker: Option<usize>,
    /// The number of a track for closures that block; `None` for all others. A number is no thread.
    pub blocking: Option<usize>,
    /// The name of the threads without a worker that made tasks runnable, for example `main`. `None` for all
    /// other tracks, also that of threads without a name.
    pub thread: Option<Arc<str>>,
    /// The events, in order of time. Rare ones reach further back than steps.
    pub events: Vec<Event>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// When it happened: the time since the process began to use this library.
    pub at: Duration,
    /// What happened.
    pub kind: EventKind,
}

/// Identifies a task, or a fork, while it exists. Later ones may get the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskKey(pub(crate) u64);

/// As hexadecimal number.
impl fmt::Display for TaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// What a worker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StepKind {
    /// A step of a task: a closure, a poll of a future, or the first turn of a fiber.
    Task,
    /// A further turn of a fiber.
    Fiber,
    /// The half of a `join`, or a task of a scope, that was taken from another worker.
    Fork,
    /// A closure of [`spawn_blocking`](crate::spawn_blocking), on a thread without a worker.
    Blocking,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A step begins. It lasts until the next `End`, or the next `Begin` if the worker was passed on
    /// meanwhile.
    Begin {
        /// What runs.
        what: StepKind,
        /// The task or fiber.
        task: TaskKey,
        /// Where the task was spawned, if that is known.
        site: Option<Arc<TaskSite>>,
    },
    /// The step ends.
    End {
        /// How it ended.
        how: StepEnd,
    },
    /// A task became runnable. A fork that was taken is in the track of the worker that had offered it, at
    /// the moment when the other worker had it.
    Push {
        /// The task.
        task: TaskKey,
        /// Why.
        why: Push,
    },
    /// The worker falls asleep.
    Park,
    /// The worker is awake.
    Unpark,
    /// A sleeping worker was woken; `None` if any one.
    WakeWorker {
        /// Which one.
        worker: Option<usize>,
    },
    /// The worker found that it had stolen tasks since its last event of this kind.
    Steal {
        /// How many.
        tasks: u64,
    },
    /// The worker found that tasks had not fitted into its queue since its last event of this kind.
    Overflow {
        /// How many.
        tasks: u64,
    },
    /// A task of this worker continues in another pool.
    Transfer {
        /// The task.
        task: TaskKey,
    },
    /// A compensating worker was sent.
    Compensate {
        /// Its number.
        worker: usize,
    },
    /// A compensating worker has retired.
    Retire {
        /// Its number.
        worker: usize,
    },
    /// A worker was found stuck in a task.
    Stall {
        /// Its number.
        worker: usize,
        /// The task and what its thread did, if the snapshot was taken for the report of this stall.
        report: Option<Arc<str>>,
    },
    /// Earlier steps and pushes of this track were overwritten: it is complete from here on. Of the threads
    /// without a worker, this goes for all events, also on the tracks of their names and of closures that
    /// block.
    Lost,
}

impl StepKind {
    /// Returns a short name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Fiber => "fiber",
            Self::Fork => "fork",
            Self::Blocking => "blocking",
        }
    }
}

impl EventKind {
    /// Returns a short name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Begin { .. } => "begin",
            Self::End { .. } => "end",
            Self::Push { .. } => "push",
            Self::Park => "park",
            Self::Unpark => "unpark",
            Self::WakeWorker { .. } => "wake worker",
            Self::Steal { .. } => "steal",
            Self::Overflow { .. } => "overflow",
            Self::Transfer { .. } => "transfer",
            Self::Compensate { .. } => "compensate",
            Self::Retire { .. } => "retire",
            Self::Stall { .. } => "stall",
            Self::Lost => "lost",
        }
    }
}

impl Snapshot {
    /// Returns all events, pool by pool and track by track.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        let tracks = self.pools.iter().flat_map(|pool| &pool.tracks);
        tracks.flat_map(|track| &track.events)
    }

    /// Notes what the report of a stall says, at the last stall of that worker.
    pub(crate) fn with_report(mut self, of: usize, said: &str) -> Self {
        let (mut last_at, mut last) = (None, None);
        for pool in &mut self.pools {
            for track in &mut pool.tracks {
                for Event { at, kind } in &mut track.events {
                    match kind {
                        EventKind::Stall { worker, report } if *worker == of && Some(*at) >= last_at => {
                            (last_at, last) = (Some(*at), Some(report));
                        }
                        _ => {}
                    }
                }
            }
        }
        if let Some(report) = last {
            *report = Some(said.into());
        }
        self
    }

    /// Writes the events in the format of Perfetto, which <https://ui.perfetto.dev> opens: a track for each
    /// worker, a slice for each step and sleep, a flow from each push to the step that follows, and the
    /// number of runnable tasks. An event takes about 20 bytes.
    ///
    /// It writes in small pieces, so a file should be buffered.
    ///
    /// # Errors
    ///
    /// Those of `to`.
    pub fn write_perfetto(&self, mut to: impl Write) -> io::Result<()> {
        perfetto::write(self, &mut to)
    }

    /// Writes the events as JSON:
    /// `{"pools":[{"name":"…","tracks":[{"worker":0,"events":[{"at_ns":5,"kind":"park"},…]},…]},…]}`. The other
    /// fields of an event are those of its [`EventKind`].
    ///
    /// # Errors
    ///
    /// Those of `to`.
    pub fn write_json(&self, mut to: impl Write) -> io::Result<()> {
        json::write(self, &mut to)
    }
}
