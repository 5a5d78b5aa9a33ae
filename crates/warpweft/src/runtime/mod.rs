//! Pools, the worker loop, threads, and their life.
//!
//! | file | job |
//! |---|---|
//! | `builder` | what a runtime may be asked to be, and starting it |
//! | `handle` | `Runtime`: what its owner and everyone outside can do |
//! | `install` | a borrowed closure on a worker |
//! | `spawn` | spawning from inside and outside |
//! | `pool` | what workers share; pushes; the end |
//! | `worker` | the loop |
//! | `context` | what free functions find on this thread |
//! | `seat` | a thread of the pool, and how it waits without keeping its worker |
//! | `crew` | all threads of a pool, and the spares |
//! | `engine` | who polls for sockets and timers, and when |
//! | `life` | open, closing, closed |
//! | `register` | tasks that sleep |
//! | `yields` | giving way |

mod builder;
mod context;
mod crew;
mod engine;
mod handle;
mod install;
mod life;
mod pool;
mod register;
pub(crate) mod seat;
mod spawn;
mod worker;
mod yields;

pub use builder::{BuildError, Builder};
pub(crate) use context::current_driver;
pub use crew::Threads;
pub use handle::{Runtime, default_runtime};
pub use spawn::{SpawnError, TaskBuilder, spawn, spawn_detached, spawn_job};
pub use yields::{YieldNow, yield_now};
