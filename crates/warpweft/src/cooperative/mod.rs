//! Cooperative code: long computations that yield now and then, without explicit calls.
//!
//! A fiber that computes keeps the others of its thread from running, and a future delays the tasks behind
//! it. `#[cooperative]` inserts *checks* into a function, at its entry and wherever it loops. A check
//! subtracts the number of statements up to the next check from the rest of the thread's *quantum*,
//! [`Builder::quantum`](crate::Builder::quantum) statements. When nothing is left the code yields, and the
//! quantum begins anew. This is the implicit switch of Negele et al. ("On the Design and Implementation of an
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
//! # What happens when a check is due
//!
//! | code of | yields by | its handle was cancelled | its token was cancelled |
//! |---|---|---|---|
//! | a fiber | a switch to its thread's loop, as [`fiber::yield_now`](crate::fiber::yield_now) | is unwound | is unwound |
//! | an `async fn` or `async` block | awaiting, as [`yield_now`](crate::yield_now) | is dropped where it awaits | is dropped where it awaits, after its grace if it has one |
//! | a job | nothing: there is no other stack | is unwound | is unwound |
//! | a detached closure | nothing | has no handle | is unwound |
//! | a plain function that a future calls | nothing | continues to the next check that awaits | is unwound |
//! | another worker's half of a `join`, a job of a `scope` | nothing | continues | is unwound |
//! | a thread of no pool, or of [`spawn_blocking`](crate::spawn_blocking) | nothing | continues | is unwound |
//!
//! A *handle* is a [`JoinHandle`](crate::JoinHandle), and a *token* a
//! [`CancelToken`](crate::cancel::CancelToken), or a deadline, under which the code runs.
//!
//! - **Unwound** means: as by a panic that no hook reports, so that what the frames hold is dropped. The
//!   joiner gets [`JoinError::Cancelled`](crate::JoinError::Cancelled). Code that catches it continues to the
//!   next check that is due, where it is unwound again. With `panic = "abort"` nothing is unwound, and a
//!   cancelled fiber or job runs to its end.
//! - **A runtime that shuts down** stops cooperative code the same way:
//!   [`JoinError::Shutdown`](crate::JoinError::Shutdown).
//! - **Nothing happens** while the thread is panicking, in a hook of a policy, or inside of
//!   [`uncooperative`].
//! - The quantum belongs to the thread, and a task may find it half used: it yields *after at most* a quantum
//!   of statements.
//!
//! # What has checks
//!
//! - The entry of the function, and of closures in it whose body is a block; the body of each `loop`, `while`
//!   and `for`. `continue` leads through the check.
//! - A `for` over `a..b` is cut into strips as long as the quantum allows, if its body neither leaves it,
//!   waits, loops nor calls macros (except those of the standard library). Each strip has one check. Inside a
//!   strip the loop is unchanged, and may be vectorised. A macro of the program that has the name of one of
//!   the standard library, such as `write!`, must not leave the loop.
//! - Functions that it calls have none, unless they are cooperative, too. Nor have the expansions of macros,
//!   and iterator adaptors. Each counts as one statement.
//! - For a closure, an `async` block or a loop there is [`cooperate!`](crate::cooperate), because attributes
//!   of expressions are not stable.
//!
//! # Cautions
//!
//! A fiber may switch at a check. If it holds a lock of the standard library there, it blocks its thread when
//! another fiber wants the lock: use [`sync::Mutex`](crate::sync::Mutex), or [`uncooperative`]. In an
//! `async fn` a check is an `await`, so values that live across it must be `Send` if the task is.
//!
//! # Costs
//!
//! A check costs two instructions in a statically linked program that addresses thread-locals directly, and
//! three if it loads the address first; `cargo xtask asm` counts them. The cost of a switch is paid once per
//! quantum.

pub(crate) mod budget;
#[cfg(doctest)]
mod must_not_compile;
pub(crate) mod pause;
pub(crate) mod strip;

pub use budget::{check, is_due, uncooperative};
pub use pause::pause;
pub use strip::strip;
