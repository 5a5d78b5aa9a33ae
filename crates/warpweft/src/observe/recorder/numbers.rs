//! Gives each task of a snapshot a number, and connects each push with the step that follows it.
//!
//! A key is an address, which later tasks may have again. Events in order of time show where one task ends
//! and the next one begins.

use super::event::{Push, StepEnd};
use super::perfetto::{ns, step_end};
use super::snapshot::{EventKind, Snapshot, StepKind, TaskKey, Track};
use crate::observe::order::by_key;
use std::collections::HashMap;

/// The bits of a flow's id that count the flows of a task. The number of the task is above.
const FLOW_BITS: u32 = 24;

/// The place of an event: pool, track and index.
type Place = (usize, usize, usize);

/// What connects an event with others.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EventLink {
    /// The flow that begins at a push, or ends at a step.
    pub(super) flow: Option<u64>,
    /// The number of the task of a step.
    pub(super) task: Option<u64>,
}

/// What connects the events of a snapshot.
#[derive(Debug, Default)]
pub(super) struct EventLinks {
    /// By pool, track and event.
    pub(super) links: Vec<Vec<Vec<EventLink>>>,
    /// Of each pool, the number of runnable tasks over time, in nanoseconds.
    pub(super) depths: Vec<Vec<(u64, u64)>>,
}

impl EventLinks {
    fn at(&mut self, (pool, track, event): Place) -> &mut EventLink {
        &mut self.links[pool][track][event]
    }
}

/// A push, or the begin of a step.
#[derive(Debug, Clone, Copy)]
enum What {
    Push(Push),
    Step(StepKind, Option<StepEnd>),
}

#[derive(Debug, Clone, Copy)]
struct Task {
    number: u64,
    flows: u64,
    is_alive: bool,
    /// It was pushed, or ran.
    is_used: bool,
    /// The push since its last step.
    pushed: Option<Place>,
}

/// See the [module](self).
pub(super) fn link(snapshot: &Snapshot) -> EventLinks {
    let (mut all, mut steps) = (Vec::new(), Vec::new());
    let mut links = EventLinks::default();
    for (pool, events) in snapshot.pools.iter().enumerate() {
        let unlinked = |track: &Track| vec![EventLink::default(); track.events.len()];
        links.links.push(events.tracks.iter().map(unlinked).collect());
        links.depths.push(Vec::new());
        for (track, events) in events.tracks.iter().enumerate() {
            for (index, event) in events.events.iter().enumerate() {
                let place = (pool, track, index);
                match event.kind {
                    EventKind::Push { task, why } => all.push((ns(event), task, What::Push(why), place)),
                    EventKind::Begin { what, task, .. } => {
                        let end = step_end(&events.events[index..]);
                        steps.push((ns(event), task, What::Step(what, end), place));
                    }
                    _ => {}
                }
            }
        }
    }
    // At the same time a push comes first.
    all.append(&mut steps);
    let mut order = Vec::with_capacity(all.len());
    for (at, event) in all.iter().enumerate() {
        order.push((event.0, at));
    }
    let mut runnable = vec![0_u64; snapshot.pools.len()];
    let mut tasks: HashMap<TaskKey, Task> = HashMap::new();
    let mut last_number = 0;
    for (ns, key, what, place) in by_key(order).into_iter().map(|at| all[at]) {
        let mut new_task = || {
            last_number += 1;
            Task {
                number: last_number,
                flows: 0,
                is_alive: true,
                is_used: false,
                pushed: None,
            }
        };
        let task = tasks.entry(key).or_insert_with(&mut new_task);
        let is_new = match what {
            What::Push(Push::Spawned | Push::Taken) => true,
            // Of a fork that was pushed, this is the step.
            What::Step(StepKind::Fork, _) => task.pushed.is_none(),
            _ => !task.is_alive,
        };
        if is_new && task.is_used {
            // A task that was pushed and never ran is gone.
            if let Some(before) = task.pushed {
                runnable[before.0] -= 1;
            }
            *task = new_task();
        }
        task.is_used = true;
        match what {
            What::Push(_) => {
                if let Some(before) = task.pushed.replace(place) {
                    runnable[before.0] -= 1;
                }
                runnable[place.0] += 1;
            }
            What::Step(_, end) => {
                links.at(place).task = Some(task.number);
                if let Some(push) = task.pushed.take() {
                    runnable[push.0] -= 1;
                    task.flows += 1;
                    let flow = task.number << FLOW_BITS | task.flows & ((1 << FLOW_BITS) - 1);
                    links.at(push).flow = Some(flow);
                    links.at(place).flow = Some(flow);
                }
                task.is_alive = end != Some(StepEnd::Ended);
            }
        }
        links.depths[place.0].push((ns, runnable[place.0]));
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::recorder::snapshot::{Event, PoolEvents};
    use std::time::Duration;

    /// A snapshot of one worker.
    fn snapshot(events: Vec<(u64, EventKind)>) -> Snapshot {
        let event = |(ns, kind)| Event {
            at: Duration::from_nanos(ns),
            kind,
        };
        let track = Track {
            worker: Some(0),
            blocking: None,
            thread: None,
            events: events.into_iter().map(event).collect(),
        };
        Snapshot {
            pools: vec![PoolEvents {
                name: "main".to_owned(),
                workers: 1,
                tracks: vec![track],
            }],
        }
    }

    const KEY: TaskKey = TaskKey(64);

    fn push(why: Push) -> EventKind {
        EventKind::Push { task: KEY, why }
    }

    fn begin() -> EventKind {
        EventKind::Begin {
            what: StepKind::Task,
            task: KEY,
            site: None,
        }
    }

    fn end(how: StepEnd) -> EventKind {
        EventKind::End { how }
    }

    #[test]
    fn an_address_may_be_another_tasks() {
        let links = link(&snapshot(vec![
            (1, push(Push::Injected)),
            (2, begin()),
            (3, end(StepEnd::Waits)),
            (4, push(Push::Woken)),
            (5, begin()),
            (6, end(StepEnd::Ended)),
            // Injected, so it may be the same one but for its end.
            (7, push(Push::Injected)),
            (8, begin()),
            (9, end(StepEnd::Waits)),
            // Dropped while it waited, without a step.
            (10, push(Push::Spawned)),
            (11, begin()),
        ]));
        let tasks: Vec<u64> = [1, 4, 7, 10]
            .into_iter()
            .filter_map(|at| links.links[0][0][at].task)
            .collect();
        assert_eq!(tasks, [1, 1, 2, 3]);
        let flow = |at: usize| links.links[0][0][at].flow.unwrap_or_default();
        assert_eq!((flow(0), flow(1)), (1 << FLOW_BITS | 1, 1 << FLOW_BITS | 1));
        assert_eq!((flow(3), flow(4)), (1 << FLOW_BITS | 2, 1 << FLOW_BITS | 2));
        assert_eq!(flow(9) >> FLOW_BITS, 3);
        let depths: Vec<u64> = links.depths[0].iter().map(|depth| depth.1).collect();
        assert_eq!(depths, [1, 0, 1, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn a_task_that_never_ran_is_not_runnable_for_ever() {
        let links = link(&snapshot(vec![
            (1, push(Push::Spawned)),
            (2, push(Push::Spawned)),
            (3, begin()),
        ]));
        assert_eq!(links.depths[0], [(1, 1), (2, 1), (3, 0)]);
        assert_eq!(links.links[0][0][0].flow, None, "it leads nowhere");
    }
}
