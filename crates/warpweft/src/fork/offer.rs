//! One fork on offer. A thief takes it, or its owner takes it back for the price of a store, a fence and a
//! load.
//!
//! The protocol is drawn in `README.md` beside this file. It is Dekker's: either the owner's read sees the
//! request, or the thief sees that the offer is gone. Only where both see each other does a compare-and-swap
//! decide. The owner never waits.
//!
//! # Invariants
//!
//! - `turn` and `word` are written by the thread that carries the worker; `want` by thieves, and by the owner
//!   in a contested turn.
//! - The word is null when a turn begins.
//! - A turn is decided once: OWNER and TAKEN are final, and no request regresses to an earlier turn.
//! - A thief never touches a fork that was withdrawn: it reads the fork's address after it has won.
//!
//! An offer that its owner takes back without a read-modify-write comes from the THE protocol (Cilk-5) and
//! the split deque (Lace). A stack offers one fork at a time, so most forks need no fence: why it is no
//! process-wide barrier of the thief instead is in `docs/decisions/0067-fences-of-offers.md`.

use std::ptr::{self, NonNull};
use warpweft_platform::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
use warpweft_platform::delay;

/// A thief asks for the fork of this turn.
const WANTED: u64 = 1;
/// A thief has the fork.
const TAKEN: u64 = 2;
/// The owner has the fork back, after a thief had asked.
const OWNER: u64 = 3;

const fn word(turn: u64, state: u64) -> u64 {
    turn << 2 | state
}

const fn turn_of(want: u64) -> u64 {
    want >> 2
}

/// Returns what [`Offer::decision`] shows when a thief has taken the fork of `turn`.
pub(crate) const fn taken(turn: u64) -> u64 {
    word(turn, TAKEN)
}

/// The public slot in which one worker offers one fork at a time. `T` is opaque here.
#[derive(Debug)]
pub(crate) struct Offer<T> {
    word: AtomicPtr<T>,
    turn: AtomicU64,
    want: AtomicU64,
    /// The stolen fork that the owner's stack runs, of which the one on offer is a part; null if it runs
    /// none.
    ancestor: AtomicPtr<T>,
}

impl<T> Offer<T> {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicPtr::new(ptr::null_mut()),
            turn: AtomicU64::new(0),
            want: AtomicU64::new(0),
            ancestor: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Makes room for the next fork after a thief has taken the present one and the owner knows. A withdrawn
    /// fork needs no clearing.
    pub(crate) fn clear(&self) {
        self.word.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Offers `fork`, a part of `ancestor`; nothing else is on offer. Returns the number of the turn.
    ///
    /// `fork` stays valid until [`withdraw`](Self::withdraw) says that it is back, or until its thief is done
    /// with it.
    #[inline]
    pub(crate) fn publish(&self, fork: NonNull<T>, ancestor: *const T) -> u64 {
        // Ordering: Relaxed; the turn publishes it.
        self.ancestor.store(ancestor.cast_mut(), Ordering::Relaxed);
        let turn = self.turn.load(Ordering::Relaxed) + 1;
        // Ordering: Release, so that a thief that sees this turn does not see the word of an earlier turn any
        // more.
        self.turn.store(turn, Ordering::Release);
        delay::point("offer.publish: turn");
        // Ordering: Release publishes what `fork` points to, and the turn.
        self.word.store(fork.as_ptr(), Ordering::Release);
        turn
    }

    /// Returns the word in which [`taken`]`(turn)` appears when a thief has the fork. Owners compare it
    /// before each fork.
    pub(crate) fn decision(&self) -> &AtomicU64 {
        &self.want
    }

    /// Takes the last fork back. Returns true if the owner has it, false if a thief does. It is called once
    /// per turn at most.
    #[inline]
    pub(crate) fn withdraw(&self) -> bool {
        let turn = self.turn.load(Ordering::Relaxed);
        self.word.store(ptr::null_mut(), Ordering::Relaxed);
        delay::point("offer.withdraw: gone");
        fence(Ordering::SeqCst);
        // Ordering: Relaxed; the fence orders it after the store, and nothing is read through it.
        let want = self.want.load(Ordering::Relaxed);
        turn_of(want) != turn || self.contest(turn, want)
    }

    #[cold]
    fn contest(&self, turn: u64, want: u64) -> bool {
        // Ordering: Relaxed; the fork did not leave its owner. If it did, another place waits for its end.
        want == word(turn, WANTED)
            && self
                .want
                .compare_exchange(want, word(turn, OWNER), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Returns the turn of the fork on offer, for thieves.
    pub(crate) fn look(&self) -> Option<u64> {
        // Ordering: Acquire pairs with `publish`. A word between two looks at the same turn belongs to that
        // turn and is present. A request for a fork that is still to come would hide it from all thieves.
        let turn = self.turn.load(Ordering::Acquire);
        let there = !self.word.load(Ordering::Acquire).is_null();
        let want = self.want.load(Ordering::Relaxed);
        let decided = want == word(turn, TAKEN) || want == word(turn, OWNER);
        (there && !decided && self.turn.load(Ordering::Relaxed) == turn).then_some(turn)
    }

    /// Returns the turn of the fork on offer, if it is a part of `ancestor`.
    pub(crate) fn look_below(&self, ancestor: *const T) -> Option<u64> {
        let turn = self.look()?;
        // Ordering: Relaxed; it was written before the turn. A later turn may have changed it, but then this
        // turn is decided, and cannot be taken.
        ptr::eq(self.ancestor.load(Ordering::Relaxed), ancestor).then_some(turn)
    }

    pub(crate) fn turns(&self) -> u64 {
        self.turn.load(Ordering::Relaxed)
    }

    /// Takes the fork of `turn` for a thief, if it is still there.
    pub(crate) fn take(&self, turn: u64) -> Option<NonNull<T>> {
        let mut want = self.want.load(Ordering::Relaxed);
        loop {
            if turn_of(want) > turn || want == word(turn, TAKEN) || want == word(turn, OWNER) {
                return None;
            }
            if want == word(turn, WANTED) {
                // Another thief asked, and may be preempted: this one continues as if it had asked itself.
                break;
            }
            match self.want.compare_exchange_weak(
                want,
                word(turn, WANTED),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => want = now,
            }
        }
        delay::point("offer.take: asked");
        fence(Ordering::SeqCst);
        delay::point("offer.take: announced");
        // Ordering: Acquire pairs with `publish`. A word that is not null, read between two looks at the same
        // turn, belongs to that turn: the next turn's word is published after that turn, and the last turn's
        // word was null before.
        let fork = NonNull::new(self.word.load(Ordering::Acquire))?;
        if self.turn.load(Ordering::Acquire) != turn {
            return None;
        }
        // Ordering: Relaxed; what the fork needs was acquired with the word.
        self.want
            .compare_exchange(
                word(turn, WANTED),
                word(turn, TAKEN),
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .ok()?;
        Some(fork)
    }
}
