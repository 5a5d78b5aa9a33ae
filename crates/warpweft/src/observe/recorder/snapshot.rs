//! A copy of what a recorder has, as a value.

use super::event::{self, ANY_WORKER, Kind, Parts, Push, StepEnd};
use super::ring::Record;
use super::sites::TaskSite;
use super::{PoolRecorder, json, perfetto};
use std::collections::BTreeSet;
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
        let tracks = self.pools.iter_mut().flat_map(|pool| &mut pool.tracks);
        let stalls = tracks
            .flat_map(|track| &mut track.events)
            .filter_map(|event| match &mut event.kind {
                EventKind::Stall { worker, report } if *worker == of => Some((event.at, report)),
                _ => None,
            });
        if let Some((_, report)) = stalls.max_by_key(|(at, _)| *at) {
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
    pub fn write_perfetto(&self, to: impl Write) -> io::Result<()> {
        perfetto::write(self, to)
    }

    /// Writes the events as JSON:
    /// `{"pools":[{"name":"…","tracks":[{"worker":0,"events":[{"at_ns":5,"kind":"park"},…]},…]},…]}`. The other
    /// fields of an event are those of its [`EventKind`].
    ///
    /// # Errors
    ///
    /// Those of `to`.
    pub fn write_json(&self, to: impl Write) -> io::Result<()> {
        json::write(self, to)
    }
}

/// Whose events a track has.
#[derive(Debug)]
enum TrackOf {
    Worker(usize),
    Others,
    Thread(Arc<str>),
    Blocking(usize),
}

impl TrackOf {
    fn track(self, events: Vec<Event>) -> Track {
        let (worker, blocking, thread) = match self {
            Self::Worker(worker) => (Some(worker), None, None),
            Self::Others => (None, None, None),
            Self::Thread(name) => (None, None, Some(name)),
            Self::Blocking(number) => (None, Some(number), None),
        };
        Track {
            worker,
            blocking,
            thread,
            events,
        }
    }
}

impl PoolRecorder {
    /// Copies what is there.
    pub(crate) fn snapshot(&self, name: &str, workers: usize) -> PoolEvents {
        let recorders = self.workers.iter().enumerate();
        let mut copies: Vec<(TrackOf, Vec<Record>)> = recorders
            .map(|(id, worker)| {
                (
                    TrackOf::Worker(id),
                    merge(worker.sparse.read(), in_order(worker.steps.read())),
                )
            })
            .collect();
        let mut has_lost: Vec<bool> = self
            .workers
            .iter()
            .map(|worker| worker.steps.has_lost())
            .collect();
        let outside = self.outside.lock_unless_lost().map(|outside| {
            has_lost.push(outside.ring.has_lost());
            (outside.ring.read(), outside.threads.all().to_vec())
        });
        let (outside, names) = outside.unwrap_or_default();
        let (outside, blocking) = split_blocking(outside);
        let (outside, threads) = split_threads(outside, names);
        copies.push((TrackOf::Others, outside));
        copies.extend(threads);
        let blocking = blocking.into_iter().enumerate();
        copies.extend(blocking.map(|(number, records)| (TrackOf::Blocking(number), records)));
        // After the copies: no record is later.
        let (scale, now) = self.scale();
        let sites = self.sites.all();
        let mut taken = Vec::new();
        let mut decode = |records: Vec<Record>| {
            let mut events = Vec::with_capacity(records.len());
            let mut last = 0;
            for record in records {
                let Some(parts) = event::parts(record) else {
                    continue;
                };
                // The clock's rounding must not reverse two events.
                last = scale.ns_at(event::whole_stamp(record, now.ticks)).max(last);
                let at = Duration::from_nanos(last);
                let ended = matches!(parts.kind, Kind::Begin | Kind::BeginFiber | Kind::BeginFork);
                if let Some(how) = StepEnd::of(parts.detail).filter(|_| ended) {
                    let kind = EventKind::End { how };
                    events.push(Event { at, kind });
                }
                let event = kind(parts, &sites).map(|kind| Event { at, kind });
                match event::taken_from(parts) {
                    Some(worker) => taken.extend(event.map(|event| (worker, event))),
                    None => events.extend(event),
                }
            }
            events
        };
        let mut tracks: Vec<_> = copies
            .into_iter()
            .map(|(of, records)| of.track(decode(records)))
            .collect();
        give_back(taken, &mut tracks);
        for track in has_lost
            .iter()
            .enumerate()
            .filter(|(_, lost)| **lost)
            .map(|(at, _)| at)
        {
            mark_loss(&mut tracks, track);
        }
        PoolEvents {
            name: name.to_owned(),
            workers,
            tracks,
        }
    }
}

/// Puts the begins of fibers' turns where their stamps belong: they are written at the ends, after what
/// happened meanwhile.
fn in_order(mut records: Vec<Record>) -> Vec<Record> {
    for at in 1..records.len() {
        let is_late = |parts: Parts| parts.kind == Kind::BeginFiber;
        if event::parts(records[at]).is_some_and(is_late) {
            let stamp = event::stamp_of(records[at]);
            let is_before = |record: &Record| event::stamp_of(*record) <= stamp;
            let place = records[..at]
                .iter()
                .rposition(is_before)
                .map_or(0, |before| before + 1);
            records[place..=at].rotate_right(1);
        }
    }
    records
}

/// Moves what thieves recorded to the workers from which they took forks. `taken` has the number of each.
fn give_back(taken: Vec<(usize, Event)>, tracks: &mut [Track]) {
    let mut changed = BTreeSet::new();
    for (worker, event) in taken {
        if let Some(track) = tracks.get_mut(worker) {
            track.events.push(event);
            changed.insert(worker);
        }
    }
    for worker in changed {
        // Two ascending sequences, which this merges.
        tracks[worker].events.sort_by_key(|event| event.at);
    }
}

/// Marks the oldest step or push of a track whose earlier ones were overwritten. Rare events reach further
/// back. That of the other threads is marked before all that threads without a worker recorded.
fn mark_loss(tracks: &mut [Track], track: usize) {
    let is_step = |event: &Event| {
        matches!(
            event.kind,
            EventKind::Begin { .. } | EventKind::End { .. } | EventKind::Push { .. }
        )
    };
    let oldest = if tracks[track].worker.is_some() {
        let at = tracks[track].events.iter().position(is_step);
        at.map(|at| (at, tracks[track].events[at].at))
    } else {
        let outside = tracks.iter().filter(|track| track.worker.is_none());
        let first = outside
            .filter_map(|track| track.events.first())
            .map(|event| event.at);
        first.min().map(|first| (0, first))
    };
    if let Some((index, at)) = oldest {
        let kind = EventKind::Lost;
        tracks[track].events.insert(index, Event { at, kind });
    }
}

/// Takes the records of closures that block out of those of other threads, and spreads them over tracks: a
/// track has one closure at a time.
fn split_blocking(records: Vec<Record>) -> (Vec<Record>, Vec<Vec<Record>>) {
    let mut tracks: Vec<(Option<u64>, Vec<Record>)> = Vec::new();
    let mut others = Vec::with_capacity(records.len());
    for record in records {
        let Some(Parts { detail, word, .. }) =
            event::parts(record).filter(|parts| parts.kind == Kind::Blocking)
        else {
            others.push(record);
            continue;
        };
        let wanted = (detail != 0).then_some(word);
        match tracks.iter_mut().find(|(open, _)| *open == wanted) {
            Some((open, track)) => {
                *open = (detail == 0).then_some(word);
                track.push(record);
            }
            None if detail == 0 => tracks.push((Some(word), vec![record])),
            // Its begin was overwritten.
            None => {}
        }
    }
    (others, tracks.into_iter().map(|(_, track)| track).collect())
}

/// Takes what threads with a name pushed out of the records of other threads. Returns the rest, and a track
/// for each of the `names` that pushed something.
fn split_threads(records: Vec<Record>, names: Vec<Arc<str>>) -> (Vec<Record>, Vec<(TrackOf, Vec<Record>)>) {
    let mut tracks: Vec<_> = names
        .into_iter()
        .map(|name| (TrackOf::Thread(name), Vec::new()))
        .collect();
    let mut others = Vec::with_capacity(records.len());
    for record in records {
        let push = event::parts(record).filter(|parts| parts.kind == Kind::Push);
        let number = push.and_then(|push| usize::from(event::task_of_word(push.word).1).checked_sub(1));
        match number.and_then(|number| tracks.get_mut(number)) {
            Some((_, track)) => track.push(record),
            None => others.push(record),
        }
    }
    tracks.retain(|(_, records)| !records.is_empty());
    (others, tracks)
}

/// Merges two sequences of records. The order within each stays, also where the clocks of two CPUs
/// disagree.
fn merge(sparse: Vec<Record>, steps: Vec<Record>) -> Vec<Record> {
    let mut all = Vec::with_capacity(sparse.len() + steps.len());
    let mut sparse = sparse.into_iter().peekable();
    for step in steps {
        // The stamps of a worker are close enough to compare their lower parts.
        let is_before = |rare: &Record| event::stamp_of(*rare) < event::stamp_of(step);
        while let Some(rare) = sparse.next_if(is_before) {
            all.push(rare);
        }
        all.push(step);
    }
    all.extend(sparse);
    all
}

fn kind(parts: Parts, sites: &[Arc<TaskSite>]) -> Option<EventKind> {
    let (address, site) = event::task_of_word(parts.word);
    let task = TaskKey(address);
    let site = || {
        usize::from(site)
            .checked_sub(1)
            .and_then(|at| sites.get(at).cloned())
    };
    let worker = usize::try_from(parts.word).unwrap_or(usize::MAX);
    let begin = |what| EventKind::Begin {
        what,
        task,
        site: site(),
    };
    Some(match parts.kind {
        Kind::Begin => begin(StepKind::Task),
        Kind::BeginFiber => begin(StepKind::Fiber),
        Kind::BeginFork => begin(StepKind::Fork),
        Kind::End => EventKind::End {
            how: StepEnd::of(parts.detail)?,
        },
        Kind::Push => EventKind::Push {
            task,
            why: Push::of(parts.detail)?,
        },
        Kind::Park => EventKind::Park,
        Kind::Unpark => EventKind::Unpark,
        Kind::WakeWorker => EventKind::WakeWorker {
            worker: (parts.word != ANY_WORKER).then_some(worker),
        },
        Kind::Steal => EventKind::Steal { tasks: parts.word },
        Kind::Overflow => EventKind::Overflow { tasks: parts.word },
        Kind::Transfer => EventKind::Transfer { task },
        Kind::Compensate => EventKind::Compensate { worker },
        Kind::Retire => EventKind::Retire { worker },
        Kind::Stall => EventKind::Stall { worker, report: None },
        Kind::Blocking => match StepEnd::of(parts.detail) {
            Some(how) => EventKind::End { how },
            None => begin(StepKind::Blocking),
        },
    })
}
