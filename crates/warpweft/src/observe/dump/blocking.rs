//! Finds the closures that have the threads for which others wait.
//!
//! Where all threads of `spawn_blocking` have a closure, and each of these waits, a closure without a thread
//! depends on them. If one of them waits for such a closure, none continues.

use super::{TaskDump, TaskState, WaitsFor};

/// The most pairs of a wait and a closure of a dump. More are left out.
const MOST: usize = 1 << 20;

/// Notes the closures on which the waits for a thread of this set depend, whose threads all have one. A
/// closure that waits for nothing known may end at any time, so then there are none.
pub(super) fn find_holders(tasks: &mut [TaskDump], object: u64, pool: &str) {
    let has_thread =
        |task: &TaskDump| task.state == TaskState::SpawnedBlocking && task.pool.as_deref() == Some(pool);
    let numbered = tasks.iter().enumerate();
    let holders: Vec<usize> = numbered
        .filter(|(_, task)| has_thread(task))
        .map(|(number, _)| number)
        .collect();
    if holders.iter().any(|&holder| tasks[holder].waits.is_empty()) {
        return;
    }
    let waits = tasks.iter_mut().flat_map(|task| &mut task.waits);
    waits
        .filter(|wait| wait.object == object && matches!(wait.on, WaitsFor::BlockingPlace))
        .take(MOST / holders.len().max(1))
        .for_each(|wait| wait.holders.clone_from(&holders));
}
