//! Any of the orders without priorities, chosen by a value.
//!
//! A pool's code is compiled for each type of policy. With this type all combinations of classes and orders
//! that a text can name are one more. The price is a branch for each task.

use super::{
    ChainOrder, FifoOrder, LifoOrder, LocalQueue, LocalQueueThief, MixedOrder, OneClass, Order, SlotOrder,
};
use crate::{Cx, PolicyError};
use std::fmt;
use warpweft_queue::{Amount, Full, Glance, Steal};
use warpweft_task::{QueueViewer, TaskRef};

/// An order that is a value. [`FifoOrder`] and the others alone are faster.
///
/// ```
/// use std::num::NonZeroUsize;
/// use warpweft_policy::{LifoOrder, Stealing};
/// use warpweft_policy::order::{AnyOrder, PriorityOrder};
/// let three = NonZeroUsize::new(3).unwrap();
/// let policy = Stealing::with_order(PriorityOrder::new(AnyOrder::from(LifoOrder), three));
/// assert!(policy.to_string().starts_with("priority:3(lifo)+steal=half"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnyOrder(Which);

/// Makes the enums of orders, of local queues and of thieves, with what each does by its variant.
macro_rules! any {
    ($($variant:ident($order:ty)),+ $(,)?) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        enum Which {
            $($variant($order),)+
        }

        $(impl From<$order> for AnyOrder {
            fn from(order: $order) -> Self {
                Self(Which::$variant(order))
            }
        })+

        impl fmt::Display for AnyOrder {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match &self.0 {
                    $(Which::$variant(order) => order.fmt(f),)+
                }
            }
        }

        impl Order for AnyOrder {
            type LocalQueue = AnyLocalQueue;
            type Classes = OneClass;
            /// Where none favours the newest, there is no newest to take, and nothing more happens.
            const NEWEST_FIRST: bool = true;

            fn turns(&self) -> u64 {
                match &self.0 {
                    $(Which::$variant(order) => order.turns(),)+
                }
            }

            fn local_queue(&self, capacity: usize) -> Result<AnyLocalQueue, PolicyError> {
                Ok(AnyLocalQueue(match &self.0 {
                    $(Which::$variant(order) => Queue::$variant(order.local_queue(capacity)?),)+
                }))
            }
        }

        enum Queue {
            $($variant(<$order as Order>::LocalQueue),)+
        }

        enum Thief {
            $($variant(<<$order as Order>::LocalQueue as LocalQueue>::Thief),)+
        }

        impl Queue {
            fn thief(&self) -> Thief {
                match self {
                    $(Self::$variant(queue) => Thief::$variant(queue.thief()),)+
                }
            }
        }

        impl LocalQueueThief<AnyLocalQueue> for AnyThief {
            fn glance(&self) -> Glance {
                match &self.0 {
                    $(Thief::$variant(thief) =>
                        LocalQueueThief::<<$order as Order>::LocalQueue>::glance(thief),)+
                }
            }

            fn steal_into(&self, into: &mut AnyLocalQueue, amount: Amount) -> Steal<TaskRef> {
                match (&self.0, &mut into.0) {
                    $((Thief::$variant(thief), Queue::$variant(into)) => thief.steal_into(into, amount),)+
                    // Queues of one pool are of one order; of another one it takes what needs no room.
                    _ => self.steal_one(),
                }
            }

            fn steal_one(&self) -> Steal<TaskRef> {
                match &self.0 {
                    $(Thief::$variant(thief) =>
                        LocalQueueThief::<<$order as Order>::LocalQueue>::steal_one(thief),)+
                }
            }

            fn show(&self, viewer: &mut QueueViewer) {
                match &self.0 {
                    $(Thief::$variant(thief) =>
                        LocalQueueThief::<<$order as Order>::LocalQueue>::show(thief, viewer),)+
                }
            }
        }

        /// Evaluates the expression for the queue of any order.
        macro_rules! with {
            ($queue:expr, $name:ident => $what:expr) => {
                match $queue {
                    $(Queue::$variant($name) => $what,)+
                }
            };
        }
    };
}

any! {
    Fifo(FifoOrder),
    Chain(ChainOrder),
    Lifo(LifoOrder),
    Mixed(MixedOrder),
    Slot(SlotOrder<FifoOrder>),
}

/// The local queue of an [`AnyOrder`].
pub struct AnyLocalQueue(Queue);

/// The same as other workers use it.
pub struct AnyThief(Thief);

impl LocalQueue for AnyLocalQueue {
    type Thief = AnyThief;
    /// A slot does.
    const DISPLACES: bool = true;

    #[inline]
    fn push(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        with!(&mut self.0, queue => queue.push(task))
    }

    fn push_last(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        with!(&mut self.0, queue => queue.push_last(task))
    }

    fn push_grown(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        with!(&mut self.0, queue => queue.push_grown(task))
    }

    #[inline]
    fn pop(&mut self, cx: &Cx<'_>) -> Option<TaskRef> {
        with!(&mut self.0, queue => queue.pop(cx))
    }

    fn pop_newest(&mut self) -> Option<TaskRef> {
        with!(&mut self.0, queue => queue.pop_newest())
    }

    fn passed_over(&mut self) -> Option<TaskRef> {
        with!(&mut self.0, queue => queue.passed_over())
    }

    fn drain(&mut self, cx: &Cx<'_>) -> Vec<TaskRef> {
        with!(&mut self.0, queue => queue.drain(cx))
    }

    #[inline]
    fn len(&self) -> usize {
        with!(&self.0, queue => queue.len())
    }

    fn room(&self) -> usize {
        with!(&self.0, queue => queue.room())
    }

    fn thief(&self) -> AnyThief {
        AnyThief(self.0.thief())
    }
}
