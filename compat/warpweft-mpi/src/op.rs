//! The part of a request that its future and the progress engine share.

use crate::api::{Api, ERR_TRUNCATE, Handle, Status};
use crate::error::{MpiError, MpiErrorKind};
use std::fmt;
use std::task::{Context, Poll, Waker};
use warpweft_platform::atomic::{AtomicBool, Ordering};
use warpweft_platform::sync::Mutex;

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
    /// Both, of numbers with 8 bytes each, which MPI adds and compares in place: they are aligned.
    Words(Vec<u64>, Vec<u64>),
}

/// What a request left.
#[derive(Debug)]
pub(crate) struct Completed {
    pub(crate) source: usize,
    pub(crate) tag: i32,
    pub(crate) buffer: Buffer,
}

/// A request until its future has taken the result.
#[derive(Debug)]
pub(crate) struct Op {
    state: Mutex<OpState>,
    /// True once there is a result.
    over: AtomicBool,
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

/// A communicator, as a value that threads may share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawComm(pub(crate) Handle);

// SAFETY: a handle is a number to this crate. Calls with it are made under the engine's lock.
unsafe impl Send for RawComm {}
// SAFETY: as above.
unsafe impl Sync for RawComm {}

impl Completed {
    /// Returns what a request that is over left.
    pub(crate) fn of(api: &Api, buffer: Buffer, status: &Status, peer: Peer) -> Result<Self, MpiError> {
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
        let mut completed = Self {
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
}

impl Op {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(OpState::default()),
            over: AtomicBool::new(false),
        }
    }

    pub(crate) fn complete(&self, result: Result<Completed, MpiError>) -> Option<Waker> {
        let mut state = self.state.lock();
        state.result = Some(result);
        // Ordering: Relaxed. The result is read under the lock.
        self.over.store(true, Ordering::Relaxed);
        state.waker.take()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
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

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, way) = match self.kind {
            PeerKind::Send => ("a send", "to"),
            PeerKind::Receive => ("a receive", "of"),
            PeerKind::Collective => return f.write_str("a collective of all ranks"),
        };
        match self.rank {
            Some(rank) => write!(f, "{what} {way} rank {rank}")?,
            None => write!(f, "{what} {way} any rank")?,
        }
        self.tag.map_or(Ok(()), |tag| write!(f, " with tag {tag}"))
    }
}
