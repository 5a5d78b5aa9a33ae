//! Effects: a function requests something by a type, and is suspended until the handler of that type answers.
//!
//! ```text
//!   handle(body, handler)            body, on its own stack
//!        │ ──────────── run ──────────▶ │
//!        │                              │ perform(Ask)        Ask: Effect<Answer = u32>
//!        │ ◀─ clause(Ask, continuation) │
//!        │        ┆ (suspended)         ┆
//!        │ ── continuation.resume(7) ─▶ │ 7
//!        │ ◀────────── value ────────── │
//! ```
//!
//! [`perform`] finds the nearest [`Handler`] on its stack that has a clause for the effect's type. The clause
//! gets the effect and the rest of the body, a [`Continuation`], which is used once: it is
//! [answered](Continuation::resume), kept for later, or [discontinued](Continuation::discontinue). The answer
//! turns it into a [`Coroutine`], which this handler or another one runs. So a scheduler is a handler and a
//! queue of coroutines. `examples/effects.rs` is one in some forty lines, which runs the oldest or the newest
//! task first.
//!
//! A generator is a handler that returns at each value:
//!
//! ```
//! use warpweft::effect::{Effect, Handler, Next, Coroutine, perform};
//!
//! struct Give(u32);
//! impl Effect for Give {
//!     type Answer = ();
//! }
//!
//! let mut rest = None;
//! let mut values = Vec::new();
//! let mut next = Some(Coroutine::new(|| {
//!     let (mut a, mut b) = (0, 1);
//!     loop {
//!         perform(Give(a));
//!         (a, b) = (b, a + b);
//!     }
//! }));
//! while let Some(body) = next.take().filter(|_| values.len() < 8) {
//!     let mut handler = Handler::returning(|()| None).on(|Give(value), k| {
//!         rest = Some(k.resume(()));
//!         Next::Leave(Some(value))
//!     });
//!     values.extend(handler.run(body));
//!     drop(handler);
//!     next = rest.take();
//! }
//! assert_eq!(values, [0, 1, 1, 2, 3, 5, 8, 13]);
//! ```
//!
//! # What is promised
//!
//! - **Handlers are deep**: a body that was answered continues under the same handler, in a loop and not in a
//!   recursion. A coroutine that was kept continues under the handler that then runs it, which may be another
//!   one, so handlers can be shallow, too. An effect for which the nearest handler has no clause goes to the
//!   next one outwards: one switch suspends the bodies in between with their handlers.
//! - **Once**: an answer consumes the continuation. If it is dropped, it is discontinued: `perform` unwinds
//!   with [`Discontinued`], and destructors run. If it is leaked, its stack is never freed, since nothing
//!   unwinds it.
//! - **On one thread, and in one pool**: bodies, continuations and coroutines are not `Send`. A body that
//!   began in a pool continues only while its thread belongs to that pool, and one that began outside of any
//!   pool only outside: [`Handler::run`] panics elsewhere. A fork of the body
//!   ([`join`](crate::join()), [`scope`](crate::scope())) may run anywhere, and finds its handlers only by
//!   chance, so perform outside of forks. A task that the body spawns does not find them either.
//! - **A wait** of the runtime inside of a body ([`block_on`](crate::block_on),
//!   [`JoinHandle::wait`](crate::JoinHandle::wait), a join, a lock) is a wait of all the stacks below it. A
//!   fiber switches away with the handlers and bodies on top of it; a job passes its worker on; another
//!   thread sleeps. The handler is not informed, and other coroutines of its queue wait, too. When a runtime
//!   shuts down, a waiting fiber is unwound, innermost body first. A closure in
//!   [`blocking`](crate::blocking()) performs only effects whose handler is inside it.
//! - **Panics** of a body come out of [`Handler::run`]. A panic of a clause drops the continuation that the
//!   clause was given. The queue of a scheduler is dropped as its frame unwinds, and each body in it is
//!   unwound. While a thread panics, `perform` panics; in a destructor that ends the process. A body that is
//!   unwound in the middle of a join or a scope waits for it, and blocks its thread if that needs a fiber of
//!   the same thread. In a build with `panic = "abort"` a discontinuation ends the process, too.
//! - Effects, answers and bodies are `'static`: an effect leaves its frame, and a continuation may outlive
//!   all that is around it. A clause may borrow. As in fibers, no lock of the standard library and no
//!   thread-local should be in use across an effect.
//! - A continuation in a thread-local is not unwound when a pool's thread ends: it is leaked. So is one that
//!   is dropped where it cannot continue, since its thread has left its pool or entered one.
//!
//! # Costs
//!
//! A body has a stack from the pool of its thread
//! ([`Builder::fiber_stack_size`](crate::Builder::fiber_stack_size)), or outside of any pool one of 64 KiB
//! from a pool of the process. An effect and its answer cost two switches and no allocation, plus a look at
//! each handler in between. Forks of the stack that no thread has taken become tasks before a switch.
//!
//! | file | job |
//! |---|---|
//! | `body` | a body's stack, and the switches |
//! | `handler` | handlers, continuations, coroutines |

pub(crate) mod body;
pub(crate) mod handler;
#[cfg(doctest)]
mod must_not_compile;

pub use handler::{Continuation, Coroutine, Handler, Next, handle};

use std::any::{TypeId, type_name};
use std::cell::Cell;
use std::ptr::NonNull;

/// A request that a function makes to its handler.
///
/// ```
/// /// A line of input.
/// struct ReadLine;
/// impl warpweft::effect::Effect for ReadLine {
///     type Answer = Option<String>;
/// }
/// ```
pub trait Effect: 'static {
    /// The result of [`perform`].
    type Answer: 'static;
}

/// The payload with which `perform` unwinds when its continuation is discontinued. Only this library makes
/// one.
#[derive(Debug)]
pub struct Discontinued(());

/// An effect on its way to the handler, and the answer on its way back; it is in the frame of `perform`.
struct Exchange<E: Effect> {
    effect: Cell<Option<E>>,
    answer: Cell<Option<E::Answer>>,
}

/// Gives `effect` to the nearest handler on this stack that has a clause for it, and returns the answer.
/// Meanwhile the body, with all that it called, is suspended.
///
/// Costs two switches of stacks. See [`handle`] for an example.
///
/// # Panics
///
/// - No handler on this stack has a clause for the effect. The message names the type.
/// - The thread is panicking.
/// - A hook of a policy, or a closure in [`blocking`](crate::blocking()), is between here and the handler.
///
/// It unwinds with [`Discontinued`] if the continuation is dropped.
pub fn perform<E: Effect>(effect: E) -> E::Answer {
    let exchange = Exchange {
        effect: Cell::new(Some(effect)),
        answer: Cell::new(None),
    };
    body::suspend(
        TypeId::of::<E>(),
        type_name::<E>(),
        NonNull::from(&exchange).cast(),
    );
    match exchange.answer.take() {
        Some(answer) => answer,
        None => unreachable!("a body goes on when its effect was answered"),
    }
}
