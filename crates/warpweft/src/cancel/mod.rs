//! Cancellation: stop work whose result is not wanted any more, with everything below it.
//!
//! A [`CancelToken`] is a request to stop, once and for all. Tokens form a tree: a
//! [child](CancelToken::child) is cancelled with its parent, and not the other way round.
//!
//! Code runs *under* a token: [`CancelToken::run`] for closures and fibers, [`CancelToken::run_async`] for
//! futures. What it forks, spawns and opens is under the same token, on whatever thread it runs: joins, jobs
//! of scopes, loops, tasks, fibers, closures that block. A task under no token costs nothing.
//!
//! ```
//! use std::time::Duration;
//! use warpweft::cancel::{self, CancelToken};
//! use warpweft::time::sleep;
//! use warpweft::{JoinError, Runtime, spawn_job};
//!
//! let runtime = Runtime::builder().workers(2).build()?;
//! let token = CancelToken::new();
//! let (task, loop_of_leaves) = runtime.block_on(token.run_async(async {
//!     // Both inherit the token.
//!     let task = warpweft::spawn(sleep(Duration::from_secs(3600)));
//!     let loop_of_leaves = spawn_job(|| warpweft::par_for(0..usize::MAX, 1, |_| ()));
//!     (task, loop_of_leaves)
//! }))?;
//! token.cancel();
//! assert!(matches!(task.wait(), Err(JoinError::Cancelled)));
//! assert!(matches!(loop_of_leaves.wait(), Err(JoinError::Cancelled)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a cancellation does
//!
//! | what is under the token | then |
//! |---|---|
//! | a task, a job of a scope, a closure that blocks, a part that a thief has taken: not started | never starts, and is dropped |
//! | [`join`](crate::join), [`par_for`](crate::par_for), [`par_chunks_mut`](crate::par_chunks_mut) | unwinds at the next fork; a loop also before the next piece |
//! | code that asks: [`is_cancelled`], [`check`] | sees it, or unwinds there |
//! | [cooperative](mod@crate::cooperative) code | unwinds at the next check that is due |
//! | a fiber that waits or yields, for whatever | unwinds there |
//! | another closure that blocks its thread in a `block_on` or a `wait` of this crate | unwinds there |
//! | a future | is polled once more, and dropped if it still waits: see below |
//! | other code | continues to its end |
//!
//! **Unwound** means: as by a panic that no hook reports, up to the `run` of the token, which returns
//! [`Cancelled`], or to the end of the task, whose joiner gets
//! [`JoinError::Cancelled`](crate::JoinError::Cancelled). No function returns a value that it has not
//! computed. Frames on which other threads work wait for them first, as in any panic. Code that catches the
//! unwinding meets it again at its next wait, yield or fork, or where it asks, and not before. The type of
//! the payload is not public.
//!
//! **The second half of a join** that no thief has taken is run by its own frame if the first half returns,
//! even after the cancellation; it ends at its next fork. If the first half was unwound, the second one is
//! dropped. Jobs of a [scope](crate::scope()) and pieces of a loop do not start after the cancellation.
//!
//! **A future** that waits for [`cancelled`](CancelToken::cancelled) under the token, or ever has, is asked
//! to end, and has a [grace](CancelToken::with_grace) to do so, a second unless the token says otherwise.
//! Then it is dropped. Any other future is dropped at once. A future somewhere in the tree gets its token by
//! [`current`].
//!
//! **Nothing is unwound** while the thread panics, in a hook of a policy, or in
//! [`uncooperative`](crate::uncooperative) code, and where frames are lent to other threads. With `panic =
//! "abort"` no stack is unwound: code sees the cancellation when it asks, and only the future of a
//! [`run_async`](CancelToken::run_async) is dropped.
//!
//! # What comes back
//!
//! [`CancelToken::run`], [`CancelToken::run_async`], [`with_deadline`] and [`with_deadline_async`] return
//! [`Cancelled`] if the work was stopped. Work that reaches its value all the same, because it never asks,
//! gives `Ok` with that complete value, however late. The same holds for the joiner of a task under the
//! token. [`JoinHandle::cancel`](crate::JoinHandle::cancel) is different: after it a joiner never gets a
//! value.
//!
//! The joiner of a task that its deadline has ended gets
//! [`JoinError::Cancelled`](crate::JoinError::Cancelled), as of any other token. Only the [`Cancelled`] that
//! `run` and its kin return says whether it was a deadline.
//!
//! # Locks and clean-up
//!
//! The unwinding poisons a `std::sync::Mutex` that is locked in the code, as any panic does. The locks of
//! [`sync`](crate::sync) are released and not poisoned. Use these, or locks of `std` only around code that
//! neither forks nor waits.
//!
//! **Uncooperative code** has what its frames wait for: what it forks is not under the token.
//!
//! **Destructors** that run while a stack unwinds, for a cancellation or any other panic, are under no token:
//! what they fork, spawn and wait for is done. So is what a future's destructor spawns, because a future is
//! dropped outside of its token, unless another token that is cancelled counts there. [`detached`] says it
//! for other code.
//!
//! # Costs
//!
//! Under a token a join costs a call more, and a wait of a fiber takes the longer way. A future takes the
//! token's lock at each poll that is pending. A token costs an allocation of some 200 bytes; cancelling takes
//! time in proportion to what is below.

mod deadline;
mod graceful;
#[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
mod left_deadlines;
mod listening;
#[cfg(doctest)]
mod must_not_compile;
mod token;

pub use deadline::{with_deadline, with_deadline_async};
pub use token::{CancelToken, Cancelled, check, current, detached, is_cancelled};
