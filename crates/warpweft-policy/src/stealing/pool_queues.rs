//! The shared queues of a pool: for tasks from outside, for tasks that yielded, for tasks that found no room,
//! and for woken tasks that go where they ran last.
//!
//! # With priorities
//!
//! - Each queue is one queue for each class. The most urgent waiting task comes first, and within a class the
//!   oldest.
//! - One word has a mark for each class of which something waits. A worker reads it before it takes a task of
//!   its local queue, and takes what is more urgent here first ([`PoolQueues::take_above`]).
//! - A worker that has only less urgent tasks takes what waits for the worker where it ran last.
//! - Tasks more urgent than normal come one at a time, so that the worker that first ends a task may run the
//!   next. Of the others a worker takes its share, as without priorities.
//! - Less urgent classes have their turns in `poll_global`.

use super::Overflow;
use super::affine::AffineQueues;
use super::overflow_queue::OverflowQueue;
use crate::by_class::{ByClass, Marks};
use crate::order::{Classes, LocalQueue};
use crate::{Cx, PolicyError, Wake, WorkerId, priority};
use warpweft_queue::{Full, Locked, Multi};
use warpweft_task::{QueueViewer, TaskRef};

/// How many kinds of queues there are.
const KINDS: usize = 4;
/// The most queues of a class for tasks that yielded.
const MOST_YIELDED: usize = 8;

/// How many queues a class has for tasks that yielded.
pub(super) fn yielded_queues(workers: usize) -> usize {
    workers.div_ceil(2).clamp(1, MOST_YIELDED)
}

/// The shared queues.
pub(super) struct PoolQueues<C> {
    injector: ByClass<C, OverflowQueue>,
    yielded: ByClass<C, Multi<TaskRef, Locked<TaskRef>>>,
    overflow: ByClass<C, OverflowQueue>,
    /// The queues of each worker, for tasks that ran there last; none if woken tasks go elsewhere.
    pub(super) affine: AffineQueues<C>,
    /// The classes of which one of them has tasks.
    marks: Marks<C>,
    /// The class of tasks without a priority.
    normal: usize,
}

impl<C: Classes> PoolQueues<C> {
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

    /// Adds a task from outside.
    pub(super) fn inject(&self, task: TaskRef) {
        let class = self.injector.class_of(&task);
        self.injector.of(class).push(task, 0);
        self.marks.insert(class);
    }

    /// Adds a task that found no room. `pick` chooses among several queues.
    pub(super) fn overflow(&self, task: TaskRef, pick: usize) {
        let class = self.overflow.class_of(&task);
        self.overflow.of(class).push(task, pick);
        self.marks.insert(class);
    }

    /// Adds a task that yielded. `pick` chooses among several queues.
    pub(super) fn give_way(&self, task: TaskRef, pick: usize) {
        let class = self.yielded.class_of(&task);
        // Locked shards are never full.
        if let Err(Full(task)) = self.yielded.of(class).push(task, pick) {
            self.overflow.of(class).push(task, pick);
        }
        self.marks.insert(class);
    }

    /// Adds a task to the queue of the worker where it ran last.
    pub(super) fn push_affine(&self, preferred: usize, task: TaskRef) -> Wake {
        let class = self.affine.push(preferred, task);
        self.marks.insert(class);
        Wake::Worker(WorkerId(preferred))
    }

    /// Takes all tasks in this worker's affine queue; `None` if there is none.
    pub(super) fn take_affine(&self, worker: usize) -> Option<Vec<TaskRef>> {
        let tasks = self.affine.own(worker)?.take_all();
        self.tidy();
        Some(tasks)
    }

    /// Returns the most urgent class that seems to have tasks here. Costs one load; only for orders with
    /// priorities.
    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        self.marks.first()
    }

    /// Takes what is here and is more urgent than `limit`: the most urgent class first. Only for orders with
    /// priorities, and for a worker whose local queue has nothing more urgent than `limit` either. If it has
    /// nothing at all (`usize::MAX`), the affine queues of others are left to them.
    pub(super) fn take_above(
        &self,
        limit: usize,
        turn: usize,
        local_queue: &mut impl LocalQueue,
        cx: &Cx<'_>,
    ) -> Option<TaskRef> {
        let with_affine = limit != usize::MAX;
        let take = |class| self.take_class(class, with_affine, turn, local_queue, cx);
        self.marks.take_above(limit, take, |class| self.is_over(class))
    }

    /// Takes a task of a class, if there is one. The affine queues of all workers are among the places only
    /// if `with_affine` is true.
    pub(super) fn take_class(
        &self,
        class: usize,
        with_affine: bool,
        turn: usize,
        local_queue: &mut impl LocalQueue,
        cx: &Cx<'_>,
    ) -> Option<TaskRef> {
        // In turn: within a class no kind of queue must wait for the others.
        (0..KINDS)
            .find_map(|kind| match (turn + kind) % KINDS {
                0 => self.take_spilled(&self.injector, class, local_queue, cx),
                1 => self.take_spilled(&self.overflow, class, local_queue, cx),
                2 => self.yielded.of(class).pop(turn / KINDS),
                _ if with_affine => self.affine.pop_class(class, turn / KINDS),
                _ => None,
            })
            .inspect(|_| self.taken(class))
    }

    /// Removes the marks of empty classes.
    pub(super) fn tidy(&self) {
        if C::BY_PRIORITY {
            self.marks
                .take_above(usize::MAX, |_| None::<()>, |class| self.is_over(class));
        }
    }

    /// Removes the mark of a class if the task that was taken was its last one.
    #[inline]
    fn taken(&self, class: usize) {
        if C::BY_PRIORITY {
            self.marks.remove_if(class, || self.is_over(class));
        }
    }

    /// Takes a task from outside; the classes take turns.
    pub(super) fn injected(
        &self,
        turn: usize,
        local_queue: &mut impl LocalQueue,
        cx: &Cx<'_>,
    ) -> Option<TaskRef> {
        self.injector.by_turns(turn, |class, _| {
            self.take_spilled(&self.injector, class, local_queue, cx)
        })
    }

    /// Takes a task that found no room; the classes take turns.
    pub(super) fn overflowed(
        &self,
        turn: usize,
        local_queue: &mut impl LocalQueue,
        cx: &Cx<'_>,
    ) -> Option<TaskRef> {
        self.overflow.by_turns(turn, |class, _| {
            self.take_spilled(&self.overflow, class, local_queue, cx)
        })
    }

    /// Takes a task that yielded; the classes take turns, and the queues within a class.
    pub(super) fn gave_way(&self, turn: usize) -> Option<TaskRef> {
        let shard = turn / self.yielded.classes();
        self.yielded.by_turns(turn, |class, queue| {
            queue.pop(shard).inspect(|_| self.taken(class))
        })
    }

    /// Takes a task of any queue, if there is one for certain: the most urgent class first.
    pub(super) fn take(&self, local_queue: &mut impl LocalQueue, cx: &Cx<'_>) -> Option<TaskRef> {
        self.injector.by_turns(0, |class, _| {
            self.take_spilled(&self.injector, class, local_queue, cx)
                .or_else(|| self.take_spilled(&self.overflow, class, local_queue, cx))
                .or_else(|| {
                    let queue = self.yielded.of(class);
                    let task = queue.pop(cx.random(queue.shards()));
                    task.inspect(|_| self.taken(class))
                })
        })
    }

    /// Moves the tasks that are wanted into a vector.
    pub(super) fn extract(&self, extracted: &mut Vec<TaskRef>, wanted: &dyn Fn(&TaskRef) -> bool) {
        self.injector.by_turns(0, |class, injector| {
            injector.extract(extracted, wanted);
            self.overflow.of(class).extract(extracted, wanted);
            for queue in self.yielded.of(class).parts() {
                queue.extract(extracted, wanted);
            }
            // Tasks that are put back into a ring are out of it for a moment, in which the mark may have been
            // removed.
            if C::BY_PRIORITY && !self.is_over(class) {
                self.marks.insert(class);
            }
            None::<()>
        });
    }

    /// Shows the tasks to a report.
    pub(super) fn show(&self, viewer: &mut QueueViewer) {
        self.injector.by_turns(0, |class, injector| {
            injector.show(viewer);
            self.overflow.of(class).show(viewer);
            for queue in self.yielded.of(class).parts() {
                queue.for_each(viewer.room(), |task| viewer.see(task));
            }
            None::<()>
        });
        self.affine.show(viewer);
    }

    /// Returns about how many tasks are here, those in the affine queues included.
    pub(super) fn len_with_affine(&self) -> usize {
        self.len() + self.affine.len()
    }

    /// Returns about how many tasks are here, without those in the affine queues.
    pub(super) fn len(&self) -> usize {
        let mut len = 0;
        self.injector.by_turns(0, |class, injector| {
            len += injector.len() + self.overflow.of(class).len() + self.yielded.of(class).len();
            None::<()>
        });
        len
    }

    /// Returns true if there is no task of this class here.
    fn is_over(&self, class: usize) -> bool {
        self.has_none(class) && self.affine.have_none(class)
    }

    /// Returns true if nothing seems to be here, except perhaps in the affine queues.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        if C::BY_PRIORITY {
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

    /// Takes one of the oldest of a class, and perhaps a share of the others.
    #[inline]
    fn take_spilled(
        &self,
        queues: &ByClass<C, OverflowQueue>,
        class: usize,
        local_queue: &mut impl LocalQueue,
        cx: &Cx<'_>,
    ) -> Option<TaskRef> {
        let queue = queues.of(class);
        let task = if C::BY_PRIORITY && class < self.normal {
            queue.pop(cx)
        } else {
            queue.take_share(local_queue, cx, || self.marks.insert(class))
        };
        task.inspect(|_| self.taken(class))
    }
}
