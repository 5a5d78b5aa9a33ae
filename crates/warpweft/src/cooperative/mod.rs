//! Cooperative code: what computes for long gives way now and then, by itself.
//!
//! A fiber that computes keeps the others of its thread from running, and a future the tasks behind it.
//! `#[cooperative]` inserts *checks* into a function, at its entry and wherever it loops. A check subtracts
//! the statements that stand between it and the next ones from what the thread has left of its *quantum*,
//! [`Builder::quantum`](crate::Builder::quantum) statements. When nothing is left the code gives way, and the
//! quantum begins anew. That is the implicit switch of Negele et al. ("On the Design and Implementation of an
//! Efficient Lock-Free Scheduler"), whose compiler counts instructions.
//!
//! ```
//! # #[cfg(feature = "macros")] {
//! use warpweft::{Runtime, cooperative};
//!
//! #[cooperative]
//! fn collatz(mut n: u64) -> u32 {
//!     let mut steps = 0;
//!     while n != 1 {
//!         n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
//!         steps += 1;
//!     }
//!     steps
//! }
//!
//! let runtime = Runtime::builder().workers(1).build().unwrap();
//! // Neither waits for the other one to end.
//! let fibers = [27, 97].map(|n| runtime.spawn_fiber(move || collatz(n)));
//! assert_eq!(fibers.map(|fiber| fiber.wait().unwrap()), [111, 118]);
//! # }
//! ```
//!
//! # Who does what, when a check is due
//!
//! | the code is of | it gives way by | cancelled, it |
//! |---|---|---|
//! | a fiber | a switch to its thread's loop, as [`fiber::yield_now`](crate::fiber::yield_now) | is unwound |
//! | an `async fn` or `async` block | awaiting, as [`yield_now`](crate::yield_now) | is dropped where it awaits |
//! | a job | nothing: there is no other stack | is unwound, if it has a handle |
//! | a plain function that a future calls | nothing | goes on to the next check that awaits |
//! | another worker's half of a `join`, a job of a `scope` | nothing | goes on |
//! | a thread of no pool | nothing | |
//!
//! - **Unwound** means: as by a panic that no hook reports, so that what the frames hold is dropped. The
//!   joiner gets [`JoinError::Cancelled`](crate::JoinError::Cancelled). Who catches it goes on to the next
//!   check that is due, where it is unwound again. With `panic = "abort"` nothing is unwound, and a cancelled
//!   fiber or job goes on to its end.
//! - **A runtime that shuts down** stops cooperative code the same way:
//!   [`JoinError::Shutdown`](crate::JoinError::Shutdown).
//! - **Nothing happens** while the thread is panicking, in a hook of a policy, or inside of
//!   [`uncooperative`].
//! - The quantum is the thread's, and a task may find it half used: it gives way *after at most* a quantum of
//!   statements.
//!
//! # What has checks
//!
//! - The entry of the function, and of closures in it whose body is a block; the body of each `loop`, `while`
//!   and `for`. `continue` leads through the check.
//! - A `for` over `a..b` whose body neither leaves it, waits, loops nor calls macros (but those of the
//!   standard library) is cut into strips as long as the quantum allows. Each strip has one check; inside,
//!   the loop is as it was, vectorised perhaps.
//! - What it calls has not, unless it is cooperative itself; nor has what macros' calls expand to, and
//!   adaptors of iterators. Each counts as one statement.
//! - For a closure, an `async` block or a loop there is [`cooperate!`](crate::cooperate), as attributes of
//!   expressions are not stable.
//!
//! # What to beware of
//!
//! A check is a place where a fiber may switch. A lock of the standard library that is held there blocks its
//! thread, if another fiber wants it: use [`sync::Mutex`](crate::sync::Mutex), or [`uncooperative`]. In an
//! `async fn` it is an `await`: what is alive there has to be `Send`, if the task is.
//!
//! # Costs
//!
//! Two instructions where the statically linked program addresses its threads' variables directly, and three
//! where it loads the address first; `cargo xtask asm` counts them. What a switch costs is paid once per
//! quantum.

pub(crate) mod budget;
#[cfg(doctest)]
mod must_not_compile;
pub(crate) mod pause;
pub(crate) mod strip;

pub use budget::{check, is_due, uncooperative};
pub use pause::pause;
pub use strip::strip;
