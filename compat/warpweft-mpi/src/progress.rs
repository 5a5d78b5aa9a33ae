//! The progress engine: the requests that MPI works on, and the turn that tests which are over.
//!
//! ```text
//!   post ──▶ outstanding ── a turn finds it over ──▶ result in its Op, waker out ──▶ the future takes it
//!              │   dropped future ──▶ list ── the next call cancels ──┘ (the result is freed)
//!   recv_any_length ──▶ unmatched ── a message fits ──▶ outstanding
//! ```
//!
//! # Invariants
//!
//! - Calls into MPI are made under the lock of [`Outstanding`].
//! - A buffer belongs to the engine from the post until MPI is through with it, whatever becomes of the
//!   future. A `Vec`'s elements stay where they are when the `Vec` moves.
//! - No waker is woken or dropped under the lock: those of waits that are over are in `woken` until
//!   [`leave`](MpiProgress::leave), or are handed to the caller of the turn.

use crate::api::{Api, Handle};
use crate::error::MpiError;
use crate::op::{Buffer, Op, Peer, PeerKind, RawComm};
use crate::outstanding::{Entry, Outstanding, RawRequest, SPIN_NS, Unmatched, WINDOW};
use crate::peer_waker::PeerWaker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use warpweft::io::{Progress, ProgressNotifier, Rest};
use warpweft::is_only_ready;
use warpweft_platform::atomic::{AtomicBool, AtomicU64, Ordering, spin_loop};
use warpweft_platform::clock::now_ns;
use warpweft_platform::sync::{Mutex, MutexGuard};
use warpweft_platform::thread::yield_now;
use warpweft_platform::thread_word;

/// The longest time for which a task that begins to wait tests by itself while others are ready.
const LINGER_NS: u64 = 2_000;
/// The requests that it tests then: the last ones, its own among them unless many came after it.
const LAST: usize = WINDOW / 8;
/// The longest time for which it does so while it is the only ready one. The shortest sleep of an idle rank
/// takes 20 µs and the system's slack of 50 µs. A rank whose peer has slept is still awake when the answer
/// comes, or both would sleep in turn from then on.
const ALONE_NS: u64 = 100_000;
/// An idle worker tests so often between two looks at the clock and at other tasks.
const ROUNDS: u32 = 4;
/// A thread's task gives way after this many messages that came at once.
const MOST_AT_ONCE: u32 = 8;
/// One wait of this many tests by itself, even if that has not paid lately.
const TRIAL: u32 = 64;
/// A wait that tested in vain takes this much from the score, one that succeeded adds 1.
const IN_VAIN: u32 = 4;
const MAX_SCORE: u32 = 16;
/// A runner spends at most one part in this many of its time on looks at MPI.
const GLANCE_SHARE: u64 = 50;

// How many messages came at once since a task of this thread gave way.
thread_word!(static AT_ONCE: u32 = 0);

/// The progress engine of a process.
#[derive(Debug)]
pub(crate) struct MpiProgress {
    api: Api,
    state: Mutex<Outstanding>,
    /// Receives whose futures were dropped. The lock is never held over a call of MPI, and comes after that
    /// of `state`.
    dropped: Mutex<Vec<Arc<Op>>>,
    /// False if there are none.
    has_dropped: AtomicBool,
    /// When a runner may look again.
    glance_ns: AtomicU64,
    notifier: OnceLock<ProgressNotifier>,
    /// Absent where a peer cannot wake this rank.
    peer_waker: OnceLock<PeerWaker>,
}

impl MpiProgress {
    pub(crate) fn new(api: Api) -> Self {
        Self {
            api,
            state: Mutex::new(Outstanding::default()),
            dropped: Mutex::new(Vec::new()),
            has_dropped: AtomicBool::new(false),
            glance_ns: AtomicU64::new(0),
            notifier: OnceLock::new(),
            peer_waker: OnceLock::new(),
        }
    }

    /// Sets what makes the runtime call the engine soon.
    pub(crate) fn set_notifier(&self, notifier: ProgressNotifier) {
        let _ = self.notifier.set(notifier);
    }

    /// Sets what ranks wake each other by.
    pub(crate) fn set_peer_waker(&self, peer_waker: PeerWaker) {
        let _ = self.peer_waker.set(peer_waker);
    }

    /// Calls MPI, with no other thread in it.
    ///
    /// # Errors
    ///
    /// The job has ended, or what `call` returns.
    pub(crate) fn call<T>(&self, call: impl FnOnce(&Api) -> Result<T, MpiError>) -> Result<T, MpiError> {
        let state = self.state.lock();
        if state.finished {
            return Err(MpiError::finished());
        }
        call(&self.api)
    }

    /// Begins a request. `post` gives MPI the buffer.
    pub(crate) fn post(
        &self,
        peer: Peer,
        mut buffer: Buffer,
        post: impl FnOnce(&Api, &mut Buffer) -> Result<Handle, MpiError>,
    ) -> Result<Arc<Op>, MpiError> {
        let op = Arc::new(Op::new());
        let mut state = self.enter();
        let posted = state.check().and_then(|()| post(&self.api, &mut buffer));
        if let Ok(request) = posted {
            let entry = Entry {
                op: Arc::clone(&op),
                buffer,
                peer,
            };
            state.push(RawRequest(request), entry);
            // Most messages are gone, or here, at once. Where they are not, a test of each would keep MPI
            // from sending several with one call of the system.
            let last = state.requests.len() - 1;
            if last < LAST {
                state.test(&self.api, last..last + 1);
            }
        }
        let now = now_ns();
        state.active_ns = now;
        let is_idle = state.is_idle();
        self.leave(state);
        posted?;
        if let (PeerKind::Send, Some(rank), Some(peer_waker)) = (peer.kind, peer.rank, self.peer_waker.get())
        {
            peer_waker.wake_if_due(rank, now);
        }
        if !is_idle {
            self.has_posted();
        }
        Ok(op)
    }

    /// Begins the receive of a message of any length.
    pub(crate) fn match_any(&self, peer: Peer, comm: RawComm) -> Result<Arc<Op>, MpiError> {
        let op = Arc::new(Op::new());
        let mut state = self.enter();
        let checked = state.check();
        if checked.is_ok() {
            state.unmatched.push(Unmatched {
                op: Arc::clone(&op),
                peer,
                comm,
            });
            state.match_messages(&self.api);
        }
        state.active_ns = now_ns();
        self.leave(state);
        checked?;
        self.has_posted();
        Ok(op)
    }

    /// Locks the state, after the receives of dropped futures are cancelled. A new request comes after them:
    /// they take none of its messages.
    fn enter(&self) -> MutexGuard<'_, Outstanding> {
        // First: who takes the list has cancelled what is in it before another thread posts.
        let mut state = self.state.lock();
        // Ordering: Relaxed. A thread that posts after a drop sees it, because one happened before the other.
        if self.has_dropped.load(Ordering::Relaxed) {
            let mut list = self.dropped.lock();
            self.has_dropped.store(false, Ordering::Relaxed);
            let dropped = std::mem::take(&mut *list);
            drop(list);
            if !state.finished {
                dropped.iter().for_each(|op| state.cancel(&self.api, op));
            }
        }
        state
    }

    /// Unlocks the state, and wakes the tasks whose waits are over.
    #[allow(clippy::unused_self, reason = "the counterpart of `enter`")]
    fn leave(&self, mut state: MutexGuard<'_, Outstanding>) {
        let woken = std::mem::take(&mut state.woken);
        drop(state);
        for waker in woken {
            // Unwind: the panic hook has reported it, and the other tasks are to be woken, too.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }

    fn has_posted(&self) {
        if let Some(notifier) = self.notifier.get() {
            notifier.notify();
        }
    }

    /// Called when another rank has woken this one: a message comes.
    pub(crate) fn notified(&self) {
        self.state.lock().active_ns = now_ns();
        self.has_posted();
    }

    /// Tests for a moment whether `op` is over. Then its task need not be suspended, which takes longer than
    /// a message between neighbours. Returns true if it is, and the task is to give way all the same:
    /// without that a task whose messages come at once would keep its worker.
    pub(crate) fn linger(&self, op: &Op) -> bool {
        let came = match is_only_ready() {
            true => self.spin(op),
            false => self.test_before_others(op),
        };
        came && AT_ONCE.with(|at_once| {
            let count = (at_once.get() + 1) % MOST_AT_ONCE;
            at_once.set(count);
            count == 0
        })
    }

    /// Tests until another task is ready, for the other requests as well. Returns true if the request is
    /// over.
    fn spin(&self, op: &Op) -> bool {
        let mut begin = None;
        loop {
            let mut state = self.enter();
            // It was posted then, or before.
            let begin = *begin.get_or_insert(state.active_ns);
            let has_others = state.requests.len() > LAST;
            let mut is_over = false;
            for _ in 0..if has_others { 1 } else { ROUNDS } {
                is_over = state.check().is_err() || self.test_last(&mut state, op);
                if is_over || !state.woken.is_empty() {
                    break;
                }
                spin_loop();
            }
            let now = if is_over { begin } else { now_ns() };
            if has_others && !is_over {
                state.look(&self.api, now);
                is_over = op.is_over();
            }
            // The tasks that this wakes are ready from here on.
            self.leave(state);
            let waited = now.saturating_sub(begin);
            if is_over || waited > ALONE_NS || !is_only_ready() {
                return is_over;
            }
            if waited > SPIN_NS {
                // The peer may have no CPU.
                yield_now();
            }
        }
    }

    /// Tests while other tasks are ready, if that has paid lately. Returns true if the request is over.
    fn test_before_others(&self, op: &Op) -> bool {
        let mut state = self.enter();
        state.waits = state.waits.wrapping_add(1);
        let begin = now_ns();
        let (mut is_over, tries) = (false, state.score > 0 || state.waits.is_multiple_of(TRIAL));
        while tries && state.check().is_ok() {
            is_over = self.test_last(&mut state, op);
            if is_over {
                state.score = (state.score + 1).min(MAX_SCORE);
                break;
            }
            if now_ns() - begin > LINGER_NS {
                state.score = state.score.saturating_sub(IN_VAIN);
                break;
            }
            spin_loop();
        }
        self.leave(state);
        is_over
    }

    /// Tests the requests that were posted lately, of which one is that of `op`. Returns true if it is over.
    fn test_last(&self, state: &mut Outstanding, op: &Op) -> bool {
        state.match_messages(&self.api);
        let len = state.requests.len();
        state.test(&self.api, len.saturating_sub(LAST)..len);
        op.is_over()
    }

    /// Looks as a turn does, if the last look was long enough ago that looks take little of the time. A
    /// worker that computes calls this between two steps, so that a question of another rank need not wait
    /// for a turn. Costs a look at the clock.
    pub(crate) fn glance(&self) {
        let begin = now_ns();
        // Ordering: Relaxed. It is a hint.
        if begin < self.glance_ns.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.enter();
        if state.check().is_ok() && !state.is_idle() && state.look(&self.api, begin) {
            state.active_ns = begin;
        }
        self.leave(state);
        let end = now_ns();
        self.glance_ns
            .store(end + GLANCE_SHARE * (end - begin), Ordering::Relaxed);
    }

    /// Marks the future of `op` as dropped. A receive is cancelled at the next turn.
    pub(crate) fn forget(&self, op: &Arc<Op>) {
        if op.is_over() {
            return;
        }
        let mut dropped = self.dropped.lock();
        dropped.push(Arc::clone(op));
        self.has_dropped.store(true, Ordering::Relaxed);
        drop(dropped);
        self.has_posted();
    }

    /// Ends the engine, and MPI if all ranks have met and it uses no buffer any more. Returns what was
    /// outstanding.
    ///
    /// Those requests fail. The buffers that MPI may still use are never freed.
    pub(crate) fn finish(&self, all_met: bool) -> Result<Vec<Peer>, MpiError> {
        let mut state = self.enter();
        let outstanding = state.waits();
        // From here on nothing is posted.
        state.finished = true;
        for index in (0..state.requests.len()).rev() {
            if state.failed.is_some() {
                // The test of the one before has ended them all.
                break;
            }
            if state.entries[index].peer.kind == PeerKind::Receive {
                self.api.cancel(&mut state.requests[index].0);
                state.test(&self.api, index..index + 1);
            }
        }
        let ended = match &state.failed {
            Some(error) => Err(error.clone()),
            None if all_met && state.requests.is_empty() => self.api.finalize(),
            None => Ok(()),
        };
        state.fail(&MpiError::finished());
        self.leave(state);
        ended.map(|()| outstanding)
    }

    /// Returns what is outstanding.
    pub(crate) fn waits(&self) -> Vec<Peer> {
        self.state.lock().waits()
    }
}

impl Progress for MpiProgress {
    fn turn(&self, wakers: &mut Vec<Waker>) -> Rest {
        let mut state = self.enter();
        let mut rest = Rest::Asleep;
        if state.check().is_ok() && !state.is_idle() {
            let begin = now_ns();
            if state.look(&self.api, begin) {
                state.active_ns = begin;
            }
            rest = state.rest(begin, self.peer_waker.get());
        }
        wakers.append(&mut state.woken);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::MpiProgress;
    use crate::api::fake;
    use crate::comm::Comm;
    use crate::error::MpiErrorKind;
    use crate::op::{Op, RawComm};
    use std::sync::Arc;
    use std::time::{Duration, Instant};
    use warpweft_platform::atomic::Ordering;
    use warpweft_platform::thread::{spawn, yield_now};

    fn engine() -> (Arc<MpiProgress>, Comm) {
        let progress = Arc::new(MpiProgress::new(fake::api()));
        let comm = Comm::new(Arc::clone(&progress), RawComm(std::ptr::null_mut()), 0, 2);
        (progress, comm)
    }

    /// Between the taking and the cancelling another thread could post a receive.
    #[test]
    fn who_takes_dropped_receives_has_the_engine() {
        let (progress, _) = engine();
        progress.forget(&Arc::new(Op::new()));
        let state = progress.state.lock();
        let other = spawn({
            let progress = Arc::clone(&progress);
            move || drop(progress.enter())
        });
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(50) {
            assert!(
                progress.has_dropped.load(Ordering::Relaxed),
                "it waits for the engine"
            );
            yield_now();
        }
        drop(state);
        other.join().expect("no panic");
        assert!(progress.dropped.lock().is_empty());
    }

    #[test]
    fn an_engine_ends_also_if_mpi_fails_meanwhile() {
        let (progress, comm) = engine();
        let receives = [comm.recv(1, 3, 8), comm.recv(1, 4, 8)];
        fake::with(|fake| fake.test_fails = true);
        let error = progress.finish(true).expect_err("MPI fails");
        assert_eq!(error.kind(), MpiErrorKind::Call, "{error}");
        assert!(receives.iter().all(crate::Request::is_over));
        assert_eq!(fake::with(|fake| fake.finalized), 0, "it may use the buffers");
    }

    #[test]
    fn a_buffer_outlives_an_engine_that_is_dropped() {
        let (progress, comm) = engine();
        let buffer = vec![0; 8];
        fake::watch(&buffer);
        drop(comm.recv_into(1, 3, buffer));
        drop((progress, comm));
        assert!(!fake::is_freed(), "MPI may still write into it");
    }
}
