//! The frame of a stack from which on a token counts.

use super::record::ForkRecord;
use crate::cancel_tree::node::Node;
use std::cell::Cell;
use std::ptr;

/// A frame that sets the token, or that sets none on top of one that does.
///
/// # Invariants
///
/// - It is entered and left like the function around it, and does not move meanwhile.
/// - Its node is there until then. It is null where no token counts.
#[derive(Debug)]
pub(crate) struct TokenFrame {
    pub(crate) node: *const Node,
    /// The next older frame of the stack; null if there is none.
    pub(super) before: Cell<*const Self>,
    /// The youngest record when the frame was entered: older than all that are made under its token.
    pub(super) found: Cell<*const ForkRecord>,
    /// True if the list was checked before.
    pub(super) was_checked: Cell<bool>,
    /// The place of the fiber's waker in the node, once the fiber has waited under this frame.
    pub(crate) place: Cell<Option<usize>>,
    /// True once code in it has waited for the cancellation itself.
    pub(crate) listens: Cell<bool>,
}

impl TokenFrame {
    pub(crate) fn new(node: *const Node) -> Self {
        Self {
            node,
            before: Cell::new(ptr::null()),
            found: Cell::new(ptr::null()),
            was_checked: Cell::new(false),
            place: Cell::new(None),
            listens: Cell::new(false),
        }
    }
}
