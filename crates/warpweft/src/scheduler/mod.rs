//! The scheduler: a pool under one policy, and the loop of its workers.
//!
//! | file | job |
//! |---|---|
//! | `pool` | what the workers of one policy share; pushes from outside |
//! | `pool/ending` | the end of a pool |
//! | `worker` | a worker's half of the policy, and the step of a task |
//! | `carrier` | the main function of a thread, around the loop of its worker |
//! | `worker_loop` | the loop of a worker |
//! | `poll_interval` | when a busy worker looks for overdue tasks, sockets and timers |
//! | `lone_yield` | what is done for others while the only ready task yields |
//! | `neighbour` | what a worker whose tasks only yield sees of another one |
//! | `recorded` | what the flight recorder gets of a worker's steps |
//! | `schedule` | where a runnable task goes |
//! | `search` | where a worker without tasks looks for some |
//! | `other_work` | what a frame that yields may let run |
//! | `watch` | the tick of the monitor |
//! | `transfer` | a task continues in another pool |
//! | `eviction` | cancelled tasks leave their queues |
//! | `inherit` | a task gets the priority of those that wait for it |
//! | `resize` | how many of the workers run: the others rest |
//!
//! What runs for each task is generic over the policy, so that pushes and steals are direct calls. What is
//! rare is not, and is compiled once: it is an `impl` of `PoolCore`, or of `dyn DynPool` where it asks the
//! policy.

mod carrier;
pub(crate) mod eviction;
mod inherit;
mod lone_yield;
mod neighbour;
mod other_work;
pub(crate) mod poll_interval;
pub(crate) mod pool;
pub(crate) mod recorded;
pub(crate) mod resize;
pub(crate) mod schedule;
pub(crate) mod search;
pub(crate) mod transfer;
pub(crate) mod watch;
pub(crate) mod worker;
pub(crate) mod worker_loop;
