//! The latent forks of one stack.
//!
//! ```text
//!   foot ──▶ ● ──▶ ● ──▶ ○ ──▶ ○ ──▶ ○          ● was offered or promoted   ○ latent: nobody knows of it
//!            oldest ▲                 ▲ youngest
//!                   public            tail
//! ```
//!
//! A join appends its second half and removes it when its first half has returned: a few stores. The oldest
//! latent fork is on offer whenever the worker's offer is free; when the stack has to wait, all become
//! tickets.
//!
//! # Invariants
//!
//! - The list is the thread's own; nobody else follows its pointers.
//! - Records are removed youngest first, by the frames that hold them, so all of them are alive.
//! - Public records come before latent ones. What is on offer is `public`, or a job of an open scope.
//! - Scopes are opened and closed like frames; each knows the tail that it found, and so what is older than
//!   its jobs.
//! - `*watch == expect` says: the offer is free and something may be put there. With nothing to watch `watch`
//!   points to `always`.

use super::fork_claim::ForkClaim;
use super::jobs::Jobs;
use super::offer::{Offer, taken};
use super::record::Record;
use super::stealable_job::StealableJob;
use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use warpweft_platform::atomic::{AtomicU64, Ordering};

/// The value of `always`: no decision has it.
const FREE: u64 = u64::MAX;
/// Never the value of `always`, and no decision: nothing is to be put on offer.
const CLOSED: u64 = u64::MAX - 1;

/// What became of a fork when its owner came back to it.
pub(crate) enum TakenBack {
    /// It was on offer, and is the owner's to run.
    Mine,
    /// It was on offer. Somebody else runs it, and sets its signal when it is done.
    Taken,
    /// It is not on offer any more: taken, or claimed by whoever comes first.
    Ticket,
}

/// `repr(C)`: what a switch of stacks looks at comes first, and lies together.
#[repr(C)]
pub(crate) struct List {
    tail: Cell<*const Record>,
    public: Cell<*const Record>,
    /// What is on offer, or was when it was taken; null if nothing is.
    offered: Cell<*const StealableJob>,
    /// Of the worker that the thread carries; null where nobody could take anything.
    offer: Cell<*const Offer<StealableJob>>,
    /// The scope whose job it is; null for a fork.
    scope: Cell<*const Jobs>,
    /// Open scopes of this stack, the outermost first.
    scopes: RefCell<Vec<NonNull<Jobs>>>,
    watch: Cell<*const AtomicU64>,
    expect: Cell<u64>,
    always: AtomicU64,
    foot: Record,
}

impl List {
    pub(crate) fn new() -> Self {
        Self {
            tail: Cell::new(ptr::null()),
            watch: Cell::new(ptr::null()),
            expect: Cell::new(CLOSED),
            public: Cell::new(ptr::null()),
            offered: Cell::new(ptr::null()),
            scope: Cell::new(ptr::null()),
            offer: Cell::new(ptr::null()),
            scopes: RefCell::new(Vec::new()),
            always: AtomicU64::new(FREE),
            foot: Record::foot(),
        }
    }

    /// From now on forks are offered there, or nowhere. Nothing is on offer.
    ///
    /// # Safety
    ///
    /// The list does not move any more. The offer is valid until the next call, and this thread's.
    #[inline]
    pub(crate) unsafe fn attach(&self, offer: *const Offer<StealableJob>) {
        debug_assert!(self.offered.get().is_null());
        self.scope.set(ptr::null());
        // A fiber that goes on finds the offer that it left, as a rule.
        if !ptr::eq(self.offer.get(), offer) || self.tail.get().is_null() {
            self.attach_anew(offer);
        }
    }

    #[cold]
    #[inline(never)]
    fn attach_anew(&self, offer: *const Offer<StealableJob>) {
        if self.tail.get().is_null() {
            self.tail.set(&self.foot);
            self.public.set(&self.foot);
        }
        self.offer.set(offer);
        self.nothing_on_offer();
        if offer.is_null() {
            self.expect.set(CLOSED);
        }
    }

    /// Where it offers forks.
    #[inline]
    pub(crate) fn offered_at(&self) -> *const Offer<StealableJob> {
        self.offer.get()
    }

    /// What the next fork finds: the offer is free.
    #[inline]
    fn nothing_on_offer(&self) {
        self.offered.set(ptr::null());
        self.watch.set(&self.always);
        self.expect.set(FREE);
    }

    /// Appends a latent record; gives its predecessor, and whether it is time to [offer](Self::offer)
    /// something.
    ///
    /// # Safety
    ///
    /// The list is attached. `record` stays valid, and is removed by [`pop`](Self::pop) or
    /// [`back`](Self::back), youngest first.
    #[inline]
    pub(crate) unsafe fn push(&self, record: NonNull<Record>) -> (*const Record, bool) {
        let before = self.tail.get();
        // SAFETY: the tail is the foot or a record that its frame has not removed, so it is alive.
        unsafe { &*before }.set_next(record);
        self.tail.set(record.as_ptr());
        // SAFETY: by contract.
        (before, unsafe { self.is_free() })
    }

    /// Whether it is time to [offer](Self::offer) something.
    ///
    /// # Safety
    ///
    /// The list is attached.
    #[inline]
    pub(crate) unsafe fn is_free(&self) -> bool {
        // SAFETY: attached: `watch` is a word of this list or of its offer.
        let watch = unsafe { &*self.watch.get() };
        // Ordering: Relaxed; it is a hint, and the offer's own accesses decide.
        watch.load(Ordering::Relaxed) == self.expect.get()
    }

    /// Whether the youngest record is latent. Public ones come first, so it is public only if it is the last
    /// of them.
    #[inline]
    pub(crate) fn is_latent(&self, youngest: *const Record) -> bool {
        self.public.get() != youngest
    }

    /// Removes the youngest record, which is latent.
    #[inline]
    pub(crate) fn pop(&self, before: *const Record) {
        self.tail.set(before);
    }

    /// Puts the oldest fork or job that nobody was told of on offer, if there is one. Whether it did.
    #[inline]
    pub(crate) fn offer(&self) -> bool {
        // SAFETY: valid by the contract of `attach`; where there is none, the offer never seems free.
        let offer = unsafe { &*self.offer.get() };
        if !self.offered.get().is_null() {
            offer.clear();
        }
        if !self.scopes.borrow().is_empty() {
            return self.offer_with_scopes(offer);
        }
        let Some(record) = self.oldest_latent() else {
            self.nothing_on_offer();
            return false;
        };
        debug_assert!(self.scope.get().is_null(), "an open scope looks after its offer");
        self.publish(offer, self.told(record));
        true
    }

    #[cold]
    fn offer_with_scopes(&self, offer: &Offer<StealableJob>) -> bool {
        self.nothing_on_offer();
        let (what, scope) = self.oldest().unzip();
        self.scope.set(scope.unwrap_or(ptr::null()));
        what.inspect(|&what| self.publish(offer, what)).is_some()
    }

    #[inline]
    fn publish(&self, offer: &Offer<StealableJob>, what: NonNull<StealableJob>) {
        let turn = offer.publish(what);
        self.offered.set(what.as_ptr());
        self.watch.set(offer.decision());
        self.expect.set(taken(turn));
    }

    /// The oldest latent record is latent no more.
    #[inline]
    fn told(&self, record: NonNull<Record>) -> NonNull<StealableJob> {
        // SAFETY: it is in the list, so it is alive.
        unsafe { record.as_ref() }.tell();
        self.public.set(record.as_ptr());
        record.cast()
    }

    /// Takes the oldest fork or job out of the latent ones.
    fn oldest(&self) -> Option<(NonNull<StealableJob>, *const Jobs)> {
        let latent = self.oldest_latent();
        for &jobs in &*self.scopes.borrow() {
            // SAFETY: an open scope is alive.
            let jobs = unsafe { jobs.as_ref() };
            if self.is_in_latent_part(jobs.found()) {
                break;
            }
            if let Some(job) = jobs.give_oldest() {
                return Some((job, jobs));
            }
        }
        Some((self.told(latent?), ptr::null()))
    }

    /// Whether that record, which is in the list, is latent. Costs a walk; only scopes ask.
    fn is_in_latent_part(&self, record: *const Record) -> bool {
        let mut at = self.public.get();
        while at != self.tail.get() {
            // SAFETY: it is the foot or in the list, so it is alive.
            let here = unsafe { &*at };
            // SAFETY: it is not the tail.
            at = unsafe { here.next() }.as_ptr();
            if at == record {
                return true;
            }
        }
        false
    }

    #[inline]
    fn oldest_latent(&self) -> Option<NonNull<Record>> {
        if self.public.get() == self.tail.get() {
            return None;
        }
        // SAFETY: `public` is the foot or in the list, so it is alive.
        let public = unsafe { &*self.public.get() };
        // SAFETY: it is not the tail.
        Some(unsafe { public.next() })
    }

    /// Removes the youngest record, which is not latent any more.
    #[inline]
    pub(crate) fn back(&self, record: &Record, before: *const Record) -> TakenBack {
        debug_assert!(ptr::eq(self.tail.get(), record));
        // All that is left in the list is older than a public record, so public too.
        self.tail.set(before);
        self.public.set(before);
        if !ptr::eq(self.offered.get().cast(), record) {
            TakenBack::Ticket
        } else if self.withdraw() {
            TakenBack::Mine
        } else {
            TakenBack::Taken
        }
    }

    /// Takes back what is on offer: true if nobody has taken it.
    #[inline]
    fn withdraw(&self) -> bool {
        // SAFETY: valid by the contract of `attach`; something was published there.
        let mine = unsafe { &*self.offer.get() }.withdraw();
        self.nothing_on_offer();
        mine
    }

    /// Takes the job of that scope back which is on offer, if there is one and nobody has taken it.
    pub(crate) fn job_back(&self, jobs: &Jobs) -> Option<NonNull<StealableJob>> {
        let offered = NonNull::new(self.offered.get().cast_mut())?;
        if !ptr::eq(self.scope.get(), jobs) {
            return None;
        }
        self.scope.set(ptr::null());
        self.withdraw().then_some(offered)
    }

    /// Whether there may be something that [`promote`](Self::promote) would tell of.
    #[inline]
    pub(crate) fn may_have_untold(&self) -> bool {
        !self.offered.get().is_null()
            || self.public.get() != self.tail.get()
            || !self.scopes.borrow().is_empty()
    }

    /// Takes back what is on offer and makes a claim of each fork and job that nobody has taken, oldest fork
    /// first: the stack is about to wait.
    pub(crate) fn promote(&self, mut ticket: impl FnMut(Arc<ForkClaim>)) {
        let scope = self.scope.replace(ptr::null());
        if let Some(offered) = NonNull::new(self.offered.get().cast_mut())
            && self.withdraw()
        {
            ticket(if scope.is_null() {
                // SAFETY: it was on offer, and nobody has taken it.
                unsafe { Record::claimable(offered.cast()) }
            } else {
                // SAFETY: what is on offer is of an open scope, which is alive.
                unsafe { &*scope }.claim_offered(offered)
            });
        }
        while let Some(record) = self.oldest_latent() {
            self.told(record);
            // SAFETY: told just now.
            ticket(unsafe { Record::claimable(record) });
        }
        for &jobs in &*self.scopes.borrow() {
            // SAFETY: an open scope is alive.
            unsafe { jobs.as_ref() }.promote(&mut ticket);
        }
    }

    /// A scope is opened on this stack.
    ///
    /// # Safety
    ///
    /// It stays where it is until it is [closed](Self::close_scope), in reverse order of several.
    pub(crate) unsafe fn open_scope(&self, jobs: &Jobs) {
        self.scopes.borrow_mut().push(NonNull::from(jobs));
    }

    /// The innermost scope has ended.
    pub(crate) fn close_scope(&self) {
        self.scopes.borrow_mut().pop();
    }

    /// The youngest record, or the foot.
    #[inline]
    pub(crate) fn tail(&self) -> *const Record {
        self.tail.get()
    }
}
