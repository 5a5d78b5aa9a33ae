//! Pools, the worker loop, threads, and their life.
//!
//! | file | job |
//! |---|---|
//! | `any_pool` | a pool, for whoever does not know its policy |
//! | `build_error` | why there is none |
//! | `builder` | what a runtime may be asked to be, and starting it |
//! | `card` | what a pool is called, and its places if it is bounded |
//! | `hop` | a task goes on in another pool |
//! | `hand` | the word through which a thread is given a worker |
//! | `handle` | `Runtime`: what its owner and everyone outside can do |
//! | `install` | a borrowed closure on a worker |
//! | `spawn` | spawning from inside and outside |
//! | `spawn_blocking` | spawning a closure that blocks |
//! | `pin` | on which CPUs the workers run |
//! | `pool` | what workers share; pushes; the end |
//! | `worker` | a worker's half of the policy, and its tasks |
//! | `live` | the life of a thread: the loop |
//! | `context` | what free functions find on this thread |
//! | `seeking` | where a worker without tasks looks for some |
//! | `seat` | a stack of a thread of the pool, and the worker that the thread carries |
//! | `berth` | where a thread is given a worker, and told of its fibers |
//! | `blocking` | closures that may block: the worker goes on without them |
//! | `blocking_threads` | threads for closures that block, and admission to them |
//! | `crew` | all threads of a pool, and the spares |
//! | `evict` | cancelled tasks leave their queues |
//! | `forked` | a thread of a pool in a child made by `fork()` |
//! | `entry` | a runtime for `main`, or for a test |
//! | `engine` | who polls for sockets and timers, and when |
//! | `small_stack` | building a runtime from a fiber |
//! | `life` | open, closing, closed |
//! | `ledger` | for how long a pool's memory stays when its policy keeps tasks |
//! | `listen` | how a fiber gives way, and waits for what wakes it |
//! | `lookout` | a stand-in that sleeps in the poller while everybody computes |
//! | `monitor` | workers that are stuck, and their stand-ins |
//! | `register` | tasks that sleep |
//! | `wait` | how a stack waits |
//! | `yields` | giving way |

mod any_pool;
pub(crate) mod berth;
mod blocking;
#[cfg(doctest)]
mod blocking_must_not_compile;
mod blocking_threads;
mod build_error;
mod builder;
pub(crate) mod card;
pub(crate) mod context;
mod crew;
mod doze;
mod engine;
mod entry;
mod evict;
pub(crate) mod forked;
mod hand;
mod handle;
mod hop;
mod install;
mod ledger;
mod life;
pub(crate) mod listen;
mod live;
mod lookout;
mod monitor;
mod pin;
mod placing;
pub(crate) mod pool;
mod priority;
mod register;
pub(crate) mod seat;
mod seeking;
mod small_stack;
mod spawn;
mod spawn_blocking;
pub(crate) mod wait;
mod worker;
mod yields;

pub(crate) use berth::{Berth, Key};
pub use blocking::blocking;
pub use build_error::BuildError;
pub use builder::Builder;
pub(crate) use context::Front;
pub(crate) use context::current_driver;
pub use crew::Threads;
pub use entry::enter;
pub use handle::{Runtime, default_runtime, try_default_runtime};
pub(crate) use install::{install, install_here};
pub use monitor::Stall;
pub use pin::{Pin, PinError};
pub use priority::{Priority, PriorityError};
pub use spawn::{SpawnError, TaskBuilder, spawn, spawn_detached, spawn_job};
pub use spawn_blocking::{
    Admission, BlockingError, Refused, SpawnBlocking, spawn_blocking, try_spawn_blocking,
};
pub use yields::{YieldNow, yield_hard, yield_now, yield_soft};
