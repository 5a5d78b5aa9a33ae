//! A thread of a pool: which worker it carries, and how it waits without keeping the worker.
//!
//! ```text
//!            assigned                 hand over                    token runs on another thread
//!   SPARE ────────────▶ CARRYING(w) ───────────▶ BLOCKED ─────────────────────────▶ CARRYING(w')
//!     ▲                    │                                                              │
//!     └── gave its worker to a blocked thread whose token it ran ─────────────────────────┘
//! ```
//!
//! The whole story, with the reasons, is in `docs/THREADS.md`.
//!
//! # Invariants
//!
//! - A worker is carried by one thread, or on its way to one; it changes hands by [`Berth::assign`] only, and after that
//!   the giver does not touch it.
//! - A blocked thread has one token, which hangs on the signal that it waits for, lies in a queue, or runs.
//! - A spare thread is reserved before anything is given away.

use super::berth::Berth;
use super::context::{self, Front};
use super::crew::{Crew, Note};
use super::pool::AnyPool;
use crate::fork::{ForkCx, List};
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_platform::delay;
use warpweft_platform::thread::yield_now;
use warpweft_platform::thread_word;
use warpweft_task::pool::PoolHeader;
use warpweft_task::spawn::{self as births, Birth};
use warpweft_task::{Abandon, Signal, TaskRef, Why, set_wait};

/// What a thread of a pool knows of itself.
pub(crate) struct Seat {
    berth: Arc<Berth>,
    /// Keeps the pool alive as long as the thread.
    pool: Arc<dyn AnyPool>,
    /// Of the worker that the thread carries; null if it carries none.
    front: Cell<*const Front>,
    /// Whose CPUs the thread runs on, if workers have some.
    home: Cell<Option<usize>>,
    /// What a thread finds that has to go on without a worker: a pool that takes nothing any more.
    adrift: Front,
    /// The latent forks of this thread's stack.
    forks: List,
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat")
            .field("worker", &self.front().and_then(|front| front.worker))
            .finish_non_exhaustive()
    }
}

thread_word!(static SEAT: *const Seat = std::ptr::null());

/// Calls `f` with this thread's seat, if it is a thread of a pool.
pub(crate) fn with_seat<R>(f: impl FnOnce(Option<&Seat>) -> R) -> R {
    f(here())
}

/// This thread's seat, if it is a thread of a pool. Not to be kept beyond the task that asks.
#[inline]
pub(crate) fn here<'task>() -> Option<&'task Seat> {
    let seat = SEAT.with(Cell::get);
    // SAFETY: the pointer is null, or `Seat::occupy` set it, which resets it after the last task and before the seat goes.
    unsafe { seat.as_ref() }
}

/// Calls `body` with the right to fork on this stack, which is a pool's.
pub(crate) fn with_forks<R>(body: impl FnOnce(ForkCx<'_>) -> R) -> R {
    match here() {
        Some(seat) => body(ForkCx::new(seat)),
        None => unreachable!("forks and installed closures are run by threads of pools"),
    }
}

impl Seat {
    pub(crate) fn new(pool: Arc<dyn AnyPool>, berth: Arc<Berth>) -> Self {
        let adrift = pool.visitor();
        Self {
            berth,
            pool,
            front: Cell::new(std::ptr::null()),
            home: Cell::new(None),
            adrift,
            forks: List::new(),
        }
    }

    /// The latent forks of this thread's stack.
    #[inline]
    pub(crate) fn forks(&self) -> &List {
        &self.forks
    }

    /// Puts the oldest latent fork on offer, if there is one, and sees to it that somebody notices.
    #[cold]
    #[inline(never)]
    pub(crate) fn offer_fork(&self) {
        if self.forks.offer() {
            self.pool.offered();
        }
    }

    /// Calls `f`, the life of the thread, in which free functions find this seat.
    pub(crate) fn occupy<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                set_wait(None);
                SEAT.with(|seat| seat.set(std::ptr::null()));
            }
        }
        SEAT.with(|seat| seat.set(self));
        set_wait(Some(wait));
        let _leave = Leave;
        f()
    }

    /// Its pool.
    pub(crate) fn pool(&self) -> NonNull<PoolHeader> {
        self.pool.header()
    }

    /// Whether it is of the pool of `header`.
    pub(crate) fn is_of(&self, header: NonNull<PoolHeader>) -> bool {
        self.pool.header() == header
    }

    /// Whether a hook of the policy is on this thread's stack.
    pub(crate) fn is_in_policy(&self) -> bool {
        self.front().is_some_and(|front| front.in_policy.get())
    }

    pub(crate) fn berth(&self) -> &Arc<Berth> {
        &self.berth
    }

    /// The threads of its pool.
    pub(super) fn crew(&self) -> &Crew {
        self.pool.crew()
    }

    /// Whether this is a forked child, in which the pool's other threads are not there.
    pub(super) fn is_forked(&self) -> bool {
        self.pool.is_forked()
    }

    /// A spare thread for the worker that this one is about to give away; `None` if none can be had.
    pub(super) fn reserve(&self) -> Option<Arc<Berth>> {
        self.pool.crew().reserve(&self.pool).ok()
    }

    /// The front of the worker that the thread carries.
    #[inline]
    pub(crate) fn front(&self) -> Option<&Front> {
        // SAFETY: null, or a front of this seat's pool, which the seat keeps alive.
        unsafe { self.front.get().as_ref() }
    }

    /// Carries what was assigned from now on.
    pub(crate) fn take_up(&self, assigned: Option<usize>) {
        let front = assigned.map_or(std::ptr::null(), |worker| {
            self.pool.front(worker).as_ptr().cast_const()
        });
        self.front.set(front);
        if let Some(worker) = assigned {
            self.home.set(self.crew().settle(worker, self.home.get()));
        }
        let offer = assigned.map_or(std::ptr::null(), |worker| self.pool.offer(worker));
        // SAFETY: the seat is occupied, so it does not move; the pool, which it keeps alive, has the offer, and gives it to
        // the thread that carries the worker.
        unsafe { self.forks.attach(offer) };
        context::set(self.found());
    }

    /// What free functions find here outside of any visit.
    fn found(&self) -> *const Front {
        if self.front.get().is_null() {
            &self.adrift
        } else {
            self.front.get()
        }
    }

    /// Carries nothing from now on. The number of the worker, which is the caller's to give away.
    pub(crate) fn lay_down(&self) -> Option<usize> {
        let worker = self.front().map(|front| {
            front.yielding.set(false);
            front.worker
        });
        let visiting = !context::is(self.front.get());
        self.front.set(std::ptr::null());
        if !visiting {
            // What still runs here, a destructor perhaps, must not find a worker that is somebody else's.
            context::set(self.found());
        }
        // SAFETY: the seat is occupied, so it does not move.
        unsafe { self.forks.attach(std::ptr::null()) };
        worker.flatten()
    }

    /// Makes a task of each latent fork of this stack: it is about to wait, and they are others' to run.
    pub(super) fn promote_forks(&self, front: &Front) {
        self.forks.promote(|claim| {
            let ticket = self.job(move || {
                if let Some(fork) = claim.steal() {
                    fork.run();
                }
            });
            // Unwind: a policy that panics closes the pool, and its worker's `Local` is not touched any more. Frames
            // below wait for others, and must not be unwound.
            let _ = catch_unwind(AssertUnwindSafe(|| front.push(ticket, Why::Forked)));
        });
    }

    /// Whether the worker would find neither task nor fork. A hint.
    pub(crate) fn has_nothing_else_to_do(&self) -> bool {
        self.front()
            .is_some_and(|front| context::is(front) && front.alone() && !self.pool.has_offers())
    }

    /// Waits until `signal` is set, which a thread that took a fork of this stack will do. Never unwinds.
    pub(crate) fn wait_for_fork(&self, signal: &Signal) {
        match self.front() {
            None => self.sleep(signal),
            Some(front) if !front.in_policy.get() => {
                self.wait(signal);
            }
            Some(_) => {
                while !signal.is_set() {
                    yield_now();
                }
            }
        }
    }

    /// The same for a thread that carries no worker, and wants none.
    fn sleep(&self, signal: &Signal) {
        let rouse = Rouse(Arc::clone(&self.berth));
        if let Err(token) = signal.hang(self.job(move || drop(rouse))) {
            // Its end is an assignment, of nothing.
            token.abandon(Abandon::Cancelled);
        }
        let assigned = self.berth.wait();
        debug_assert_eq!(assigned, None, "a thread that did not ask for a worker");
    }

    /// A thread without a worker is about to wait: what it has forked, in `blocking` or adrift, others may do.
    fn tell_others(&self) {
        let found = context::get();
        context::set(&self.adrift);
        self.promote_forks(&self.adrift);
        context::set(found);
    }

    /// Waits until `signal` is set; see [`wait`].
    fn wait(&self, signal: &Signal) -> bool {
        let Some(front) = self.front() else {
            self.tell_others();
            return false;
        };
        assert!(
            !front.in_policy.get(),
            "a hook of a policy cannot wait: its worker would be in nobody's hands"
        );
        if signal.is_set() {
            return true;
        }
        let visited = (!context::is(front)).then(context::get);
        context::set(front);
        self.promote_forks(front);
        let Some(spare) = self.reserve() else {
            self.work_meanwhile(signal, visited);
            return true;
        };
        if let Err(token) = signal.hang(self.token()) {
            // It was set in the meantime. The token's end leaves an assignment behind, which is taken back here.
            token.abandon(Abandon::Cancelled);
            self.berth.wait();
            self.pool.crew().release(&spare);
            visited.inspect(|&front| context::set(front));
            return true;
        }
        delay::point("seat.wait: token hung");
        let worker = self.lay_down();
        self.pool.crew().note(Note::Blocked);
        spare.assign(worker);
        self.resume(visited);
        true
    }

    /// Sleeps until the token of this thread has run; `visited` is what free functions are to find afterwards, if it is
    /// not the worker.
    pub(super) fn resume(&self, visited: Option<*const Front>) {
        let assigned = self.berth.wait();
        self.pool.crew().note(Note::Resumed);
        self.take_up(assigned);
        visited.inspect(|&front| context::set(front));
    }

    /// The last resort where no spare thread can be had: runs other tasks on top of this frame until the signal is set.
    /// Counted, because it may deadlock where a task needs what a frame below it holds.
    fn work_meanwhile(&self, signal: &Signal, visited: Option<*const Front>) {
        while !signal.is_set() {
            let Some(front) = self.front() else {
                // A task gave the worker to a blocked thread: so this one can wait as it should.
                if let Err(token) = signal.hang(self.token()) {
                    token.push(Why::Woken);
                }
                self.pool.crew().note(Note::Blocked);
                return self.resume(visited);
            };
            // Unwind: what panics here is the policy, which closes the pool and is not called any more.
            let worked =
                !front.in_policy.get() && catch_unwind(AssertUnwindSafe(|| front.step())).unwrap_or(false);
            if !worked {
                yield_now();
            }
        }
        visited.inspect(|&front| context::set(front));
    }

    /// A task that gives the worker that runs it to this thread.
    pub(super) fn token(&self) -> TaskRef {
        let resume = Resume(Some(Arc::clone(&self.berth)));
        self.job(move || resume.run())
    }

    /// A task about this thread: its way back, or a fork of its stack.
    fn job(&self, body: impl FnOnce() + Send + 'static) -> TaskRef {
        let birth = Birth {
            pool: self.pool.header(),
            location: Location::caller(),
            name: None,
        };
        // SAFETY: the seat keeps the pool alive, and the thread does not end before its token has.
        unsafe { births::detached_job(body, birth) }
    }
}

/// The token of a thread that sleeps and wants no worker. Its end wakes the thread, whether it runs or not.
struct Rouse(Arc<Berth>);

impl Drop for Rouse {
    fn drop(&mut self) {
        self.0.assign(None);
    }
}

/// The body of a blocked thread's token.
struct Resume(Option<Arc<Berth>>);

impl Resume {
    fn run(mut self) {
        let worker = with_seat(|seat| seat.and_then(Seat::lay_down));
        if let Some(berth) = self.0.take() {
            berth.assign(worker);
        }
    }
}

impl Drop for Resume {
    fn drop(&mut self) {
        // The token ended without having run: the pool closes, or its policy lost it.
        if let Some(berth) = self.0.take() {
            berth.assign(None);
        }
    }
}

/// A thread of this pool has done what a blocked frame waited for, and has nothing else on its stack: the frame goes on with
/// its worker, at once.
///
/// Not through a queue, where other tasks come first: each of them might block in a lock that the frame holds, until no worker
/// is left to run the token (rayon#592 by another way).
pub(crate) fn resume(token: TaskRef) {
    match here().and_then(Seat::front) {
        // A token ends in one step.
        Some(_) => drop(token.run()),
        None => token.push(Why::Woken),
    }
}

/// How a thread of a pool waits: by giving its worker away, until its token runs. `false`: it carries none.
fn wait(signal: &Signal) -> bool {
    with_seat(|seat| seat.is_some_and(|seat| seat.wait(signal)))
}

/// What free functions find on a thread that no longer visits: the worker that it carries *now*.
pub(crate) fn found_here() -> *const Front {
    with_seat(|seat| seat.map_or(std::ptr::null(), Seat::found))
}

/// Whether this is a thread of the pool of `header`.
pub(crate) fn is_of(header: NonNull<PoolHeader>) -> bool {
    with_seat(|seat| seat.is_some_and(|seat| seat.is_of(header)))
}
