//! One fiber: its stack, its stack context, and how it waits.
//!
//! # Invariants
//!
//! - Everything here belongs to the fiber's own thread. Other threads know a [`FiberKey`] or a
//!   [`FiberWaker`], which they enter in the thread's mailbox.
//! - While the fiber runs, its stack context is the thread's. While it waits, nothing of it but its turn is
//!   touched, by `thread_fibers.rs`.
//! - It never switches while it is panicking: the count of panics belongs to the thread, not to the stack.

use super::fiber_probe::FiberProbe;
use super::fiber_state::FiberState;
pub(crate) use super::fiber_state::MustWait;
use super::fiber_waker::{FiberWaker, wake_of};
use super::stack_context::StackContext;
use super::thread_fibers::{NextStack, ThreadFibers};
use crate::coroutine::Input;
use crate::coroutine::overflow::{FIBER, Label};
use crate::coroutine::stack::{StackMemory, StackPermit};
use crate::coroutine::switch::{RawCoroutine, SWITCHES_DIRECTLY, Switch, leave_for};
use crate::observe::raw::FiberView;
use crate::pool::current::WorkerRef;
use crate::threads::mailbox::FiberKey;
use std::cell::{Cell, UnsafeCell};
use std::mem::ManuallyDrop;
use std::panic::resume_unwind;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::task::Waker;
use warpweft_platform::atomic::{AtomicU32, Ordering};
use warpweft_platform::delay;
use warpweft_platform::prefetch::prefetch;
use warpweft_platform::thread::panicking;
use warpweft_task::frame::Who;
use warpweft_task::registry::Entry;
use warpweft_task::{Abandon, Latch, OnStackJob, Running, Unwound};

/// The fiber is not in its thread's table.
const UNKNOWN: u32 = 1;
/// Its waits unwind it.
const UNWINDING: u32 = 2;
/// It is in `blocking`, and needs no worker to continue.
const BLOCKING_IN_PLACE: u32 = 4;
/// A token counts on its stack, which its waits look at.
const UNDER_TOKEN: u32 = 8;
/// The unit of the count of frames that must not be left, because other threads work on them.
const HELD: u32 = 16;

/// The number of cache lines that a turn reads.
const HOT_LINES: usize = 3;
const LINE: usize = 64;

/// `repr(C)`: what a turn reads comes first, in three cache lines. A hundred fibers that take turns fill the
/// first level of the cache.
#[repr(C, align(64))]
pub(crate) struct Fiber {
    /// `Some` from start to end; changed by the fiber's own thread while the fiber does not run.
    coroutine: UnsafeCell<Option<RawCoroutine>>,
    /// A [`FiberState`]. Written by the own thread; a report reads it.
    state: AtomicU32,
    /// The reasons for which its waits are not plain: the constants above. Mostly 0.
    flags: Cell<u32>,
    /// How often its waker was notified.
    notifications: Cell<u64>,
    /// The next fiber in the line.
    behind: Cell<*const Self>,
    switch: Cell<*const Switch>,
    /// The address at which its stack was left.
    left_at: Cell<*const u8>,
    context: StackContext,
    pub(super) fiber_waker: Arc<FiberWaker>,
    /// Present while it has no body.
    stack: Cell<Option<StackMemory>>,
    /// Present while it has a body.
    permit: Cell<StackPermit>,
    /// Its slot in the thread's table, once it has waited.
    slot: Cell<Option<u32>>,
    /// The turn of its present or last wait for a key. No other wait of a fiber of this thread ever had it.
    turn: Cell<u64>,
    /// Present while its closure is on the stack.
    pub(super) task: Cell<Option<Running>>,
    label: Label,
    pub(super) probe: FiberProbe,
    /// Its entry in the pool's register of fibers.
    entry: Cell<Option<Entry>>,
}

impl Fiber {
    /// Creates a boxed fiber without a body.
    ///
    /// # Safety
    ///
    /// `fibers` belongs to the calling thread, and outlives the fiber.
    pub(crate) unsafe fn new(fibers: NonNull<ThreadFibers>, stack: StackMemory) -> NonNull<Self> {
        let mut fiber = Box::<Self>::new_uninit();
        let place = fiber.as_mut_ptr();
        let label = Label::of(FIBER, &stack);
        // SAFETY: by contract; the fiber is the stack context's own box, which does not move.
        let context = unsafe { StackContext::new(fibers, place) };
        let fiber_waker = FiberWaker::new(context.thread_handle(), place);
        // SAFETY: the place is that of the box, which is filled below.
        let state = unsafe { &raw mut (*place).state };
        // SAFETY: as above.
        let switch = unsafe { &raw const (*place).switch }.addr();
        let waker = Arc::clone(&fiber_waker) as _;
        let probe = FiberProbe::new(state, switch, waker, context.thread_handle());
        fiber.write(Self {
            coroutine: UnsafeCell::new(None),
            state: AtomicU32::new(FiberState::RUNS.0),
            flags: Cell::new(UNKNOWN),
            notifications: Cell::new(0),
            behind: Cell::new(ptr::null()),
            switch: Cell::new(ptr::null()),
            left_at: Cell::new(ptr::null()),
            context,
            fiber_waker,
            stack: Cell::new(Some(stack)),
            permit: Cell::new(StackPermit::none()),
            slot: Cell::new(None),
            turn: Cell::new(0),
            task: Cell::new(None),
            label,
            probe,
            entry: Cell::new(None),
        });
        let raw = Box::into_raw(fiber).cast::<Self>();
        let fiber = NonNull::new(raw).unwrap_or_else(|| unreachable!("a box"));
        // SAFETY: the box was filled above. It stays in its place, and its `Drop` removes the entry.
        let probe = NonNull::from(&unsafe { fiber.as_ref() }.probe) as NonNull<dyn FiberView>;
        // SAFETY: as above.
        let pool = unsafe { fibers.as_ref() }.pool().core();
        // SAFETY: as above.
        let entry = unsafe { pool.fibers.insert(probe) };
        // SAFETY: as above.
        unsafe { fiber.as_ref() }.entry.set(Some(entry));
        fiber
    }

    #[inline]
    fn state(&self) -> FiberState {
        // Ordering: Relaxed, here and below; only the own thread writes it.
        FiberState(self.state.load(Ordering::Relaxed))
    }

    #[inline]
    fn set_state(&self, state: FiberState) {
        self.state.store(state.0, Ordering::Relaxed);
    }

    #[inline]
    fn fibers(&self) -> &ThreadFibers {
        self.context.fibers()
    }

    pub(crate) fn label(&self) -> &Label {
        &self.label
    }

    /// Sets the permit under which it uses its stack.
    #[inline]
    pub(crate) fn set_permit(&self, permit: StackPermit) {
        self.permit.set(permit);
    }

    pub(crate) fn load(&self, job: OnStackJob) {
        let Some(stack) = self.stack.take() else {
            unreachable!("a fiber without a body has a stack")
        };
        self.label.write(job.info());
        self.probe.begin(job.words());
        let this: *const Self = self;
        let body = move |switch: &Switch| {
            // SAFETY: its thread keeps the fiber until the body has ended.
            let fiber = unsafe { &*this };
            fiber.switch.set(switch);
            fiber.context.begin();
            fiber.context.make_current();
            job.run();
        };
        // SAFETY: it borrows the fiber, as above; a task's panic is its result, so it does not unwind.
        let coroutine = unsafe { RawCoroutine::new(stack, body) };
        // SAFETY: the fiber does not run, and its own thread calls.
        unsafe { *self.coroutine.get() = Some(coroutine) };
    }

    /// Prepares it to run, with what the thread carries on the stack of `below`.
    #[inline]
    pub(crate) fn inherit_worker(&self, below: &StackContext) {
        self.set_state(FiberState::RUNS);
        self.context.inherit_worker(below);
    }

    pub(crate) fn context(&self) -> &StackContext {
        &self.context
    }

    #[inline]
    fn coroutine(&self) -> Option<&RawCoroutine> {
        // SAFETY: only `load` and `end` change it, before the fiber runs and afterwards.
        unsafe { &*self.coroutine.get() }.as_ref()
    }

    /// Runs it until it, or a fiber that it was left for, waits or ends. Returns true if that one has ended.
    #[allow(
        clippy::inline_always,
        reason = "each return behind a switch of stacks is mispredicted"
    )]
    #[inline(always)]
    pub(crate) fn resume(&self, input: Input) -> bool {
        self.coroutine().is_none_or(|coroutine| coroutine.resume(input))
    }

    /// Cleans up after its body has ended.
    pub(crate) fn end(&self) {
        // SAFETY: the fiber does not run any more, and its own thread calls.
        let coroutine = unsafe { &mut *self.coroutine.get() }.take();
        self.stack.set(coroutine.map(RawCoroutine::into_stack));
        self.probe.end();
        self.set_flag(UNWINDING, false);
    }

    pub(crate) fn slot(&self) -> Option<u32> {
        self.slot.get()
    }

    pub(crate) fn set_slot(&self, slot: Option<u32>) {
        self.slot.set(slot);
        self.fiber_waker.set_task(slot.map_or(0, |_| self.who().id));
        if slot.is_some() && self.task.get().is_some() {
            self.probe.open();
        }
        self.set_flag(UNKNOWN, slot.is_none());
    }

    fn set_flag(&self, by: u32, is: bool) {
        let others = self.flags.get() & !by;
        self.flags.set(if is { others | by } else { others });
    }

    fn has_flag(&self, by: u32) -> bool {
        self.flags.get() & by != 0
    }

    /// Returns true if it may switch away and continue without further checks.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.flags.get() == 0
    }

    /// Returns true if it waits in that turn.
    pub(crate) fn waits_in(&self, turn: u64) -> bool {
        self.state().is(FiberState::WAITS) && self.turn.get() == turn
    }

    /// Notes that it waited, and is put into the line.
    #[inline]
    pub(crate) fn get_ready(&self) {
        let state = self.state();
        if state.is(FiberState::WAITS) || state.is(FiberState::LISTENS) {
            self.set_state(FiberState(state.0 & FiberState::MUST_WAIT | FiberState::READY));
        }
    }

    /// Counts a notification of its waker. Returns true if it listens.
    #[inline]
    pub(crate) fn hear(&self) -> bool {
        self.notifications.set(self.notifications.get().wrapping_add(1));
        self.state().is(FiberState::LISTENS)
    }

    /// Returns how often its waker was notified.
    #[inline]
    pub(crate) fn notifications(&self) -> u64 {
        self.notifications.get()
    }

    #[inline]
    pub(crate) fn waker(&self) -> ManuallyDrop<Waker> {
        self.fiber_waker.waker()
    }

    #[inline]
    pub(crate) fn behind(&self) -> &Cell<*const Self> {
        &self.behind
    }

    /// Prefetches what it needs to continue after the present fiber. It is the first of the line now: fetches
    /// the top of its stack, and the first cache lines of the next fiber in the line.
    ///
    /// The stack, whose address is in those lines, is fetched one turn ahead, and the lines two turns ahead.
    /// With many fibers, the others have pushed each out of the first level of the cache since its last turn.
    #[inline]
    pub(crate) fn warm_up(&self) {
        prefetch(self.left_at.get());
        if !SWITCHES_DIRECTLY {
            // At the foot of the stack.
            prefetch(self.switch.get().cast());
        }
        let behind = self.behind.get().cast::<u8>();
        if !behind.is_null() {
            for line in 0..HOT_LINES {
                prefetch(behind.wrapping_add(line * LINE));
            }
        }
    }

    /// Returns true if it has been left, and may be unwound.
    pub(crate) fn may_be_unwound(&self) -> bool {
        let state = self.state();
        state != FiberState::RUNS && state.0 & FiberState::MUST_WAIT == 0
    }

    /// Makes its waits unwind it from now on.
    pub(crate) fn begin_unwinding(&self) {
        self.set_flag(UNWINDING, true);
    }

    /// Notes whether a token counts on its stack.
    pub(crate) fn set_under_token(&self, is: bool) {
        self.set_flag(UNDER_TOKEN, is);
    }

    pub(crate) fn is_unwinding(&self) -> bool {
        self.has_flag(UNWINDING)
    }

    /// Returns true if a frame of it must not be left.
    pub(crate) fn is_held(&self) -> bool {
        self.flags.get() >= HELD
    }

    pub(crate) fn hold(&self, more: bool) {
        let must_wait = self.flags.get();
        self.flags
            .set(if more { must_wait + HELD } else { must_wait - HELD });
    }

    /// Notes that the closure of that task begins on this stack, or has ended.
    pub(crate) fn set_task(&self, task: Option<Running>) {
        self.task.set(task);
        if let Some(task) = task {
            // SAFETY: its closure is about to begin on this stack.
            self.fibers().note_class(|| unsafe { task.policy_word() });
        }
        if task.is_none() && self.slot().is_some() {
            self.probe.close();
        }
    }

    /// Returns the words of its task.
    #[inline]
    pub(crate) fn who(&self) -> Who {
        self.probe.who()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        // SAFETY: there is a task only while its closure is on this stack.
        self.task.get().is_some_and(|task| unsafe { task.is_cancelled() })
    }

    pub(crate) fn is_blocking(&self) -> bool {
        self.has_flag(BLOCKING_IN_PLACE)
    }

    /// Sets whether it is in `blocking`. Returns the value before.
    pub(crate) fn set_blocking(&self, away: bool) -> bool {
        let was = self.is_blocking();
        self.set_flag(BLOCKING_IN_PLACE, away);
        was
    }

    /// Returns true if it may switch away now. A thread that is panicking parks instead.
    #[inline]
    pub(crate) fn may_switch(&self) -> bool {
        !panicking()
    }

    #[cold]
    pub(crate) fn unwind(&self) -> ! {
        self.fibers().pool().core().stacks.count_unwound();
        resume_unwind(Box::new(Unwound))
    }

    /// Creates a key for the wait that begins now.
    fn next_key(&self) -> FiberKey {
        let slot = self.fibers().slot_of(self);
        let turn = self.fibers().next_turn();
        self.turn.set(turn);
        FiberKey { slot, turn }
    }

    /// Switches away until `latch` is set. Returns true if the fiber must unwind.
    pub(crate) fn wait(&self, latch: &Latch, must_wait: MustWait) -> bool {
        let fibers = self.fibers();
        let wake = wake_of(fibers.thread_handle(), self.next_key(), self.who().id);
        if let Err(runnable) = latch.register(wake) {
            // The latch was set in the meantime. The runnable's end enters a key of a turn that is over.
            self.turn.set(fibers.next_turn());
            runnable.abandon(Abandon::Cancelled);
            return false;
        }
        delay::point("fiber.wait: runnable registered");
        self.probe.joins(ptr::from_ref(latch).addr());
        let input = self.suspend(FiberState::of(FiberState::WAITS, must_wait).stamped());
        self.probe.joins(0);
        if input == Input::Unwind
            && let Some(runnable) = latch.set_and_take()
        {
            runnable.abandon(Abandon::Cancelled);
        }
        input == Input::Unwind
    }

    /// Switches away until all other ready fibers have had their turn. Returns true if the fiber must unwind.
    pub(crate) fn give_way(&self, must_wait: MustWait) -> bool {
        let fibers = self.fibers();
        fibers.slot_of(self);
        fibers.line_up(self);
        self.suspend(FiberState::of(FiberState::READY, must_wait)) == Input::Unwind
    }

    /// Switches away until its waker is notified. Returns true if the fiber must unwind.
    pub(crate) fn listen(&self, must_wait: MustWait) -> bool {
        self.fibers().slot_of(self);
        self.suspend(FiberState::of(FiberState::LISTENS, must_wait).stamped()) == Input::Unwind
    }

    fn suspend(&self, state: FiberState) -> Input {
        self.set_state(state);
        // SAFETY: the switch is at the foot of this stack, and was set when the body began.
        self.context.leave(|| unsafe { &*self.switch.get() }.suspend(()))
    }

    /// Does what [`give_way`](Self::give_way) does for a plain fiber, on its own stack, with the reference of
    /// its worker.
    #[allow(
        clippy::inline_always,
        reason = "each return behind a switch of stacks may be mispredicted"
    )]
    #[inline(always)]
    pub(crate) fn give_way_plainly(&self, worker_ref: &WorkerRef) -> bool {
        let next = match self.fibers().turn_after(self, worker_ref) {
            NextStack::Same => return false,
            NextStack::Fiber(next) => Some(next),
            NextStack::Loop => None,
        };
        self.leave(FiberState::of(FiberState::READY, MustWait::No), next) == Input::Unwind
    }

    /// Does what [`listen`](Self::listen) does for a plain fiber, on its own stack, with the reference of its
    /// worker.
    #[allow(clippy::inline_always, reason = "as `give_way_plainly`")]
    #[inline(always)]
    pub(crate) fn listen_plainly(&self, worker_ref: &WorkerRef) -> bool {
        let next = match self.fibers().turn_instead(self, worker_ref) {
            NextStack::Fiber(next) => Some(next),
            NextStack::Same | NextStack::Loop => None,
        };
        self.leave(FiberState::of(FiberState::LISTENS, MustWait::No).stamped(), next) == Input::Unwind
    }

    /// Leaves the stack for that of another fiber, or for the loop's.
    #[allow(clippy::inline_always, reason = "as `give_way_plainly`")]
    #[inline(always)]
    fn leave(&self, state: FiberState, next: Option<&Self>) -> Input {
        self.set_state(state);
        let here = 0_u8;
        self.left_at.set(&raw const here);
        // SAFETY: as in `suspend`.
        let switch = unsafe { &*self.switch.get() };
        // SAFETY: the next fiber was in the line, so it has begun and was left; it is another one.
        let input = unsafe { leave_for(switch, next.and_then(Self::coroutine)) };
        self.context.make_current();
        input
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            self.fibers().pool().core().fibers.remove(entry);
        }
        self.fiber_waker.forget();
    }
}
