//! The handle by which other threads reach a thread of a pool: to give it a worker ([`Handoff`]), or to
//! report that one of its fibers is ready.
//!
//! # Invariants
//!
//! - A fiber that has started is resumed by its own thread. Its wake-ups are in the [`Mailbox`]. Each names
//!   the suspension that it ends, so one that comes too late does nothing.
//! - A poster wakes what the mailbox returns.

use super::handoff::Handoff;
use super::mailbox::{Mailbox, RequiredWake};
use super::pool_ref::PoolRef;
use std::fmt;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_platform::atomic::{AtomicBool, AtomicUsize, Ordering};
use warpweft_platform::thread_state;
use warpweft_task::pool::{PoolHeader, PoolVtable};
use warpweft_task::spawn::{self as tasks, SpawnInfo};
use warpweft_task::{Abandon, Runnable};

/// The waiting frame of the thread's own stack has not been called.
const WAITING: usize = 0;
/// The frame's runnable has run.
const CALLED: usize = 1;
/// The frame's runnable has ended without having run.
const DROPPED: usize = 2;

/// The address of a thread. `repr(C)`: for the runnables of fibers, the thread handle is their pool.
#[repr(C)]
pub(crate) struct ThreadHandle {
    header: PoolHeader,
    pub(crate) handoff: Handoff,
    called: AtomicUsize,
    /// The number of the thread's fibers that have started and not ended. Written by the thread.
    fibers: AtomicUsize,
    /// The kernel's number of the thread. Written by the thread when it starts; 0: not known.
    thread: AtomicUsize,
    mailbox: Arc<Mailbox>,
    /// The pool has ended: no worker will come.
    over: AtomicBool,
    /// The number of the thread among those that the pool has started.
    number: usize,
    pool: Arc<dyn PoolRef>,
}

impl fmt::Debug for ThreadHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread handle")
            .field("mailbox", &self.mailbox)
            .finish_non_exhaustive()
    }
}

impl ThreadHandle {
    const VTABLE: &'static PoolVtable = &PoolVtable {
        // A runnable that a fiber registers with a latch does its work at once, on any thread: it enters the
        // fiber in its mailbox.
        push: |_, wake, _| drop(wake.run()),
        woken: |_, wake| drop(wake.run()),
        dropped: |_, wake| wake.abandon(Abandon::Dropped),
        panicked: |_, _| false,
        unregister: |_, _, _| unreachable!("a wake-up is a closure, and in no register"),
    };

    /// Creates the handle of a thread that will be given a worker by its creator.
    pub(crate) fn new(pool: &Arc<dyn PoolRef>, number: usize) -> Arc<Self> {
        Arc::new(Self {
            header: PoolHeader::new(Self::VTABLE),
            handoff: Handoff::new(),
            called: AtomicUsize::new(WAITING),
            fibers: AtomicUsize::new(0),
            thread: AtomicUsize::new(0),
            mailbox: Arc::new(Mailbox::new()),
            over: AtomicBool::new(false),
            number,
            pool: Arc::clone(pool),
        })
    }

    /// Notes that the calling thread is the one of this handle.
    pub(crate) fn set_os_thread(&self) {
        let thread = thread_state::thread().unwrap_or_default();
        self.thread.store(thread as usize, Ordering::Relaxed);
    }

    /// Creates a second handle of the same thread, for a frame that waits and holds the thread up meanwhile.
    pub(crate) fn sibling(&self) -> Arc<Self> {
        Self::new(&self.pool, self.number)
    }

    pub(crate) fn pool(&self) -> &Arc<dyn PoolRef> {
        &self.pool
    }

    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Returns the kernel's number of the thread, if it carries that worker. For reports.
    pub(crate) fn thread_with(&self, worker: usize) -> Option<u32> {
        let thread = u32::try_from(self.thread.load(Ordering::Relaxed)).ok()?;
        (thread != 0 && self.mailbox.carried() == Some(worker)).then_some(thread)
    }

    #[inline]
    pub(crate) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// Announces that a frame of the thread's own stack is about to wait.
    pub(crate) fn expect_call(&self) {
        self.called.store(WAITING, Ordering::Relaxed);
    }

    pub(crate) fn call(&self) {
        // Ordering: Release gives the frame what it waited for. SeqCst, as in `open`.
        self.called.store(CALLED, Ordering::SeqCst);
    }

    /// Lets the frame continue without a worker: its runnable has ended.
    pub(crate) fn call_dropped(&self) {
        // Ordering: as in `call`.
        self.called.store(DROPPED, Ordering::SeqCst);
    }

    pub(crate) fn was_called(&self) -> bool {
        self.called.load(Ordering::SeqCst) != WAITING
    }

    /// Returns true if the frame may continue, but its caller found that the thread took no worker.
    pub(crate) fn is_called_in_vain(&self) -> bool {
        self.called.load(Ordering::SeqCst) == CALLED && self.handoff.is_open()
    }

    /// Returns true if the frame may continue because its runnable has ended.
    pub(crate) fn is_dropped(&self) -> bool {
        self.called.load(Ordering::SeqCst) == DROPPED
    }

    /// Creates what a thread registers with a latch if it sleeps without a worker and wants one only for its
    /// fibers.
    pub(crate) fn unpark(self: &Arc<Self>) -> Runnable {
        let unpark = UnparkOnDrop(Arc::clone(self));
        self.at_once(move || drop(unpark))
    }

    /// Creates a task that does its work when it is pushed, and whose body keeps the thread handle.
    pub(crate) fn at_once(&self, body: impl FnOnce() + Send + 'static) -> Runnable {
        let info = SpawnInfo {
            pool: NonNull::from(self).cast(),
            location: Location::caller(),
            name: None,
        };
        // SAFETY: the body keeps the thread handle, which it knows as its pool, alive until it ends; the
        // thread handle keeps none of them.
        unsafe { tasks::detached_job(body, info) }
    }

    /// Makes sure that the thread sees what was posted to it. The caller is another thread, or this one
    /// without a worker.
    pub(crate) fn wake_as_required(self: &Arc<Self>, required: RequiredWake) {
        match required {
            RequiredWake::None => {}
            RequiredWake::Worker(worker) => self.pool.wake_worker(worker),
            RequiredWake::NewWorker => self.pool.send_worker_to(self),
        }
    }

    /// Asks for a worker if the thread needs one. It waits without a worker, and is OPEN or in the list of
    /// spares.
    pub(crate) fn ask_if_needed(self: &Arc<Self>, needed: bool) {
        self.ask_unless_told(needed, false);
    }

    /// Does the same for a frame that waits. `told` says that it knows the end of the pool, and has unwound
    /// what it could.
    pub(crate) fn ask_unless_told(self: &Arc<Self>, needed: bool, told: bool) {
        let Some(asks) = self.mailbox.wait(needed) else {
            return;
        };
        // Ordering: SeqCst. If it reads false, the end comes later, and so does its offer.
        if self.over.load(Ordering::SeqCst) && !told && self.fibers() > 0 {
            self.handoff.offer(None);
        } else if asks {
            self.pool.send_worker_to(self);
        }
    }

    /// Ends the handle with the pool: a thread that waits unwinds its fibers.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.handoff.offer(None);
    }

    /// Sleeps until something may be ready. The thread unwinds its fibers.
    pub(crate) fn wait_for_ready(&self) {
        self.handoff.last();
        if self.mailbox.wait(false) == Some(true) {
            self.handoff.offer(None);
        }
        self.handoff.wait();
        self.mailbox.carry(None);
    }

    pub(crate) fn fibers(&self) -> usize {
        self.fibers.load(Ordering::Relaxed)
    }

    pub(crate) fn set_fibers(&self, fibers: usize) {
        self.fibers.store(fibers, Ordering::Relaxed);
    }
}

/// While this value exists, the worker that the thread carries may sleep: a poster must wake it.
pub(crate) struct Rests<'thread>(&'thread Mailbox);

impl<'thread> Rests<'thread> {
    /// A thread without fibers resumes none, so it needs not to be woken for one.
    #[inline]
    pub(crate) fn of(thread: &'thread ThreadHandle) -> Option<Self> {
        (thread.fibers() > 0).then(|| {
            thread.mailbox.set_rests(true);
            Self(&thread.mailbox)
        })
    }
}

impl Drop for Rests<'_> {
    fn drop(&mut self) {
        self.0.set_rests(false);
    }
}

/// Lets a thread continue that sleeps without a worker. It does so once, when it is dropped.
struct UnparkOnDrop(Arc<ThreadHandle>);

impl Drop for UnparkOnDrop {
    fn drop(&mut self) {
        self.0.call_dropped();
        self.0.handoff.offer(None);
    }
}
