//! Short tasks first: the order measures how long the steps of each code take, and serves the shortest kinds
//! before the others.
//!
//! ```text
//!   expected step       below 32 µs                 below 0.5 ms   below 8.4 ms   longer
//!   push ─────────────▶ [ level 0 ] ──level of its──▶ [ level 1 ]   [ level 2 ]   [ level 3 ]
//!                           │         code, at pop       └── by turns: a tenth of the time each ──▶ pop
//!                           └──▶ pop: the first level that has a task
//! ```
//!
//! This is *shortest expected processing time first*. What is expected is learned from the steps that ran, by
//! the type of closure or future, so a program need not name what is long. A code that is unknown counts as
//! short. Within a level the oldest goes first. (Types of requests that are profiled while they run are
//! those of Demoulin et al., *When Idling is Ideal*, SOSP 2021.)
//!
//! A level that has to wait has its turn by time and not by number: after a turn that took `t`, the next one
//! is due when `9 t` have passed, at most ten seconds. So long tasks never starve, and a level takes about a
//! tenth of the time from shorter ones, or more if these only yield. By number, one long task for each 61
//! short ones would take nearly all of it.
//!
//! Where all tasks are short, none is measured. A worker looks at the clock once in some sixty tasks, or
//! eight that take long. What they took together says whether one of them may have been long:
//!
//! ```text
//!              some of the last tasks may have been long           one was long
//!   Short ───────────────────────────────────────────▶ Watching ─────────────────▶ Sorting
//!     ▲ none was for a while, and all tasks are on level 0   │                        │
//!     └──────────────────────────────────────────────────────┴────────────────────────┘
//! ```
//!
//! # Invariants
//!
//! - A task is pushed on level 0, which costs nothing where all are short. When its turn comes there, and its
//!   code is known to be longer, it goes to its level instead. Each move is to a longer level, so it moves
//!   three times at most. It stays on its level when it is stolen.
//! - A worker that has tasks on another level than 0, pushed or stolen, is in [`Mode::Sorting`]. Thieves take
//!   tasks from there, and add none.
//! - Levels that wait are looked at when the first one is empty, and once in [`BETWEEN_TURNS`] pops.
//! - The step that is measured is the last one that began, and ends at the next look into the queue. Nothing
//!   long is learned from it if the worker ran anything else in between: a fiber, or a task that is bound to
//!   the worker. Steps of short codes are measured once in [`SAMPLE`] pops: the clock costs as much as a
//!   short step.

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests;

use super::priority::{PriorityLocalQueue, PriorityThief};
use super::step_times::{KEPT_NS, LONG_NS, StepTimes};
use super::{FifoOrder, LocalQueue, LocalQueueThief, OneClass, Order, PriorityOrder};
use crate::{Clock, Count, Cx, PolicyError, Tally};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use warpweft_queue::{Amount, Full, Glance, Steal};
use warpweft_task::{QueueViewer, TaskRef};

const LEVELS: usize = 4;
/// The number of levels but for the first one.
const LONGER: NonZeroUsize = NonZeroUsize::new(LEVELS - 1).unwrap();
/// The first expected time, as a power of two of nanoseconds, that is not on the first level: 32 µs.
const SHORT_BITS: u32 = LONG_NS.trailing_zeros();
/// The ratio of a level's longest expected time to that of the level before, as a power of two.
const RATIO_BITS: u32 = 4;
/// How many times as long as its last turn a level waits for the next one.
const PATIENCE: u64 = 9;
/// Once in this number of pops the step of a short code is measured. It is a prime: kinds may take turns.
const SAMPLE: u32 = 61;
/// Once in this number of pops levels that wait are looked at, for which the clock is read.
const BETWEEN_TURNS: u32 = 8;
/// A worker looks at the clock after this number of pops at least: before each search would be too often.
const BETWEEN_LOOKS: u32 = 8;

type LevelQueue = <FifoOrder as Order>::LocalQueue;
type LevelQueueThief = <LevelQueue as LocalQueue>::Thief;

/// Kinds of tasks whose steps are expected to be short go first; what is expected is learned.
///
/// A *kind* is a type of closure or future. Futures in a `Box<dyn Future>` are one kind, and a kind of which
/// some steps are short and others long counts by their mean. Tasks from outside wait in the pool's queue in
/// the order in which they came; a worker that takes one keeps it behind its shorter ones.
///
/// Costs some 2 ns for each task where workers are busy with short ones. Otherwise it costs some 15, and two
/// looks at the clock for each step that is not short. A clone has learned nothing.
///
/// ```
/// use warpweft_policy::order::ShortestOrder;
/// use warpweft_policy::Stealing;
/// let policy = Stealing::with_order(ShortestOrder::default());
/// assert!(policy.to_string().starts_with("shortest+steal=half"));
/// ```
pub struct ShortestOrder {
    times: Arc<StepTimes>,
}

impl Default for ShortestOrder {
    fn default() -> Self {
        Self {
            times: Arc::new(StepTimes::new()),
        }
    }
}

impl Clone for ShortestOrder {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for ShortestOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShortestOrder")
    }
}

impl fmt::Display for ShortestOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("shortest")
    }
}

impl Order for ShortestOrder {
    type LocalQueue = ShortestLocalQueue;
    type Classes = OneClass;
    const NEWEST_FIRST: bool = false;

    /// Turns are by time: there is no number within which each task has one.
    fn turns(&self) -> u64 {
        u64::MAX
    }

    fn local_queue(&self, capacity: usize) -> Result<ShortestLocalQueue, PolicyError> {
        let longer = PriorityOrder::new(FifoOrder, LONGER);
        Ok(ShortestLocalQueue {
            first: FifoOrder.local_queue(capacity)?,
            // Until the first look. A pool of the same policy may have learned something.
            mode: Mode::Sorting,
            pops: 0,
            times: Arc::clone(&self.times),
            longer: longer.local_queue(capacity)?,
            waits: [None; LEVELS],
            last: [(u64::MAX, 0); LEVELS],
            turn: None,
            taken_from: 0,
            short: [0; 2],
            looked: (0, 0),
            yielded: (0, 0),
            only_yields: false,
        })
    }
}

/// Returns the level of tasks whose steps are expected to take so many nanoseconds.
#[inline]
fn level_of(expected_ns: u64) -> usize {
    let beyond = (expected_ns >> SHORT_BITS).checked_ilog2();
    let level = beyond.map_or(0, |bits| bits / RATIO_BITS + 1);
    (level as usize).min(LEVELS - 1)
}

/// Returns the least expected time on a level, in nanoseconds.
fn least_of(level: usize) -> u64 {
    match level.checked_sub(1) {
        None => 0,
        Some(above) => 1 << (SHORT_BITS + RATIO_BITS * above as u32),
    }
}

/// Returns how many steps the worker has begun, those that it got from no policy among them.
fn steps(tally: Tally<'_>) -> u64 {
    tally.counted(Count::Ran) + tally.counted(Count::FiberTurns)
}

/// What a worker does to learn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Nothing: its tasks are short.
    Short,
    /// It measures steps.
    Watching,
    /// It measures steps, and each task goes to its level.
    Sorting,
}

/// The step that is measured.
struct Measured {
    code: usize,
    level: usize,
    since_ns: u64,
    /// How many steps the worker has counted before it.
    steps: u64,
}

/// A queue for each level.
pub struct ShortestLocalQueue {
    /// The first level.
    first: LevelQueue,
    mode: Mode,
    pops: u32,
    times: Arc<StepTimes>,
    /// The other levels.
    longer: PriorityLocalQueue<LevelQueue>,
    /// When a level that has tasks, and is not the first, is due; `None` if it had none at the last look.
    waits: [Option<u64>; LEVELS],
    /// What the last turn of a level took, and until when the level waits for it, in nanoseconds.
    last: [(u64, u64); LEVELS],
    turn: Option<Measured>,
    /// The level from which the last task was taken. Its turn is charged to that one, also if its code has
    /// another level by then: otherwise the level would be due at each look.
    taken_from: usize,
    /// The codes that were found to be short last, since the last look at the clock: most workers run few.
    short: [usize; 2],
    /// The number of pops, and the time, at the last look at the clock.
    looked: (u32, u64),
    /// The numbers of yields and of steps of tasks at the last look.
    yielded: (u64, u64),
    /// True if there were tasks between the last two looks, and all yielded: they wait for others, so no
    /// level has to wait.
    only_yields: bool,
}

/// The same as other workers use it.
pub struct ShortestThief {
    first: LevelQueueThief,
    longer: PriorityThief<LevelQueueThief>,
}

impl ShortestLocalQueue {
    #[inline]
    fn level(&self, task: &TaskRef) -> usize {
        if self.mode != Mode::Sorting {
            return 0;
        }
        self.times.expected(task.code()).map_or(0, level_of)
    }

    #[inline]
    fn level_mut(&mut self, level: usize) -> &mut LevelQueue {
        match level.checked_sub(1) {
            None => &mut self.first,
            Some(longer) => self.longer.level_mut(longer),
        }
    }

    /// Returns the first level that has tasks.
    fn first_of_all(&self) -> usize {
        if self.first.is_empty() {
            self.longer.first_level().saturating_add(1)
        } else {
            0
        }
    }

    /// Returns true if steps of that code are known to be short, and this is none of those that are measured
    /// nevertheless.
    #[inline]
    fn is_short(&self, code: usize) -> bool {
        self.short.contains(&code) && !self.is_sample()
    }

    /// Ends the step that is measured. Begins to measure one of that code, unless it is known to be short.
    #[cold]
    #[inline(never)]
    fn measure(&mut self, code: usize, clock: Clock<'_>, tally: Tally<'_>) {
        self.settle(clock, tally);
        let level = match self.times.expected(code).map(level_of) {
            Some(0) if !self.is_sample() && self.taken_from == 0 => {
                self.short = [code, self.short[0]];
                return;
            }
            level => level.unwrap_or(0),
        };
        let level = match std::mem::take(&mut self.taken_from) {
            0 => level,
            from => from,
        };
        self.turn = Some(Measured {
            code,
            level,
            since_ns: clock.now_ns(),
            steps: steps(tally),
        });
    }

    #[inline]
    fn is_sample(&self) -> bool {
        self.pops.is_multiple_of(SAMPLE)
    }

    /// Puts a task on a level, which grows if it must.
    #[cold]
    fn put(&mut self, task: TaskRef, level: usize) -> Result<(), Full<TaskRef>> {
        let level = self.level_mut(level);
        match level.push(task) {
            Ok(()) => Ok(()),
            Err(Full(task)) => level.push_grown(task),
        }
    }

    /// Ends the step that is measured, if one is.
    #[inline]
    fn settle(&mut self, clock: Clock<'_>, tally: Tally<'_>) {
        if let Some(turn) = self.turn.take() {
            let is_only_step = steps(tally) - turn.steps <= 1;
            self.end(&turn, is_only_step, clock.now_ns());
        }
    }

    fn end(&mut self, turn: &Measured, is_only_step: bool, now_ns: u64) {
        let took = now_ns.saturating_sub(turn.since_ns);
        // Beside other steps it was no longer than all of them.
        if (is_only_step || took < LONG_NS) && self.times.learn(turn.code, took, now_ns) {
            self.mode = Mode::Sorting;
            self.short = [0; 2];
        }
        if turn.level > 0 {
            // A process that was stopped for an hour does not make a level wait for nine.
            let most = if is_only_step {
                KEPT_NS
            } else {
                self.times.expected(turn.code).unwrap_or_default().min(KEPT_NS)
            };
            let took = took.min(most.max(least_of(turn.level)));
            let until_ns = now_ns.saturating_add(took.saturating_mul(PATIENCE));
            self.last[turn.level] = (took, until_ns);
            self.waits[turn.level] = Some(until_ns);
        }
    }

    /// The same as `pop`, in a worker that learns.
    #[cold]
    #[inline(never)]
    fn pop_sorted(&mut self, clock: Clock<'_>, tally: Tally<'_>) -> Option<TaskRef> {
        self.settle(clock, tally);
        self.taken_from = 0;
        if self.mode != Mode::Sorting {
            return self.first.take();
        }
        let mut looks =
            self.is_sample() || self.pops.is_multiple_of(BETWEEN_TURNS) && !self.longer.is_empty();
        loop {
            if self.first.is_empty() {
                if self.longer.is_empty() {
                    self.waits = [None; LEVELS];
                    return None;
                }
                // Beside longer steps the clock costs nothing.
                looks = true;
            }
            let due = if looks { self.pop_due(clock) } else { None };
            // A due level has its turn also if its first task belongs on another one.
            looks = due.is_some();
            let (from, task) = due.or_else(|| {
                let levels = self.first_of_all()..LEVELS;
                levels
                    .into_iter()
                    .find_map(|level| Some((level, self.level_mut(level).take()?)))
            })?;
            self.taken_from = from;
            if from == 0 && self.is_short(task.code()) {
                return Some(task);
            }
            let level = self.level(&task);
            if level <= from {
                return Some(task);
            }
            if let Err(Full(task)) = self.put(task, level) {
                return Some(task);
            }
        }
    }

    /// Takes a task of the level that has been due for longest, if one is due, and says which level it is.
    /// The first one is served by all other pops.
    #[cold]
    fn pop_due(&mut self, clock: Clock<'_>) -> Option<(usize, TaskRef)> {
        let now_ns = clock.now_ns();
        for level in 1..LEVELS {
            if self.longer.is_level_empty(level - 1) {
                self.waits[level] = None;
            } else if self.waits[level].is_none() {
                // A kind that is here for its first step only, in which it prepared something, is soon over.
                let (took, until_ns) = self.last[level];
                let due_ns = now_ns.saturating_add(took.min(least_of(level)) * PATIENCE);
                self.waits[level] = Some(due_ns.max(until_ns));
            }
        }
        let waiting = self.waits.iter().enumerate();
        let due = waiting.filter_map(|(level, due)| Some(((*due)?, level)));
        let (_, level) = due.min().filter(|(due, _)| *due <= now_ns || self.only_yields)?;
        Some((level, self.level_mut(level).take()?))
    }

    /// Changes the mode by what the last tasks took together.
    #[cold]
    fn choose_mode(&mut self, clock: Clock<'_>, tally: Tally<'_>) {
        self.settle(clock, tally);
        let (yields, ran) = (tally.counted(Count::Yields), tally.counted(Count::Ran));
        let now_ns = clock.now_ns();
        let took = now_ns.saturating_sub(self.looked.1);
        self.only_yields = ran > self.yielded.1 && yields - self.yielded.0 >= ran - self.yielded.1;
        self.yielded = (yields, ran);
        self.looked = (self.pops, now_ns);
        // Another worker may have found that one of them is long.
        self.short = [0; 2];
        self.mode = if self.times.any_long(now_ns) || !self.longer.is_empty() {
            Mode::Sorting
        } else if took >= LONG_NS {
            Mode::Watching
        } else {
            Mode::Short
        };
    }
}

impl LocalQueue for ShortestLocalQueue {
    type Thief = ShortestThief;

    #[inline]
    fn push(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        self.first.push(task)
    }

    fn push_grown(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        self.first.push_grown(task)
    }

    #[inline]
    fn pop(&mut self, cx: &Cx<'_>) -> Option<TaskRef> {
        self.pops = self.pops.wrapping_add(1);
        if self.mode == Mode::Short {
            return self.first.take();
        }
        self.pop_sorted(cx.clock(), cx.tally())
    }

    /// A task from outside, or one that was stolen, may be a long one. It waits for short ones as it would
    /// here.
    fn found(&mut self, task: TaskRef, cx: &Cx<'_>) -> Option<TaskRef> {
        let level = self.level(&task);
        if level <= self.first_of_all() {
            return Some(task);
        }
        match self.put(task, level) {
            Ok(()) => self.pop(cx),
            Err(Full(task)) => Some(task),
        }
    }

    #[inline]
    fn begins(&mut self, task: &TaskRef, cx: &Cx<'_>) {
        if self.mode != Mode::Short
            && (self.turn.is_some() || self.taken_from > 0 || !self.is_short(task.code()))
        {
            self.measure(task.code(), cx.clock(), cx.tally());
        }
    }

    #[inline]
    fn polled(&mut self, cx: &Cx<'_>) {
        if self.pops.wrapping_sub(self.looked.0) >= BETWEEN_LOOKS {
            self.choose_mode(cx.clock(), cx.tally());
        }
    }

    fn drain(&mut self, cx: &Cx<'_>) -> Vec<TaskRef> {
        let mut tasks = self.longer.drain(cx);
        tasks.extend(self.first.drain(cx));
        tasks
    }

    fn len(&self) -> usize {
        self.first.len() + self.longer.len()
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.first.is_empty() && (self.mode != Mode::Sorting || self.longer.is_empty())
    }

    fn room(&self) -> usize {
        self.first.room()
    }

    fn thief(&self) -> ShortestThief {
        ShortestThief {
            first: self.first.thief(),
            longer: self.longer.thief(),
        }
    }
}

impl ShortestThief {
    #[inline]
    fn first(&self) -> &impl LocalQueueThief<LevelQueue> {
        &self.first
    }

    #[inline]
    fn longer(&self) -> &impl LocalQueueThief<PriorityLocalQueue<LevelQueue>> {
        &self.longer
    }
}

impl LocalQueueThief<ShortestLocalQueue> for ShortestThief {
    fn glance(&self) -> Glance {
        let (first, longer) = (self.first().glance(), self.longer().glance());
        Glance {
            len: first.len + longer.len,
            mark: first.mark.rotate_left(LONGER.ilog2() + 2) ^ longer.mark,
        }
    }

    fn steal_into(&self, into: &mut ShortestLocalQueue, amount: Amount) -> Steal<TaskRef> {
        let stolen = or_else(self.first().steal_into(&mut into.first, amount), || {
            self.longer().steal_into(&mut into.longer, amount)
        });
        if !into.longer.is_empty() {
            into.mode = Mode::Sorting;
        }
        stolen
    }

    fn steal_one(&self) -> Steal<TaskRef> {
        or_else(self.first().steal_one(), || self.longer().steal_one())
    }

    fn show(&self, viewer: &mut QueueViewer) {
        self.first().show(viewer);
        self.longer().show(viewer);
    }
}

/// Steals elsewhere if nothing was taken. The result is empty only if both are.
fn or_else(stolen: Steal<TaskRef>, elsewhere: impl FnOnce() -> Steal<TaskRef>) -> Steal<TaskRef> {
    if matches!(stolen, Steal::Taken { .. }) {
        return stolen;
    }
    match elsewhere() {
        Steal::Empty => stolen,
        other => other,
    }
}
