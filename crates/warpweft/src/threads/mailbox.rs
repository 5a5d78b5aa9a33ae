//! The mailbox of a thread: other threads post that some of its fibers may continue.
//!
//! ```text
//!   any thread: post                                   own thread: take_all
//!      └─▶ head ──▶ entry ──▶ entry ──▶ entry   ═══▶   oldest first
//!             (the newest)                             head is empty
//! ```
//!
//! Beside the entries is what a poster has to know: whether the thread sees the entry by itself, or which
//! worker must be woken, or whether the thread needs a worker first.
//!
//! ```text
//!                    ┌───────────── takes a worker ────────────┐
//!                    ▼                                         │
//!   Worker n ──rests──▶ Worker n, rests      Between ──▶ Nothing ──a poster──▶ Asked
//!      │                                        ▲
//!      └──────────── gives it away ─────────────┘
//! ```
//!
//! # Invariants
//!
//! - An entry is posted once, and belongs to the mailbox until the thread takes it. Only the own thread takes
//!   entries, and all at once: so an entry that was taken and came back while another one is added does no
//!   harm.
//! - Of two threads that each write and then read, at least one sees the other. A poster adds its entry and
//!   then looks at what the thread carries. The thread notes that it rests, or has no worker, and then looks
//!   at the entries, before it sleeps. Each has a full fence in between.
//! - A poster that finds [`Nothing`](NOTHING) turns it into [`ASKED`]. So one poster asks for a worker.
//! - While the thread carries a worker, only the thread changes that word. Another thread may note for one
//!   without a worker that it waits.
//! - Nothing is posted after [`close`](Mailbox::close). The poster keeps its entry then.

use std::fmt;
use std::iter;
use std::ptr::{self, NonNull};
use warpweft_platform::CachePadded;
use warpweft_platform::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};
use warpweft_platform::barrier::fence_behind_swap;

/// The position of a fiber in its thread's table, and the suspension that is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FiberKey {
    pub(crate) slot: u32,
    pub(crate) turn: u64,
}

/// The link of an entry to the one that was posted before it. The first field of what is posted.
#[derive(Debug)]
pub(crate) struct Link {
    next: AtomicPtr<Link>,
}

impl Link {
    pub(crate) fn new() -> Self {
        Self {
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

/// A message to a thread that one of its fibers may continue.
#[derive(Debug)]
pub(crate) enum MailboxEntry {
    /// This suspension is over.
    Key(FiberKey),
    /// The waker was called whose link this is.
    Notified(NonNull<Link>),
}

/// A key that was posted.
#[repr(C)]
struct PostedKey {
    link: Link,
    key: FiberKey,
}

/// The bit in the address of a link that says that it is that of a [`PostedKey`].
const KEY: usize = 1;
/// The address of `head` in a closed mailbox.
const CLOSED: usize = 2;

/// The thread has no worker and does not wait: it will look at its mailbox before it waits.
const BETWEEN: usize = 0;
/// The thread waits, and has no worker.
const NOTHING: usize = 1;
/// The same, and a worker was asked for.
const ASKED: usize = 2;
/// The thread carries a worker, whose number is in the upper bits.
const WORKER: usize = 3;
const KIND: usize = 3;
/// The worker searches for work, or sleeps.
const RESTS: usize = 4;
const NUMBER: u32 = 3;

/// What a poster must wake, so that the thread sees the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequiredWake {
    /// The thread looks at its mailbox before each task, and before it waits.
    None,
    /// This worker may sleep.
    Worker(usize),
    /// The thread needs a worker, and no other poster has asked for one.
    NewWorker,
}

/// The mailbox is closed: the entry was not posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MailboxClosed;

#[derive(Debug)]
struct MailboxWords {
    /// The newest entry. Its address has the bit [`KEY`] if it is a key.
    head: AtomicPtr<Link>,
    /// Something may be in the mailbox, or ready on the thread. Any thread sets it, and the own thread clears
    /// it.
    ready: AtomicBool,
    carrying: AtomicUsize,
}

/// See the [module](self). Posters write to its cache line, so nothing else is there.
pub(crate) struct Mailbox(CachePadded<MailboxWords>);

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mailbox").field(&*self.0).finish()
    }
}

impl Mailbox {
    pub(crate) fn new() -> Self {
        Self(CachePadded::new(MailboxWords {
            head: AtomicPtr::new(ptr::null_mut()),
            ready: AtomicBool::new(false),
            carrying: AtomicUsize::new(BETWEEN),
        }))
    }

    /// Posts a key. Returns what must be woken: nothing, if the mailbox is closed.
    pub(crate) fn post_key(&self, key: FiberKey) -> RequiredWake {
        let link = Link::new();
        let posted = Box::into_raw(Box::new(PostedKey { link, key })).cast::<Link>();
        // SAFETY: the box is the mailbox's from here on.
        match unsafe { self.push(posted.map_addr(|address| address | KEY)) } {
            Ok(()) => self.required_wake(),
            Err(MailboxClosed) => {
                // SAFETY: the box from above, which was not posted.
                drop(unsafe { Box::from_raw(posted.cast::<PostedKey>()) });
                RequiredWake::None
            }
        }
    }

    /// Posts a waker by its link. Returns what must be woken.
    ///
    /// # Errors
    ///
    /// The mailbox is closed.
    ///
    /// # Safety
    ///
    /// The waker is in no mailbox, and it stays where it is until the thread has taken it out.
    pub(crate) unsafe fn post_waker(&self, link: NonNull<Link>) -> Result<RequiredWake, MailboxClosed> {
        // SAFETY: by contract.
        unsafe { self.push(link.as_ptr()) }.map(|()| self.required_wake())
    }

    /// # Safety
    ///
    /// `entry` is the address of a link, with or without [`KEY`], that is in no mailbox. It stays valid until
    /// the thread takes it.
    unsafe fn push(&self, entry: *mut Link) -> Result<(), MailboxClosed> {
        // SAFETY: by contract, and it is not posted yet.
        let link = unsafe { &*address_of(entry) };
        let mut head = self.0.head.load(Ordering::Relaxed);
        loop {
            if head.addr() == CLOSED {
                return Err(MailboxClosed);
            }
            link.next.store(head, Ordering::Relaxed);
            // Ordering: it publishes the link, and what the fiber waited for. SeqCst, for the fence.
            match self
                .0
                .head
                .compare_exchange_weak(head, entry, Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        fence_behind_swap();
        // The entry may be gone.
        self.set_ready();
        Ok(())
    }

    /// Returns what must be woken for an entry that the caller has just posted.
    fn required_wake(&self) -> RequiredWake {
        let carrying = &self.0.carrying;
        // Ordering: Relaxed, behind the fence of `push`.
        let mut seen = carrying.load(Ordering::Relaxed);
        loop {
            match seen & KIND {
                // Ordering: Acquire. The thread is OPEN or a spare, as it was before it noted that it waits.
                // If another thread noted that too early, the thread does so again, and looks.
                NOTHING => match carrying.compare_exchange(seen, ASKED, Ordering::Acquire, Ordering::Relaxed)
                {
                    Ok(_) => return RequiredWake::NewWorker,
                    Err(now) => seen = now,
                },
                WORKER if seen & RESTS != 0 => return RequiredWake::Worker(seen >> NUMBER),
                _ => return RequiredWake::None,
            }
        }
    }

    /// Takes all entries, on the thread itself, and hands them out, the oldest first.
    pub(crate) fn take_all(&self) -> impl Iterator<Item = MailboxEntry> + use<> {
        // A closed one stays closed.
        let newest = if self.has_entries() {
            self.take_and_leave(ptr::null_mut())
        } else {
            ptr::null_mut()
        };
        oldest_first(newest)
    }

    /// Takes all entries, on the thread itself. From now on nothing is posted.
    pub(crate) fn close(&self) -> impl Iterator<Item = MailboxEntry> + use<> {
        oldest_first(self.take_and_leave(ptr::without_provenance_mut(CLOSED)))
    }

    fn take_and_leave(&self, head: *mut Link) -> *mut Link {
        // Ordering: Acquire gives the thread the links, and what the fibers waited for.
        self.0.head.swap(head, Ordering::Acquire)
    }

    /// Returns true if something may be in the mailbox, or ready on the thread. The loop calls it before each
    /// task: one load and a branch.
    #[inline]
    pub(crate) fn may_be_ready(&self) -> bool {
        // Ordering: Acquire, so that `take_all` finds what was posted.
        self.0.ready.load(Ordering::Acquire)
    }

    /// Does the same before the thread sleeps: it overlooks nothing that was posted before the thread's last
    /// note.
    pub(crate) fn is_ready(&self) -> bool {
        // The poster may be about to set the flag.
        if !self.has_entries() {
            return self.may_be_ready();
        }
        self.set_ready();
        true
    }

    /// Returns true if something may be in the mailbox. A hint.
    #[inline]
    pub(crate) fn has_entries(&self) -> bool {
        self.0.head.load(Ordering::Relaxed).addr() > CLOSED
    }

    /// Notes that something is ready: a poster behind its fence, or the thread itself.
    #[inline]
    pub(crate) fn set_ready(&self) {
        // Ordering: Release, so that a thread that sees it finds the entry.
        if !self.0.ready.load(Ordering::Relaxed) {
            self.0.ready.swap(true, Ordering::Release);
        }
    }

    /// Notes that nothing is ready on the thread itself, which took all entries.
    pub(crate) fn clear_ready(&self) {
        // Ordering: SeqCst, for the fence. A poster that still saw the flag has added its entry before, and
        // the look below finds it.
        self.0.ready.swap(false, Ordering::SeqCst);
        fence_behind_swap();
        if self.has_entries() {
            self.set_ready();
        }
    }

    /// Notes that the thread carries a worker, or none any more.
    pub(crate) fn carry(&self, worker: Option<usize>) {
        let carried = worker.map_or(BETWEEN, |worker| worker << NUMBER | WORKER);
        // Ordering: Relaxed. The thread looks at its mailbox before it waits, behind a note of that. A swap
        // because loom orders a store and another thread's read-modify-write either way.
        self.0.carrying.swap(carried, Ordering::Relaxed);
    }

    /// Notes that the worker that the thread carries searches and may sleep, or that it does not any more.
    pub(crate) fn set_rests(&self, rests: bool) {
        // Only the thread itself writes it while it carries a worker.
        let carried = self.0.carrying.load(Ordering::Relaxed);
        if carried & KIND == WORKER {
            let carried = if rests { carried | RESTS } else { carried & !RESTS };
            self.0.carrying.store(carried, Ordering::Relaxed);
        }
        if rests {
            fence(Ordering::SeqCst);
        }
    }

    /// Notes that the thread waits or is about to, unless it carries a worker. Any thread calls. `needed`
    /// says that it needs one in any case. Returns whether the caller must ask for one.
    pub(crate) fn wait(&self, needed: bool) -> Option<bool> {
        let carrying = &self.0.carrying;
        // The caller may be another thread, and the thread may just have been given a worker.
        let waits = |carried| (carried & KIND != WORKER).then_some(NOTHING);
        // Ordering: Release: a poster that reads it finds the thread OPEN, or among the spares.
        if carrying
            .fetch_update(Ordering::Release, Ordering::Relaxed, waits)
            .is_err()
        {
            return None;
        }
        fence(Ordering::SeqCst);
        let asks = (needed || self.is_ready())
            // Ordering: Acquire, as for a poster. The note may be that of another call.
            && carrying
                .compare_exchange(NOTHING, ASKED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        Some(asks)
    }

    /// Returns the worker that the thread carries. For reports.
    pub(crate) fn carried(&self) -> Option<usize> {
        let carried = self.0.carrying.load(Ordering::Relaxed);
        (carried & KIND == WORKER).then_some(carried >> NUMBER)
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        // A waker keeps its mailbox, so none is in there.
        for entry in self.close() {
            debug_assert!(matches!(entry, MailboxEntry::Key(_)), "a waker is left");
        }
    }
}

/// Hands out the entries that the mailbox had, the oldest first.
fn oldest_first(mut newest: *mut Link) -> impl Iterator<Item = MailboxEntry> + use<> {
    let mut oldest = ptr::null_mut();
    while !newest.is_null() && newest.addr() != CLOSED {
        // SAFETY: it was posted, and is this thread's now.
        let link = unsafe { &*address_of(newest) };
        let older = link.next.load(Ordering::Relaxed);
        link.next.store(oldest, Ordering::Relaxed);
        (oldest, newest) = (newest, older);
    }
    iter::from_fn(move || {
        let entry = NonNull::new(oldest)?;
        // SAFETY: as above.
        oldest = unsafe { &*address_of(oldest) }.next.load(Ordering::Relaxed);
        if entry.addr().get() & KEY == 0 {
            return Some(MailboxEntry::Notified(entry));
        }
        let posted = address_of(entry.as_ptr()).cast::<PostedKey>();
        // SAFETY: the bit says that `post_key` made it, in a box, and it is handed out once.
        Some(MailboxEntry::Key(unsafe { Box::from_raw(posted) }.key))
    })
}

/// Returns the address of the link.
fn address_of(entry: *mut Link) -> *mut Link {
    entry.map_addr(|address| address & !KEY)
}
