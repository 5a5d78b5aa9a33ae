//! Seven known schedulers, written against [`Policy`](warpweft_policy::Policy) before it was frozen.
//!
//! A sketch shows that the trait can express a scheduler: it compiles, keeps every task, and puts each task where
//! the scheduler would. It is not that scheduler: most queues here are locked ones. Each module says what is
//! simplified, and what the trait gives. The decision is `docs/decisions/0003-policy-trait.md`.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod cforall;
pub mod go;
pub mod libfibre;
pub mod lifo_slot;
pub mod negele;
pub mod prows;
pub mod staged;
