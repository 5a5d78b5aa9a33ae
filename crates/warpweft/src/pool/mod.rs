//! The state of a pool without its policy: its parts, its end, and how the calling thread finds it.
//!
//! | file | job |
//! |---|---|
//! | `at_close` | what closes with a pool |
//! | `core` | the state of a pool that does not depend on its policy's type |
//! | `draining` | which spawns a pool refuses while it drains |
//! | `dyn_pool` | a pool of any policy |
//! | `current` | the worker or pool that free functions find on the calling thread |
//! | `info` | the name of a pool, and its admission if it is bounded |
//! | `in_order` | closures that begin in the order in which they came |
//! | `lifecycle` | open, draining, closing, closed |
//! | `owned_tasks` | the tasks that sleep |
//! | `lending` | the priority that a task lends to those on which it waits |
//! | `panics` | what happens when a task panics |
//! | `size` | how many of the workers run |
//! | `ledger` | for how long a pool's memory stays if its policy keeps tasks |
//! | `worker_core` | the state of a worker that does not depend on the policy's type |
//! | `transfer_request` | a task's request to continue in another pool |

pub(crate) mod at_close;
pub(crate) mod core;
pub(crate) mod current;
pub(crate) mod draining;
pub(crate) mod dyn_pool;
pub(crate) mod in_order;
pub(crate) mod info;
pub(crate) mod ledger;
pub(crate) mod lending;
pub(crate) mod lifecycle;
pub(crate) mod owned_tasks;
pub(crate) mod panics;
pub(crate) mod size;
pub(crate) mod transfer_request;
pub(crate) mod worker_core;
