//! The tasks of a trace, for a replay: when each arrives, how long its steps run, and what it waits for.

use std::collections::HashMap;

use super::read::NoTrace;
use super::timeline::{End, Timeline};

/// A task of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedTask {
    /// Its steps, in order of time; at least one.
    pub steps: Vec<RecordedStep>,
}

/// A step of a task, from when it ran to when it waited, yielded or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedStep {
    /// What made the task runnable.
    pub begins: Begins,
    /// For how long it ran, in nanoseconds.
    pub run_ns: u64,
    /// What it did meanwhile, in order of time.
    pub pushes: Vec<RecordedPush>,
}

/// What makes a task runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// A [`RecordedPush`] of another task: it spawns the task at its first step, and wakes it at a later
    /// one.
    Pushed,
    /// A moment, in nanoseconds since the trace began: the task came from outside, or a timer, a socket or
    /// something unknown woke it.
    At(u64),
    /// It had yielded, or was woken before it waited.
    Again,
}

/// A task makes another one runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedPush {
    /// When, in nanoseconds since the step began.
    pub offset_ns: u64,
    /// The index of the other task.
    pub task: usize,
    /// True at the other task's first step.
    pub spawns: bool,
}

/// A step with its place in the timeline.
struct StepSlice {
    lane: usize,
    start: u64,
    lasts: u64,
    end: End,
}

/// Returns the tasks of a trace, in the order in which they first ran. Closures of `spawn_blocking` are
/// left out.
///
/// Each step depends only on steps that began before it, so a replay ends.
pub(super) fn tasks(timeline: &Timeline) -> Result<Vec<RecordedTask>, NoTrace> {
    let mut by_number: HashMap<u64, Vec<StepSlice>> = HashMap::new();
    for (lane, content) in timeline.lanes.iter().enumerate() {
        let name = content.name.rsplit(" / ").next().unwrap_or_default();
        if name.starts_with("blocking ") {
            continue;
        }
        for slice in content.slices.iter().filter(|slice| slice.task != 0) {
            by_number.entry(slice.task).or_default().push(StepSlice {
                lane,
                start: slice.start,
                lasts: slice.lasts,
                end: slice.end,
            });
        }
    }
    if by_number.is_empty() {
        return Err(NoTrace::NoSteps);
    }
    let mut places: Vec<Vec<StepSlice>> = by_number.into_values().collect();
    for steps in &mut places {
        steps.sort_by_key(|step| step.start);
    }
    places.sort_by_key(|steps| (steps[0].start, steps[0].lane));
    let mut lanes: Vec<Vec<(u64, u64, usize, usize)>> = vec![Vec::new(); timeline.lanes.len()];
    for (task, steps) in places.iter().enumerate() {
        for (step, place) in steps.iter().enumerate() {
            lanes[place.lane].push((place.start, place.start + place.lasts, task, step));
        }
    }
    lanes.iter_mut().for_each(|lane| lane.sort_unstable());
    let mut tasks: Vec<RecordedTask> = places.iter().map(|steps| unlinked(steps)).collect();
    let mut flows: Vec<_> = timeline.flows.iter().collect();
    flows.sort_by_key(|flow| flow.since);
    for flow in flows {
        let Some((start, _, task, step)) =
            around(&lanes[flow.to], flow.at).filter(|found| found.0 == flow.at)
        else {
            continue;
        };
        match around(&lanes[flow.from], flow.since) {
            // Strictly before: so the order of begins is an order of what depends on what.
            Some((begin, _, by, at)) if begin < start && by != task => {
                tasks[by].steps[at].pushes.push(RecordedPush {
                    offset_ns: flow.since - begin,
                    task,
                    spawns: step == 0,
                });
                tasks[task].steps[step].begins = Begins::Pushed;
            }
            _ => tasks[task].steps[step].begins = Begins::At(flow.since),
        }
    }
    Ok(tasks)
}

/// Returns a task whose steps begin at their moments, or again.
fn unlinked(steps: &[StepSlice]) -> RecordedTask {
    let before = std::iter::once(End::Unknown).chain(steps.iter().map(|step| step.end));
    let steps = steps.iter().zip(before).map(|(step, before)| RecordedStep {
        begins: if before == End::Again {
            Begins::Again
        } else {
            Begins::At(step.start)
        },
        run_ns: step.lasts,
        pushes: Vec::new(),
    });
    RecordedTask {
        steps: steps.collect(),
    }
}

/// Returns the step on a lane during which that moment was: begin, end, task and step.
fn around(lane: &[(u64, u64, usize, usize)], at: u64) -> Option<(u64, u64, usize, usize)> {
    let next = lane.partition_point(|step| step.0 <= at);
    let found = lane[..next].last().copied()?;
    (at <= found.1).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::read::timeline;
    use crate::trace::timeline::{Flow, Lane, Slice};

    fn slice(start: u64, lasts: u64, task: u64, end: End) -> Slice {
        Slice {
            start,
            lasts,
            name: 0,
            task,
            end,
        }
    }

    fn flow(from: usize, since: u64, to: usize, at: u64) -> Flow {
        Flow {
            from,
            since,
            to,
            at,
            why: 0,
        }
    }

    #[test]
    fn spawns_wakes_yields_and_times_are_told_apart() {
        let lane = |name: &str, slices| Lane {
            name: name.to_owned(),
            slices,
            instants: Vec::new(),
        };
        let timeline = Timeline {
            span: 100,
            names: vec!["x".to_owned()],
            lanes: vec![
                lane(
                    "main / worker 0",
                    vec![
                        slice(10, 20, 7, End::Waits),
                        slice(60, 5, 7, End::Again),
                        slice(70, 1, 7, End::Ended),
                    ],
                ),
                lane(
                    "main / worker 1",
                    vec![slice(20, 30, 9, End::Ended), slice(90, 0, 0, End::Unknown)],
                ),
                lane("main / other threads", Vec::new()),
                lane("main / blocking 0", vec![slice(0, 99, 3, End::Ended)]),
            ],
            counters: Vec::new(),
            cut: None,
            // From outside; task 7 spawns task 9; task 9 wakes task 7.
            flows: vec![flow(2, 5, 0, 10), flow(0, 15, 1, 20), flow(1, 40, 0, 60)],
        };
        let tasks = tasks(&timeline).expect("steps");
        let push = |offset_ns, task, spawns| RecordedPush {
            offset_ns,
            task,
            spawns,
        };
        let step = |begins, run_ns, pushes| RecordedStep {
            begins,
            run_ns,
            pushes,
        };
        assert_eq!(
            tasks,
            [
                RecordedTask {
                    steps: vec![
                        step(Begins::At(5), 20, vec![push(5, 1, true)]),
                        step(Begins::Pushed, 5, vec![]),
                        step(Begins::Again, 1, vec![]),
                    ]
                },
                RecordedTask {
                    steps: vec![step(Begins::Pushed, 30, vec![push(20, 0, false)])]
                },
            ]
        );
    }

    #[test]
    fn the_example_has_its_tasks() {
        let tasks = tasks(&timeline(crate::trace::EXAMPLE).expect("a trace")).expect("steps");
        // A future, a fiber, and three times four closures.
        assert_eq!(tasks.len(), 14);
        let spawned = tasks.iter().filter(|task| task.steps[0].begins == Begins::Pushed);
        assert_eq!(spawned.count(), 12);
        assert!(tasks.iter().any(|task| task.steps.len() > 1));
    }

    #[test]
    fn a_trace_without_steps_says_so() {
        let mut timeline = timeline(crate::trace::EXAMPLE).expect("a trace");
        for lane in &mut timeline.lanes {
            lane.slices.retain(|slice| slice.task == 0);
        }
        assert_eq!(tasks(&timeline).err(), Some(NoTrace::NoSteps));
    }
}
