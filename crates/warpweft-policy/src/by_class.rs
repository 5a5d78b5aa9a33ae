//! Shared queues, one for each class of urgency.
//!
//! A *class* is a [level](crate::priority::level) of an order with priorities. An order without them has one
//! class. The compiler knows this, so nothing here costs anything then.
//!
//! # Invariants
//!
//! - A task is in the queue of its class. A thread that puts a task there calls [`Marks::insert`] afterwards.
//! - Marks are hints, by which one load shows a worker what waits outside of its local queue. `scan` looks at
//!   the queues themselves.

use crate::order::{Classes, Order};
use crate::priority;
use std::marker::PhantomData;
use warpweft_queue::{ClassSet, Locked};
use warpweft_task::{QueueViewer, TaskRef};

/// Returns how many levels an order has; one if it ignores priorities.
pub(crate) fn levels<O: Order>(order: &O) -> usize {
    if O::Classes::BY_PRIORITY {
        usize::from(order.priorities()).max(1)
    } else {
        1
    }
}

/// One value for each class.
pub(crate) struct ByClass<C, T> {
    /// The value of class 0. Orders without priorities have only this one, and reach it without a test for
    /// the number of classes.
    first: T,
    rest: Box<[T]>,
    levels: usize,
    by: PhantomData<fn() -> C>,
}

impl<C: Classes, T> ByClass<C, T> {
    /// Makes values for an order with `levels` levels. Levels beyond the number of marks share the last
    /// class.
    pub(crate) fn new<E>(levels: usize, mut make: impl FnMut() -> Result<T, E>) -> Result<Self, E> {
        let classes = levels.min(ClassSet::CLASSES);
        Ok(Self {
            first: make()?,
            rest: (1..classes).map(|_| make()).collect::<Result<_, E>>()?,
            levels,
            by: PhantomData,
        })
    }

    /// Returns how many classes there are.
    #[inline]
    pub(crate) fn classes(&self) -> usize {
        if C::BY_PRIORITY { 1 + self.rest.len() } else { 1 }
    }

    /// The class of a task.
    #[inline]
    pub(crate) fn class_of(&self, task: &TaskRef) -> usize {
        if C::BY_PRIORITY {
            priority::level(task.policy_word(), self.levels).min(self.rest.len())
        } else {
            0
        }
    }

    /// Returns the value of a class.
    #[inline]
    pub(crate) fn of(&self, class: usize) -> &T {
        if C::BY_PRIORITY && class > 0 {
            &self.rest[class - 1]
        } else {
            &self.first
        }
    }

    /// Returns what `find` returns for the class whose turn it is; if that is nothing, for the next class for
    /// which it returns something.
    pub(crate) fn by_turns<R>(&self, turn: usize, mut find: impl FnMut(usize, &T) -> Option<R>) -> Option<R> {
        if !C::BY_PRIORITY {
            return find(0, &self.first);
        }
        let classes = self.classes();
        let first = turn % classes;
        (first..classes)
            .chain(0..first)
            .find_map(|class| find(class, self.of(class)))
    }
}

/// The classes of which some queues have tasks. Orders without priorities have no marks.
pub(crate) struct Marks<C> {
    set: ClassSet,
    by: PhantomData<fn() -> C>,
}

impl<C: Classes> Marks<C> {
    pub(crate) fn new() -> Self {
        Self {
            set: ClassSet::new(),
            by: PhantomData,
        }
    }

    /// Records that a task of this class was put into a queue.
    #[inline]
    pub(crate) fn insert(&self, class: usize) {
        if C::BY_PRIORITY {
            self.set.insert(class);
        }
    }

    /// Returns the most urgent class that seems to have tasks.
    #[inline]
    pub(crate) fn first(&self) -> Option<usize> {
        self.set.first()
    }

    /// Returns true if nothing seems to wait.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// Removes a class if `is_empty` returns true. It tests this once before, since mostly something is left.
    pub(crate) fn remove_if(&self, class: usize, is_empty: impl Fn() -> bool) {
        if C::BY_PRIORITY && is_empty() {
            self.set.remove_if(class, is_empty);
        }
    }

    /// Returns what `take` finds in the classes more urgent than `limit`, the most urgent one first. A class
    /// where it finds nothing is removed if `is_empty` returns true.
    pub(crate) fn take_above<R>(
        &self,
        limit: usize,
        mut take: impl FnMut(usize) -> Option<R>,
        is_empty: impl Fn(usize) -> bool,
    ) -> Option<R> {
        let mut from = 0;
        while let Some(class) = self.set.next_from(from).filter(|&class| class < limit) {
            let found = take(class);
            if found.is_some() {
                return found;
            }
            self.remove_if(class, || is_empty(class));
            from = class + 1;
        }
        None
    }
}

/// The locked queues of one place, with their marks.
pub(crate) struct Ranked<C> {
    queues: ByClass<C, Locked<TaskRef>>,
    marks: Marks<C>,
}

impl<C: Classes> Ranked<C> {
    pub(crate) fn new(levels: usize) -> Self {
        let Ok(queues) = ByClass::new(levels, || Ok::<_, std::convert::Infallible>(Locked::new()));
        Self {
            queues,
            marks: Marks::new(),
        }
    }

    /// Adds a task. Returns its class.
    pub(crate) fn push(&self, task: TaskRef) -> usize {
        let class = self.queues.class_of(&task);
        self.queues.of(class).push(task);
        self.marks.insert(class);
        class
    }

    /// Returns the most urgent class that seems to have a task. Only for orders with priorities.
    #[inline]
    pub(crate) fn first(&self) -> Option<usize> {
        self.marks.first()
    }

    /// Takes the oldest task of the most urgent class that has one and is more urgent than `limit`. Only for
    /// orders with priorities.
    pub(crate) fn pop_above(&self, limit: usize) -> Option<TaskRef> {
        self.marks
            .take_above(limit, |class| self.pop_class(class), |class| self.has_none(class))
    }

    /// Takes the oldest task of a class.
    pub(crate) fn pop_class(&self, class: usize) -> Option<TaskRef> {
        let task = self.queues.of(class).pop()?;
        self.marks.remove_if(class, || self.has_none(class));
        Some(task)
    }

    /// Returns about how many tasks are here.
    pub(crate) fn len(&self) -> usize {
        let mut len = 0;
        self.queues.by_turns(0, |_, queue| {
            len += queue.len();
            None::<()>
        });
        len
    }

    /// Returns true if there is no task of a class.
    pub(crate) fn has_none(&self, class: usize) -> bool {
        self.queues.of(class).is_empty()
    }

    /// Takes the oldest task of the class whose turn it is; if there is none, of the next class that has one.
    pub(crate) fn pop_by_turns(&self, turn: usize) -> Option<TaskRef> {
        self.queues.by_turns(turn, |class, _| self.pop_class(class))
    }

    /// Takes the oldest task of the most urgent class that has one. `None` only if there is none for certain.
    pub(crate) fn pop(&self) -> Option<TaskRef> {
        self.pop_by_turns(0)
    }

    /// Takes all tasks, class by class.
    pub(crate) fn take_all(&self) -> Vec<TaskRef> {
        let mut tasks = Vec::new();
        self.queues.by_turns(0, |class, queue| {
            queue.pop_batch(&mut tasks, usize::MAX);
            self.marks.remove_if(class, || queue.is_empty());
            None::<()>
        });
        tasks
    }

    /// Moves the tasks that are wanted into a vector.
    pub(crate) fn extract(&self, extracted: &mut Vec<TaskRef>, wanted: &dyn Fn(&TaskRef) -> bool) {
        self.queues.by_turns(0, |_, queue| {
            queue.extract(extracted, wanted);
            None::<()>
        });
    }

    /// Shows the tasks to a report.
    pub(crate) fn show(&self, viewer: &mut QueueViewer) {
        self.queues.by_turns(0, |_, queue| {
            queue.for_each(viewer.room(), |task| viewer.see(task));
            None::<()>
        });
    }

    /// Returns true if there seems to be no task.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        if C::BY_PRIORITY {
            self.marks.is_empty()
        } else {
            self.queues.of(0).is_empty()
        }
    }
}
