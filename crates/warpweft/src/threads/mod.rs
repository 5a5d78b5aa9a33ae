//! The threads of a pool: how many there are, where each is reached, and which worker each is given.
//!
//! | file | job |
//! |---|---|
//! | `pool_ref` | what a thread needs of its pool |
//! | `pool_thread` | what a program decides about threads: names, start, what runs as they start and end |
//! | `thread_context` | values that each thread has while it runs code of the pool |
//! | `thread_set` | all threads of a pool, and the spares |
//! | `thread_handle` | a thread's address: its worker and its mailbox |
//! | `mailbox` | the wake-ups of a thread's fibers, and what their posters must wake |
//! | `handoff` | the word through which a thread without a worker is given one |
//! | `affinity` | on which CPUs the workers run |
//! | `monitor` | which workers are stuck, and how many compensating workers are needed |
//! | `stall`, `reports` | what is said of a stuck worker, and how it is given out |
//! | `stall_record` | the flight recorder's snapshot of a stall |
//! | `quantum` | how much cooperative code a thread runs between two switches |
//! | `sleep_flag` | the monitor's sleep while all workers sleep |
//! | `blocking_threads` | threads for closures that block, and admission to them |

pub(crate) mod affinity;
pub(crate) mod blocking_threads;
pub(crate) mod handoff;
pub(crate) mod mailbox;
pub(crate) mod monitor;
pub(crate) mod pool_ref;
pub(crate) mod pool_thread;
pub(crate) mod quantum;
pub(crate) mod reports;
pub(crate) mod sleep_flag;
pub(crate) mod stall;
pub(crate) mod stall_record;
pub(crate) mod thread_context;
pub(crate) mod thread_handle;
pub(crate) mod thread_set;
