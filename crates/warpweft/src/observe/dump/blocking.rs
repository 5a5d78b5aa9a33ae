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
    let mut holders = Vec::new();
    for (number, task) in tasks.iter().enumerate() {
        if task.state == TaskState::SpawnedBlocking && task.pool.as_deref() == Some(pool) {
            if task.waits.is_empty() {
                return;
            }
            holders.push(number);
        }
    }
    let mut left = MOST / holders.len().max(1);
    for task in tasks {
        for wait in &mut task.waits {
            let is_its = wait.object == object && matches!(wait.on, WaitsFor::BlockingPlace);
            if is_its && left > 0 {
                left -= 1;
                wait.holders.clone_from(&holders);
            }
        }
    }
}
