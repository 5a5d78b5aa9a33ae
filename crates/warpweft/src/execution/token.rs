//! The cancellation token that is in force on a stack, and how the stack unwinds when it is cancelled.
//!
//! A frame of a stack sets the token for what is called from it. Forks, jobs and tasks that are made there
//! have that token, too, and enter their own frame where they run. The stack looks at the token where it
//! forks, waits, yields, and at the checks of cooperative code. If the token is cancelled, it unwinds with
//! [`Cancelled`] as the payload, up to the frame that set the token.
//!
//! # Invariants
//!
//! - A frame keeps its node, or another frame does that waits for the code in it.
//! - No stack unwinds for its token while it panics, in a hook of a policy, in uncooperative code, or where a
//!   frame must not be left.
//! - What a frame makes and waits for that could not unwind has no token: forks, scopes and calls in other
//!   pools, in a destructor while the thread panics, or in uncooperative code. Nor has anything else that is
//!   made while the thread panics.

use super::fiber::Fiber;
use super::stack_context::{StackContext, here};
use crate::cancel_tree::node::Node;
use crate::fork::token_frame::TokenFrame;
use crate::pool::panics::Outcome;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::Arc;
use warpweft_platform::clock;
use warpweft_platform::thread::panicking;
use warpweft_platform::thread_word;
use warpweft_task::Cancelled;

/// True if a cancellation unwinds stacks. Otherwise they see it when they ask.
pub(crate) const UNWINDS: bool = cfg!(panic = "unwind");

// The youngest frame of a thread that belongs to no pool.
thread_word!(static OUTSIDE: *const TokenFrame = ptr::null());

// How many uncooperative calls a thread of no pool is in. Elsewhere the stack context counts them.
thread_word!(static UNCOOPERATIVE: u32 = 0);

/// What belongs to the stack that runs on a thread of no pool. Elsewhere the stack context has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutsideStack {
    /// The youngest frame with a token.
    pub(crate) frame: *const TokenFrame,
    /// The number of uncooperative calls on the stack, and on those that it runs on top of.
    pub(crate) uncooperative: u32,
}

/// Returns what a thread that belongs to no pool has of its stack, for code that is about to switch stacks
/// there.
pub(crate) fn outside() -> OutsideStack {
    OutsideStack {
        frame: OUTSIDE.with(Cell::get),
        uncooperative: UNCOOPERATIVE.with(Cell::get),
    }
}

/// Sets what a thread that belongs to no pool has of its stack, behind a switch of stacks.
pub(crate) fn set_outside(stack: OutsideStack) {
    set_outside_frame(stack.frame);
    UNCOOPERATIVE.with(|calls| calls.set(stack.uncooperative));
}

/// Sets the youngest frame of a thread that belongs to no pool.
pub(crate) fn set_outside_frame(frame: *const TokenFrame) {
    OUTSIDE.with(|outside| outside.set(frame));
}

/// Says whether this process has ever set a token, so that spawning costs one look at a word until then.
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
mod used {
    use super::super::token_wait::WAIT_UNDER_TOKEN;
    use warpweft_platform::atomic::{AtomicBool, Ordering};
    use warpweft_task::set_stoppable_wait;

    static USED: AtomicBool = AtomicBool::new(false);

    #[inline]
    pub(super) fn get() -> bool {
        // Ordering: Relaxed; a thread that has a token has set it, or was given its task by one that had.
        USED.load(Ordering::Relaxed)
    }

    pub(super) fn set() {
        if !get() {
            set_stoppable_wait(&WAIT_UNDER_TOKEN);
            USED.store(true, Ordering::Relaxed);
        }
    }
}

/// The models have no statics that outlive a schedule.
#[cfg(any(warpweft_loom, warpweft_shuttle))]
mod used {
    use super::super::token_wait::WAIT_UNDER_TOKEN;
    use warpweft_task::set_stoppable_wait;

    pub(super) fn get() -> bool {
        true
    }

    pub(super) fn set() {
        set_stoppable_wait(&WAIT_UNDER_TOKEN);
    }
}

/// Returns the frame that decides which token counts on the calling stack; null if there is none.
fn frame_here() -> *const TokenFrame {
    here().map_or_else(
        || OUTSIDE.with(Cell::get),
        |context| context.forks().token_frame(),
    )
}

/// Returns the token that counts on the calling stack; null if there is none.
fn token_here() -> *const Node {
    // SAFETY: null, or a frame of this stack that was entered and not left.
    unsafe { frame_here().as_ref() }.map_or(ptr::null(), |frame| frame.node)
}

/// Returns the token that what is spawned here inherits.
#[inline]
pub(crate) fn inherited() -> Option<Arc<Node>> {
    if used::get() { current() } else { None }
}

/// Returns the token that counts on the calling stack for what is made there.
#[cold]
#[inline(never)]
pub(crate) fn current() -> Option<Arc<Node>> {
    if panicking() {
        return None;
    }
    // SAFETY: the node of a frame of this stack is there.
    unsafe { shared(token_here()) }
}

/// Returns a share of the node; `None` if it is null.
///
/// # Safety
///
/// The node is there, and came from an `Arc`.
pub(crate) unsafe fn shared(node: *const Node) -> Option<Arc<Node>> {
    if node.is_null() {
        return None;
    }
    // SAFETY: by contract.
    unsafe { Arc::increment_strong_count(node) };
    // SAFETY: as above; the share was taken just now.
    Some(unsafe { Arc::from_raw(node) })
}

/// Returns true if a token counts here, and it is cancelled, or is by now.
pub(crate) fn is_cancelled() -> bool {
    // SAFETY: as in `current`.
    used::get() && unsafe { is_over(token_here(), clock::now_ns) }
}

/// Returns true if the node is cancelled. It may become so by the clock: where all workers compute, no worker
/// looks at the timers. `now_ns` is called for a deadline; 0 stands for no look at the clock.
///
/// # Safety
///
/// The node is null, or is there and came from an `Arc`.
unsafe fn is_over(node: *const Node, now_ns: impl FnOnce() -> u64) -> bool {
    // SAFETY: by contract.
    let Some(there) = (unsafe { node.as_ref() }) else {
        return false;
    };
    if there.is_cancelled() {
        return true;
    }
    let deadline_ns = there.limits().deadline_ns;
    if deadline_ns == u64::MAX {
        return false;
    }
    let now_ns = now_ns();
    if now_ns < deadline_ns {
        return false;
    }
    // SAFETY: by contract.
    let node = unsafe { shared(node) };
    let cancel = || node.inspect(|node| node.cancel_due(now_ns));
    // Unwind: a waker has panicked, which the panic hook has reported. A fork must not be left here.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(cancel)) {
        std::mem::forget(payload);
    }
    true
}

/// Unwinds up to the frame of the token.
#[cold]
#[inline(never)]
pub(crate) fn unwind() -> ! {
    resume_unwind(Box::new(Cancelled))
}

/// Unwinds if the token that counts here is cancelled, and the stack may be unwound.
pub(crate) fn check() {
    let stops = match here() {
        Some(context) => context.is_stopped(),
        None => is_cancelled() && may_stop_thread(),
    };
    if stops {
        unwind();
    }
}

/// An uncooperative call on the calling stack, until it is dropped there. It ends where it was counted, also
/// if the thread has entered or left a pool meanwhile.
pub(crate) struct UncooperativeCall<'stack>(Option<&'stack StackContext>);

impl UncooperativeCall<'_> {
    pub(crate) fn begin() -> Self {
        let call = Self(here());
        call.count(1);
        call
    }

    fn count(&self, more: i32) {
        let add = |calls: &Cell<u32>| calls.set(calls.get().wrapping_add_signed(more));
        match self.0 {
            Some(context) => add(context.uncooperative()),
            None => UNCOOPERATIVE.with(add),
        }
    }
}

impl Drop for UncooperativeCall<'_> {
    fn drop(&mut self) {
        self.count(-1);
    }
}

/// Calls `f`, which makes what this frame waits for: under no token, if the frame could not unwind.
pub(crate) fn for_frame<R>(f: impl FnOnce() -> R) -> R {
    if !UNWINDS || may_stop_thread() {
        f()
    } else {
        with_token(None, f)
    }
}

impl StackContext {
    /// Returns the token that counts on this stack; null if there is none.
    pub(crate) fn cancel_token(&self) -> *const Node {
        self.forks().token()
    }

    /// Returns the token of the jobs of a scope that is opened on this stack; null if they have none.
    pub(crate) fn token_of_jobs(&self) -> *const Node {
        let token = self.cancel_token();
        if !token.is_null() && !self.may_be_stopped() {
            return ptr::null();
        }
        token
    }

    /// Returns true if the token that counts here is cancelled, and the stack may be unwound.
    pub(crate) fn is_stopped(&self) -> bool {
        // SAFETY: the node of a frame of this stack is there.
        let is_over = unsafe { is_over(self.cancel_token(), clock::now_ns) };
        is_over && UNWINDS && self.may_be_stopped()
    }

    /// The same, for what is called often: it looks at the clock now and then.
    pub(crate) fn is_stopped_at_fork(&self) -> bool {
        let now_ns = || self.forks().now_and_then_ns(clock::now_ns);
        // SAFETY: the node of a frame of this stack is there.
        let is_over = unsafe { is_over(self.cancel_token(), now_ns) };
        is_over && UNWINDS && self.may_be_stopped()
    }

    /// Returns true if code on this stack may switch or be unwound at a check.
    pub(crate) fn may_act(&self) -> bool {
        !self.is_uncooperative() && !self.keeps_worker() && !panicking()
    }

    pub(super) fn may_be_stopped(&self) -> bool {
        self.may_act() && !self.fiber().is_some_and(Fiber::is_held)
    }

    /// Prepares a wait of `fiber` on this stack: a cancellation of the token notifies it. Unwinds if that has
    /// happened. Returns a registration that the caller ends, if the frame does not keep it.
    pub(crate) fn begin_wait(&self, fiber: &Fiber) -> Option<WaitUnder> {
        // SAFETY: the node of a frame of this stack is there.
        let node = unsafe { self.cancel_token().as_ref() }?;
        // SAFETY: null, or a frame that was entered and not left.
        let frame = unsafe { self.forks().token_frame().as_ref() };
        let enter = || node.insert_waker((*fiber.waker()).clone());
        // A handled body may continue on another fiber, so its registration ends with the wait.
        let under = match frame.filter(|_| self.own_fiber().is_some()) {
            Some(frame) if frame.place.get().is_some() => None,
            Some(frame) => {
                frame.place.set(enter());
                None
            }
            None => enter().map(|place| WaitUnder { node, place }),
        };
        // After the waker has entered: a cancellation from here on notifies the fiber.
        if self.is_stopped() {
            unwind();
        }
        under
    }
}

/// A waker in a node, for one wait.
pub(crate) struct WaitUnder {
    node: *const Node,
    place: usize,
}

impl Drop for WaitUnder {
    fn drop(&mut self) {
        // SAFETY: the node of a frame of the stack that waited is there until after the wait.
        unsafe { &*self.node }.remove_waker(self.place);
    }
}

/// A frame on the calling stack, until it is dropped.
struct EnteredFrame<'a> {
    context: Option<&'a StackContext>,
    frame: &'a TokenFrame,
    outside: *const TokenFrame,
}

impl<'a> EnteredFrame<'a> {
    /// # Safety
    ///
    /// The node of the frame is there until the value is dropped, on this stack and in reverse order.
    #[inline(never)]
    unsafe fn new(frame: &'a TokenFrame) -> Self {
        used::set();
        let context = here();
        let mut outside = ptr::null();
        match context {
            Some(context) => {
                // SAFETY: by contract; the frame is borrowed for as long.
                unsafe { context.forks().enter_token(frame) };
                context.note_token();
            }
            None => outside = OUTSIDE.with(|outside| outside.replace(frame)),
        }
        Self {
            context,
            frame,
            outside,
        }
    }
}

impl Drop for EnteredFrame<'_> {
    #[inline(never)]
    fn drop(&mut self) {
        let Some(context) = self.context else {
            // SAFETY: null, or a frame that was entered and not left.
            if let Some(before) = unsafe { self.outside.as_ref() }.filter(|_| self.frame.listens.get()) {
                before.listens.set(true);
            }
            return set_outside_frame(self.outside);
        };
        if let Some(place) = self.frame.place.take() {
            // SAFETY: by the contract of `new`.
            unsafe { &*self.frame.node }.remove_waker(place);
        }
        context.forks().leave_token(self.frame);
        context.note_token();
    }
}

impl StackContext {
    /// Sets whether the waits of the fiber that owns this stack must look at a token.
    fn note_token(&self) {
        if let Some(fiber) = self.own_fiber() {
            fiber.set_under_token(!self.cancel_token().is_null());
        }
    }
}

/// Calls `f` under that token; with `None` under no token.
pub(crate) fn with_token<R>(node: Option<&Arc<Node>>, f: impl FnOnce() -> R) -> R {
    let node = node.map_or(ptr::null(), Arc::as_ptr);
    // SAFETY: the node is borrowed for as long as the call.
    unsafe { with_raw_token(node, f) }
}

/// Calls `f` under that token; under none if it is null.
///
/// # Safety
///
/// The node is there until `f` has returned, and came from an `Arc`.
pub(crate) unsafe fn with_raw_token<R>(node: *const Node, f: impl FnOnce() -> R) -> R {
    if ptr::eq(node, token_here()) {
        return f();
    }
    let frame = TokenFrame::new(node);
    // SAFETY: by contract. The value is dropped at the end of this function, on the stack of the caller.
    let _entered = unsafe { EnteredFrame::new(&frame) };
    f()
}

/// Calls `f` under that token, if there is one. Also returns whether `f` has waited for a cancellation
/// itself; `None` without a token.
///
/// There is one call of `f`, with a token and without. So the compiler inlines what is called once,
/// however long it is.
#[inline]
pub(crate) fn call_under<R>(node: Option<&Arc<Node>>, f: impl FnOnce() -> R) -> (R, Option<bool>) {
    let frame;
    let entered = match node {
        None => None,
        Some(node) => {
            frame = TokenFrame::new(Arc::as_ptr(node));
            // SAFETY: the node is borrowed for as long as the call. The value is dropped below, on the same
            // stack.
            Some(unsafe { EnteredFrame::new(&frame) })
        }
    };
    let result = f();
    let listens = entered.map(|entered| entered.frame.listens.get());
    (result, listens)
}

/// Notes that the code that runs here waits for a cancellation.
pub(crate) fn note_listening() {
    // SAFETY: null, or a frame of this stack that was entered and not left.
    unsafe { frame_here().as_ref() }.inspect(|frame| frame.listens.set(true));
}

/// Calls `f`, which was made under that token, or drops it and unwinds if the token is cancelled. Without a
/// token `f` is just called: see [`call_under`].
#[inline]
pub(crate) fn start<R>(node: Option<Arc<Node>>, f: impl FnOnce() -> R) -> R {
    let frame;
    let mut _entered = None;
    if let Some(node) = node {
        if UNWINDS && node.is_cancelled() {
            drop(f);
            unwind();
        }
        frame = TokenFrame::new(Arc::as_ptr(&node));
        // SAFETY: the value is dropped with the node, and before it, at the end of this function.
        _entered = Some((unsafe { EnteredFrame::new(&frame) }, node));
    }
    f()
}

/// As [`start`], but drops `f` if the token is cancelled, and ends.
pub(crate) fn start_or_drop(node: &Arc<Node>, f: impl FnOnce()) {
    // Looked at once: `start` would unwind if it were cancelled after this look.
    if !node.is_cancelled() {
        with_token(Some(node), f);
    }
}

/// Returns true if what was made under that token must not start.
///
/// # Safety
///
/// The node is null or there.
#[inline]
pub(crate) unsafe fn never_starts(node: *const Node) -> bool {
    // SAFETY: by contract.
    UNWINDS && unsafe { node.as_ref() }.is_some_and(Node::is_cancelled)
}

/// Drops a body that never starts. It is not unwound, because there may be many.
#[cold]
#[inline(never)]
pub(crate) fn drop_unstarted<F, R>(body: F) -> Outcome<R> {
    // Unwind: the panic of a destructor is the outcome.
    match catch_unwind(AssertUnwindSafe(|| drop(body))) {
        Ok(()) => Err(Box::new(Cancelled)),
        Err(panic) => Err(panic),
    }
}

/// Returns true if the calling thread's own stack may be unwound now.
pub(crate) fn may_stop_thread() -> bool {
    let outside = || !panicking() && UNCOOPERATIVE.with(Cell::get) == 0;
    UNWINDS && here().map_or_else(outside, StackContext::may_be_stopped)
}
