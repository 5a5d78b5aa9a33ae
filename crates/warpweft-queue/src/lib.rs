//! Lock-free queues of one-word elements. Each structure has its own file and can be used alone.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![deny(missing_docs)]

mod backoff;
mod chain;
mod class_set;
mod deques;
mod end;
pub mod event_count;
mod fifo;
#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod growth_tests;
mod inbox;
mod lifo;
mod linked;
mod locked;
mod mpmc;
mod multi;
mod nodes;
mod peek;
mod ring;
mod slot;
mod sorted;
mod transfer;
mod word;

pub use chain::{Chain, ChainThief};
pub use class_set::ClassSet;
pub use deques::{Active, DequeState, DequeView, Deques, StealOutcome};
pub use end::{Amount, CapacityError, Full, Glance, MAX_CAPACITY, Owner, Steal, Thief};
pub use event_count::EventCount;
pub use fifo::{Fifo, FifoThief};
pub use inbox::{InboxOwner, InboxSender};
pub use lifo::{Lifo, LifoThief};
pub use linked::Linked;
pub use locked::Locked;
pub use mpmc::Mpmc;
pub use multi::{Multi, Shard};
pub use nodes::{Carried, Nodes, Processor};
pub use peek::Peek;
pub use slot::Slot;
pub use sorted::Sorted;
pub use transfer::{Claim, Transfer};
pub use word::Word;
