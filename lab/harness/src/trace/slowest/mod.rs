//! `trace slowest`: the tasks that took longest from spawn to end, and where the time of each went.
//!
//! ```text
//!  spawned ──ready──▶ runs ──waits──▶ woken ──ready──▶ runs ──▶ ended
//!           behind a task     until another task,      behind a task
//!           on a worker       a thread or an event
//! ```
//!
//! # Invariants
//!
//! - The three parts of a task add up to its total: each moment is of one kind.
//! - What is not recorded is said to be so, and never guessed.

mod explain;

use std::collections::HashMap;

use serde::Serialize;

use super::timeline::{End, Flow, Slice, Timeline};
use crate::text::nanos;

/// A task among the slowest, in words. The page has it as data.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub(super) struct SlowTask {
    pub(super) name: String,
    /// What it is: a future, a fiber, a closure.
    pub(super) kind: &'static str,
    /// Its number in the trace.
    pub(super) task: u64,
    /// When it was spawned, in nanoseconds since the trace began.
    pub(super) since: u64,
    pub(super) total: u64,
    /// The main cause, in one line.
    pub(super) cause: String,
    /// Where the time went: ran, ready, waited.
    pub(super) parts: Vec<String>,
}

/// The slowest tasks, and what a reader of the list must know.
#[derive(Debug, Serialize)]
pub(super) struct Slowest {
    pub(super) tasks: Vec<SlowTask>,
    /// How many tasks have ended.
    pub(super) ended: usize,
    /// How many have not.
    pub(super) unended: usize,
}

/// Returns the `top` tasks that took longest. Tasks that have not ended count only if none has.
pub(super) fn slowest(timeline: &Timeline, top: usize) -> Slowest {
    let story = Story::of(timeline);
    let ended = |task: &&TaskSteps| task.has_ended();
    let all = story.tasks.values();
    let count = all.clone().filter(ended).count();
    let unended = story.tasks.len() - count;
    let mut ranked: Vec<&TaskSteps> = all.filter(|task| count == 0 || task.has_ended()).collect();
    ranked.sort_by_key(|task| (std::cmp::Reverse(task.total()), task.number));
    ranked.truncate(top);
    Slowest {
        tasks: ranked.into_iter().map(|task| story.explain(task)).collect(),
        ended: count,
        unended,
    }
}

impl Slowest {
    /// The list as text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (place, task) in self.tasks.iter().enumerate() {
            let SlowTask {
                name,
                kind,
                task: number,
                since,
                total,
                cause,
                parts,
            } = task;
            text += &format!(
                "{:3}. {}  `{name}` ({kind}, task {number}), from {} on\n     {cause}\n",
                place + 1,
                nanos(*total as f64),
                moment(*since),
            );
            parts.iter().for_each(|part| text += &format!("       {part}\n"));
        }
        if self.tasks.is_empty() {
            text += "No step of a task is recorded: call `runtime.recorder().record_steps(true)` first.\n";
        }
        match (self.ended, self.unended) {
            (_, 0) => {}
            (0, unended) => {
                text +=
                    &format!("None of the {unended} tasks has ended: the times reach to their last steps.\n");
            }
            (_, unended) => text += &format!("Tasks that have not ended are left out: {unended}.\n"),
        }
        text
    }
}

/// A moment of the trace: "12.345 ms".
pub(super) fn moment(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

/// A step, and what made it runnable.
#[derive(Debug, Clone, Copy)]
struct Step {
    lane: usize,
    slice: Slice,
    push: Option<Flow>,
}

impl Step {
    fn end(&self) -> u64 {
        self.slice.start + self.slice.lasts
    }
}

/// A task from its first step to its last.
#[derive(Debug)]
struct TaskSteps {
    number: u64,
    steps: Vec<Step>,
}

/// What a task did between two of its steps, or before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    /// From when on it waited. The same as `ready` if it did not.
    since: u64,
    /// From when on it was ready to run.
    ready: u64,
    /// When its step began.
    until: u64,
}

impl TaskSteps {
    /// When it was spawned, or first seen.
    fn since(&self) -> u64 {
        let first = &self.steps[0];
        first
            .push
            .map_or(first.slice.start, |push| push.since.min(first.slice.start))
    }

    fn until(&self) -> u64 {
        self.steps.iter().map(Step::end).max().unwrap_or(0)
    }

    fn total(&self) -> u64 {
        self.until().saturating_sub(self.since())
    }

    fn has_ended(&self) -> bool {
        self.steps.last().is_some_and(|step| step.slice.end == End::Ended)
    }

    /// What was before that step.
    fn gap(&self, at: usize) -> Gap {
        let step = &self.steps[at];
        let until = step.slice.start;
        let Some(before) = at.checked_sub(1).map(|before| &self.steps[before]) else {
            return Gap {
                since: self.since(),
                ready: self.since(),
                until,
            };
        };
        let since = before.end().min(until);
        let ready = match (step.push, before.slice.end) {
            // It was woken while it still ran, or it only yielded.
            (Some(push), _) => push.since.clamp(since, until),
            (None, End::Again | End::Left) => since,
            // What is not known is a wait: it was not in a queue for all that is known.
            (None, _) => until,
        };
        Gap { since, ready, until }
    }

    fn gaps(&self) -> impl Iterator<Item = (usize, Gap)> {
        (0..self.steps.len()).map(|at| (at, self.gap(at)))
    }
}

/// The tasks of a timeline, and what each lane did when.
struct Story<'a> {
    timeline: &'a Timeline,
    tasks: HashMap<u64, TaskSteps>,
    /// The slices of each lane, by their begin.
    lanes: Vec<Vec<Slice>>,
    /// When a worker was reported stuck: the pool, the worker's number, the moment.
    stuck: Vec<(&'a str, &'a str, u64)>,
}

impl<'a> Story<'a> {
    fn of(timeline: &'a Timeline) -> Self {
        let pushes: HashMap<(usize, u64), Flow> = timeline
            .flows
            .iter()
            .map(|flow| ((flow.to, flow.at), *flow))
            .collect();
        let mut tasks: HashMap<u64, TaskSteps> = HashMap::new();
        let mut lanes = Vec::new();
        for (lane, content) in timeline.lanes.iter().enumerate() {
            let mut slices = content.slices.clone();
            slices.sort_by_key(|slice| slice.start);
            for slice in slices.iter().filter(|slice| slice.task != 0) {
                let task = tasks.entry(slice.task).or_insert_with(|| TaskSteps {
                    number: slice.task,
                    steps: Vec::new(),
                });
                let push = pushes.get(&(lane, slice.start)).copied();
                task.steps.push(Step {
                    lane,
                    slice: *slice,
                    push,
                });
            }
            lanes.push(slices);
        }
        tasks
            .values_mut()
            .for_each(|task| task.steps.sort_by_key(|step| step.slice.start));
        let mut stuck = Vec::new();
        for lane in &timeline.lanes {
            let pool = split(&lane.name).0;
            for (at, name) in &lane.instants {
                let name = timeline.names[*name].as_str();
                let worker = name
                    .strip_prefix("worker ")
                    .and_then(|name| name.strip_suffix(" is stuck"));
                stuck.extend(worker.map(|worker| (pool, worker, *at)));
            }
        }
        Self {
            timeline,
            tasks,
            lanes,
            stuck,
        }
    }

    fn name(&self, slice: &Slice) -> &'a str {
        &self.timeline.names[slice.name]
    }

    fn lane(&self, lane: usize) -> &'a str {
        &self.timeline.lanes[lane].name
    }

    /// Returns true if the lane's worker was reported stuck in that slice.
    fn is_stuck(&self, lane: usize, slice: &Slice) -> bool {
        let (pool, name) = split(self.lane(lane));
        let worker = name.strip_prefix("worker ").unwrap_or_default();
        let during = slice.start..=slice.start + slice.lasts;
        self.stuck
            .iter()
            .any(|(of, number, at)| (*of, *number) == (pool, worker) && during.contains(at))
    }

    /// Returns the slice of a lane in which that moment is.
    fn around(&self, lane: usize, at: u64) -> Option<&Slice> {
        let next = self.lanes[lane].partition_point(|slice| slice.start <= at);
        let found = self.lanes[lane][..next].last()?;
        (at <= found.start + found.lasts).then_some(found)
    }
}

/// The pool and the place in it: "web / worker 0".
fn split(lane: &str) -> (&str, &str) {
    lane.rsplit_once(" / ").unwrap_or(("", lane))
}

#[cfg(test)]
mod tests;
