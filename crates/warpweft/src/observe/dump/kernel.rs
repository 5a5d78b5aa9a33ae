//! What the threads of tasks that run do in the kernel.
//!
//! A lock of the standard library is not known to this crate: a task that waits for it runs, for all that the
//! runtime can see. The kernel knows the word on which its thread sleeps.

use super::{Dump, Finding, TaskDump, TaskState};
use warpweft_platform::thread_state::{self, ThreadState};

/// The most threads that are looked at: 20 µs each.
const MOST: usize = 256;

/// Looks at the threads of these tasks, by their numbers.
pub(super) fn look(tasks: &mut [TaskDump], threads: &[(usize, u32)]) {
    for &(task, thread) in threads.iter().take(MOST) {
        let task = &mut tasks[task];
        // What waits for an object of this crate sleeps in the kernel for that.
        if runs(task) && task.waits.is_empty() {
            task.thread_state = thread_state::of(thread);
        }
    }
}

fn runs(task: &TaskDump) -> bool {
    match task.state {
        TaskState::Running(_) | TaskState::Blocking | TaskState::SpawnedBlocking => true,
        TaskState::Waiting | TaskState::Queued => false,
    }
}

/// Finds the tasks that block on a word. A single one in a closure that may block is none: it may wait for
/// orders.
pub(super) fn find(dump: &Dump) -> Vec<Finding> {
    // In ascending order: there are few, as few threads are looked at.
    let mut words: Vec<(u64, Vec<usize>)> = Vec::new();
    for (number, task) in dump.tasks.iter().enumerate() {
        let word = |state: &ThreadState| state.futex.filter(|_| state.state == 'S');
        if let Some(word) = task.thread_state.as_ref().and_then(word) {
            match words.binary_search_by_key(&word, |(other, _)| *other) {
                Ok(place) => words[place].1.push(number),
                Err(place) => words.insert(place, (word, vec![number])),
            }
        }
    }
    let keeps_worker = |&task: &usize| matches!(dump.tasks[task].state, TaskState::Running(_));
    words
        .into_iter()
        .filter(|(_, tasks)| tasks.len() > 1 || tasks.iter().any(keeps_worker))
        .map(|(word, tasks)| Finding::BlocksInKernel { tasks, word })
        .collect()
}
