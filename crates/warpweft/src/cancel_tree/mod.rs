//! The tree of cancellation tokens, without its public face, which is [`cancel`](crate::cancel).
//!
//! A token is a node. A stack knows its token by a frame, which the list of its forks has: see
//! `fork/list/checked.rs`. So a fork finds the token under which it was made, and a task without a token
//! costs nothing.

mod deadline_waits;
pub(crate) mod node;
pub(crate) mod slab;
