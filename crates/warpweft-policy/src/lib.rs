//! Scheduling policies decide which task runs next, where it comes from, and where a ready task is put.
//!
//! A [`Policy`] handles the scheduling events of a pool. It decides, but never synchronises: it owns queues
//! from `warpweft-queue`, but no thread, lock order or sleep. The same source runs in the runtime, under the
//! model checkers and in the conformance kit.
//!
//! - [`Policy`] is the trait; [`Cx`] is what a policy may observe.
//! - [`Stealing`] is the family of work-stealing policies: an [`Order`] as its type, and the other axes as
//!   values. [`Fifo`] and [`Lifo`] are the two plain ones.
//! - [`ProWs`] leaves the deques of waiting tasks to thieves; [`Parsimonious`] continues with its own deque.
//! - [`PolicySpec`] is the text form: `lifo+steal=half+overflow=grow`.
//!
//! A text can name `shortest` and `fifo`, and what is composed of them. The feature `policies` adds `lifo`,
//! `slot` and
//! `priority`, and `all-policies` the rest. The types are there without them, and are compiled in a program
//! that names them.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![deny(missing_docs)]

mod by_class;
mod counters;
mod cx;
pub mod deadline;
mod edf;
mod helping;
mod negele;
pub mod order;
pub mod parsimonious;
mod policy;
mod presets;
pub mod priority;
pub mod prows;
mod spec;
mod stealing;
#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod testing;

pub use counters::{Count, CounterSet, Counters};
pub use cx::{Clock, Cx, PoolSize, Tally, WorkerId};
pub use edf::Edf;
pub use helping::{Cforall, Helping};
pub use negele::{Negele, NegeleLocal};
pub use order::{FifoOrder, LifoOrder, Order};
pub use parsimonious::Parsimonious;
pub use policy::{Policy, PolicyError, PoolEnv, Wake, YieldTo};
pub use presets::{Go, Libfibre, Tokio};
pub use prows::ProWs;
pub use spec::{ParsePolicyError, PolicySpec, PolicyVisitor, Preset};
pub use stealing::{
    Chained, Classed, Fifo, FifoBehind, Help, Lifo, LifoBehind, Mixed, Overflow, Prioritised, Rebalance,
    Shortest, Slotted, StealAmount, Stealing, Victims, Woken,
};
pub use warpweft_platform::topology::CoreLocation;
pub use warpweft_queue::Amount;
pub use warpweft_task::{QueueViewer, TaskInfo, TaskRef, Waiting, Why};
