//! Pools, the worker loop, threads, and their life.
//!
//! | file | job |
//! |---|---|
//! | `any_pool` | a pool, for whoever does not know its policy |
//! | `build_error` | why there is none |
//! | `builder` | what a runtime may be asked to be, and starting it |
//! | `info` | what a pool is called, and its places if it is bounded |
//! | `transfer` | a task goes on in another pool |
//! | `handoff` | the word through which a thread is given a worker |
//! | `handle` | `Runtime`: what its owner and everyone outside can do |
//! | `install` | a borrowed closure on a worker |
//! | `spawn` | spawning from inside and outside |
//! | `spawn_blocking` | spawning a closure that blocks |
//! | `pin` | on which CPUs the workers run |
//! | `pool` | what workers share; pushes; the end |
//! | `worker` | a worker's half of the policy, and its tasks |
//! | `live` | the life of a thread: the loop |
//! | `context` | what free functions find on this thread |
//! | `source` | where a worker without tasks looks for some |
//! | `context` | a stack of a thread of the pool, and the worker that the thread carries |
//! | `thread_handle` | where a thread is given a worker, and told of its fibers |
//! | `blocking` | closures that may block: the worker goes on without them |
//! | `blocking_threads` | threads for closures that block, and admission to them |
//! | `thread_set` | all threads of a pool, and the spares |
//! | `evict` | cancelled tasks leave their queues |
//! | `forked` | a thread of a pool in a child made by `fork()` |
//! | `entry` | a runtime for `main`, or for a test |
//! | `driver_owner` | who polls for sockets and timers, and when |
//! | `small_stack` | building a runtime from a fiber |
//! | `lifecycle` | open, closing, closed |
//! | `ledger` | for how long a pool's memory stays when its policy keeps tasks |
//! | `listen` | how a fiber gives way, and waits for what wakes it |
//! | `standby` | a compensating worker that sleeps in the poller while everybody computes |
//! | `monitor` | workers that are stuck, and their compensating workers |
//! | `register` | tasks that sleep |
//! | `wait` | how a stack waits |
//! | `yields` | giving way |

mod any_pool;
mod blocking;
#[cfg(doctest)]
mod blocking_must_not_compile;
mod blocking_threads;
mod build_error;
mod builder;
pub(crate) mod current;
mod driver_owner;
mod entry;
mod evict;
pub(crate) mod forked;
mod handle;
mod handoff;
mod install;
mod ledger;
mod lifecycle;
mod monitor;
mod owned_tasks;
mod pin;
pub(crate) mod pool;
pub(crate) mod pool_info;
mod priority;
mod schedule;
mod sleep_flag;
mod small_stack;
mod spawn;
mod spawn_blocking;
pub(crate) mod stack_context;
mod standby;
pub(crate) mod thread_handle;
mod thread_set;
mod transfer;
pub(crate) mod wait;
pub(crate) mod wait_fiber;
mod work_source;
mod worker;
mod worker_loop;
mod yields;

pub use blocking::blocking;
pub use build_error::BuildError;
pub use builder::Builder;
pub(crate) use current::WorkerRef;
pub(crate) use current::current_driver;
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
pub(crate) use thread_handle::{Key, ThreadHandle};
pub use thread_set::Threads;
pub use yields::{YieldNow, yield_hard, yield_now, yield_soft};
