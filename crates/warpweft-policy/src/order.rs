//! Orders: which of a worker's own tasks is next.

use warpweft_queue as queue;
use warpweft_task::TaskRef;

/// The order of a worker's own queue, and what goes with it.
pub trait Order: Send + Sync + 'static {
    /// The queue that keeps this order.
    type Queue: queue::Owner<TaskRef> + 'static;

    /// The word that stands for it in a policy's text.
    const NAME: &'static str;

    /// Whether a newer task may pass an older one for ever, so that the bottom needs attention from time to time.
    const PASSES_OVER: bool;
}

/// Oldest first (EBSL B.5).
#[derive(Debug, Clone, Copy, Default)]
pub struct FifoOrder;

impl Order for FifoOrder {
    type Queue = queue::Fifo<TaskRef>;
    const NAME: &'static str = "fifo";
    const PASSES_OVER: bool = false;
}

/// Newest first; thieves take the oldest (EBSL B.6).
#[derive(Debug, Clone, Copy, Default)]
pub struct LifoOrder;

impl Order for LifoOrder {
    type Queue = queue::Lifo<TaskRef>;
    const NAME: &'static str = "lifo";
    const PASSES_OVER: bool = true;
}
