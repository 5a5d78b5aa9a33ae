//! Handlers and what they work with: continuations, and bodies to run.

use super::body::HandledBody;
use super::{Discontinued, Effect, Exchange};
use crate::coroutine::Input;
use crate::coroutine::stack::{Reserved, Stacks, USUAL_BYTES};
use crate::execution::stack_context;
use crate::observe::spans::SpawnSpan;
use crate::pool::panics::Outcome;
use crate::runtime::spawn_error::SpawnError;
use std::any::{Any, TypeId, type_name};
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

/// A body that a [`Handler`] can run: one that has not begun, or one whose effect was answered.
///
/// It stays on its thread. If it is dropped, it is unwound, as by [`Continuation::discontinue`]. If it is
/// leaked (`mem::forget`), it keeps its stack for ever, and the memory of the pool in which it began. It is
/// also leaked if it is dropped where it cannot continue: where the thread has left that pool, or belongs to
/// another one.
#[must_use = "dropped, the body is unwound"]
pub struct Coroutine<T> {
    state: CoroutineState,
    outcome: Rc<Cell<Option<Outcome<T>>>>,
}

enum CoroutineState {
    Fresh(Box<dyn FnOnce()>, &'static Location<'static>),
    /// It has a stack, does not run, and is owned by this coroutine alone.
    Begun(NonNull<HandledBody>),
    Ended,
}

impl<T> fmt::Debug for Coroutine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coroutine")
            .field("has_begun", &!matches!(self.state, CoroutineState::Fresh(..)))
            .finish_non_exhaustive()
    }
}

impl<T: 'static> Coroutine<T> {
    /// Makes a body for a handler to run. It gets a stack when it is first run.
    ///
    /// It is `'static`, because a continuation may be leaked: forks of the body could then use what it
    /// borrows after that has ended.
    #[track_caller]
    pub fn new(body: impl FnOnce() -> T + 'static) -> Self {
        let outcome = Rc::new(Cell::new(None));
        let result = Rc::clone(&outcome);
        let span = SpawnSpan::current();
        let body = move || span.run(body);
        // Unwind: the handler that runs the body resumes the panic.
        let body = move || result.set(Some(catch_unwind(AssertUnwindSafe(body))));
        Self {
            state: CoroutineState::Fresh(Box::new(body), Location::caller()),
            outcome,
        }
    }

    /// The same as [`new`](Self::new), but reserves the stack at once.
    ///
    /// # Errors
    ///
    /// [`SpawnError::NoStack`] if there is no stack for it. `body` was dropped.
    #[track_caller]
    pub fn try_new(body: impl FnOnce() -> T + 'static) -> Result<Self, SpawnError> {
        let mut body = Self::new(body);
        body.begin()?;
        Ok(body)
    }
}

impl<T> Coroutine<T> {
    /// Returns the body, with a stack.
    fn begin(&mut self) -> Result<&HandledBody, SpawnError> {
        if let CoroutineState::Fresh(..) = self.state {
            let reserved = reserve()?;
            if let CoroutineState::Fresh(body, made_at) =
                std::mem::replace(&mut self.state, CoroutineState::Ended)
            {
                self.state = CoroutineState::Begun(HandledBody::new(reserved, made_at, body));
            }
        }
        match &self.state {
            // SAFETY: this coroutine alone owns it, and frees it.
            CoroutineState::Begun(core) => Ok(unsafe { core.as_ref() }),
            CoroutineState::Fresh(..) | CoroutineState::Ended => {
                unreachable!("it has begun, and a coroutine that has ended is given to no handler")
            }
        }
    }

    /// Frees the stack of a body that has ended, or that has not begun.
    fn clear_away(&mut self) {
        if let CoroutineState::Begun(core) = std::mem::replace(&mut self.state, CoroutineState::Ended) {
            // SAFETY: made by `HandledBody::new`, in a box, which this coroutine owns; the body does not run.
            drop(unsafe { Box::from_raw(core.as_ptr()) });
        }
    }

    /// Unwinds the body, if it has begun. Returns the payload if the body panics meanwhile.
    fn unwind(&mut self) -> Option<Box<dyn Any + Send>> {
        let CoroutineState::Begun(core) = self.state else {
            return None;
        };
        // SAFETY: this coroutine alone owns it.
        if !unsafe { core.as_ref() }.has_begun() {
            // There is nothing to unwind: the stack drops the closure.
            self.clear_away();
            return None;
        }
        // SAFETY: as above.
        if !unsafe { core.as_ref() }.unwind() {
            self.state = CoroutineState::Ended;
            return None;
        }
        self.clear_away();
        let ended = self.outcome.take().and_then(Result::err);
        ended.filter(|payload| !payload.is::<Discontinued>())
    }
}

impl<T> Drop for Coroutine<T> {
    fn drop(&mut self) {
        // The panic hook has reported the panic, and a destructor should not unwind.
        drop(self.unwind());
    }
}

/// Takes a stack of the pool whose thread this is, or else of the process.
fn reserve() -> Result<Reserved, SpawnError> {
    static OUTSIDE: OnceLock<Arc<Stacks>> = OnceLock::new();
    let new = || Arc::new(Stacks::new(USUAL_BYTES, usize::MAX));
    let taken = if let Some(context) = stack_context::here() {
        context.fibers().reserve()
    } else if cfg!(any(warpweft_loom, warpweft_shuttle)) {
        // Stacks that a model has made end with the model.
        new().reserve()
    } else {
        OUTSIDE.get_or_init(new).reserve()
    };
    taken.map_err(|_| SpawnError::NoStack)
}

/// The rest of a body that performed `E`. It waits for its answer, and gets at most one.
///
/// It stays on its thread. If it is dropped without an answer, it is [discontinued](Self::discontinue). If it
/// is leaked (`mem::forget`), it keeps its stack and everything on it for ever.
#[must_use = "dropped, the body is unwound"]
pub struct Continuation<E: Effect, T> {
    body: Coroutine<T>,
    exchange: NonNull<Exchange<E>>,
}

impl<E: Effect, T> fmt::Debug for Continuation<E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Continuation")
            .field("effect", &type_name::<E>())
            .finish_non_exhaustive()
    }
}

impl<E: Effect, T> Continuation<E, T> {
    /// Answers the effect. The body continues when a handler runs the coroutine: at once, if the clause
    /// returns it.
    pub fn resume(self, answer: E::Answer) -> Coroutine<T> {
        // SAFETY: the exchange is in the frame of `perform`, which is suspended as long as the coroutine is.
        unsafe { self.exchange.as_ref() }.answer.set(Some(answer));
        self.body
    }

    /// Unwinds the body here and now: `perform` unwinds with [`Discontinued`], so that destructors run. A
    /// body that catches the unwinding and performs again is unwound again.
    ///
    /// # Panics
    ///
    /// If the body panics meanwhile, with its payload.
    pub fn discontinue(mut self) {
        if let Some(payload) = self.body.unwind() {
            resume_unwind(payload);
        }
    }
}

/// The result of a clause: what the handler does next.
#[derive(Debug)]
pub enum Next<T, R> {
    /// The handler runs this, usually the continuation with its answer.
    Run(Coroutine<T>),
    /// [`Handler::run`] returns this. The continuation was kept for later, or dropped.
    Leave(R),
}

impl<T, R> From<Coroutine<T>> for Next<T, R> {
    fn from(body: Coroutine<T>) -> Self {
        Self::Run(body)
    }
}

impl<T> From<()> for Next<T, ()> {
    fn from((): ()) -> Self {
        Self::Leave(())
    }
}

type Clause<'h, T, R> = Box<dyn FnMut(NonNull<()>, Coroutine<T>) -> Next<T, R> + 'h>;

/// A set of clauses, one for each type of effect that it handles. See the [module](super).
#[must_use = "a handler does nothing until it runs something"]
pub struct Handler<'h, T, R = T> {
    /// The effect types of the clauses, in order.
    types: Vec<TypeId>,
    clauses: Vec<Clause<'h, T, R>>,
    returned: Box<dyn FnMut(T) -> R + 'h>,
}

impl<T, R> fmt::Debug for Handler<'_, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler")
            .field("clauses", &self.types.len())
            .finish_non_exhaustive()
    }
}

impl<T> Default for Handler<'_, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Handler<'_, T> {
    /// Returns a handler without clauses, whose result is the body's.
    pub fn new() -> Self {
        Self::returning(|value| value)
    }
}

impl<'h, T, R> Handler<'h, T, R> {
    /// Returns a handler without clauses, which converts the body's result.
    pub fn returning(returned: impl FnMut(T) -> R + 'h) -> Self {
        Self {
            types: Vec::new(),
            clauses: Vec::new(),
            returned: Box::new(returned),
        }
    }

    /// Adds a clause for `E`. Of several clauses for one type the first counts.
    ///
    /// The clause runs on the stack of the caller of [`run`](Self::run), while the body is suspended.
    pub fn on<E: Effect, N: Into<Next<T, R>>>(
        mut self,
        mut clause: impl FnMut(E, Continuation<E, T>) -> N + 'h,
    ) -> Self {
        self.types.push(TypeId::of::<E>());
        self.clauses.push(Box::new(move |exchange, body| {
            let exchange = exchange.cast::<Exchange<E>>();
            // SAFETY: the clause's type is that of the effect, so `perform::<E>` made the exchange; that
            // frame is suspended.
            let Some(effect) = unsafe { exchange.as_ref() }.effect.take() else {
                unreachable!("an effect is given once")
            };
            clause(effect, Continuation { body, exchange }).into()
        }));
        self
    }

    /// Runs a body under this handler until it has returned or a clause leaves the handler.
    ///
    /// # Panics
    ///
    /// - If the body or a clause panics.
    /// - If there is no stack for a body that has not begun: [`Coroutine::try_new`] returns an error instead.
    /// - If the body has a stack, and this thread has left the pool in which it was when the body got it, or
    ///   has entered one since. The body is then leaked, if it has begun.
    pub fn run(&mut self, body: Coroutine<T>) -> R {
        let mut body = body;
        loop {
            let request = match body.begin() {
                Ok(core) => core.run(&self.types, Input::Go),
                Err(error) => panic!("a handled body: {error}"),
            };
            let Some(request) = request else {
                body.clear_away();
                return match body.outcome.take() {
                    Some(Ok(value)) => (self.returned)(value),
                    Some(Err(payload)) => resume_unwind(payload),
                    None => unreachable!("a body that has ended has an outcome"),
                };
            };
            match self.clauses[request.clause](request.exchange, body) {
                Next::Run(next) => body = next,
                Next::Leave(result) => return result,
            }
        }
    }
}

/// Runs `body` on a separate stack under `handler`, which handles effects that no handler in between handles.
///
/// ```
/// use warpweft::effect::{Effect, Handler, handle, perform};
///
/// struct Ask;
/// impl Effect for Ask {
///     type Answer = u32;
/// }
///
/// let mut next = 40;
/// let sum = handle(
///     || perform(Ask) + perform(Ask),
///     Handler::new().on(|Ask, k| {
///         next += 1;
///         k.resume(next)
///     }),
/// );
/// assert_eq!(sum, 83);
/// ```
///
/// # Panics
///
/// As [`Handler::run`].
#[track_caller]
pub fn handle<T: 'static, R>(body: impl FnOnce() -> T + 'static, mut handler: Handler<'_, T, R>) -> R {
    handler.run(Coroutine::new(body))
}
