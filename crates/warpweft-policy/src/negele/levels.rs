//! One queue per priority, and the word of a task, which selects one.

use crate::{Count, Cx, PolicyError, Wake, priority};
use warpweft_queue::{Carried, Linked, Nodes, Processor};
use warpweft_task::TaskRef;

/// The largest number of levels. With more, each look at all of them would be long.
const MOST: usize = 32;

/// Returns the node in this word.
#[inline]
pub(super) fn carried(word: u64) -> Carried {
    // The node has 32 bits; the priority is above it.
    Carried::from_bits(word as u32)
}

/// Returns the number of levels, if it is allowed.
#[inline]
pub(super) fn check(levels: usize) -> Result<u8, PolicyError> {
    match u8::try_from(levels) {
        Ok(number) if (2..=MOST).contains(&levels) => Ok(number),
        _ => Err(PolicyError::Other(format!(
            "{levels} levels of priority: there may be 2 to {MOST}, the last one being idle"
        ))),
    }
}

/// Returns within how many steps of a worker that polls `levels` levels in turn a task is taken.
#[inline]
pub(super) fn steps(levels: usize, interval: u32, ahead: usize) -> u64 {
    (levels as u64 * u64::from(interval)).saturating_mul(ahead as u64 + 1)
}

/// The queues.
#[derive(Debug)]
pub(super) struct Levels(Box<[Linked<TaskRef>]>);

impl Levels {
    #[inline]
    pub(super) fn new(nodes: &Nodes, levels: usize) -> Self {
        Self((0..levels).map(|_| Linked::new(nodes)).collect())
    }

    /// Puts a task at the back of its level. Returns the worker to wake.
    #[inline]
    pub(super) fn push(&self, processor: Option<&Processor>, mut task: TaskRef, cx: &Cx<'_>) -> Wake {
        let word = task.policy_word();
        let level = priority::level(word, self.0.len());
        task.set_policy_word(priority::keep(word, 0));
        let made = match processor {
            Some(processor) => self.0[level].push(processor, task, carried(word)),
            None => self.0[level].push_from_outside(task, carried(word)),
        };
        if made {
            cx.count(Count::Nodes, 1);
        }
        // A worker that pushes is awake, and looks at every level before it sleeps.
        if level + 1 == self.0.len() && processor.is_some() {
            Wake::None
        } else {
            Wake::Any
        }
    }

    /// Takes the most urgent task, as it seems.
    #[inline]
    pub(super) fn pop(&self, processor: &Processor) -> Option<TaskRef> {
        self.pop_above(processor, self.0.len())
    }

    /// Takes the most urgent task of the levels above `limit`, as it seems.
    #[inline]
    pub(super) fn pop_above(&self, processor: &Processor, limit: usize) -> Option<TaskRef> {
        self.0[..limit]
            .iter()
            .filter(|queue| !queue.seems_empty())
            .find_map(|queue| take(queue, processor))
    }

    /// Takes a task of level `turn` modulo the levels; if there is none, of the next level that has one.
    #[inline]
    pub(super) fn pop_by_turns(&self, processor: &Processor, turn: usize) -> Option<TaskRef> {
        let (before, rest) = self.0.split_at(turn % self.0.len());
        rest.iter().chain(before).find_map(|queue| take(queue, processor))
    }

    /// Takes a task; `None` only if there is none for certain.
    #[inline]
    pub(super) fn scan(&self, processor: &Processor) -> Option<TaskRef> {
        self.pop_by_turns(processor, 0)
    }

    /// Returns the most urgent level that seems to have a task; the number of levels if none has.
    #[inline]
    pub(super) fn first(&self) -> usize {
        let first = self.0.iter().position(|queue| !queue.seems_empty());
        first.unwrap_or(self.0.len())
    }

    /// Returns true if there is no such level.
    #[inline]
    pub(super) fn is_beyond(&self, level: usize) -> bool {
        level >= self.0.len()
    }

    /// Returns true if the queue seems to have more than one task.
    #[inline]
    pub(super) fn has_several(&self) -> bool {
        let mut busy = self.0.iter().filter(|queue| !queue.seems_empty());
        match (busy.next(), busy.next()) {
            (Some(_), Some(_)) => true,
            (Some(queue), None) => queue.seems_to_have_several(),
            _ => false,
        }
    }

    /// Returns true if each level was empty at a moment of the call.
    #[inline]
    pub(super) fn is_empty(&self, processor: &Processor) -> bool {
        self.0
            .iter()
            .all(|queue| queue.seems_empty() && queue.is_empty(processor))
    }
}

#[inline]
fn take(queue: &Linked<TaskRef>, processor: &Processor) -> Option<TaskRef> {
    let (mut task, carried) = queue.pop(processor)?;
    task.set_policy_word(priority::keep(task.policy_word(), carried.bits().into()));
    Some(task)
}
