//! MPI for Warpweft: a message of another rank is awaited like a socket.
//!
//! MPI launches the ranks, matches the messages and moves the bytes. This crate has its requests looked at by
//! the thread that polls for sockets and timers, so that a worker does something else meanwhile.
//!
//! ```no_run
//! use warpweft_mpi::{Mpi, Source};
//!
//! let runtime = warpweft::Runtime::builder().workers(2).build()?;
//! let mpi = Mpi::init(&runtime)?;
//! let world = mpi.world();
//! let (rank, size) = (mpi.rank(), mpi.size());
//! // Around the ring: in direct style, or `.await`.
//! let sent = world.send((rank + 1) % size, 7, vec![rank as u8]);
//! let message = world.recv(Source::Any, 7, 1).wait()?;
//! sent.wait()?;
//! println!("rank {rank} of {size} heard rank {}", message.bytes[0]);
//! mpi.finalize()?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | job |
//! |---|---|
//! | `mpi`, `comm` | begin and end; communicators and their messages |
//! | `collectives` | barrier, broadcast, reduction, gather, exchange |
//! | `port` | messages of a Rust type |
//! | `functions`, `calls`, `outbox` | functions that other ranks call |
//! | `bag`, `broker`, `shelf` | work that is shared by stealing between ranks |
//! | `request`, `op` | a message on its way |
//! | `progress`, `outstanding` | the turn that looks, and what MPI works on |
//! | `peer_waker`, `neighbour` | ranks wake each other; a rank that is lost |
//! | `api`, `library` | MPI's functions, loaded at run time |
//! | `raw` | MPI's own calls, for measurements beside plain MPI: feature `raw` |
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![deny(missing_docs)]

#[cfg(not(target_os = "linux"))]
compile_error!("warpweft-mpi is for Linux: it loads MPI's library and wakes ranks in Linux' own ways");

/// The examples of the README and of the guide's chapter are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/src/19-many-machines.md")]
mod chapter {}

mod api;
mod bag;
mod broker;
mod calls;
mod collectives;
mod comm;
mod error;
mod functions;
mod library;
mod mpi;
mod neighbour;
mod op;
mod outbox;
mod outstanding;
mod peer_waker;
mod port;
mod progress;
#[cfg(feature = "raw")]
pub mod raw;
mod request;
mod shelf;

pub use bag::{Bag, Shared};
pub use calls::{Call, Calls};
pub use collectives::{Number, Reduce};
pub use comm::{Comm, Message, Source};
pub use error::{MpiError, MpiErrorKind};
pub use functions::{Function, Functions};
pub use mpi::Mpi;
pub use port::{Letter, Port};
pub use request::Request;
