//! Types that say whether a pool's queues are divided by priority.
//!
//! The shared queues of a pool are compiled for one of these two types, and not for each order.

/// True if an order uses the [priority](crate::priority) of a task.
pub trait Classes: 'static {
    /// True if it does. Then the shared queues have levels, too, and a worker compares them with
    /// [`LocalQueue::first_level`](super::LocalQueue::first_level) before each of its own tasks. Otherwise
    /// none of this is compiled.
    const BY_PRIORITY: bool;
}

/// The order ignores priorities, so all tasks are of one class.
#[derive(Debug)]
pub enum OneClass {}

impl Classes for OneClass {
    const BY_PRIORITY: bool = false;
}

/// The order has a class of tasks for each level of priority.
#[derive(Debug)]
pub enum ClassPerLevel {}

impl Classes for ClassPerLevel {
    const BY_PRIORITY: bool = true;
}
