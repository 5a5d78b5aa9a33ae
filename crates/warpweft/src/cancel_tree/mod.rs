//! The tree of cancellation tokens, without its public face, which is [`cancel`](crate::cancel).
//!
#![doc = include_str!("README.md")]

mod deadline_waits;
pub(crate) mod node;
pub(crate) mod slab;
