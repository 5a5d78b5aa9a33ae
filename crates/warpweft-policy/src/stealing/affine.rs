//! One queue for each worker, for woken tasks that ran there last.

use crate::by_class::Ranked;
use crate::order::Classes;
use crate::priority;
use warpweft_task::{QueueViewer, TaskRef};

/// The queues of all workers, or none if woken tasks go elsewhere.
pub(super) struct AffineQueues<C>(Box<[Ranked<C>]>);

impl<C: Classes> AffineQueues<C> {
    pub(super) fn new(affine: usize, levels: usize) -> Self {
        Self((0..affine).map(|_| Ranked::new(levels)).collect())
    }

    /// Returns the word of a task that this worker has run: its number + 1, beside the priority.
    pub(super) fn word(word: u64, worker: usize) -> u64 {
        priority::keep(word, worker as u64 + 1)
    }

    /// Returns the worker where a task ran last, if it is to go there.
    pub(super) fn of(&self, task: &TaskRef) -> Option<usize> {
        let preferred = priority::own(task.policy_word()).checked_sub(1)? as usize;
        (preferred < self.0.len()).then_some(preferred)
    }

    /// Puts a task into the queue of the worker where it ran last. Returns its class.
    pub(super) fn push(&self, preferred: usize, task: TaskRef) -> usize {
        self.0[preferred].push(task)
    }

    /// Returns a worker's own queue, if it has tasks.
    #[inline]
    pub(super) fn own(&self, worker: usize) -> Option<&Ranked<C>> {
        self.0.get(worker).filter(|preferred| !preferred.is_empty())
    }

    /// Takes a task of any worker that has one for certain: of each, the oldest of its most urgent class.
    pub(super) fn pop(&self) -> Option<TaskRef> {
        self.0.iter().find_map(Ranked::pop)
    }

    /// Takes a task of the worker and of the class whose turn it is.
    pub(super) fn pop_by_turns(&self, turn: usize) -> Option<TaskRef> {
        let worker = turn.checked_rem(self.0.len())?;
        self.0[worker].pop_by_turns(turn / self.0.len())
    }

    /// Takes the oldest task of this class at the worker whose turn it is, or at the next one that has one.
    pub(super) fn pop_class(&self, class: usize, turn: usize) -> Option<TaskRef> {
        let (before, rest) = self.0.split_at(turn.checked_rem(self.0.len())?);
        rest.iter()
            .chain(before)
            .find_map(|preferred| preferred.pop_class(class))
    }

    /// Returns true if no worker has a task of this class.
    pub(super) fn have_none(&self, class: usize) -> bool {
        self.0.iter().all(|preferred| preferred.has_none(class))
    }

    /// Shows the tasks of all workers to a report.
    pub(super) fn show(&self, viewer: &mut QueueViewer) {
        self.0.iter().for_each(|preferred| preferred.show(viewer));
    }

    /// Returns about how many tasks are in the queues of all workers.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(Ranked::len).sum()
    }

    /// Returns true if no worker's queue seems to have a task.
    pub(super) fn are_empty(&self) -> bool {
        self.0.iter().all(Ranked::is_empty)
    }
}
