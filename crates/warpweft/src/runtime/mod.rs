//! Pools, the worker loop, threads, and their life.
//!
//! | file | job |
//! |---|---|
//! | `builder` | what a runtime may be asked to be, and starting it |
//! | `handle` | `Runtime`: what its owner and everyone outside can do |
//! | `spawn` | spawning from inside and outside |
//! | `pool` | what workers share; pushes; the end |
//! | `worker` | the loop |
//! | `context` | which worker this thread carries |
//! | `life` | open, closing, closed |
//! | `register` | tasks that sleep |
//! | `yields` | giving way |

mod builder;
mod context;
mod handle;
mod life;
mod pool;
mod register;
mod spawn;
mod worker;
mod yields;

pub use builder::{BuildError, Builder};
pub use handle::{Runtime, default_runtime};
pub use spawn::{SpawnError, TaskBuilder, spawn, spawn_detached, spawn_job};
pub use yields::{YieldNow, yield_now};
