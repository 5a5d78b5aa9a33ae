//! The list of latent forks of one stack.
//!
//! ```text
//!   foot ──▶ ● ──▶ ● ──▶ ○ ──▶ ○ ──▶ ○     ● was offered or promoted   ○ latent: its stack alone knows it
//!            oldest ▲                 ▲ youngest
//!                   public            tail
//! ```
//!
//! A join appends its second half and removes it when its first half has returned: a few stores. The oldest
//! latent fork is on offer whenever the worker's offer is free. When the stack has to wait, all latent forks
//! become stealable jobs.
//!
//! # Invariants
//!
//! - The list belongs to its thread; no other thread follows its pointers.
//! - Records are removed youngest first, by the frames that hold them, so all of them are alive.
//! - Public records come before latent ones. What is on offer is `public`, or a job of an open scope.
//! - Scopes are opened and closed like frames. Each scope knows the tail that it found, and so which records
//!   are older than its jobs.
//! - `*watch == expect` means that the offer is free and something may be put there. With nothing to watch,
//!   `watch` points to `always`.
//! - While a token counts, the list is *checked*: `*watch == expect` always holds. So each join comes to
//!   [`offer_unusually`](List::offer_unusually), behind a look at the token. `decision` says what to watch
//!   then.

mod checked;

use super::fork_claim::ForkClaim;
use super::jobs::Jobs;
use super::offer::{Offer, taken};
use super::record::ForkRecord;
use super::stealable::{Stealable, Stolen};
use super::token_frame::TokenFrame;
use crate::cancel_tree::node::Node;
use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use warpweft_platform::atomic::{AtomicU64, Ordering};

/// The value of `always`. No decision has it.
const FREE: u64 = u64::MAX;
/// A value of neither `always` nor a decision: nothing may be put on offer.
const CLOSED: u64 = u64::MAX - 1;

/// The state of a fork when its owner comes back to it.
pub(crate) enum TakenBack {
    /// It was on offer. The owner runs it.
    Mine,
    /// It was on offer. A thief runs it, and sets its latch at the end.
    Taken,
    /// It is not on offer any more: it was taken, or the first to claim it runs it.
    Promoted,
}

/// `repr(C)`: the words that a switch of stacks reads come first, next to each other.
#[repr(C)]
pub(crate) struct List {
    tail: Cell<*const ForkRecord>,
    public: Cell<*const ForkRecord>,
    /// The fork or job that is on offer, or was when it was taken; null if there is none.
    offered: Cell<*const Stealable>,
    /// The offer of the worker that the thread carries; null where no thief can exist.
    offer: Cell<*const Offer<Stealable>>,
    /// The scope of the job on offer; null for a fork.
    scope: Cell<*const Jobs>,
    /// The open scopes of this stack, the outermost first.
    scopes: RefCell<Vec<NonNull<Jobs>>>,
    /// The number of open scopes, and one more while the list is checked, and for each frame that
    /// [holds forks back](Self::hold_back). If it is 0, the oldest latent fork is all that can be offered.
    unusual: Cell<usize>,
    watch: Cell<*const AtomicU64>,
    expect: Cell<u64>,
    always: AtomicU64,
    /// The stolen fork that this stack runs; null if it runs none.
    ancestor: Cell<*const Stealable>,
    /// The number of scopes that were open when that fork began. Their jobs are no parts of it.
    older_scopes: Cell<usize>,
    foot: ForkRecord,
    /// True while a token counts on this stack.
    checked: Cell<bool>,
    /// The youngest frame with a token, or with none on top of one; null if there is none.
    frame: Cell<*const TokenFrame>,
    /// In a checked list: the oldest fork of frames that could not unwind. It and all younger ones have no
    /// token. It may have been removed.
    sheltered: Cell<*const ForkRecord>,
    /// In a checked list, and while something is on offer: what `watch` and `expect` would be.
    decision: Cell<(*const AtomicU64, u64)>,
    /// How often a token was looked at since the last look at the clock, and after how many the next one is.
    looks: Cell<(u32, u32)>,
    /// When that was.
    looked_ns: Cell<u64>,
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
            unusual: Cell::new(0),
            always: AtomicU64::new(FREE),
            ancestor: Cell::new(ptr::null()),
            older_scopes: Cell::new(0),
            foot: ForkRecord::foot(),
            checked: Cell::new(false),
            frame: Cell::new(ptr::null()),
            sheltered: Cell::new(ptr::null()),
            decision: Cell::new((ptr::null(), CLOSED)),
            looks: Cell::new((0, 0)),
            looked_ns: Cell::new(0),
        }
    }

    /// Offers forks at `offer` from now on, or nowhere if it is null. Nothing is on offer.
    ///
    /// # Safety
    ///
    /// The list does not move any more. The offer is valid until the next call, and belongs to this thread.
    #[inline]
    pub(crate) unsafe fn attach(&self, offer: *const Offer<Stealable>) {
        debug_assert!(self.offered.get().is_null());
        self.scope.set(ptr::null());
        // A fiber that continues usually finds the offer that it left.
        if !ptr::eq(self.offer.get(), offer) || self.tail.get().is_null() {
            self.attach_anew(offer);
        }
    }

    #[cold]
    #[inline(never)]
    fn attach_anew(&self, offer: *const Offer<Stealable>) {
        if self.tail.get().is_null() {
            self.tail.set(&self.foot);
            self.public.set(&self.foot);
        }
        self.offer.set(offer);
        self.nothing_on_offer();
        if offer.is_null() && !self.checked.get() {
            self.expect.set(CLOSED);
        }
    }

    /// Returns the offer at which this list offers forks.
    #[inline]
    pub(crate) fn offered_at(&self) -> *const Offer<Stealable> {
        self.offer.get()
    }

    /// Notes that the offer is free, for the next fork.
    #[inline]
    fn nothing_on_offer(&self) {
        self.offered.set(ptr::null());
        self.watch.set(&self.always);
        self.expect.set(FREE);
    }

    /// Appends a latent record. Returns its predecessor, and true if it is time to [offer](Self::offer)
    /// something.
    ///
    /// # Safety
    ///
    /// The list is attached. `record` stays valid, and is removed by [`pop`](Self::pop) or
    /// [`back`](Self::back), youngest first.
    #[inline]
    pub(crate) unsafe fn push(&self, record: NonNull<ForkRecord>) -> (*const ForkRecord, bool) {
        let before = self.tail.get();
        // SAFETY: the tail is the foot or a record that its frame has not removed, so it is alive.
        unsafe { &*before }.set_next(record);
        self.tail.set(record.as_ptr());
        // SAFETY: by contract.
        (before, unsafe { self.is_free() })
    }

    /// Returns true if it is time to [offer](Self::offer) something.
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

    /// Returns true if the youngest record is latent. Public records come first, so it is public only if it
    /// is the last of them.
    #[inline]
    pub(crate) fn is_latent(&self, youngest: *const ForkRecord) -> bool {
        self.public.get() != youngest
    }

    /// Removes the youngest record, which is latent.
    #[inline]
    pub(crate) fn pop(&self, before: *const ForkRecord) {
        self.tail.set(before);
    }

    /// Returns true if [`offer`](Self::offer) must not be called, but `offer_unusually`.
    #[inline]
    pub(crate) fn is_unusual(&self) -> bool {
        self.unusual.get() > 0
    }

    /// Puts the oldest latent fork on offer, if there is one. Returns true if it did. There is no open scope,
    /// and the list is not checked.
    #[inline]
    pub(crate) fn offer(&self) -> bool {
        debug_assert!(!self.is_unusual());
        // SAFETY: valid by the contract of `attach`; where there is no offer, it never seems free.
        let offer = unsafe { &*self.offer.get() };
        if !self.offered.get().is_null() {
            offer.clear();
        }
        let Some(record) = self.oldest_latent() else {
            self.nothing_on_offer();
            return false;
        };
        debug_assert!(self.scope.get().is_null(), "an open scope looks after its offer");
        self.publish(offer, self.make_public(record, ptr::null()), self.ancestor.get());
        true
    }

    #[cold]
    fn offer_with_scopes(&self, offer: &Offer<Stealable>) -> bool {
        self.nothing_on_offer();
        let (what, scope) = self.oldest().unzip();
        let scope = scope.unwrap_or(ptr::null());
        self.scope.set(scope);
        let ancestor = if self.is_older(scope) {
            ptr::null()
        } else {
            self.ancestor.get()
        };
        what.inspect(|&what| self.publish(offer, what, ancestor))
            .is_some()
    }

    /// Returns true if the scope was open before the stolen fork began that this stack runs. The fork may
    /// have spawned into it, but the fork's owner does not wait for that.
    fn is_older(&self, scope: *const Jobs) -> bool {
        let scopes = self.scopes.borrow();
        let mut older = scopes.iter().take(self.older_scopes.get());
        older.any(|older| ptr::eq(older.as_ptr(), scope))
    }

    #[inline]
    fn publish(&self, offer: &Offer<Stealable>, what: NonNull<Stealable>, ancestor: *const Stealable) {
        let turn = offer.publish(what, ancestor);
        self.offered.set(what.as_ptr());
        self.watch.set(offer.decision());
        self.expect.set(taken(turn));
    }

    /// Marks the oldest latent record, which was made under that token, as public.
    #[inline]
    fn make_public(&self, record: NonNull<ForkRecord>, token: *const Node) -> NonNull<Stealable> {
        // SAFETY: it is in the list, so it is alive.
        unsafe { record.as_ref() }.share(token);
        self.public.set(record.as_ptr());
        record.cast()
    }

    /// Removes the oldest fork or job from the latent ones and returns it.
    fn oldest(&self) -> Option<(NonNull<Stealable>, *const Jobs)> {
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
        let latent = latent?;
        Some((self.make_public(latent, self.token_of(latent)), ptr::null()))
    }

    /// Returns true if that record of the list is latent. It walks the list; only scopes and lists that are
    /// checked call it.
    fn is_in_latent_part(&self, record: *const ForkRecord) -> bool {
        self.is_behind(self.public.get(), record)
    }

    /// Returns true if that record is in the list behind `at`, which is in it, or the foot.
    fn is_behind(&self, mut at: *const ForkRecord, record: *const ForkRecord) -> bool {
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
    fn oldest_latent(&self) -> Option<NonNull<ForkRecord>> {
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
    pub(crate) fn back(&self, record: &ForkRecord, before: *const ForkRecord) -> TakenBack {
        debug_assert!(ptr::eq(self.tail.get(), record));
        // All that is left in the list is older than a public record, so it is public, too.
        self.tail.set(before);
        self.public.set(before);
        if !ptr::eq(self.offered.get().cast(), record) {
            TakenBack::Promoted
        } else if self.withdraw() {
            TakenBack::Mine
        } else {
            TakenBack::Taken
        }
    }

    /// Takes back what is on offer. Returns true if no thief has taken it.
    #[inline]
    fn withdraw(&self) -> bool {
        // SAFETY: valid by the contract of `attach`; something was published there.
        let mine = unsafe { &*self.offer.get() }.withdraw();
        self.nothing_on_offer();
        mine
    }

    /// Takes back the job of that scope that is on offer, if there is one and no thief has taken it.
    pub(crate) fn job_back(&self, jobs: &Jobs) -> Option<NonNull<Stealable>> {
        let offered = NonNull::new(self.offered.get().cast_mut())?;
        if !ptr::eq(self.scope.get(), jobs) {
            return None;
        }
        self.scope.set(ptr::null());
        self.withdraw().then_some(offered)
    }

    /// Returns true if [`promote`](Self::promote) may find something.
    #[inline]
    pub(crate) fn may_have_latent(&self) -> bool {
        !self.offered.get().is_null()
            || self.public.get() != self.tail.get()
            || !self.scopes.borrow().is_empty()
    }

    /// Returns true if there is a fork or a job of an open scope that no thread has begun. A hint.
    pub(crate) fn has_untaken(&self) -> bool {
        self.oldest_latent().is_some()
            || !self.offered.get().is_null()
                // SAFETY: valid by the contract of `attach`; something was published there.
                && unsafe { &*self.offer.get() }.look().is_some()
            // SAFETY: an open scope is alive.
            || self.scopes.borrow().iter().any(|&jobs| unsafe { jobs.as_ref() }.has_latent())
    }

    /// Takes back what is on offer, and makes a claim of each fork and job that no thief has taken, oldest
    /// fork first. The stack is about to wait.
    pub(crate) fn promote(&self, mut push_job: impl FnMut(Arc<ForkClaim>)) {
        let scope = self.scope.replace(ptr::null());
        if let Some(offered) = NonNull::new(self.offered.get().cast_mut())
            && self.withdraw()
        {
            push_job(if scope.is_null() {
                // SAFETY: it was on offer, and no thief has taken it.
                unsafe { ForkRecord::claimable(offered.cast()) }
            } else {
                // SAFETY: the job on offer belongs to an open scope, which is alive.
                unsafe { &*scope }.claim_offered(offered)
            });
        }
        while let Some(record) = self.oldest_latent() {
            self.make_public(record, self.token_of(record));
            // SAFETY: it was made public just now.
            push_job(unsafe { ForkRecord::claimable(record) });
        }
        for &jobs in &*self.scopes.borrow() {
            // SAFETY: an open scope is alive.
            unsafe { jobs.as_ref() }.promote(usize::MAX, &mut push_job);
        }
    }

    /// Opens a scope on this stack.
    ///
    /// # Safety
    ///
    /// `jobs` stays where it is until it is [closed](Self::close_scope). Scopes are closed in reverse order.
    pub(crate) unsafe fn open_scope(&self, jobs: &Jobs) {
        self.scopes.borrow_mut().push(NonNull::from(jobs));
        self.unusual.set(self.unusual.get() + 1);
    }

    /// Notes that a frame begins, or ends, above which nothing is to be offered. The caller of
    /// `offer_unusually` looks after that.
    pub(crate) fn hold_back(&self, begins: bool) {
        let frames = self.unusual.get();
        self.unusual.set(if begins { frames + 1 } else { frames - 1 });
    }

    pub(crate) fn close_scope(&self) {
        self.scopes.borrow_mut().pop();
        self.unusual.set(self.unusual.get() - 1);
    }

    /// Runs a stolen fork on this stack. Until it is done, what the stack offers is a part of it.
    pub(crate) fn run_stolen(&self, fork: Stolen) {
        let scopes = self.older_scopes.replace(self.scopes.borrow().len());
        let before = self.replace_ancestor(fork.address());
        // It never unwinds: its owner gets the panic.
        fork.run();
        self.replace_ancestor(before);
        self.older_scopes.set(scopes);
    }

    /// From here on, what this stack offers is a part of that fork, or of none if it is null. Returns of
    /// which it was before.
    pub(crate) fn replace_ancestor(&self, fork: *const Stealable) -> *const Stealable {
        self.ancestor.replace(fork)
    }

    /// Returns true if this stack runs a stolen fork.
    pub(crate) fn runs_stolen(&self) -> bool {
        !self.ancestor.get().is_null()
    }

    #[inline]
    pub(crate) fn tail(&self) -> *const ForkRecord {
        self.tail.get()
    }
}
