//! The queues of a pool beside its local queues: for tasks from outside, for those that yielded, for those
//! that found no room, and for those that were woken and go where they ran last.
//!
//! # What an order with priorities gets
//!
//! - Each queue is one queue for each class. Among what waits here the most urgent comes first, and within a
//!   class the oldest.
//! - One word has a mark for each class of which something waits. A worker reads it before it takes a task of
//!   its local queue, and takes what is more urgent here first ([`PoolQueues::take_above`]).
//! - What waits for the worker where it ran last is taken by another one that has only what is less urgent.
//! - What is more urgent than normal comes one at a time, so that whichever worker is the first to end a task
//!   may run it. Of the rest a worker's share comes along, as without priorities.
//! - Less urgent classes have their turns when a worker looks after what is overdue.

use super::Overflow;
use super::affine::AffineQueues;
use super::overflow_queue::{Beside, OverflowQueue};
use crate::by_class::{ByClass, Marks};
use crate::order::Order;
use crate::{Cx, PolicyError, Wake, WorkerId, priority};
use warpweft_queue::{Full, Locked, Multi};
use warpweft_task::TaskRef;

/// How many kinds of queues there are.
const KINDS: usize = 4;
/// The most queues of a class for tasks that yielded.
const MOST_YIELDED: usize = 8;

/// How many queues a class has for tasks that yielded.
pub(super) fn yielded_queues(workers: usize) -> usize {
    workers.div_ceil(2).clamp(1, MOST_YIELDED)
}

/// The queues beside the local queues.
pub(super) struct PoolQueues<O> {
    injector: ByClass<O, OverflowQueue>,
    yielded: ByClass<O, Multi<TaskRef, Locked<TaskRef>>>,
    overflow: ByClass<O, OverflowQueue>,
    /// Of each worker, for tasks that ran there last; none if woken tasks go elsewhere.
    pub(super) affine: AffineQueues<O>,
    /// The classes of which something is in one of them.
    marks: Marks<O>,
    /// The class of tasks without a priority.
    normal: usize,
}

impl<O: Order> PoolQueues<O> {
    pub(super) fn new(
        levels: usize,
        workers: usize,
        affine: usize,
        overflow: Overflow,
    ) -> Result<Self, PolicyError> {
        let shards = yielded_queues(workers);
        Ok(Self {
            injector: ByClass::new(levels, || Ok::<_, PolicyError>(OverflowQueue::locked()))?,
            yielded: ByClass::new(levels, || {
                Multi::from_shards((0..shards).map(|_| Locked::new())).map_err(PolicyError::from)
            })?,
            overflow: ByClass::new(levels, || OverflowQueue::of(overflow, levels))?,
            affine: AffineQueues::new(affine, levels),
            marks: Marks::new(),
            normal: priority::level(0, levels),
        })
    }

    /// A task came from outside.
    pub(super) fn inject(&self, task: TaskRef) {
        let class = self.injector.class_of(&task);
        self.injector.of(class).push(task, 0);
        self.marks.insert(class);
    }

    /// A task found no room. `pick` chooses among several queues.
    pub(super) fn overflow(&self, task: TaskRef, pick: usize) {
        let class = self.overflow.class_of(&task);
        self.overflow.of(class).push(task, pick);
        self.marks.insert(class);
    }

    /// A task yielded. `pick` chooses among several queues.
    pub(super) fn give_way(&self, task: TaskRef, pick: usize) {
        let class = self.yielded.class_of(&task);
        // Locked shards are never full.
        if let Err(Full(task)) = self.yielded.of(class).push(task, pick) {
            self.overflow.of(class).push(task, pick);
        }
        self.marks.insert(class);
    }

    /// A task goes to where it ran last.
    pub(super) fn push_affine(&self, preferred: usize, task: TaskRef) -> Wake {
        let class = self.affine.push(preferred, task);
        self.marks.insert(class);
        Wake::Worker(WorkerId(preferred))
    }

    /// Takes what has come home to this worker. `None`: nothing has.
    pub(super) fn take_affine(&self, worker: usize) -> Option<Vec<TaskRef>> {
        let tasks = self.affine.own(worker)?.take_all();
        self.tidy();
        Some(tasks)
    }

    /// The most urgent class of which something is here, as it seems. One load; only for orders with
    /// priorities.
    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        self.marks.first()
    }

    /// What is here and is more urgent than `limit`: the most urgent class first. Only for orders with
    /// priorities, and for a worker whose local queue has nothing more urgent than `limit` either. If it has
    /// nothing at all (`usize::MAX`), what has come home to others is left to them.
    pub(super) fn take_above(
        &self,
        limit: usize,
        turn: usize,
        local_queue: &mut O::LocalQueue,
        cx: &Cx<'_>,
    ) -> Option<TaskRef> {
        let take = |class| {
            // By turns: within a class none of them is to wait for the others.
            (0..KINDS)
                .find_map(|kind| match (turn + kind) % KINDS {
                    0 => self.take_spilled(&self.injector, class, local_queue, cx, Beside::Anything),
                    1 => self.take_spilled(&self.overflow, class, local_queue, cx, Beside::Anything),
                    2 => self.yielded.of(class).pop(turn / KINDS),
                    _ if limit == usize::MAX => None,
                    _ => self.affine.pop_class(class, turn / KINDS),
                })
                .inspect(|_| self.taken(class))
        };
        self.marks.take_above(limit, take, |class| self.is_over(class))
    }

    /// Strikes off the classes of which nothing is left.
    pub(super) fn tidy(&self) {
        if O::BY_PRIORITY {
            self.marks
                .take_above(usize::MAX, |_| None::<()>, |class| self.is_over(class));
        }
    }

    /// A task of this class was taken: strikes the class off if that was the last one.
    #[inline]
    fn taken(&self, class: usize) {
        if O::BY_PRIORITY {
            self.marks.remove_if(class, || self.is_over(class));
        }
    }

    /// Something from outside; the classes take turns.
    pub(super) fn injected(
        &self,
        turn: usize,
        local_queue: &mut O::LocalQueue,
        cx: &Cx<'_>,
    ) -> Option<TaskRef> {
        self.injector.by_turns(turn, |class, _| {
            self.take_spilled(&self.injector, class, local_queue, cx, Beside::Nothing)
        })
    }

    /// Something that found no room; the classes take turns.
    pub(super) fn overflowed(
        &self,
        turn: usize,
        local_queue: &mut O::LocalQueue,
        cx: &Cx<'_>,
    ) -> Option<TaskRef> {
        self.overflow.by_turns(turn, |class, _| {
            self.take_spilled(&self.overflow, class, local_queue, cx, Beside::Anything)
        })
    }

    /// Something that yielded; the classes take turns, and the queues within a class.
    pub(super) fn gave_way(&self, turn: usize) -> Option<TaskRef> {
        let shard = turn / self.yielded.classes();
        self.yielded.by_turns(turn, |class, queue| {
            queue.pop(shard).inspect(|_| self.taken(class))
        })
    }

    /// Something of any queue, if there is something for certain: the most urgent class first.
    pub(super) fn take(&self, local_queue: &mut O::LocalQueue, cx: &Cx<'_>) -> Option<TaskRef> {
        self.injector.by_turns(0, |class, _| {
            self.take_spilled(&self.injector, class, local_queue, cx, Beside::Nothing)
                .or_else(|| self.take_spilled(&self.overflow, class, local_queue, cx, Beside::Nothing))
                .or_else(|| {
                    let queue = self.yielded.of(class);
                    let task = queue.pop(cx.random(queue.shards()));
                    task.inspect(|_| self.taken(class))
                })
        })
    }

    /// Takes out what was cancelled.
    pub(super) fn evict(&self) -> Vec<TaskRef> {
        let mut cancelled = Vec::new();
        self.injector.by_turns(0, |class, injector| {
            cancelled.extend(injector.evict());
            cancelled.extend(self.overflow.of(class).evict());
            let shards = self.yielded.of(class).parts();
            cancelled.extend(
                shards
                    .iter()
                    .flat_map(|queue| queue.extract(TaskRef::is_cancelled)),
            );
            // What goes round in a ring is out of it for a moment, in which a mark may have been struck off.
            if O::BY_PRIORITY && !self.is_over(class) {
                self.marks.insert(class);
            }
            None::<()>
        });
        cancelled
    }

    /// How many tasks lie here, about.
    pub(super) fn len(&self) -> usize {
        let mut len = 0;
        self.injector.by_turns(0, |class, injector| {
            len += injector.len() + self.overflow.of(class).len() + self.yielded.of(class).len();
            None::<()>
        });
        len
    }

    /// Returns true if nothing of this class is anywhere here.
    fn is_over(&self, class: usize) -> bool {
        self.has_none(class) && self.affine.have_none(class)
    }

    /// Returns true if nothing is here, as it seems, but perhaps what has come home.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        if O::BY_PRIORITY {
            self.marks.is_empty()
        } else {
            self.has_none(0)
        }
    }

    #[inline]
    fn has_none(&self, class: usize) -> bool {
        self.injector.of(class).is_empty()
            && self.yielded.of(class).is_empty()
            && self.overflow.of(class).is_empty()
    }

    /// One of the oldest of a class, and perhaps a share of the others.
    #[inline]
    fn take_spilled(
        &self,
        queues: &ByClass<O, OverflowQueue>,
        class: usize,
        local_queue: &mut O::LocalQueue,
        cx: &Cx<'_>,
        beside: Beside,
    ) -> Option<TaskRef> {
        let queue = queues.of(class);
        let task = if O::BY_PRIORITY && class < self.normal {
            queue.pop(cx)
        } else {
            queue.take_share(local_queue, cx, beside, || self.marks.insert(class))
        };
        task.inspect(|_| self.taken(class))
    }
}
