//! Where a thread of a pool is reached by others: to be given a worker ([`Handoff`]), and to be told that a
//! fiber of its own is ready.
//!
//! # Invariants
//!
//! - A fiber that has started is resumed by its own thread. Its wake-ups lie in the mailbox; each names the
//!   suspension that it ends, so that one that comes too late does nothing.
//! - Who puts something into the mailbox of a thread without a worker sees to it that one comes: once
//!   (`Place::Away`).

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

/// The frame of the thread's own stack that waits has not been called.
const WAITING: usize = 0;
/// Its token has run.
const CALLED: usize = 1;
/// Its token has ended without having run.
const DROPPED: usize = 2;

/// Where a fiber is in its thread's table, and which of its suspensions is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) slot: u32,
    pub(crate) turn: u64,
}

/// The waker of a fiber, as a thread's mailbox has it.
pub(crate) trait MailboxWaker: fmt::Debug + Send + Sync {
    /// The fiber's own thread has taken it out of the mailbox. The fiber, if it listens: whoever entered the
    /// waker knows its type.
    fn answer(&self) -> Option<NonNull<()>>;
}

/// What tells a thread that one of its fibers may go on.
#[derive(Debug)]
pub(crate) enum Entry {
    /// This suspension is over.
    Key(Key),
    /// The fiber's waker was called.
    Notified(Arc<dyn MailboxWaker>),
}

/// Where the worker is that the mailbox needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The thread carries it.
    Carried(usize),
    /// Neither: the thread will look at its mailbox before it waits.
    Between,
    /// The thread waits; whether a worker was asked for.
    Away { asked: bool },
}

#[derive(Debug)]
struct Mailbox {
    ready: VecDeque<Entry>,
    place: Place,
    /// The pool has ended: no worker will come.
    over: bool,
}

/// A thread's address. `repr(C)`: tokens of fibers know the thread handle as their pool.
#[repr(C)]
pub(crate) struct ThreadHandle {
    header: PoolHeader,
    pub(crate) handoff: Handoff,
    called: AtomicUsize,
    /// Something may be in the mailbox, or in the line. Set by everybody, cleared by the thread.
    ready: AtomicBool,
    /// Something is in the mailbox. Changed under its lock.
    entered: AtomicBool,
    /// How many fibers of the thread have started and not ended. Written by the thread.
    fibers: AtomicUsize,
    /// The kernel's number of the thread. Written by the thread when it starts; 0: not known.
    thread: AtomicUsize,
    mailbox: Mutex<Mailbox>,
    /// Among the threads that the pool has started.
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
        // What a fiber hangs on a signal does its work at once, on whatever thread: it enters the fiber in
        // its mailbox.
        push: |_, wake, _| drop(wake.run()),
        woken: |_, wake| drop(wake.run()),
        dropped: |_, wake| wake.abandon(Abandon::Dropped),
        unregister: |_, _, _| unreachable!("a wake-up is a closure, and in no register"),
    };

    /// Of a thread that is to be given a worker by whoever made it.
    pub(crate) fn new(pool: &Arc<dyn PoolRef>, number: usize) -> Arc<Self> {
        Arc::new(Self {
            header: PoolHeader { vtable: Self::VTABLE },
            handoff: Handoff::new(),
            called: AtomicUsize::new(WAITING),
            ready: AtomicBool::new(false),
            entered: AtomicBool::new(false),
            fibers: AtomicUsize::new(0),
            thread: AtomicUsize::new(0),
            mailbox: Mutex::new(Mailbox {
                ready: VecDeque::new(),
                place: Place::Between,
                over: false,
            }),
            number,
            pool: Arc::clone(pool),
        })
    }

    /// The calling thread is the one that is reached here.
    pub(crate) fn set_os_thread(&self) {
        let thread = thread_state::thread().unwrap_or_default();
        self.thread.store(thread as usize, Ordering::Relaxed);
    }

    /// Another handle of the same thread, for a frame that waits while the thread is held up by it.
    pub(crate) fn sibling(&self) -> Arc<Self> {
        Self::new(&self.pool, self.number)
    }

    /// The pool whose thread this is.
    pub(crate) fn pool(&self) -> &Arc<dyn PoolRef> {
        &self.pool
    }

    /// Its number among the threads that the pool has started.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// The kernel's number of the thread, if it carries that worker. For reports.
    pub(crate) fn thread_with(&self, worker: usize) -> Option<u32> {
        let carries = self.mailbox.lock().place == Place::Carried(worker);
        let thread = u32::try_from(self.thread.load(Ordering::Relaxed)).ok();
        thread.filter(|thread| carries && *thread != 0)
    }

    /// A frame of the thread's own stack is about to wait.
    pub(crate) fn expect_call(&self) {
        self.called.store(WAITING, Ordering::Relaxed);
    }

    /// The frame may go on.
    pub(crate) fn call(&self) {
        // Ordering: Release gives the frame what it waited for. SeqCst, as in `open`.
        self.called.store(CALLED, Ordering::SeqCst);
    }

    /// The frame may go on, without a worker: its token has ended.
    pub(crate) fn call_dropped(&self) {
        // Ordering: as in `call`.
        self.called.store(DROPPED, Ordering::SeqCst);
    }

    /// Whether the frame may go on.
    pub(crate) fn was_called(&self) -> bool {
        self.called.load(Ordering::SeqCst) != WAITING
    }

    /// Whether the frame may go on, but who called it found that the thread took no worker.
    pub(crate) fn is_called_in_vain(&self) -> bool {
        self.called.load(Ordering::SeqCst) == CALLED && self.handoff.is_open()
    }

    /// Whether the frame may go on because its token has ended.
    pub(crate) fn is_dropped(&self) -> bool {
        self.called.load(Ordering::SeqCst) == DROPPED
    }

    /// What a thread hangs on a signal that sleeps without a worker, and wants one only for its fibers.
    pub(crate) fn unpark(self: &Arc<Self>) -> Runnable {
        let unpark = UnparkOnEnd(Arc::clone(self));
        self.at_once(move || drop(unpark))
    }

    /// A task that does its work when it is pushed, and whose body keeps the thread handle.
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

    /// Enters what wakes a fiber of this thread, and sees to it that the thread comes. For where the caller
    /// is another thread, or this one has no worker.
    pub(crate) fn post(self: &Arc<Self>, entry: Entry) {
        let place = {
            // In a forked child the lock may be lost, and the thread does not look.
            let Some(mut mailbox) = self.mailbox.lock_unless_lost() else {
                return;
            };
            mailbox.ready.push_back(entry);
            self.entered.store(true, Ordering::Relaxed);
            self.set_ready();
            let place = mailbox.place;
            if let Place::Away { asked } = &mut mailbox.place {
                *asked = true;
            }
            place
        };
        delay::point("thread handle.enter: entered");
        match place {
            // It looks at its mailbox before each task, and once more before it sleeps.
            Place::Carried(worker) => self.pool.wake_worker(worker),
            Place::Between | Place::Away { asked: true } => {}
            Place::Away { asked: false } => self.pool.send_worker_to(self),
        }
    }

    /// Something is to be resumed.
    pub(crate) fn set_ready(&self) {
        // Ordering: Release, so that who sees it finds the entry. The idle protocol orders it against sleep.
        self.ready.store(true, Ordering::Release);
    }

    /// The same, by the thread itself.
    #[inline]
    pub(crate) fn set_ready_here(&self) {
        // Ordering: who clears it is the thread itself.
        self.ready.store(true, Ordering::Relaxed);
    }

    /// Whether something may be ready. What the loop asks before each task: one load and a branch.
    #[inline]
    pub(crate) fn may_be_ready(&self) -> bool {
        // Ordering: Acquire, so that `next` finds what was entered.
        self.ready.load(Ordering::Acquire)
    }

    /// Whether something may be in the mailbox.
    #[inline]
    pub(crate) fn has_entries(&self) -> bool {
        // Ordering: a hint; the lock orders the rest.
        self.entered.load(Ordering::Relaxed)
    }

    /// The next entry of the mailbox, for the thread itself.
    pub(crate) fn next(&self) -> Option<Entry> {
        let mut mailbox = self.mailbox.lock();
        let entry = mailbox.ready.pop_front();
        if mailbox.ready.is_empty() {
            // Under the lock, as in `enter`.
            self.entered.store(false, Ordering::Relaxed);
        }
        entry
    }

    /// The thread has nothing that gave way, and found the mailbox empty: unless something was entered since,
    /// nothing is ready.
    pub(crate) fn clear_ready(&self) {
        let mailbox = self.mailbox.lock();
        if mailbox.ready.is_empty() {
            // Under the lock: an entry that comes now sets it again.
            self.ready.store(false, Ordering::Relaxed);
        }
    }

    /// The thread carries a worker, or does not carry it any more.
    pub(crate) fn carry(&self, worker: Option<usize>) {
        self.mailbox.lock().place = worker.map_or(Place::Between, Place::Carried);
    }

    /// The thread waits without a worker, and is OPEN or in the list of spares: it asks for one if it needs
    /// one.
    pub(crate) fn ask_if_needed(self: &Arc<Self>, needed: bool) {
        self.ask_unless_told(needed, false);
    }

    /// The same for a frame that waits. `told`: it knows that the pool has ended, and has unwound what could
    /// be.
    pub(crate) fn ask_unless_told(self: &Arc<Self>, needed: bool, told: bool) {
        let (asks, over) = {
            let mut mailbox = self.mailbox.lock();
            if matches!(mailbox.place, Place::Carried(_)) {
                return;
            }
            let asked = needed || self.may_be_ready();
            mailbox.place = Place::Away { asked };
            (asked, mailbox.over)
        };
        if over && !told && self.fibers() > 0 {
            self.handoff.offer(None);
        } else if asks {
            self.pool.send_worker_to(self);
        }
    }

    /// The pool has ended: a thread that waits unwinds its fibers.
    pub(crate) fn end(&self) {
        self.mailbox.lock().over = true;
        self.handoff.offer(None);
    }

    /// The thread, which unwinds its fibers, sleeps until something may be ready.
    pub(crate) fn wait_for_ready(&self) {
        self.handoff.last();
        self.mailbox.lock().place = Place::Away { asked: false };
        if self.may_be_ready() {
            self.handoff.offer(None);
        }
        self.handoff.wait();
        self.mailbox.lock().place = Place::Between;
    }

    /// How many fibers live on the thread.
    pub(crate) fn fibers(&self) -> usize {
        self.fibers.load(Ordering::Relaxed)
    }

    pub(crate) fn set_fibers(&self, fibers: usize) {
        self.fibers.store(fibers, Ordering::Relaxed);
    }
}

/// What lets a thread go on that sleeps without a worker. It does so once, as above.
struct UnparkOnEnd(Arc<ThreadHandle>);

impl Drop for UnparkOnEnd {
    fn drop(&mut self) {
        self.0.call_dropped();
        self.0.handoff.offer(None);
    }
}
