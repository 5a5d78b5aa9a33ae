//! The requests that MPI works on, and the turn that looks which are over.
//!
//! ```text
//!   post ──▶ outstanding ── a turn finds it over ──▶ result in its Op, waker out ──▶ the future takes it
//!              │   dropped future ──▶ list ── the next turn cancels ──┘ (the result is freed)
//!   probe ──▶ probes ── a message fits ──▶ outstanding
//! ```
//!
//! A turn tests windows of [`WINDOW`] requests in rotation, for [`TURN_NS`] at most: MPI's own test takes
//! time for each request that it is given.
//!
//! # Invariants
//!
//! - Calls into MPI are made under the lock of [`State`].
//! - A buffer belongs to the engine from the post until MPI is through with it, whatever becomes of the
//!   future. A `Vec`'s bytes stay where they are when it moves.
//! - `requests[n]` is the request of `entries[n]`; none is null or over between two turns.
//! - No waker is woken or dropped under the lock.

use crate::api::{ANY_SOURCE, ANY_TAG, Api, Handle, Status};
use crate::error::MpiError;
use crate::op::{Buffer, Completed, Op, Peer, PeerKind, RawComm};
use crate::peer_waker::{PeerWaker, WAKE_NS};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;
use warpweft::io::{Progress, ProgressNotifier, Rest};
use warpweft_platform::atomic::spin_loop;
use warpweft_platform::clock::now_ns;
use warpweft_platform::sync::{Mutex, MutexGuard};

/// The requests of one call of `MPI_Testsome`. The shim has the same number.
const WINDOW: usize = 64;
/// A turn begins no further window after this time.
const TURN_NS: u64 = 8_000;
/// For this time after the last progress an idle worker looks again and again.
const SPIN_NS: u64 = 20_000;
/// For this time a task that begins to wait looks itself, if the last ones had their messages by then.
const PATIENCE_NS: u64 = 2_000;
/// Every so many waits a task looks itself, whatever the last ones had.
const TRIAL: u32 = 64;
/// How much a look in vain counts more than one that paid.
const IN_VAIN: u32 = 4;
const TRUST: u32 = 16;
/// The longest sleep while something is outstanding that no datagram announces.
const SHORT_SLEEP_NS: u64 = 1_000_000;
/// After this time without progress a rank whose peers wake it sleeps. Peers do unless they did
/// in the last 5 ms.
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
    probes: Vec<Unmatched>,
    /// Where the next window begins.
    next: usize,
    /// Sends and collectives among the entries.
    others: usize,
    /// When something was posted or over for the last time.
    active_ns: u64,
    last_wake_ns: u64,
    /// Whether it pays that a task looks itself: up to [`TRUST`], if it does.
    trust: u32,
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

/// The engine of a process.
#[derive(Debug)]
pub(crate) struct MpiProgress {
    api: Api,
    state: Mutex<State>,
    /// Receives whose futures were dropped. The lock is never held over a call of MPI.
    dropped: Mutex<Vec<Arc<Op>>>,
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
            notifier: OnceLock::new(),
            peer_waker: OnceLock::new(),
        }
    }

    /// Sets what has the turns come.
    pub(crate) fn has_turns(&self, notifier: ProgressNotifier) {
        let _ = self.notifier.set(notifier);
    }

    /// Sets what ranks wake each other by.
    pub(crate) fn has_peer_waker(&self, peer_waker: PeerWaker) {
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
        let mut state = self.with_cancelled();
        state.check()?;
        let request = post(&self.api, &mut buffer)?;
        state.push(
            Request(request),
            Entry {
                op: Arc::clone(&op),
                buffer,
                peer,
            },
        );
        // Most messages are gone, or here, at once.
        let last = state.requests.len() - 1;
        let mut woken = Vec::new();
        state.test(&self.api, last..last + 1, &mut woken);
        let now = now_ns();
        state.active_ns = now;
        drop(state);
        if let (PeerKind::Send, Some(rank), Some(peer_waker)) = (peer.kind, peer.rank, self.peer_waker.get())
        {
            peer_waker.wake_if_due(rank, now);
        }
        self.has_posted();
        Ok(op)
    }

    /// Begins the receive of a message of any length.
    pub(crate) fn probe(&self, peer: Peer, comm: RawComm) -> Result<Arc<Op>, MpiError> {
        let op = Arc::new(Op::new());
        let mut state = self.with_cancelled();
        state.check()?;
        state.probes.push(Unmatched {
            op: Arc::clone(&op),
            peer,
            comm,
        });
        state.probe(&self.api, &mut Vec::new());
        state.active_ns = now_ns();
        drop(state);
        self.has_posted();
        Ok(op)
    }

    /// Returns the state after the receives of dropped futures are cancelled. A new request comes after them:
    /// they take none of its messages.
    fn with_cancelled(&self) -> MutexGuard<'_, State> {
        let dropped = std::mem::take(&mut *self.dropped.lock());
        let mut state = self.state.lock();
        if !state.finished {
            dropped.iter().for_each(|op| state.cancel(&self.api, op));
        }
        state
    }

    fn has_posted(&self) {
        if let Some(notifier) = self.notifier.get() {
            notifier.notify();
        }
    }

    /// Another rank woke this one: something comes.
    pub(crate) fn notified(&self) {
        self.state.lock().active_ns = now_ns();
        self.has_posted();
    }

    /// Looks for the end of `op` for a moment, if that has paid lately. Then its task need not be suspended,
    /// which takes longer than a message between neighbours.
    pub(crate) fn linger(&self, op: &Op) {
        let mut state = self.state.lock();
        state.waits = state.waits.wrapping_add(1);
        if state.trust == 0 && !state.waits.is_multiple_of(TRIAL) {
            return;
        }
        let begin = now_ns();
        let mut wakers = Vec::new();
        loop {
            let len = state.requests.len();
            // The last ones: this one was posted lately.
            state.test(&self.api, len.saturating_sub(WINDOW / 8)..len, &mut wakers);
            let over = op.is_over();
            if over || now_ns() - begin > PATIENCE_NS || state.failed.is_some() {
                state.trust = if over {
                    (state.trust + 1).min(TRUST)
                } else {
                    state.trust.saturating_sub(IN_VAIN)
                };
                break;
            }
            spin_loop();
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Marks the future of `op` as dropped. A receive is cancelled at the next turn.
    pub(crate) fn forget(&self, op: &Arc<Op>) {
        if op.is_over() {
            return;
        }
        self.dropped.lock().push(Arc::clone(op));
        self.has_posted();
    }

    /// Cancels all receives. Returns true if nothing is outstanding any more.
    pub(crate) fn cancel_all(&self) -> bool {
        let mut state = self.state.lock();
        let mut wakers = Vec::new();
        for probe in std::mem::take(&mut state.probes) {
            wakers.extend(probe.op.complete(Err(MpiError::finished())));
        }
        for index in (0..state.requests.len()).rev() {
            if state.entries[index].peer.kind == PeerKind::Receive {
                self.api.cancel(&mut state.requests[index].0);
                state.test(&self.api, index..index + 1, &mut wakers);
            }
        }
        let none = state.requests.is_empty();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        none
    }

    /// Ends the progress: requests that are still outstanding fail, and their buffers are never freed,
    /// because MPI may still know them.
    pub(crate) fn finish(&self) {
        let mut state = self.state.lock();
        state.finished = true;
        state.requests.clear();
        let entries = std::mem::take(&mut state.entries);
        let probes = std::mem::take(&mut state.probes);
        drop(state);
        for entry in entries {
            let Entry { op, buffer, .. } = entry;
            std::mem::forget(buffer);
            wake(op.complete(Err(MpiError::finished())));
        }
        for probe in probes {
            wake(probe.op.complete(Err(MpiError::finished())));
        }
    }

    /// Returns what is outstanding.
    pub(crate) fn waits(&self) -> Vec<Peer> {
        let state = self.state.lock();
        let entries = state.entries.iter().map(|entry| entry.peer);
        entries
            .chain(state.probes.iter().map(|probe| probe.peer))
            .collect()
    }
}

fn wake(waker: Option<Waker>) {
    waker.into_iter().for_each(Waker::wake);
}

impl Progress for MpiProgress {
    fn turn(&self, wakers: &mut Vec<Waker>) -> Rest {
        let mut state = self.with_cancelled();
        let idle = state.requests.is_empty() && state.probes.is_empty();
        if idle || state.finished || state.failed.is_some() {
            return Rest::Asleep;
        }
        let begin = now_ns();
        let before = state.requests.len() + state.probes.len();
        let woken = wakers.len();
        state.probe(&self.api, wakers);
        let mut left = state.requests.len();
        while left > 0 {
            let len = state.requests.len();
            if state.next >= len {
                state.next = 0;
            }
            let end = (state.next + WINDOW.min(left)).min(len);
            left -= end - state.next;
            let window = state.next..end;
            let over = state.test(&self.api, window, wakers);
            // The ones that moved into the places of these come with the next round.
            state.next = end - over;
            if left > 0 && now_ns() - begin > TURN_NS {
                break;
            }
        }
        if state.requests.len() + state.probes.len() != before || wakers.len() != woken {
            state.active_ns = begin;
        }
        state.rest(begin, self.peer_waker.get())
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

    fn push(&mut self, request: Request, entry: Entry) {
        self.others += usize::from(entry.peer.kind != PeerKind::Receive);
        self.requests.push(request);
        self.entries.push(entry);
    }

    /// Tests one window. Returns how many of its requests are over.
    fn test(&mut self, api: &Api, window: std::ops::Range<usize>, wakers: &mut Vec<Waker>) -> usize {
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
                self.fail(&error, wakers);
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
            wakers.extend(entry.op.complete(result));
        }
        over
    }

    /// Begins the receive of each message that a probe finds.
    fn probe(&mut self, api: &Api, wakers: &mut Vec<Waker>) {
        let mut index = 0;
        while let Some(probe) = self.probes.get(index) {
            let source = probe.peer.rank.map_or(ANY_SOURCE, |rank| rank as i32);
            let tag = probe.peer.tag.unwrap_or(ANY_TAG);
            let found = api.improbe(source, tag, probe.comm.0);
            let (message, len) = match found {
                Ok(Some(found)) => found,
                Ok(None) => {
                    index += 1;
                    continue;
                }
                Err(error) => {
                    let probe = self.probes.remove(index);
                    wakers.extend(probe.op.complete(Err(error)));
                    continue;
                }
            };
            // The order of probes is that in which they began: of two that fit, the first has the message.
            let Unmatched { op, peer, .. } = self.probes.remove(index);
            let mut bytes = vec![0; len];
            // SAFETY: the message is received once. The engine keeps the bytes until the request is over.
            match unsafe { api.imrecv(&mut bytes, message) } {
                Ok(request) => self.push(
                    Request(request),
                    Entry {
                        op,
                        buffer: Buffer::To(bytes),
                        peer,
                    },
                ),
                Err(error) => wakers.extend(op.complete(Err(error))),
            }
        }
    }

    /// Cancels the receive of a future that was dropped. A send or a collective goes on.
    fn cancel(&mut self, api: &Api, op: &Arc<Op>) {
        if let Some(index) = self.probes.iter().position(|probe| Arc::ptr_eq(&probe.op, op)) {
            self.probes.remove(index);
            return;
        }
        let found = self.entries.iter().rposition(|entry| Arc::ptr_eq(&entry.op, op));
        if let Some(index) = found
            && self.entries[index].peer.kind == PeerKind::Receive
        {
            api.cancel(&mut self.requests[index].0);
            // Most are over at once. Nobody waits for it, so there is no waker.
            self.test(api, index..index + 1, &mut Vec::new());
            self.active_ns = now_ns();
        }
    }

    /// MPI itself has failed: every wait ends with that error. The buffers stay, as MPI may know them.
    fn fail(&mut self, error: &MpiError, wakers: &mut Vec<Waker>) {
        self.failed = Some(error.clone());
        self.requests.clear();
        for entry in std::mem::take(&mut self.entries) {
            std::mem::forget(entry.buffer);
            wakers.extend(entry.op.complete(Err(error.clone())));
        }
        for probe in std::mem::take(&mut self.probes) {
            wakers.extend(probe.op.complete(Err(error.clone())));
        }
    }

    fn rest(&mut self, now: u64, peer_waker: Option<&PeerWaker>) -> Rest {
        if self.requests.is_empty() && self.probes.is_empty() {
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
