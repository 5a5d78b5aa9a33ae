//! The context of a stack of a pool's thread: which worker the thread carries, and how the stack waits
//! without keeping that worker.
//!
//! `threads/README.md` has the states of a thread, the reasons and the hand-over.
//!
//! # Invariants
//!
//! - A worker is carried by one thread, or is on its way to one. It changes hands by `Handoff::assign` and
//!   `Handoff::offer` only, and after that the giver does not touch it.
//! - A blocked thread has one runnable, which is registered with the latch that it waits for, is in a queue,
//!   or runs.
//! - A spare thread is reserved before anything is given away.

use super::body_link::BodyLink;
use super::covered::Covered;
use super::fiber::Fiber;
use super::part_of_fork::PartOfFork;
use super::thread_fibers::ThreadFibers;
use crate::coroutine::overflow::Label;
use crate::fork::list::List;
use crate::fork::offer_board::OfferBoard;
use crate::fork::stealable::Stealable;
use crate::pool::current::{self, GaveWay, WorkerRef};
use crate::threads::thread_handle::ThreadHandle;
use std::cell::Cell;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_platform::thread::set_slice;
use warpweft_platform::thread_word;
use warpweft_policy::Count;
use warpweft_task::pool::PoolHeader;
use warpweft_task::{Runnable, set_wait};

/// What a stack of a pool's thread knows: the thread's own stack, a fiber's, or a handled body's.
///
/// `repr(C)`: what a switch of stacks reads comes first, next to each other.
#[repr(C)]
pub(crate) struct StackContext {
    /// The fibers of the thread, shared by all its stacks.
    fibers: NonNull<ThreadFibers>,
    /// The worker that the thread carries; null if none. It is right while the stack runs.
    worker_ref: Cell<*const WorkerRef>,
    /// The fiber that owns this stack; null for the thread's own stack and for a handled body's.
    fiber: *const Fiber,
    /// The context of the stack that runs this one, for a handled body's stack.
    host: Cell<*const Self>,
    /// The latent forks of this stack.
    forks: List,
    /// The offer board of the pool.
    offer_board: NonNull<OfferBoard>,
    /// The handled body that owns this stack.
    body: *const BodyLink,
    /// The number of calls of `uncooperative` on the stack.
    uncooperative: Cell<u32>,
    /// True while a closure in `blocking` runs on the stack, whose frame will need a worker again.
    pub(super) is_away: Cell<bool>,
    /// True while another task runs on the stack, on top of a frame that waits.
    pub(super) is_under_task: Cell<bool>,
    /// The youngest frame that runs a part of another one's join or scope; null if there is none.
    pub(super) covered: Cell<*const Covered>,
    /// The youngest one that a wait on the stack shows, with the older ones; null if there is none.
    pub(super) visible: Cell<*const Covered>,
    /// The youngest frame that runs a part of its own fork while it waits for that, or null.
    pub(super) part: Cell<*const PartOfFork>,
    /// The youngest frame that ends tasks of a closed pool, or null: see `late_end.rs`.
    pub(super) late_end: Cell<*const ()>,
}

impl fmt::Debug for StackContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let worker = self.worker_ref().and_then(|worker_ref| worker_ref.worker);
        f.debug_struct("StackContext")
            .field("worker", &worker)
            .finish_non_exhaustive()
    }
}

thread_word!(static STACK_CONTEXT: *const StackContext = std::ptr::null());

/// Calls `f` with this thread's stack context, if it is a thread of a pool.
pub(crate) fn with_stack_context<R>(f: impl FnOnce(Option<&StackContext>) -> R) -> R {
    f(here())
}

/// Returns this thread's stack context, if it is a thread of a pool. It must not be kept beyond the task that
/// asks.
#[inline]
pub(crate) fn here<'task>() -> Option<&'task StackContext> {
    let context = STACK_CONTEXT.with(Cell::get);
    // SAFETY: the pointer is null, or `StackContext::enter_thread` set it, which resets it after the last
    // task and before the context is dropped.
    unsafe { context.as_ref() }
}

impl StackContext {
    /// Creates a context for the stack of `fiber`, or for the thread's own.
    ///
    /// # Safety
    ///
    /// `fibers` belongs to the calling thread, and stays where it is for longer than the stack context; so
    /// does the fiber.
    pub(crate) unsafe fn new(fibers: NonNull<ThreadFibers>, fiber: *const Fiber) -> Self {
        // SAFETY: by contract.
        let offer_board = NonNull::from(&unsafe { fibers.as_ref() }.pool().core().offer_board);
        Self {
            fibers,
            worker_ref: Cell::new(std::ptr::null()),
            offer_board,
            forks: List::new(),
            fiber,
            body: std::ptr::null(),
            host: Cell::new(std::ptr::null()),
            uncooperative: Cell::new(0),
            covered: Cell::new(std::ptr::null()),
            visible: Cell::new(std::ptr::null()),
            part: Cell::new(std::ptr::null()),
            is_away: Cell::new(false),
            is_under_task: Cell::new(false),
            late_end: Cell::new(std::ptr::null()),
        }
    }

    /// Creates a context for the stack of a handled body of this thread. The stack does not move.
    pub(crate) fn of_body(&self, body: *const BodyLink) -> Self {
        // SAFETY: the thread's stacks share what it has, which is there for longer than any of them.
        let context = unsafe { Self::new(self.fibers, std::ptr::null()) };
        context.host.set(self);
        Self { body, ..context }
    }

    /// Returns what all stacks of the thread share.
    #[inline]
    pub(crate) fn fibers(&self) -> &ThreadFibers {
        // SAFETY: by the contract of `new`.
        unsafe { self.fibers.as_ref() }
    }

    /// Returns this stack, and those that it runs on top of.
    fn stacks(&self) -> impl Iterator<Item = &Self> {
        // SAFETY: null, or the context of the stack that runs `context`'s stack now, so it is there.
        std::iter::successors(Some(self), |context| unsafe { context.host.get().as_ref() })
    }

    /// Returns the count of calls of `uncooperative` on this stack.
    pub(crate) fn uncooperative(&self) -> &Cell<u32> {
        &self.uncooperative
    }

    /// Returns true if there is such a call on this stack, or below it.
    pub(crate) fn is_uncooperative(&self) -> bool {
        self.stacks().any(|context| context.uncooperative.get() > 0)
    }

    /// Returns the fiber that owns this stack, or on top of which it runs.
    #[inline]
    pub(crate) fn fiber(&self) -> Option<&Fiber> {
        if self.host.get().is_null() {
            self.own_fiber()
        } else {
            self.stacks().last().and_then(Self::own_fiber)
        }
    }

    /// Returns the fiber that owns this stack, unless the stack runs on top of another one.
    #[inline]
    pub(crate) fn foot_fiber(&self) -> Option<&Fiber> {
        self.own_fiber().filter(|_| self.host.get().is_null())
    }

    /// Returns the fiber that owns this stack.
    #[inline]
    pub(crate) fn own_fiber(&self) -> Option<&Fiber> {
        // SAFETY: null, or by the contract of `new`.
        unsafe { self.fiber.as_ref() }
    }

    /// Returns the handled body that owns this stack, unless another task runs on top of it; or null.
    pub(crate) fn innermost_body(&self) -> *const BodyLink {
        if self.is_under_task.get() {
            return std::ptr::null();
        }
        self.body
    }

    /// Returns the label of this stack, for reports. The thread's own stack has none.
    pub(crate) fn label(&self) -> Option<&Label> {
        // SAFETY: null, or by the contract of `of_body`'s caller, the owner of the stack context.
        let body = unsafe { self.body.as_ref() }.map(BodyLink::label);
        body.or_else(|| self.own_fiber().map(Fiber::label))
    }

    #[inline]
    pub(crate) fn forks(&self) -> &List {
        &self.forks
    }

    #[inline]
    pub(crate) fn offer_board(&self) -> &OfferBoard {
        // SAFETY: the pool has it, which the thread's fibers keep alive.
        unsafe { self.offer_board.as_ref() }
    }

    /// Makes free functions find this stack context, that of the thread's own stack, until the result is
    /// dropped on this thread.
    pub(crate) fn enter_thread(&self) -> Occupied {
        let before = STACK_CONTEXT.with(Cell::get);
        self.fibers().set_base(self);
        self.begin();
        Occupied { before }
    }

    /// Makes free functions find this stack context on this thread, and wait as it does. Called when a stack
    /// begins.
    pub(crate) fn begin(&self) {
        STACK_CONTEXT.with(|context| context.set(self));
        set_wait(Some(self.fibers().blocking_hooks()));
    }

    /// Prepares this stack, a fiber's, to run: it carries what the thread carried on `base`.
    #[inline]
    pub(crate) fn inherit_worker(&self, base: &Self) {
        self.worker_ref.set(base.worker_ref.get());
        // SAFETY: a fiber's stack context does not move; the offer is that of `base`, whose thread this is.
        unsafe { self.forks.attach(base.forks.offered_at()) };
    }

    /// Makes free functions find this stack and its worker. Called on this stack, when it begins or
    /// continues.
    #[inline]
    pub(crate) fn make_current(&self) {
        STACK_CONTEXT.with(|context| context.set(self));
        current::set(self.found());
    }

    /// Notes that the thread is back on this stack from that of a fiber or of a handled body, and carries
    /// what it carried there.
    #[inline]
    pub(crate) fn resume_from(&self, from: &Self) {
        self.take_over(from);
        self.make_current();
    }

    #[inline]
    fn take_over(&self, from: &Self) {
        self.worker_ref.set(from.worker_ref.replace(std::ptr::null()));
        // SAFETY: the stack context is occupied, so it does not move; the offer is that of the worker that
        // the thread carries.
        unsafe { self.forks.attach(from.forks.offered_at()) };
    }

    /// Prepares a handled body's stack to continue on top of `host`, whose forks are promoted. It carries
    /// what the thread carries.
    pub(crate) fn set_host(&self, host: &Self) {
        self.host.set(host);
        self.inherit_worker(host);
    }

    /// Calls `switch`, which leaves this stack and those of the handled bodies on top of it, and comes back
    /// to the topmost.
    #[allow(
        clippy::inline_always,
        reason = "each return behind a switch of stacks is mispredicted"
    )]
    #[inline(always)]
    pub(crate) fn leave<R>(&self, switch: impl FnOnce() -> R) -> R {
        let top = here().filter(|top| !std::ptr::eq(*top, self));
        top.inspect(|top| self.take_over(top));
        let result = switch();
        top.inspect(|top| top.inherit_worker(self));
        top.unwrap_or(self).make_current();
        result
    }

    pub(crate) fn pool(&self) -> NonNull<PoolHeader> {
        self.fibers().pool().header()
    }

    /// Returns true if it belongs to the pool of `header`.
    pub(crate) fn is_of(&self, header: NonNull<PoolHeader>) -> bool {
        self.pool() == header
    }

    /// Returns true if a hook of the policy is on this thread's stack.
    pub(crate) fn is_in_policy(&self) -> bool {
        self.worker_ref().is_some_and(WorkerRef::is_in_policy)
    }

    /// Returns true if the thread must keep the worker that it carries: a hook of the policy is on its stack,
    /// or a waker that its worker calls.
    pub(crate) fn keeps_worker(&self) -> bool {
        self.is_in_policy() || self.fibers().keeps_worker() && self.worker_ref().is_some()
    }

    #[inline]
    pub(crate) fn thread_handle(&self) -> &Arc<ThreadHandle> {
        self.fibers().thread_handle()
    }

    /// Returns the reference of the worker that the thread carries.
    #[inline]
    pub(crate) fn worker_ref(&self) -> Option<&WorkerRef> {
        // SAFETY: null, or a reference of this stack context's pool, which the stack context keeps alive.
        unsafe { self.worker_ref.get().as_ref() }
    }

    pub(crate) fn carries(&self, worker_ref: *const WorkerRef) -> bool {
        std::ptr::eq(self.worker_ref.get(), worker_ref)
    }

    /// Carries the assigned worker from now on.
    pub(crate) fn acquire_worker(&self, assigned: Option<usize>) {
        let worker_ref = assigned.map_or(std::ptr::null(), |worker| {
            self.fibers().pool().worker_ref(worker).as_ptr().cast_const()
        });
        self.worker_ref.set(worker_ref);
        if let Some(worker) = assigned {
            set_slice(0);
            self.fibers().settle(worker);
        }
        let offer = assigned.map_or(std::ptr::null(), |worker| self.offer_board().of(worker));
        // SAFETY: the stack context is occupied, so it does not move; the pool, which it keeps alive, has the
        // offer, and gives it to the thread that carries the worker.
        unsafe { self.forks.attach(offer) };
        current::set(self.found());
        self.fibers().mailbox().carry(assigned);
    }

    /// Returns what free functions find here while no other pool is entered.
    #[inline]
    pub(crate) fn found(&self) -> *const WorkerRef {
        if self.worker_ref.get().is_null() {
            self.fibers().detached()
        } else {
            self.worker_ref.get()
        }
    }

    /// Returns true if free functions find the thread's own pool here, and not one that it has entered.
    pub(crate) fn is_in_own_pool(&self) -> bool {
        current::is(self.found())
    }

    /// Carries no worker from now on. Returns the number of the worker, which the caller gives away.
    pub(crate) fn release_worker(&self) -> Option<usize> {
        let worker = self.worker_ref().map(|worker_ref| {
            self.fibers().set_left(worker_ref.running.get());
            worker_ref.running.set(0, std::ptr::null());
            worker_ref.yielding.set(GaveWay::No);
            // The request of a task that waits in the middle of its step. It will ask again.
            drop(worker_ref.transfer_request.take());
            worker_ref.worker
        });
        let entered = !current::is(self.worker_ref.get());
        self.worker_ref.set(std::ptr::null());
        if !entered {
            // A destructor may still run here. It must not find a worker that belongs to another thread.
            current::set(self.found());
        }
        // SAFETY: the stack context is occupied, so it does not move.
        unsafe { self.forks.attach(std::ptr::null()) };
        self.fibers().mailbox().carry(None);
        worker.flatten()
    }

    /// Takes the worker away in a forked child, on whose only thread this stack runs: the worker belongs to
    /// the parent, and so does the loop that a fiber would switch to. The fiber continues as if it were
    /// called on the thread's own stack, and waits as a thread does. A handler of `fork()` calls this: see
    /// the invariants of `warpweft_platform::process`.
    pub(crate) fn lose_worker(&self) {
        let worker_ref = self.worker_ref.replace(std::ptr::null());
        if !worker_ref.is_null() && current::is(worker_ref) {
            current::set(self.found());
        }
        if let Some(foot) = self.stacks().last().filter(|foot| foot.own_fiber().is_some()) {
            foot.host.set(self.fibers().base());
        }
        self.fibers().lose_mailbox();
        // Forks are offered as before, but no thread takes them, and the owner takes them back.
        self.offer_board().stop_wakes();
    }

    /// Returns true if a fiber of `pool` can be spawned on this thread: the thread carries a worker of that
    /// pool.
    pub(crate) fn may_adopt(&self, pool: Option<NonNull<PoolHeader>>) -> bool {
        let is_here = pool.map_or_else(|| self.is_in_own_pool(), |pool| self.is_of(pool));
        is_here
            && self.fiber().is_some()
            && self
                .worker_ref()
                .is_some_and(|worker_ref| worker_ref.takes().is_some())
    }

    /// Adopts a fiber that will start on this thread, which carries a worker.
    pub(crate) fn adopt(&self, task: Runnable) {
        self.worker_ref()
            .inspect(|worker_ref| worker_ref.counters.add(Count::SpawnedLocal, 1));
        self.fibers().adopt(task);
    }

    /// Returns true if the worker would find nothing but parts of `ancestor`, a fork of this stack. A hint.
    pub(crate) fn has_nothing_but(&self, ancestor: *const Stealable) -> bool {
        self.is_without_tasks() && !self.offer_board().any_but(ancestor)
    }

    fn is_without_tasks(&self) -> bool {
        self.carried().is_some_and(WorkerRef::is_only_ready)
    }

    /// Returns the worker's reference, if the calling thread carries the worker on this stack.
    pub(crate) fn carried(&self) -> Option<&WorkerRef> {
        self.worker_ref().filter(|&worker_ref| current::is(worker_ref))
    }

    /// Returns true if this is a thread's own stack, not the small one of a fiber or of a handled body.
    pub(crate) fn is_of_thread(&self) -> bool {
        self.fiber.is_null() && self.body.is_null()
    }
}

/// A thread that belongs to a pool. When this is dropped, it belongs to none, or to the one before.
pub(crate) struct Occupied {
    before: *const StackContext,
}

impl Drop for Occupied {
    fn drop(&mut self) {
        // SAFETY: the context of this thread that was occupied before is still there: it is left after this
        // one.
        if let Some(before) = unsafe { self.before.as_ref() } {
            before.begin();
            return before.make_current();
        }
        set_wait(None);
        STACK_CONTEXT.with(|context| context.set(std::ptr::null()));
        // The destructors of the thread's locals still run. They must not find what is dropped with the
        // thread's fibers.
        current::set(std::ptr::null());
    }
}

/// Gives the worker of the calling thread to another thread, by `take`; keeps it if that thread does not take
/// it.
pub(crate) fn give_to(take: impl FnOnce(Option<usize>) -> bool) {
    let context = here();
    let worker = context.and_then(StackContext::release_worker);
    if !take(worker) {
        context.inspect(|context| context.acquire_worker(worker));
    }
}

/// Returns the label of the calling stack, if it belongs to a pool; null if there is none.
pub(crate) fn label_here() -> *const Label {
    here()
        .and_then(StackContext::label)
        .map_or(std::ptr::null(), std::ptr::from_ref)
}

/// Returns true if the calling stack is a fiber's, or on top of one.
#[inline]
pub(crate) fn is_on_fiber() -> bool {
    here().and_then(StackContext::fiber).is_some()
}

/// Forbids, or allows again, to unwind a frame of the calling stack at its waits, if the stack is a fiber's.
pub(crate) fn hold(more: bool) {
    if let Some(fiber) = here().and_then(StackContext::fiber) {
        fiber.hold(more);
    }
}

/// Calls `f`, which runs foreign code between two steps of this thread's worker: wakers, or a hook that takes
/// a task from outside. A wait in it is refused by a panic, so that the thread carries the same worker
/// afterwards. Forks in it are not offered: their thief might need what this worker is about to do.
pub(crate) fn with_worker_kept<R>(f: impl FnOnce() -> R) -> R {
    struct Ends<'a>(&'a StackContext);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.fibers().keep_worker(false);
            self.0.forks().hold_back(false);
        }
    }
    let _ends = here().map(|context| {
        context.fibers().keep_worker(true);
        context.forks().hold_back(true);
        Ends(context)
    });
    f()
}

/// Returns true if fibers of this thread may be ready.
pub(crate) fn has_ready_fibers() -> bool {
    with_stack_context(|context| context.is_some_and(|context| context.fibers().mailbox().may_be_ready()))
}

/// Returns true on a thread of the pool of `header`.
pub(crate) fn is_of(header: NonNull<PoolHeader>) -> bool {
    with_stack_context(|context| context.is_some_and(|context| context.is_of(header)))
}
