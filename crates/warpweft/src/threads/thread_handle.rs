//! The handle by which other threads reach a thread of a pool: to give it a worker ([`Handoff`]), or to
//! report that one of its fibers is ready.
//!
//! # Invariants
//!
//! - A fiber that has started is resumed by its own thread. Its wake-ups are in the mailbox. Each names the
//!   suspension that it ends, so one that comes too late does nothing.
//! - A thread that puts something into the mailbox of a thread without a worker makes sure that a worker
//!   comes: once (`Carrying::Nothing`).

use super::handoff::Handoff;
use super::pool_ref::PoolRef;
use std::collections::VecDeque;
use std::fmt;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_platform::atomic::{AtomicBool, AtomicUsize, Ordering};
use warpweft_platform::delay;
use warpweft_platform::sync::Mutex;
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

/// The position of a fiber in its thread's table, and the suspension that is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FiberKey {
    pub(crate) slot: u32,
    pub(crate) turn: u64,
}

/// The waker of a fiber, as a thread's mailbox has it.
pub(crate) trait MailboxWaker: fmt::Debug + Send + Sync {
    /// Takes the waker out of the mailbox, on the fiber's own thread. Returns the fiber, if it listens. The
    /// thread that entered the waker knows its type.
    fn answer(&self) -> Option<NonNull<()>>;
    /// Returns true if it is in the mailbox. For reports.
    fn is_entered(&self) -> bool;
}

/// A message to a thread that one of its fibers may continue.
#[derive(Debug)]
pub(crate) enum MailboxEntry {
    /// This suspension is over.
    Key(FiberKey),
    /// The fiber's waker was called.
    Notified(Arc<dyn MailboxWaker>),
}

/// The state of the worker that the mailbox needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carrying {
    /// The thread carries it.
    Worker(usize),
    /// The thread has no worker and does not wait: it will look at its mailbox before it waits.
    Between,
    /// The thread waits. `asked` says whether a worker was asked for.
    Nothing { asked: bool },
}

#[derive(Debug)]
struct Mailbox {
    ready: VecDeque<MailboxEntry>,
    carrying: Carrying,
    /// The pool has ended: no worker will come.
    over: bool,
}

/// The address of a thread. `repr(C)`: for the runnables of fibers, the thread handle is their pool.
#[repr(C)]
pub(crate) struct ThreadHandle {
    header: PoolHeader,
    pub(crate) handoff: Handoff,
    called: AtomicUsize,
    /// Something may be in the mailbox or in the local queue. Any thread sets it, and the handle's thread
    /// clears it.
    ready: AtomicBool,
    /// Something is in the mailbox. Changed under its lock.
    entered: AtomicBool,
    /// The number of the thread's fibers that have started and not ended. Written by the thread.
    fibers: AtomicUsize,
    /// The kernel's number of the thread. Written by the thread when it starts; 0: not known.
    thread: AtomicUsize,
    mailbox: Mutex<Mailbox>,
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
            ready: AtomicBool::new(false),
            entered: AtomicBool::new(false),
            fibers: AtomicUsize::new(0),
            thread: AtomicUsize::new(0),
            mailbox: Mutex::new(Mailbox {
                ready: VecDeque::new(),
                carrying: Carrying::Between,
                over: false,
            }),
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

    /// Returns the kernel's number of the thread, and how many of its fibers other threads have woken, if it
    /// carries that worker. For reports.
    pub(crate) fn thread_with(&self, worker: usize) -> Option<(u32, usize)> {
        let (carries, fibers) = {
            let mailbox = self.mailbox.lock();
            (mailbox.carrying == Carrying::Worker(worker), mailbox.ready.len())
        };
        let thread = u32::try_from(self.thread.load(Ordering::Relaxed)).ok();
        let thread = thread.filter(|thread| carries && *thread != 0)?;
        Some((thread, fibers))
    }

    /// Returns the worker that the thread carries. For reports.
    pub(crate) fn carried(&self) -> Option<usize> {
        match self.mailbox.lock_unless_lost()?.carrying {
            Carrying::Worker(worker) => Some(worker),
            _ => None,
        }
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

    /// Enters a wake-up of a fiber of this thread, and makes sure that the thread sees it. The caller is
    /// another thread, or this one without a worker.
    pub(crate) fn post(self: &Arc<Self>, entry: MailboxEntry) {
        let carrying = {
            // In a forked child the lock may be lost, and the thread does not look.
            let Some(mut mailbox) = self.mailbox.lock_unless_lost() else {
                return;
            };
            mailbox.ready.push_back(entry);
            self.entered.store(true, Ordering::Relaxed);
            self.set_ready();
            let carrying = mailbox.carrying;
            if let Carrying::Nothing { asked } = &mut mailbox.carrying {
                *asked = true;
            }
            carrying
        };
        delay::point("thread handle.enter: entered");
        match carrying {
            // It looks at its mailbox before each task, and once more before it sleeps.
            Carrying::Worker(worker) => self.pool.wake_worker(worker),
            Carrying::Between | Carrying::Nothing { asked: true } => {}
            Carrying::Nothing { asked: false } => self.pool.send_worker_to(self),
        }
    }

    /// Notes that something may be resumed.
    pub(crate) fn set_ready(&self) {
        // Ordering: Release, so that a thread that sees it finds the entry. The idle protocol orders it
        // against sleep.
        self.ready.store(true, Ordering::Release);
    }

    /// Does the same, on the thread itself.
    #[inline]
    pub(crate) fn set_ready_here(&self) {
        // Ordering: only the thread itself clears it.
        self.ready.store(true, Ordering::Relaxed);
    }

    /// Returns true if something may be ready. The loop calls it before each task: one load and a branch.
    #[inline]
    pub(crate) fn may_be_ready(&self) -> bool {
        // Ordering: Acquire, so that `next` finds what was entered.
        self.ready.load(Ordering::Acquire)
    }

    /// Returns true if something may be in the mailbox.
    #[inline]
    pub(crate) fn has_entries(&self) -> bool {
        // Ordering: a hint; the lock orders the rest.
        self.entered.load(Ordering::Relaxed)
    }

    /// Takes the next entry of the mailbox, on the thread itself.
    pub(crate) fn next(&self) -> Option<MailboxEntry> {
        let mut mailbox = self.mailbox.lock();
        let entry = mailbox.ready.pop_front();
        if mailbox.ready.is_empty() {
            // Under the lock, as in `enter`.
            self.entered.store(false, Ordering::Relaxed);
        }
        entry
    }

    /// Notes that nothing is ready, unless something was entered since. The thread has no fiber that yielded,
    /// and found the mailbox empty.
    pub(crate) fn clear_ready(&self) {
        let mailbox = self.mailbox.lock();
        if mailbox.ready.is_empty() {
            // Under the lock: an entry that comes now sets it again.
            self.ready.store(false, Ordering::Relaxed);
        }
    }

    /// Notes that the thread carries a worker, or none any more.
    pub(crate) fn carry(&self, worker: Option<usize>) {
        self.mailbox.lock().carrying = worker.map_or(Carrying::Between, Carrying::Worker);
    }

    /// Asks for a worker if the thread needs one. It waits without a worker, and is OPEN or in the list of
    /// spares.
    pub(crate) fn ask_if_needed(self: &Arc<Self>, needed: bool) {
        self.ask_unless_told(needed, false);
    }

    /// Does the same for a frame that waits. `told` says that it knows the end of the pool, and has unwound
    /// what it could.
    pub(crate) fn ask_unless_told(self: &Arc<Self>, needed: bool, told: bool) {
        let (asks, over) = {
            let mut mailbox = self.mailbox.lock();
            if matches!(mailbox.carrying, Carrying::Worker(_)) {
                return;
            }
            let asked = needed || self.may_be_ready();
            mailbox.carrying = Carrying::Nothing { asked };
            (asked, mailbox.over)
        };
        if over && !told && self.fibers() > 0 {
            self.handoff.offer(None);
        } else if asks {
            self.pool.send_worker_to(self);
        }
    }

    /// Ends the handle with the pool: a thread that waits unwinds its fibers.
    pub(crate) fn end(&self) {
        self.mailbox.lock().over = true;
        self.handoff.offer(None);
    }

    /// Sleeps until something may be ready. The thread unwinds its fibers.
    pub(crate) fn wait_for_ready(&self) {
        self.handoff.last();
        self.mailbox.lock().carrying = Carrying::Nothing { asked: false };
        if self.may_be_ready() {
            self.handoff.offer(None);
        }
        self.handoff.wait();
        self.mailbox.lock().carrying = Carrying::Between;
    }

    pub(crate) fn fibers(&self) -> usize {
        self.fibers.load(Ordering::Relaxed)
    }

    pub(crate) fn set_fibers(&self, fibers: usize) {
        self.fibers.store(fibers, Ordering::Relaxed);
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
