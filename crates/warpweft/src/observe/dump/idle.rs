//! A runtime in which nothing runs and nothing is to come: its tasks wait for ever, unless a thread outside
//! acts.
//!
//! This covers what leads to no other task: a sender that was forgotten and never used, an event that nothing
//! notifies, a barrier to which too few come.

use super::task_set::TaskSet;
use super::{Dump, Finding, TaskDump, TaskState, WaitDump, WaitsFor};
use std::time::Duration;

/// How long nothing must have happened: a runtime that is fed from outside has shorter pauses.
const QUIET: Duration = Duration::from_millis(100);

/// Finds out whether something can go on, apart from the `callers`, which called for the dump. What other
/// findings name is not named again.
pub(super) fn find(dump: &Dump, callers: &[usize]) -> Option<Finding> {
    if dump
        .pools
        .iter()
        .any(|pool| pool.ready > 0 || pool.closed || pool.forked)
    {
        return None;
    }
    let named = TaskSet::named_in(dump);
    let mut tasks = Vec::new();
    let mut is_quiet = false;
    for (number, task) in dump.tasks.iter().enumerate() {
        if task.pool.is_none() {
            // A thread in `block_on` is no task of a pool, and what it waits for may give the tasks something
            // to do.
            if task.waits.iter().any(ends_without_a_task) {
                return None;
            }
        } else if !callers.contains(&number) {
            if has_way_out(task) || task.since.is_some_and(|since| since < QUIET) {
                return None;
            }
            is_quiet |= task.since.is_some();
            let depends = |wait: &WaitDump| !wait.holders.is_empty() || !wait.likely.is_empty();
            if !named.contains(number) && !task.waits.iter().any(depends) {
                tasks.push(number);
            }
        }
    }
    (is_quiet && !tasks.is_empty()).then_some(Finding::NothingRuns { tasks })
}

/// The wait ends by what comes without another task.
fn ends_without_a_task(wait: &WaitDump) -> bool {
    wait.is_indirect
        || matches!(
            wait.on,
            WaitsFor::Timer(_)
                | WaitsFor::Deadline(_)
                | WaitsFor::Socket { .. }
                | WaitsFor::BlockingPlace
                | WaitsFor::Cancellation
        )
}

/// The task does something, or waits for what comes without another task.
pub(super) fn has_way_out(task: &TaskDump) -> bool {
    match task.state {
        // What it waits for may be another crate's socket or timer.
        TaskState::Waiting if task.waits.is_empty() => task.wakers != Some(0),
        TaskState::Waiting => task.waits.iter().any(ends_without_a_task),
        // A closure that waits for an object of this crate does nothing else.
        TaskState::Blocking | TaskState::SpawnedBlocking => {
            task.waits.is_empty() || task.waits.iter().any(ends_without_a_task)
        }
        TaskState::Queued | TaskState::Running(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::super::PoolDump;
    use super::*;

    fn task(state: TaskState, on: Option<WaitsFor>, since: Duration) -> TaskDump {
        let wait = |on| WaitDump {
            on,
            object: 16,
            since: Some(since),
            told: false,
            holders: Vec::new(),
            likely: Vec::new(),
            is_holder_missing: false,
            is_indirect: false,
        };
        TaskDump {
            id: 8,
            kind: None,
            name: None,
            spawned_at: None,
            pool: Some(String::from("pool")),
            state,
            since: Some(since),
            waits: on.into_iter().map(wait).collect(),
            described: Vec::new(),
            cancelled: false,
            internal: false,
            wakers: None,
            thread_state: None,
            stack: None,
        }
    }

    fn found(tasks: Vec<TaskDump>, ready: usize, findings: Vec<Finding>) -> Option<Finding> {
        let pool = PoolDump {
            unlisted: 0,
            left_out: 0,
            name: String::from("pool"),
            policy: String::from("fifo"),
            workers: 1,
            closed: false,
            forked: false,
            ready,
        };
        let dump = Dump {
            pools: vec![pool],
            tasks,
            findings,
        };
        find(&dump, &[])
    }

    #[test]
    fn one_way_out_is_enough_for_all() {
        let waits = |on| task(TaskState::Waiting, Some(on), Duration::from_secs(1));
        let event = || {
            waits(WaitsFor::Event {
                kind: "notify",
                last: None,
                made_at: None,
            })
        };
        let timer = waits(WaitsFor::Timer(Duration::from_secs(9)));
        let socket = waits(WaitsFor::Socket {
            descriptor: None,
            write: false,
            name: None,
        });
        let fresh = task(TaskState::Waiting, Some(WaitsFor::Join), Duration::from_millis(1));
        let blocks = task(TaskState::Blocking, None, Duration::from_secs(1));
        let runs = task(TaskState::Running(None), None, Duration::from_secs(1));
        // Another crate has its waker.
        let mut foreign = task(TaskState::Waiting, None, Duration::from_secs(1));
        foreign.wakers = Some(1);
        assert_eq!(
            found(vec![event(), event()], 0, Vec::new()),
            Some(Finding::NothingRuns { tasks: vec![0, 1] })
        );
        for out in [timer, socket, fresh, blocks, runs, foreign] {
            assert_eq!(found(vec![event(), out], 0, Vec::new()), None);
        }
        assert_eq!(found(vec![event()], 1, Vec::new()), None, "a task is queued");
        assert_eq!(found(Vec::new(), 0, Vec::new()), None, "nothing waits");
        let known = vec![Finding::Abandoned { tasks: vec![0] }];
        assert_eq!(found(vec![event()], 0, known), None, "it is named already");
        // A thread outside of the runtime is not one of its tasks.
        let outside = |mut task: TaskDump| {
            task.pool = None;
            task
        };
        assert_eq!(found(vec![outside(event())], 0, Vec::new()), None);
        let named = Some(Finding::NothingRuns { tasks: vec![1] });
        assert_eq!(found(vec![outside(event()), event()], 0, Vec::new()), named);
        // But what it waits for may come, and then it may act.
        let accepts = || {
            waits(WaitsFor::Socket {
                descriptor: None,
                write: false,
                name: None,
            })
        };
        assert_eq!(found(vec![outside(accepts()), event()], 0, Vec::new()), None);
    }
}
