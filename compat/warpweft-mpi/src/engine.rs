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

use crate::api::{Api, ERR_TRUNCATE, Handle, Status};
use crate::bell::Bell;
use crate::error::{MpiError, MpiErrorKind};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use warpweft::io::{Progress, ProgressBell, Rest};
use warpweft_platform::clock::now_ns;
use warpweft_platform::sync::{Mutex, MutexGuard};

/// The requests of one call of `MPI_Testsome`. The shim has the same number.
const WINDOW: usize = 64;
/// A turn begins no further window after this time.
const TURN_NS: u64 = 8_000;
/// For this time after the last progress an idle worker looks again and again.
const SPIN_NS: u64 = 20_000;
/// The longest nap while something is outstanding that no bell announces.
const NAP_NS: u64 = 1_000_000;
/// After this time without progress a rank whose peers ring sleeps. Peers ring unless they sent something
/// in the last [`RING_NS`].
const SLEEP_NS: u64 = 20_000_000;
pub(crate) const RING_NS: u64 = 5_000_000;

/// What MPI reads or writes.
#[derive(Debug)]
pub(crate) enum Buffer {
    None,
    /// Bytes to send.
    From(Vec<u8>),
    /// Room for what comes.
    To(Vec<u8>),
    /// Both, of a collective.
    Both(Vec<u8>, Vec<u8>),
}

/// What a request left.
#[derive(Debug)]
pub(crate) struct Completed {
    pub(crate) source: usize,
    pub(crate) tag: i32,
    pub(crate) buffer: Buffer,
}

/// The part of a request that its future shares with the engine.
#[derive(Debug)]
pub(crate) struct Op {
    state: Mutex<OpState>,
}

#[derive(Debug, Default)]
struct OpState {
    result: Option<Result<Completed, MpiError>>,
    waker: Option<Waker>,
}

/// What a receive waits for, or where a send goes, for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) kind: PeerKind,
    /// The rank; `None` is any, or all.
    pub(crate) rank: Option<usize>,
    /// `None` is any.
    pub(crate) tag: Option<i32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerKind {
    Send,
    Receive,
    Collective,
}

#[derive(Debug)]
struct Entry {
    op: Arc<Op>,
    buffer: Buffer,
    peer: Peer,
}

/// A receive of a message whose length is not known yet.
#[derive(Debug)]
struct Probe {
    op: Arc<Op>,
    peer: Peer,
    comm: Comm,
}

/// A communicator, as a value that threads may share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Comm(pub(crate) Handle);

// SAFETY: a handle is a number to this crate. Calls with it are made under the engine's lock.
unsafe impl Send for Comm {}
// SAFETY: as above.
unsafe impl Sync for Comm {}

#[derive(Debug, Default)]
struct State {
    requests: Vec<Request>,
    entries: Vec<Entry>,
    probes: Vec<Probe>,
    /// Where the next window begins.
    next: usize,
    /// Sends and collectives among the entries.
    others: usize,
    /// When something was posted or over for the last time.
    active_ns: u64,
    rung_ns: u64,
    failed: Option<MpiError>,
    finished: bool,
}

/// A request of MPI.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
struct Request(Handle);

// SAFETY: as for `Comm`.
unsafe impl Send for Request {}

/// The engine of a process.
#[derive(Debug)]
pub(crate) struct Engine {
    api: Api,
    state: Mutex<State>,
    /// Receives whose futures were dropped. The lock is never held over a call of MPI.
    dropped: Mutex<Vec<Arc<Op>>>,
    progress_bell: OnceLock<ProgressBell>,
    /// Absent where a peer cannot ring.
    bell: OnceLock<Bell>,
}

impl Engine {
    pub(crate) fn new(api: Api) -> Self {
        Self {
            api,
            state: Mutex::new(State::default()),
            dropped: Mutex::new(Vec::new()),
            progress_bell: OnceLock::new(),
            bell: OnceLock::new(),
        }
    }

    /// Sets what has the turns come.
    pub(crate) fn has_turns(&self, bell: ProgressBell) {
        let _ = self.progress_bell.set(bell);
    }

    /// Sets the bell by which ranks wake each other.
    pub(crate) fn has_bell(&self, bell: Bell) {
        let _ = self.bell.set(bell);
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
        if let (PeerKind::Send, Some(rank), Some(bell)) = (peer.kind, peer.rank, self.bell.get()) {
            bell.ring_if_due(rank, now);
        }
        self.has_posted();
        Ok(op)
    }

    /// Begins the receive of a message of any length.
    pub(crate) fn probe(&self, peer: Peer, comm: Comm) -> Result<Arc<Op>, MpiError> {
        let op = Arc::new(Op::new());
        let mut state = self.with_cancelled();
        state.check()?;
        state.probes.push(Probe {
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
        if let Some(bell) = self.progress_bell.get() {
            bell.ring();
        }
    }

    /// Another rank rang: something comes.
    pub(crate) fn rung(&self) {
        self.state.lock().active_ns = now_ns();
        self.has_posted();
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

    /// Ends the engine: requests that are still outstanding fail, and their buffers are never freed, because
    /// MPI may still know them.
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
        entries.chain(state.probes.iter().map(|probe| probe.peer)).collect()
    }
}

fn wake(waker: Option<Waker>) {
    waker.into_iter().for_each(Waker::wake);
}

impl Progress for Engine {
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
        state.rest(begin, self.bell.get())
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
            let result = result_of(api, entry.buffer, status, entry.peer);
            wakers.extend(entry.op.complete(result));
        }
        over
    }

    /// Begins the receive of each message that a probe finds.
    fn probe(&mut self, api: &Api, wakers: &mut Vec<Waker>) {
        let mut index = 0;
        while let Some(probe) = self.probes.get(index) {
            let source = probe
                .peer
                .rank
                .map_or(crate::api::ANY_SOURCE, |rank| rank as i32);
            let tag = probe.peer.tag.unwrap_or(crate::api::ANY_TAG);
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
            let Probe { op, peer, .. } = self.probes.remove(index);
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
        let found = self
            .entries
            .iter()
            .rposition(|entry| Arc::ptr_eq(&entry.op, op));
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

    fn rest(&mut self, now: u64, bell: Option<&Bell>) -> Rest {
        if self.requests.is_empty() && self.probes.is_empty() {
            return Rest::Asleep;
        }
        let since = now.saturating_sub(self.active_ns);
        if since < SPIN_NS {
            return Rest::Within(Duration::ZERO);
        }
        if let Some(bell) = bell {
            if self.others == 0 && since > SLEEP_NS {
                return Rest::Asleep;
            }
            if self.others > 0 && now.saturating_sub(self.rung_ns) > RING_NS {
                self.rung_ns = now;
                let sends = self.entries.iter();
                let sends = sends.filter(|entry| entry.peer.kind == PeerKind::Send);
                sends
                    .filter_map(|entry| entry.peer.rank)
                    .for_each(|rank| bell.ring_if_due(rank, now));
            }
        }
        Rest::Within(Duration::from_nanos((since / 4).clamp(SPIN_NS, NAP_NS)))
    }
}

/// Returns what a request that is over left.
fn result_of(api: &Api, buffer: Buffer, status: &Status, peer: Peer) -> Result<Completed, MpiError> {
    if status.error != 0
        && api.class_of(status.error) == ERR_TRUNCATE
        && let Buffer::To(room) = &buffer
    {
        return Err(MpiError::new(
            MpiErrorKind::Truncated,
            format!(
                "a message of rank {} with tag {} is longer than the {} bytes that waited for it: give a \
                 longer buffer, or receive with `recv_any_length`",
                status.source,
                status.tag,
                room.len()
            ),
        ));
    }
    if status.error != 0 {
        return Err(MpiError::call("a request of MPI", &api.text_of(status.error)));
    }
    let mut completed = Completed {
        source: 0,
        tag: 0,
        buffer,
    };
    if peer.kind == PeerKind::Receive {
        if api.was_cancelled(status) {
            return Err(MpiError::finished());
        }
        completed.source = usize::try_from(status.source).unwrap_or(0);
        completed.tag = status.tag;
        if let Buffer::To(bytes) = &mut completed.buffer {
            bytes.truncate(api.bytes_of(status));
        }
    }
    Ok(completed)
}

impl Op {
    fn new() -> Self {
        Self {
            state: Mutex::new(OpState::default()),
        }
    }

    fn complete(&self, result: Result<Completed, MpiError>) -> Option<Waker> {
        let mut state = self.state.lock();
        state.result = Some(result);
        state.waker.take()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state.lock().result.is_some()
    }

    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Result<Completed, MpiError>> {
        let mut state = self.state.lock();
        if let Some(result) = state.result.take() {
            return Poll::Ready(result);
        }
        let before = match &mut state.waker {
            Some(waker) if waker.will_wake(cx.waker()) => None,
            waker => waker.replace(cx.waker().clone()),
        };
        drop(state);
        drop(before);
        Poll::Pending
    }

    /// Takes the waker of a future that is dropped.
    pub(crate) fn take_waker(&self) -> Option<Waker> {
        self.state.lock().waker.take()
    }
}
