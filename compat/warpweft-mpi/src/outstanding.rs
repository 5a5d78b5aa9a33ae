//! The requests that MPI works on, and the tests for which of them are over.
//!
//! A look tests windows of [`WINDOW`] requests in rotation, and begins none after [`TURN_NS`]: the time of
//! MPI's test grows with the number of requests.
//!
//! # Invariants
//!
//! - `requests[n]` is the request of `entries[n]`; none is null or over between two calls.
//! - A buffer of an entry is never freed while MPI may use it, also if the engine is dropped.
//! - The wakers of waits that are over are in `woken`: the caller wakes them after it has unlocked.

use crate::api::{ANY_SOURCE, ANY_TAG, Api, Handle, Status};
use crate::error::MpiError;
use crate::op::{Buffer, Completed, Op, Peer, PeerKind, RawComm};
use crate::peer_waker::{PeerWaker, WAKE_NS};
use std::ffi::c_int;
use std::ops::Range;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;
use warpweft::io::Rest;
use warpweft_platform::clock::now_ns;

/// The requests of one call of `MPI_Testsome`. The shim has the same number.
pub(crate) const WINDOW: usize = 64;
/// A turn begins no further window after this time.
const TURN_NS: u64 = 8_000;
/// For this time after the last progress an idle worker tests without a pause.
pub(crate) const SPIN_NS: u64 = 20_000;
/// The longest sleep while something is outstanding that no datagram announces.
const SHORT_SLEEP_NS: u64 = 1_000_000;
/// After this time without progress a rank sleeps, if its peers can wake it. They do so with each message,
/// but at most once in 5 ms.
const SLEEP_NS: u64 = 20_000_000;

/// What belongs to a request of MPI: the buffer that MPI uses, and the end of the wait.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) op: Arc<Op>,
    pub(crate) buffer: Buffer,
    pub(crate) peer: Peer,
}

/// A receive of a message whose length is not known yet.
#[derive(Debug)]
pub(crate) struct Unmatched {
    pub(crate) op: Arc<Op>,
    pub(crate) peer: Peer,
    pub(crate) comm: RawComm,
}

/// All that MPI works on for this process, and what the engine has learned from it.
#[derive(Debug, Default)]
pub(crate) struct Outstanding {
    pub(crate) requests: Vec<RawRequest>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) unmatched: Vec<Unmatched>,
    /// The wakers of waits that are over.
    pub(crate) woken: Vec<Waker>,
    answers: Box<Answers>,
    /// Where the next window begins.
    next: usize,
    /// Sends and collectives among the entries.
    others: usize,
    /// When something was posted or over for the last time.
    pub(crate) active_ns: u64,
    last_wake_ns: u64,
    /// How well it pays that tasks test by themselves: 0 to `MAX_SCORE` of the engine.
    pub(crate) score: u32,
    pub(crate) waits: u32,
    pub(crate) failed: Option<MpiError>,
    pub(crate) finished: bool,
}

/// A request of MPI.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct RawRequest(pub(crate) Handle);

// SAFETY: as for `RawComm`.
unsafe impl Send for RawRequest {}

impl RawRequest {
    fn handles(requests: &mut [Self]) -> &mut [Handle] {
        let handles = std::ptr::from_mut(requests) as *mut [Handle];
        // SAFETY: by `repr(transparent)` the elements are the same, and the result borrows them.
        unsafe { &mut *handles }
    }
}

/// What a test wrote for the requests that are over. It is kept, because a new one would be cleared first.
#[derive(Debug)]
struct Answers {
    indices: [c_int; WINDOW],
    statuses: [Status; WINDOW],
    /// The same by index, counted among all requests.
    ended: Vec<(usize, Status)>,
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            indices: [0; WINDOW],
            statuses: [Status::default(); WINDOW],
            ended: Vec::with_capacity(WINDOW),
        }
    }
}

impl Outstanding {
    pub(crate) fn check(&self) -> Result<(), MpiError> {
        match &self.failed {
            _ if self.finished => Err(MpiError::finished()),
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Returns true if nothing is outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.unmatched.is_empty()
    }

    pub(crate) fn waits(&self) -> Vec<Peer> {
        let entries = self.entries.iter().map(|entry| entry.peer);
        entries.chain(self.unmatched.iter().map(|one| one.peer)).collect()
    }

    /// Tests one window after the other. Returns true if there was progress.
    pub(crate) fn look(&mut self, api: &Api, begin: u64) -> bool {
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

    pub(crate) fn push(&mut self, request: RawRequest, entry: Entry) {
        self.others += usize::from(entry.peer.kind != PeerKind::Receive);
        self.requests.push(request);
        self.entries.push(entry);
    }

    /// Tests one window. Returns how many of its requests are over.
    pub(crate) fn test(&mut self, api: &Api, window: Range<usize>) -> usize {
        if window.is_empty() {
            return 0;
        }
        let begin = window.start;
        let Answers {
            indices, statuses, ..
        } = &mut *self.answers;
        let handles = RawRequest::handles(&mut self.requests[window]);
        let over = match api.testsome(handles, indices, statuses) {
            Ok(over) => over,
            Err(error) => {
                self.fail(&error);
                return 0;
            }
        };
        if over == 0 {
            return 0;
        }
        let mut ended = std::mem::take(&mut self.answers.ended);
        let indices = self.answers.indices[..over].iter();
        let indices = indices.map(|index| begin + usize::try_from(*index).unwrap_or(0));
        ended.extend(indices.zip(self.answers.statuses.iter().copied()));
        // From the end: removing one moves the last, which is beyond all that are left.
        ended.sort_unstable_by_key(|(index, _)| std::cmp::Reverse(*index));
        for (index, status) in ended.drain(..) {
            self.requests.swap_remove(index);
            let entry = self.entries.swap_remove(index);
            self.others -= usize::from(entry.peer.kind != PeerKind::Receive);
            let result = Completed::of(api, entry.buffer, &status, entry.peer);
            self.woken.extend(entry.op.complete(result));
        }
        self.answers.ended = ended;
        over
    }

    /// Begins the receive of each message that fits one of the unmatched.
    pub(crate) fn match_messages(&mut self, api: &Api) {
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
                Ok((RawRequest(request), Buffer::To(bytes)))
            });
            match received {
                Ok((request, buffer)) => self.push(request, Entry { op, buffer, peer }),
                Err(error) => self.woken.extend(op.complete(Err(error))),
            }
        }
    }

    /// Cancels the receive of a future that was dropped. A send or a collective continues.
    pub(crate) fn cancel(&mut self, api: &Api, op: &Arc<Op>) {
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
    pub(crate) fn fail(&mut self, error: &MpiError) {
        self.failed = Some(error.clone());
        for op in self.leak() {
            self.woken.extend(op.complete(Err(error.clone())));
        }
        for unmatched in std::mem::take(&mut self.unmatched) {
            self.woken.extend(unmatched.op.complete(Err(error.clone())));
        }
    }

    /// Forgets all requests and their buffers, and returns what waits for them.
    fn leak(&mut self) -> Vec<Arc<Op>> {
        self.requests.clear();
        self.others = 0;
        let entries = std::mem::take(&mut self.entries).into_iter();
        let forget = |Entry { op, buffer, .. }| {
            std::mem::forget(buffer);
            op
        };
        entries.map(forget).collect()
    }

    pub(crate) fn rest(&mut self, now: u64, peer_waker: Option<&PeerWaker>) -> Rest {
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

impl Drop for Outstanding {
    fn drop(&mut self) {
        drop(self.leak());
    }
}
