//! How a stack waits: a fiber's switches away, until its bell rings or its token enters it; a thread's own gives the worker to a spare
//! thread and sleeps.
//!
//! ```text
//!            hand over                     called: the token ran, on another thread
//!   CARRYING(w) ───────────▶ OPEN ───────────────────────────────────▶ CARRYING(w') ─▶ goes on
//!                             ▲ │ a worker was asked for, for a fiber
//!                             │ ▼
//!                        CARRYING(w'): runs the thread's fibers; when they wait, gives it away again
//! ```

use super::berth::Berth;
use super::context::{self, Front};
use super::crew::Note;
use super::forked::end_if;
use super::seat::{Seat, give_to, here, with_seat};
use crate::fiber::{Fiber, Held};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;
use warpweft_platform::delay;
use warpweft_platform::thread::yield_now;
use warpweft_task::spawn::{self as births, Birth};
use warpweft_task::{Abandon, Runnable, Signal, Why};

/// How many fibers a blocked home resumes before it gives the worker back and asks for one again, behind what its policy
/// puts first.
const TURNS: u32 = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    2
} else {
    64
};

impl Seat {
    /// Makes a task of each latent fork of this stack: it is about to wait, and they are others' to run.
    #[inline]
    pub(super) fn promote_forks(&self, front: &Front) {
        if self.forks().may_have_untold() {
            self.promote_all_forks(front);
        }
    }

    #[inline(never)]
    fn promote_all_forks(&self, front: &Front) {
        self.forks().promote(|claim| {
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

    /// Waits until `signal` is set, which a thread that took a fork of this stack will do. Never unwinds, but in a forked child, if
    /// that thread stayed in the parent: then nobody works on the frame.
    pub(crate) fn wait_for_fork(&self, signal: &Signal) {
        if self.stayed_in_parent() && !signal.is_set() {
            self.refuse_wait_for_fork();
        }
        match self.front() {
            Some(_) if self.keeps_worker() => {
                while !signal.is_set() {
                    yield_now();
                }
            }
            _ => {
                if !self.wait(signal, Held::Yes) {
                    self.sleep_without_worker(signal);
                }
            }
        }
    }

    /// The same for a thread that carries no worker, and wants none.
    fn sleep_without_worker(&self, signal: &Signal) {
        let berth = Berth::new(self.home().pool());
        let rouse = Rouse(Arc::clone(&berth));
        if let Err(token) = signal.hang(self.job(move || drop(rouse))) {
            // Its end is an assignment, of nothing.
            token.abandon(Abandon::Cancelled);
        }
        let assigned = berth.hand.wait();
        debug_assert_eq!(assigned, None, "a thread that did not ask for a worker");
    }

    /// The same for one with fibers, in `blocking`: it may wait for what one of them does or holds, so it is given workers to run
    /// them with.
    fn sleep_for_fibers(&self, signal: &Signal) {
        let berth = self.berth();
        let visited = (!context::is(self.found())).then(context::get);
        berth.expect_call();
        berth.hand.open();
        if let Err(token) = signal.hang(berth.rouse()) {
            // Its end says the same.
            token.abandon(Abandon::Cancelled);
        }
        self.sleep(berth);
        self.stay_away();
        visited.inspect(|&front| context::set(front));
    }

    /// A wait in `blocking` is over, for which a fiber, or the fibers of the thread, may have been given a worker: it goes.
    fn stay_away(&self) {
        let pool = self.home().pool();
        if self.front().is_some()
            && let Ok(spare) = pool.crew().reserve(pool)
        {
            spare.hand.assign(self.lay_down());
        }
    }

    /// This stack is about to be left for another one of its thread: what it has forked, others may do.
    pub(crate) fn tell_forks(&self) {
        if !self.forks().may_have_untold() {
            return;
        }
        let front = self.front().unwrap_or(self.home().adrift());
        self.tell_forks_through(front);
    }

    /// A thread without a worker is about to wait: what it has forked, in `blocking` or adrift, others may do.
    fn tell_others(&self) {
        self.tell_forks_through(self.home().adrift());
    }

    fn tell_forks_through(&self, front: &Front) {
        let found = context::get();
        context::set(front);
        // The tickets are pushed there.
        self.promote_forks(front);
        context::set(found);
    }

    /// A hook of a policy may not, nor a waker that the poller calls on a worker.
    pub(super) fn may_wait(&self) {
        assert!(
            !self.is_in_policy(),
            "a hook of a policy cannot wait: its worker would be in nobody's hands"
        );
        assert!(
            !self.keeps_worker(),
            "a waker cannot wait: the worker that calls it has to go on"
        );
    }

    /// Waits until `signal` is set; see [`wait`]. A fiber comes here for forks and scopes alone.
    fn wait(&self, signal: &Signal, held: Held) -> bool {
        self.may_wait();
        if signal.is_set() {
            return true;
        }
        if self.stayed_in_parent() {
            return false;
        }
        if let Some(fiber) = self.fiber().filter(|fiber| fiber.may_switch()) {
            self.switch_away(fiber, held, |held| fiber.wait(signal, held));
            return true;
        }
        let Some(front) = self.front() else {
            self.tell_others();
            let has_fibers = self.fiber().is_none() && self.berth().fibers() > 0;
            if has_fibers {
                self.sleep_for_fibers(signal);
            }
            return has_fibers;
        };
        let visited = (!context::is(front)).then(context::get);
        context::set(front);
        self.promote_forks(front);
        let pool = self.home().pool();
        let Ok(spare) = pool.crew().reserve(pool) else {
            self.work_meanwhile(|| signal.is_set());
            if self.front().is_none() {
                // A task gave the worker to a blocked thread: so this one can wait as it should.
                self.await_call(signal, None);
            }
            visited.inspect(|&front| context::set(front));
            return true;
        };
        self.await_call(signal, Some(spare));
        visited.inspect(|&front| context::set(front));
        true
    }

    /// Switches to the thread's own stack by `switch`, which says whether this one is to be unwound.
    pub(super) fn switch_away(&self, fiber: &Fiber, held: Held, switch: impl FnOnce(Held) -> bool) {
        let held = if fiber.is_held() { Held::Yes } else { held };
        let found = self.found();
        let visited = (!context::is(found)).then(context::get);
        let unwinds = fiber.is_unwinding() && held == Held::No || {
            context::set(found);
            self.promote_forks(self.front().unwrap_or_else(|| self.home().adrift()));
            let unwinds = switch(held);
            if fiber.is_away() {
                self.stay_away();
            }
            unwinds
        };
        visited.inspect(|&front| context::set(front));
        if unwinds {
            fiber.unwind();
        }
    }

    /// Hangs the token on the signal, gives the worker, if there is one, to the spare thread, and sleeps until the token has
    /// run. Meanwhile the thread may be given workers to run its fibers with.
    fn await_call(&self, signal: &Signal, spare: Option<Arc<Berth>>) {
        let pool = self.home().pool();
        let berth = self.own_berth();
        berth.expect_call();
        berth.hand.open();
        let hung = signal.hang(self.token(&berth));
        match (hung, spare) {
            (Err(token), Some(spare)) => {
                // It was set in the meantime.
                token.abandon(Abandon::Cancelled);
                // The token's end has left an assignment behind; or somebody else a worker, for the fibers.
                match if berth.hand.close() {
                    None
                } else {
                    berth.hand.wait()
                } {
                    None => pool.crew().release(&spare),
                    worker => {
                        spare.hand.assign(worker);
                    }
                }
                return;
            }
            (Err(token), None) => token.push(Why::Woken),
            (Ok(()), Some(spare)) => {
                delay::point("seat.wait: token hung");
                let worker = self.lay_down();
                spare.hand.assign(worker);
            }
            (Ok(()), None) => {}
        }
        pool.crew().note(Note::Blocked);
        self.sleep(&berth);
        pool.crew().note(Note::Resumed);
    }

    /// Where a frame of this stack waits to be called.
    fn own_berth(&self) -> Arc<Berth> {
        // A fiber that must not switch holds its thread up: nobody gives that thread a worker for anything else.
        if self.fiber().is_none() {
            Arc::clone(self.berth())
        } else {
            Berth::new(self.home().pool())
        }
    }

    /// The thread has no worker, and wants one again: it goes into the queue for it.
    pub(super) fn queue_for_worker(&self) {
        let berth = self.own_berth();
        berth.expect_call();
        berth.hand.open();
        self.token(&berth).push(Why::Woken);
        self.sleep(&berth);
        self.home().pool().crew().note(Note::Resumed);
    }

    /// Sleeps until the token of this thread has run, or ended.
    fn sleep(&self, berth: &Arc<Berth>) {
        let pool = self.home().pool();
        let mut told = false;
        loop {
            berth.ask_unless_told(berth.is_called_in_vain(), told);
            self.take_up(berth.hand.wait());
            if self.fiber().is_none() {
                if self.front().is_some() {
                    self.run_fibers(berth);
                } else if pool.is_closing() {
                    // Not all of them: a fiber of another thread may wait for this very frame, and those here for that one.
                    self.home().unwind_ready(self);
                    told = true;
                }
                // A fiber that forked has ended, on top of this frame of another task.
                end_if(self.stayed_in_parent());
            }
            if berth.was_called() && (self.front().is_some() || pool.is_closing() || berth.is_dropped()) {
                return;
            }
            if self.front().is_some() {
                // The fibers wait, and so does this frame: the worker goes.
                if let Ok(spare) = pool.crew().reserve(pool) {
                    // OPEN first: who calls the frame from here on finds it so.
                    berth.hand.open();
                    if berth.was_called() && berth.hand.close() {
                        return pool.crew().release(&spare);
                    }
                    let worker = self.lay_down();
                    spare.hand.assign(worker);
                    continue;
                }
                self.work_meanwhile(|| berth.was_called());
                if self.front().is_some() {
                    return;
                }
            }
            berth.hand.open();
            // OPEN first, here too. A call that found no worker taken is followed by a question for one, above.
            if berth.is_dropped() && berth.hand.close() {
                return;
            }
        }
    }

    /// The frame waits, and its thread was given a worker for the fibers.
    fn run_fibers(&self, berth: &Berth) {
        for _ in 0..TURNS {
            // A fiber may have given the worker away.
            let goes_on = self.front().is_some() && !berth.was_called() && !self.home().pool().is_closing();
            if !(goes_on && self.home().run_one(self)) {
                return;
            }
        }
    }

    /// The last resort where no spare thread can be had: runs other tasks on top of this frame until it is `over`, or its
    /// thread has no worker any more. Counted, because it may deadlock where a task needs what a frame below it holds.
    fn work_meanwhile(&self, over: impl Fn() -> bool) {
        while !over() {
            let Some(front) = self.front() else {
                return;
            };
            let pool = self.home().pool();
            if pool.is_closing() {
                // What the frame waits for may end only when the last worker has left.
                // SAFETY: a frame below a hook does not come here, and one that panicked above is gone.
                return unsafe { pool.leave_from(self) };
            }
            // Unwind: what panics here is the policy, which closes the pool and is not called any more.
            let worked =
                !front.is_in_policy() && catch_unwind(AssertUnwindSafe(|| front.step())).unwrap_or(false);
            let may_resume = self.fiber().is_none() && self.front().is_some();
            let resumed = may_resume && self.home().run_one(self);
            // One of them may have forked, on top of this frame of another task.
            end_if(self.stayed_in_parent());
            if !worked && !resumed {
                yield_now();
            }
        }
    }

    /// A task that calls the frame that waits at `berth`, and gives it the worker that runs it.
    fn token(&self, berth: &Arc<Berth>) -> Runnable {
        let resume = Resume(Some(Arc::clone(berth)));
        self.job(move || resume.run())
    }

    /// A task about this thread: its way back, or a fork of its stack.
    fn job(&self, body: impl FnOnce() + Send + 'static) -> Runnable {
        let birth = Birth {
            pool: self.pool(),
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
        self.0.hand.assign(None);
    }
}

/// The body of a blocked thread's token.
struct Resume(Option<Arc<Berth>>);

impl Resume {
    fn run(mut self) {
        if let Some(berth) = self.0.take() {
            berth.call();
            // If it is not taken, the thread has a worker already, for its fibers.
            give_to(|worker| berth.hand.offer(worker));
        }
    }
}

impl Drop for Resume {
    fn drop(&mut self) {
        // The token ended without having run: the pool closes, or its policy lost it.
        if let Some(berth) = self.0.take() {
            berth.call_dropped();
            berth.hand.offer(None);
        }
    }
}

/// A thread of this pool has done what a blocked frame waited for, and has nothing else on its stack: the frame goes on with
/// its worker, at once.
///
/// Not through a queue, where other tasks come first: each of them might block in a lock that the frame holds, until no worker
/// is left to run the token (rayon#592 by another way).
pub(crate) fn resume(token: Runnable) {
    match here().and_then(Seat::front) {
        // A token ends in one step.
        Some(_) => drop(token.run()),
        None => token.push(Why::Woken),
    }
}

/// How a thread of a pool waits: by giving its worker away, until its token runs. `false`: it carries none.
pub(super) fn wait(signal: &Signal) -> bool {
    with_seat(|seat| seat.is_some_and(|seat| seat.wait(signal, Held::No)))
}
