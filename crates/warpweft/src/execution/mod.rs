//! Code on a thread of a pool: on which stack it runs, and how it waits without keeping the worker.
//!
//! | file | job |
//! |---|---|
//! | `stack_context` | what a stack knows: its thread, the worker that the thread carries, its forks |
//! | `fiber` | one fiber: its stack, its state, how it switches away |
//! | `fiber_state`, `fiber_probe` | the state of a fiber, and what a report sees of it |
//! | `fiber_start` | how a task that is a fiber begins |
//! | `fork_cx` | the right to fork on a stack |
//! | `run_part`, `part_of_fork` | a frame runs a part of the fork for which it waits |
//! | `offer_fork` | how a stack offers its oldest fork |
//! | `current_task` | which task runs on a stack |
//! | `class`, `class_mix` | the priority of that task; those of a thread's fibers |
//! | `covered` | a frame that a report sees only while what runs on top of it waits |
//! | `token` | which cancellation token counts on a stack, and how the stack unwinds for it |
//! | `token_wait` | waits under a token |
//! | `thread_fibers` | the fibers of one thread: those that are ready, and which is next |
//! | `fiber_waker` | what wakes a fiber |
//! | `block_on` | how a fiber waits for a future |
//! | `wait` | how a stack waits: a fiber switches, a thread gives its worker away |
//! | `bodies`, `body_link` | the handled bodies that run on this thread |
//! | `blocking` | closures that may block: another thread takes the worker over |
//! | `under_task` | a frame that waits while other tasks run on top of it |
//! | `late_end` | a task that comes after its pool has closed ends on the stack that brings it |
//! | `leaving` | where a thread that has entered a pool may leave it |
//! | `enter_guard` | a thread enters a pool without being one of its threads |
//! | `spawn_here` | fibers that start on the thread of the fiber that spawns them |
//! | `forked_child` | a thread of a pool in a child made by `fork()` |
//! | `worker_claim` | a thread without a worker whose fiber is ready claims one |
//!
//! `stack_context`, `fiber`, `thread_fibers` and `fiber_waker` know each other, because a switch of fibers
//! touches all four.

pub(crate) mod block_on;
pub(crate) mod blocking;
pub(crate) mod bodies;
pub(crate) mod body_link;
pub(crate) mod class;
mod class_mix;
mod covered;
pub(crate) mod current_task;
pub(crate) mod enter_guard;
pub(crate) mod fiber;
pub(crate) mod fiber_probe;
pub(crate) mod fiber_start;
pub(crate) mod fiber_state;
pub(crate) mod fiber_waker;
pub(crate) mod fork_cx;
pub(crate) mod forked_child;
pub(crate) mod late_end;
mod leaving;
#[cfg(doctest)]
mod must_not_compile;
pub(crate) mod offer_fork;
mod part_of_fork;
pub(crate) mod run_part;
pub(crate) mod spawn_here;
pub(crate) mod stack_context;
pub(crate) mod thread_fibers;
pub(crate) mod token;
pub(crate) mod token_wait;
mod under_task;
pub(crate) mod wait;
pub(crate) mod worker_claim;
