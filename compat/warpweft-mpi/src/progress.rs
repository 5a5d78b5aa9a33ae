//! The progress engine: the requests that MPI works on, and the turn that tests which are over.
//!
//! ```text
//!   post ──▶ outstanding ── a turn finds it over ──▶ result in its Op, waker out ──▶ the future takes it
//!              │   dropped future ──▶ list ── the next call cancels ──┘ (the result is freed)
//!   recv_any_length ──▶ unmatched ── a message fits ──▶ outstanding
//! ```
//!
//! A turn tests windows of [`WINDOW`] requests in rotation, and begins none after [`TURN_NS`]: the time of
//! MPI's test grows with the number of requests.
//!
//! # Invariants
//!
//! - Calls into MPI are made under the lock of [`State`].
//! - A buffer belongs to the engine from the post until MPI is through with it, whatever becomes of the
//!   future. A `Vec`'s elements stay where they are when the `Vec` moves.
//! - `requests[n]` is the request of `entries[n]`; none is null or over between two calls.
//! - No waker is woken or dropped under the lock: those of waits that are over are in `woken` until
//!   [`leave`](MpiProgress::leave), or are handed to the caller of the turn.

use crate::api::{ANY_SOURCE, ANY_TAG, Api, Handle, Status};
use crate::error::MpiError;
use crate::op::{Buffer, Completed, Op, Peer, PeerKind, RawComm};
use crate::peer_waker::{PeerWaker, WAKE_NS};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;
use warpweft::io::{Progress, ProgressNotifier, Rest};
use warpweft_platform::atomic::{AtomicU64, Ordering, spin_loop};
use warpweft_platform::clock::now_ns;
use warpweft_platform::sync::{Mutex, MutexGuard};

/// The requests of one call of `MPI_Testsome`. The shim has the same number.
const WINDOW: usize = 64;
/// A turn begins no further window after this time.
const TURN_NS: u64 = 8_000;
/// For this time after the last progress an idle worker tests without a pause.
const SPIN_NS: u64 = 20_000;
/// The longest time for which a task that begins to wait tests by itself, before it is suspended.
const LINGER_NS: u64 = 2_000;
/// One wait of this many tests by itself, even if that has not paid lately.
const TRIAL: u32 = 64;
/// A wait that tested in vain takes this much from the score, one that succeeded adds 1.
const IN_VAIN: u32 = 4;
const MAX_SCORE: u32 = 16;
/// A look that a runner makes of its own accord takes one part in so many of its time at most.
const GLANCE_SHARE: u64 = 50;
/// The longest sleep while something is outstanding that no datagram announces.
const SHORT_SLEEP_NS: u64 = 1_000_000;
/// After this time without progress a rank sleeps, if its peers can wake it. They do so with each message,
/// but at most once in 5 ms.
const SLEEP_NS: u64 = 20_000_000;

#[derive(Debug)]
struct Entry {
    op: Arc<Op>,
    buffer: Buffer,
    peer: Peer,
}

/// A receive of a message whose length is not known yet.
#[derive(Debug)]
struct Unmatched {
    op: Arc<Op>,
    peer: Peer,
    comm: RawComm,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<Request>,
    entries: Vec<Entry>,
    unmatched: Vec<Unmatched>,
    /// The wakers of waits that are over.
    woken: Vec<Waker>,
    /// Where the next window begins.
    next: usize,
    /// Sends and collectives among the entries.
    others: usize,
    /// When something was posted or over for the last time.
    active_ns: u64,
    last_wake_ns: u64,
    /// How well it pays that tasks test by themselves: 0 to [`MAX_SCORE`].
    score: u32,
    waits: u32,
    failed: Option<MpiError>,
    finished: bool,
}

/// A request of MPI.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
struct Request(Handle);

// SAFETY: as for `RawComm`.
unsafe impl Send for Request {}

/// The progress engine of a process.
#[derive(Debug)]
pub(crate) struct MpiProgress {
    api: Api,
    state: Mutex<State>,
    /// Receives whose futures were dropped. The lock is never held over a call of MPI.
    dropped: Mutex<Vec<Arc<Op>>>,
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
            state: Mutex::new(State::default()),
            dropped: Mutex::new(Vec::new()),
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
            state.push(Request(request), entry);
            // Most messages are gone, or here, at once.
            let last = state.requests.len() - 1;
            state.test(&self.api, last..last + 1);
        }
        let now = now_ns();
        state.active_ns = now;
        self.leave(state);
        posted?;
        if let (PeerKind::Send, Some(rank), Some(peer_waker)) = (peer.kind, peer.rank, self.peer_waker.get())
        {
            peer_waker.wake_if_due(rank, now);
        }
        self.has_posted();
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
    fn enter(&self) -> MutexGuard<'_, State> {
        let dropped = std::mem::take(&mut *self.dropped.lock());
        let mut state = self.state.lock();
        if !state.finished {
            dropped.iter().for_each(|op| state.cancel(&self.api, op));
        }
        state
    }

    /// Unlocks the state, and wakes the tasks whose waits are over.
    #[allow(clippy::unused_self, reason = "the counterpart of `enter`")]
    fn leave(&self, mut state: MutexGuard<'_, State>) {
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

    /// Tests for a moment whether `op` is over, if that has paid lately. Then its task need not be suspended,
    /// which takes longer than a message between neighbours.
    pub(crate) fn linger(&self, op: &Op) {
        let mut state = self.enter();
        state.waits = state.waits.wrapping_add(1);
        let begin = now_ns();
        let tries = state.score > 0 || state.waits.is_multiple_of(TRIAL);
        while tries && state.check().is_ok() {
            state.match_messages(&self.api);
            // The last ones: this one was posted lately.
            let len = state.requests.len();
            state.test(&self.api, len.saturating_sub(WINDOW / 8)..len);
            let is_over = op.is_over();
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
        if state.check().is_ok() && !state.is_idle() {
            if state.look(&self.api, begin) {
                state.active_ns = begin;
            }
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
        self.dropped.lock().push(Arc::clone(op));
        self.has_posted();
    }

    /// Ends the engine, and MPI if it reads and writes no buffer any more. Returns what was outstanding.
    ///
    /// Those requests fail. The buffers that MPI may still use are never freed.
    pub(crate) fn finish(&self) -> Result<Vec<Peer>, MpiError> {
        let mut state = self.enter();
        let outstanding = state.waits();
        // From here on nothing is posted.
        state.finished = true;
        for index in (0..state.requests.len()).rev() {
            if state.entries[index].peer.kind == PeerKind::Receive {
                self.api.cancel(&mut state.requests[index].0);
                state.test(&self.api, index..index + 1);
            }
        }
        let ended = if state.requests.is_empty() {
            self.api.finalize()
        } else {
            Ok(())
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

impl State {
    fn check(&self) -> Result<(), MpiError> {
        match &self.failed {
            _ if self.finished => Err(MpiError::finished()),
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Returns true if nothing is outstanding.
    fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.unmatched.is_empty()
    }

    fn waits(&self) -> Vec<Peer> {
        let entries = self.entries.iter().map(|entry| entry.peer);
        entries.chain(self.unmatched.iter().map(|one| one.peer)).collect()
    }

    /// Tests one window after the other. Returns true if there was progress.
    fn look(&mut self, api: &Api, begin: u64) -> bool {
        let unmatched = self.unmatched.len();
        self.match_messages(api);
        let mut progress = self.unmatched.len() != unmatched;
        let mut left = self.requests.len();
        while left > 0 && self.failed.is_none() {
            let len = self.requests.len();
            if self.next >= len {
                self.next = 0;
            }
            let end = (self.next + WINDOW.min(left)).min(len);
            left -= end - self.next;
            let over = self.test(api, self.next..end);
            progress |= over > 0;
            // The ones that moved into the places of these come with the next round.
            self.next = end - over;
            if now_ns() - begin > TURN_NS {
                break;
            }
        }
        progress
    }

    fn push(&mut self, request: Request, entry: Entry) {
        self.others += usize::from(entry.peer.kind != PeerKind::Receive);
        self.requests.push(request);
        self.entries.push(entry);
    }

    /// Tests one window. Returns how many of its requests are over.
    fn test(&mut self, api: &Api, window: Range<usize>) -> usize {
        if window.is_empty() {
            return 0;
        }
        let begin = window.start;
        let mut handles = [std::ptr::null_mut(); WINDOW];
        let mut indices = [0; WINDOW];
        let mut statuses = [Status::default(); WINDOW];
        let window = &mut self.requests[window];
        let handles = &mut handles[..window.len()];
        for (handle, request) in handles.iter_mut().zip(&*window) {
            *handle = request.0;
        }
        let over = match api.testsome(handles, &mut indices, &mut statuses) {
            Ok(over) => over,
            Err(error) => {
                self.fail(&error);
                return 0;
            }
        };
        if over == 0 {
            return 0;
        }
        for (request, handle) in window.iter_mut().zip(&*handles) {
            *request = Request(*handle);
        }
        let mut ended: Vec<(usize, &Status)> = indices[..over]
            .iter()
            .map(|index| begin + usize::try_from(*index).unwrap_or(0))
            .zip(&statuses)
            .collect();
        // From the end: removing one moves the last, which is beyond all that are left.
        ended.sort_unstable_by_key(|(index, _)| std::cmp::Reverse(*index));
        for (index, status) in ended {
            self.requests.swap_remove(index);
            let entry = self.entries.swap_remove(index);
            self.others -= usize::from(entry.peer.kind != PeerKind::Receive);
            let result = Completed::of(api, entry.buffer, status, entry.peer);
            self.woken.extend(entry.op.complete(result));
        }
        over
    }

    /// Begins the receive of each message that fits one of the unmatched.
    fn match_messages(&mut self, api: &Api) {
        let mut index = 0;
        while let Some(Unmatched { peer, comm, .. }) = self.unmatched.get(index) {
            let source = peer.rank.map_or(ANY_SOURCE, |rank| rank as i32);
            let found = match api.improbe(source, peer.tag.unwrap_or(ANY_TAG), comm.0) {
                Ok(None) => {
                    index += 1;
                    continue;
                }
                Ok(Some(found)) => Ok(found),
                Err(error) => Err(error),
            };
            // In the order in which they began: of two that fit, the first has the message.
            let Unmatched { op, peer, .. } = self.unmatched.remove(index);
            let received = found.and_then(|(message, len)| {
                let mut bytes = vec![0; len];
                // SAFETY: the message is received once. The engine keeps the bytes until the request is over.
                let request = unsafe { api.imrecv(&mut bytes, message) }?;
                Ok((Request(request), Buffer::To(bytes)))
            });
            match received {
                Ok((request, buffer)) => self.push(request, Entry { op, buffer, peer }),
                Err(error) => self.woken.extend(op.complete(Err(error))),
            }
        }
    }

    /// Cancels the receive of a future that was dropped. A send or a collective continues.
    fn cancel(&mut self, api: &Api, op: &Arc<Op>) {
        if let Some(index) = self.unmatched.iter().position(|one| Arc::ptr_eq(&one.op, op)) {
            self.unmatched.remove(index);
            return;
        }
        let found = self.entries.iter().rposition(|entry| Arc::ptr_eq(&entry.op, op));
        if let Some(index) = found
            && self.entries[index].peer.kind == PeerKind::Receive
        {
            api.cancel(&mut self.requests[index].0);
            // Most are over at once.
            self.test(api, index..index + 1);
            self.active_ns = now_ns();
        }
    }

    /// Ends every wait with that error, because MPI itself has failed or ended. The buffers are not freed:
    /// MPI may still use them.
    fn fail(&mut self, error: &MpiError) {
        self.failed = Some(error.clone());
        self.requests.clear();
        self.others = 0;
        for entry in std::mem::take(&mut self.entries) {
            std::mem::forget(entry.buffer);
            self.woken.extend(entry.op.complete(Err(error.clone())));
        }
        for unmatched in std::mem::take(&mut self.unmatched) {
            self.woken.extend(unmatched.op.complete(Err(error.clone())));
        }
    }

    fn rest(&mut self, now: u64, peer_waker: Option<&PeerWaker>) -> Rest {
        if self.is_idle() {
            return Rest::Asleep;
        }
        let since = now.saturating_sub(self.active_ns);
        if since < SPIN_NS {
            return Rest::Within(Duration::ZERO);
        }
        if let Some(peer_waker) = peer_waker {
            if self.others == 0 && since > SLEEP_NS {
                return Rest::Asleep;
            }
            if self.others > 0 && now.saturating_sub(self.last_wake_ns) > WAKE_NS {
                self.last_wake_ns = now;
                let sends = self.entries.iter();
                let sends = sends.filter(|entry| entry.peer.kind == PeerKind::Send);
                sends
                    .filter_map(|entry| entry.peer.rank)
                    .for_each(|rank| peer_waker.wake_if_due(rank, now));
            }
        }
        Rest::Within(Duration::from_nanos((since / 4).clamp(SPIN_NS, SHORT_SLEEP_NS)))
    }
}
