//! The stack of one handled body, and the switches to and from it.
//!
//! ```text
//!   thread's own, or a fiber's     handler runs b1       handler in b1 runs b2
//!   ┌──────────────┐               ┌──────────────┐       ┌──────────────┐
//!   │ Handler::run │ ── run ─────▶ │ b1 … run     │ ────▶ │ b2 … perform │
//!   └──────────────┘               └──────────────┘       └──────────────┘
//!          ▲            outer ◀────                outer ◀───    │
//!          └───── an effect that only the first handler has: one switch, b1 and b2 are suspended together
//! ```
//!
//! # Invariants
//!
//! - One thread owns everything here. A stack that is not running has nothing latent in its fork list.
//! - `types`, `outer`, `carried`, `uncooperative_below` and the stack context's host describe the present
//!   run. While the body is suspended, no code reads them.
//! - A body runs only while its thread belongs to the pool, or to none, as when the body was made.
//! - A suspended body is resumed or unwound, or its memory stays for ever, and so does that of its pool.

use super::Discontinued;
use crate::coroutine::Input;
use crate::coroutine::overflow::Label;
use crate::coroutine::stack::{Reserved, StackPermit};
use crate::coroutine::switch::{RawCoroutine, Switch};
use crate::execution::bodies;
use crate::execution::body_link::{self, BodyLink};
use crate::execution::stack_context::{self, StackContext};
use crate::execution::token::{self, OutsideStack};
use crate::observe::spans::LeftSpans;
use crate::pool::current;
use crate::pool::current::WorkerRef;
use crate::threads::thread_handle::ThreadHandle;
use std::any::TypeId;
use std::cell::{Cell, UnsafeCell};
use std::panic::{Location, resume_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use warpweft_platform::thread::panicking;

/// What a body gave its handler: the index of the clause, and the address of the effect.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) clause: usize,
    pub(crate) exchange: NonNull<()>,
}

/// `repr(C)`: a pointer to the link is a pointer to the body.
#[repr(C)]
pub(crate) struct HandledBody {
    link: BodyLink,
    /// `None` on a thread of no pool.
    context: Option<StackContext>,
    /// The right to use its stack.
    _permit: StackPermit,
    /// `Some` from the first run to the end; touched by `run` alone.
    coroutine: UnsafeCell<Option<RawCoroutine>>,
    switch: Cell<*const Switch>,
    /// The types that the handler of this run handles.
    types: Cell<*const [TypeId]>,
    /// True if its runner had a worker.
    carried: Cell<bool>,
    /// On a thread of no pool: the number of uncooperative calls on the stacks below.
    uncooperative_below: Cell<u32>,
    request: Cell<Option<Request>>,
    discontinued: Cell<bool>,
    /// The thread of a pool to which it belongs; `None` on a thread of no pool. The last field: its stack and
    /// its context are of this pool, which it keeps, also if it is leaked.
    thread: Option<Arc<ThreadHandle>>,
}

/// Iterates over the handled bodies that run here, innermost first.
fn chain<'run>() -> impl Iterator<Item = &'run HandledBody> {
    // SAFETY: each link is the first field of a handled body, which is `repr(C)`, and was made from a pointer
    // to the whole body.
    bodies::chain().map(|link| unsafe { &*ptr::from_ref(link).cast::<HandledBody>() })
}

/// Returns the pool that this thread has entered in addition to its own.
fn visited_here() -> Option<*const WorkerRef> {
    let worker_ref = current::get();
    (worker_ref != bodies::found_here()).then_some(worker_ref)
}

/// Suspends the bodies up to the one whose runner handles that type, until they are resumed.
///
/// # Panics
///
/// No runner handles it; or the thread is panicking; or a hook of a policy is on the stack, or a closure in
/// `blocking` that does not contain the handler.
pub(crate) fn suspend(effect: TypeId, name: &'static str, exchange: NonNull<()>) {
    assert!(
        !panicking(),
        "the effect {name} cannot be performed while the thread panics: nothing is suspended then"
    );
    assert!(
        !stack_context::here().is_some_and(StackContext::is_in_policy),
        "a hook of a policy cannot perform an effect"
    );
    for body in chain() {
        if body.discontinued.get() {
            // The body has caught the unwinding, and continues.
            resume_unwind(Box::new(Discontinued(())));
        }
        // SAFETY: the types belong to the handler that runs the body, whose frame waits for it.
        let types = unsafe { &*body.types.get() };
        if let Some(clause) = types.iter().position(|of| *of == effect) {
            assert!(
                !body.has_lost_its_worker(),
                "the effect {name} cannot be performed inside `blocking`: its handler's task needs the worker"
            );
            body.request.set(Some(Request { clause, exchange }));
            return body.switch_away();
        }
    }
    panic!("no handler for the effect {name} on this stack: see warpweft::effect::handle");
}

impl HandledBody {
    /// Makes a body with a stack, in a box. The first run calls `body`, which does not unwind.
    pub(crate) fn new(
        reserved: Reserved,
        made_at: &'static Location<'static>,
        body: impl FnOnce() + 'static,
    ) -> NonNull<Self> {
        bodies::watch_overflows();
        let Reserved { stack, permit } = reserved;
        let label = Label::of("handled body", &stack);
        label.write_location(made_at);
        let mut this = Box::<Self>::new_uninit();
        let place = this.as_mut_ptr();
        // It may continue where another token counts, or none.
        let node = token::inherited();
        let begin = move |switch: &Switch| {
            // SAFETY: the caller of `run` keeps the body alive.
            unsafe { &*place }.begin(switch);
            token::with_token(node.as_ref(), body);
        };
        this.write(Self {
            link: BodyLink::new(label),
            context: stack_context::here().map(|here| here.of_body(place.cast_const().cast())),
            // SAFETY: it borrows the body, which outlives it; by contract it does not unwind.
            coroutine: UnsafeCell::new(Some(unsafe { RawCoroutine::new(stack, begin) })),
            switch: Cell::new(ptr::null()),
            types: Cell::new(&[]),
            _permit: permit,
            carried: Cell::new(false),
            uncooperative_below: Cell::new(0),
            request: Cell::new(None),
            discontinued: Cell::new(false),
            thread: stack_context::here().map(|here| Arc::clone(here.thread_handle())),
        });
        let raw = Box::into_raw(this).cast::<Self>();
        NonNull::new(raw).unwrap_or_else(|| unreachable!("a box"))
    }

    /// Returns a pointer that is valid for the whole body.
    fn link(&self) -> *const BodyLink {
        ptr::from_ref(self).cast()
    }

    fn begin(&self, switch: &Switch) {
        self.switch.set(switch);
        match &self.context {
            Some(context) => {
                context.begin();
                context.make_current();
            }
            None => {
                body_link::set_outside(self.link());
                // A frame of the body must not lead to those of its first runner, which may end before it.
                token::set_outside_frame(ptr::null());
            }
        }
        current::set(bodies::found_here());
    }

    /// Runs it until it has ended, or performs an effect of one of these types, which is returned.
    ///
    /// # Panics
    ///
    /// The thread has left the pool to which the body belongs, or has entered one.
    pub(crate) fn run(&self, types: &[TypeId], input: Input) -> Option<Request> {
        assert!(
            self.is_in_own_pool(),
            "a handled body can only continue in the pool in which its thread was when it began, or in none if \
             it was in none"
        );
        let host = stack_context::here();
        let (outer, before) = (bodies::innermost(), visited_here());
        self.types.set(types);
        self.link.outer.set(outer);
        self.link.entered.set(before.unwrap_or(ptr::null()));
        if let (Some(context), Some(host)) = (&self.context, host) {
            host.promote_forks_of_stack();
            context.set_host(host);
            self.carried.set(host.worker_ref().is_some());
        }
        let spans = LeftSpans::leave();
        // SAFETY: it changes only below, when the body has ended.
        let coroutine = unsafe { &*self.coroutine.get() };
        let outside = token::outside();
        self.uncooperative_below.set(outside.uncooperative);
        let ended = coroutine.as_ref().is_none_or(|coroutine| coroutine.resume(input));
        match (&self.context, host) {
            (Some(context), Some(host)) => host.resume_from(context),
            _ => {
                body_link::set_outside(outer);
                // The runner may have been moved meanwhile, together with this body.
                let uncooperative = self.uncooperative_below.get();
                token::set_outside(OutsideStack {
                    uncooperative,
                    ..outside
                });
            }
        }
        current::set(before.unwrap_or_else(bodies::found_here));
        spans.come_back();
        // SAFETY: the caller owns the body, which does not run.
        if let Some(coroutine) = unsafe { &mut *self.coroutine.get() }.take_if(|_| ended) {
            let stack = coroutine.into_stack();
            if let Some(host) = host {
                host.fibers().put_stack(stack);
            }
        }
        self.request.take()
    }

    /// Returns true if `blocking` released the worker on top of this body. Its runner needs one: a task must
    /// not end without a worker, unless the pool ends.
    fn has_lost_its_worker(&self) -> bool {
        let lost = |here: &StackContext| {
            let pool = here.fibers().pool();
            here.worker_ref().is_none() && !pool.is_closing() && !pool.is_in_forked_child()
        };
        self.carried.get() && stack_context::here().is_some_and(lost)
    }

    /// Switches from this body's stack, and from those of the bodies on top of it, to the runner.
    fn switch_away(&self) {
        let spans = LeftSpans::leave();
        let (top, before) = (bodies::innermost(), visited_here());
        let (mut outside, below) = (token::outside(), self.uncooperative_below.get());
        // SAFETY: the switch is at the base of this body's stack, and was set when it began.
        let switch = unsafe { &*self.switch.get() };
        let input = match (&self.context, stack_context::here()) {
            (Some(context), Some(here)) => {
                here.promote_forks_of_stack();
                context.leave(|| switch.suspend(()))
            }
            _ => {
                let input = switch.suspend(());
                body_link::set_outside(top);
                // The calls on these stacks, and those on the stacks that they run on top of now.
                let moved = self.uncooperative_below.get().wrapping_sub(below);
                outside.uncooperative = outside.uncooperative.wrapping_add(moved);
                token::set_outside(outside);
                input
            }
        };
        self.refresh_on_top(below);
        current::set(before.unwrap_or_else(bodies::found_here));
        spans.come_back();
        if input == Input::Unwind {
            resume_unwind(Box::new(Discontinued(())));
        }
    }

    /// Updates the bodies on top of this one, which continue with it, by what is below their runners now. It
    /// had `below` uncooperative calls below it when it was left.
    fn refresh_on_top(&self, below: u32) {
        let moved = self.uncooperative_below.get().wrapping_sub(below);
        for body in chain().take_while(|body| !ptr::eq(*body, self)) {
            body.carried.set(self.carried.get());
            let below = body.uncooperative_below.get().wrapping_add(moved);
            body.uncooperative_below.set(below);
        }
    }

    /// Returns true if the thread belongs to the same pool as when the body was made, which the frames
    /// require. In destructors of thread-locals it belongs to none. A thread that has left a pool and entered
    /// it again has another handle, and other fibers.
    fn is_in_own_pool(&self) -> bool {
        let here = stack_context::here().map(StackContext::thread_handle);
        // The body has a share of its handle, so no other one has the same address.
        here.map(Arc::as_ptr) == self.thread.as_ref().map(Arc::as_ptr)
    }

    /// Returns true once its closure was called.
    pub(crate) fn has_begun(&self) -> bool {
        !self.switch.get().is_null()
    }

    /// Unwinds a suspended body. Returns false if that is not possible any more.
    pub(crate) fn unwind(&self) -> bool {
        if !self.is_in_own_pool() {
            return false;
        }
        self.discontinued.set(true);
        let request = self.run(&[], Input::Unwind);
        debug_assert!(request.is_none(), "who is discontinued suspends no more");
        true
    }
}
