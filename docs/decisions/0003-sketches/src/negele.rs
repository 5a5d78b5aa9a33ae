//! The scheduler of Negele, Friedrich, Oh and Egger (2014): one global FIFO queue per priority, highest first.
//!
//! The word of a task: its priority in the low byte (0 is the highest); the rest would be the address of the queue
//! node that travels with the task, so that a push needs no allocation and T tasks need T + 2N nodes.
//!
//! Simplified: the queues are locked ones, not the lock-free ones with processor-local hazard pointers, whose nodes
//! are the queue's affair; so there is no node here, and `retired` only counts what it would free. Strict priorities
//! starve the lower ones by design; `overdue`, which the framework calls whatever `next` has, bounds that here.
//!
//! What the trait gives: the word, `retired` for what travels in it, and `search` may be left out. What it lacks: a
//! spawner has to be able to set the word of a new task before it is pushed.

use warpweft_policy::{Count, Cx, Policy, PolicyError, PoolEnv, TaskRef, Wake, Why};
use warpweft_queue::Locked;

/// How many priorities there are.
pub const PRIORITIES: usize = 4;

/// The policy; it has no options.
pub struct Negele;

/// Which priority's turn it is to be overdue.
#[derive(Clone, Default)]
pub struct Local {
    turn: usize,
    /// Ends of tasks that carried a node.
    nodes_taken_back: u64,
}

impl Policy for Negele {
    type Shared = [Locked<TaskRef>; PRIORITIES];
    type Local = Local;
    const WATCHES_ENDS: bool = true;

    fn build(&self, env: &PoolEnv) -> Result<(Self::Shared, Vec<Local>), PolicyError> {
        Ok((Default::default(), vec![Local::default(); env.workers]))
    }

    fn push(queues: &Self::Shared, _: Option<&mut Local>, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
        let priority = (task.policy_word() & 0xff) as usize;
        queues[priority.min(PRIORITIES - 1)].push(task);
        Wake::Any
    }

    fn next(queues: &Self::Shared, _: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        queues.iter().find_map(Locked::pop)
    }

    fn overdue(queues: &Self::Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        local.turn += 1;
        let task = (local.turn..local.turn + PRIORITIES).find_map(|turn| queues[turn % PRIORITIES].pop());
        cx.count(Count::Overdue, u64::from(task.is_some()));
        task
    }

    fn scan(queues: &Self::Shared, _: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        queues.iter().find_map(Locked::pop)
    }

    fn retired(_: &Self::Shared, local: &mut Local, policy_word: u64) {
        local.nodes_taken_back += u64::from(policy_word >> 8 != 0);
    }
}
