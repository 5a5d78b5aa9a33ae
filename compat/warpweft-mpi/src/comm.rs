//! Communicators, and messages between two ranks.

use crate::api::{ANY_SOURCE, count_of};
use crate::error::{MpiError, MpiErrorKind};
use crate::op::{Buffer, Completed, Peer, PeerKind, RawComm};
use crate::progress::MpiProgress;
use crate::request::Request;
use std::fmt;
use std::sync::{Arc, OnceLock};
use warpweft_platform::atomic::{AtomicBool, AtomicU32, Ordering};

/// The largest tag that every MPI has.
const TAGS: i32 = 32767;

/// A communicator: ranks that send each other messages which no other communicator sees.
#[derive(Clone)]
pub struct Comm {
    pub(crate) progress: Arc<MpiProgress>,
    pub(crate) handle: RawComm,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    /// The communicator of the work that ranks share, once there is any.
    work: Arc<Work>,
}

/// A communicator for the words of brokers, which must not meet the program's messages. It is made once: MPI
/// has few of them.
#[derive(Default)]
struct Work {
    handle: OnceLock<RawComm>,
    is_taken: AtomicBool,
    /// How often it was taken.
    number: AtomicU32,
}

/// The communicator of shared work, until this is dropped. Work that was not over keeps it for ever: words
/// of it may still come, and must not meet those of other work.
pub(crate) struct WorkComm {
    pub(crate) comm: Comm,
    /// 0 and 1 in turn, as on the other ranks. One that still receives at the end of its work takes no word
    /// of the next.
    pub(crate) tag: i32,
    /// No word of the work is on its way.
    pub(crate) is_over: bool,
}

impl Drop for WorkComm {
    fn drop(&mut self) {
        if self.is_over {
            // Ordering: Release pairs with the Acquire of the next taker.
            self.comm.work.is_taken.store(false, Ordering::Release);
        }
    }
}

/// Of whom a message is received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Of that rank only.
    Rank(usize),
    /// Of any rank, in the order in which they come.
    Any,
}

impl From<usize> for Source {
    fn from(rank: usize) -> Self {
        Self::Rank(rank)
    }
}

/// A message that was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The rank that sent it.
    pub source: usize,
    /// Its tag.
    pub tag: i32,
    /// What was sent.
    pub bytes: Vec<u8>,
}

impl Comm {
    /// Returns the number of this rank, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn new(progress: Arc<MpiProgress>, handle: RawComm, rank: usize, size: usize) -> Self {
        Self {
            progress,
            handle,
            rank,
            size,
            work: Arc::default(),
        }
    }

    /// Copies this communicator: the messages of the two never meet. All ranks call this, in the same order,
    /// and it waits for them. MPI has some thousand communicators, which last until its end.
    ///
    /// # Errors
    ///
    /// MPI fails, has no communicator left, or was finalised.
    pub fn duplicate(&self) -> Result<Self, MpiError> {
        // MPI's own call blocks, under the engine's lock. After the barrier all ranks are about to call it.
        self.barrier().wait()?;
        let copy = self.progress.call(|api| api.duplicate(self.handle.0))?;
        Ok(self.with(RawComm(copy)))
    }

    fn with(&self, handle: RawComm) -> Self {
        Self::new(Arc::clone(&self.progress), handle, self.rank, self.size)
    }

    /// Takes the communicator of shared work. All ranks call this.
    ///
    /// # Errors
    ///
    /// Other work of this communicator is not over, or has failed; as [`duplicate`](Self::duplicate).
    pub(crate) fn take_work(&self) -> Result<WorkComm, MpiError> {
        // Ordering: Acquire pairs with the Release at the end of the last work.
        if self.work.is_taken.swap(true, Ordering::Acquire) {
            return Err(MpiError::new(
                MpiErrorKind::Argument,
                "the ranks share other work over this communicator, which is not over or has failed: wait \
                 for its end, or duplicate the communicator",
            ));
        }
        // Dropped if anything fails: there is no word yet.
        let mut taken = WorkComm {
            comm: self.clone(),
            tag: 0,
            is_over: true,
        };
        let handle = match self.work.handle.get() {
            Some(handle) => *handle,
            None => {
                let made = self.duplicate()?.handle;
                *self.work.handle.get_or_init(|| made)
            }
        };
        taken.comm.handle = handle;
        taken.is_over = false;
        // Ordering: Relaxed. One thread at a time has taken it.
        taken.tag = (self.work.number.fetch_add(1, Ordering::Relaxed) % 2) as i32;
        Ok(taken)
    }

    /// Sends `bytes` to the rank `to`. The result is the bytes: the buffer may be used again.
    ///
    /// A result says that the buffer is free, and not that the message was received. Costs an allocation and
    /// a call of MPI.
    ///
    /// # Errors
    ///
    /// There is no such rank, the tag is negative or above 32767, the message has 2 GiB or more, MPI fails,
    /// or was finalised.
    pub fn send(&self, to: usize, tag: i32, bytes: Vec<u8>) -> Request<Vec<u8>> {
        let posted = self.check(Some(to), Some(tag)).and_then(|()| {
            self.progress.post(
                Peer {
                    kind: PeerKind::Send,
                    rank: Some(to),
                    tag: Some(tag),
                },
                Buffer::From(bytes),
                |api, buffer| {
                    let Buffer::From(bytes) = buffer else {
                        unreachable!("it was given above")
                    };
                    // SAFETY: the engine keeps the bytes until the request is over, and writes nothing.
                    unsafe { api.isend(bytes, to, tag, self.handle.0) }
                },
            )
        });
        Request::new(&self.progress, posted, |completed| Ok(bytes_of(completed.buffer)))
    }

    /// Receives the next message with this tag, of at most `capacity` bytes. Messages of one rank with one
    /// tag come in the order in which they were sent.
    ///
    /// # Errors
    ///
    /// The message is longer, there is no such rank, the tag is negative or above 32767, MPI fails, or was
    /// finalised.
    pub fn recv(&self, from: impl Into<Source>, tag: i32, capacity: usize) -> Request<Message> {
        if let Err(error) = count_of(capacity) {
            return Request::new(&self.progress, Err(error), to_message);
        }
        self.recv_into(from, tag, vec![0; capacity])
    }

    /// As [`recv`](Self::recv), into a buffer that is used again. Its length is the capacity.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    pub fn recv_into(&self, from: impl Into<Source>, tag: i32, buffer: Vec<u8>) -> Request<Message> {
        let (rank, source) = match from.into() {
            Source::Rank(rank) => (Some(rank), rank as i32),
            Source::Any => (None, ANY_SOURCE),
        };
        let posted = self.check(rank, Some(tag)).and_then(|()| {
            self.progress.post(
                Peer {
                    kind: PeerKind::Receive,
                    rank,
                    tag: Some(tag),
                },
                Buffer::To(buffer),
                |api, buffer| {
                    let Buffer::To(bytes) = buffer else {
                        unreachable!("it was given above")
                    };
                    // SAFETY: the engine keeps the bytes until the request is over, and does not use them.
                    unsafe { api.irecv(bytes, source, tag, self.handle.0) }
                },
            )
        });
        Request::new(&self.progress, posted, to_message)
    }

    /// Receives the next message with this tag, of any length. Costs a look for it in each turn, so prefer
    /// [`recv`](Self::recv) where the length is known.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv), but for the length.
    pub fn recv_any_length(&self, from: impl Into<Source>, tag: i32) -> Request<Message> {
        let rank = match from.into() {
            Source::Rank(rank) => Some(rank),
            Source::Any => None,
        };
        let posted = self.check(rank, Some(tag)).and_then(|()| {
            let peer = Peer {
                kind: PeerKind::Receive,
                rank,
                tag: Some(tag),
            };
            self.progress.match_any(peer, self.handle)
        });
        Request::new(&self.progress, posted, to_message)
    }

    pub(crate) fn check(&self, rank: Option<usize>, tag: Option<i32>) -> Result<(), MpiError> {
        if let Some(rank) = rank.filter(|rank| *rank >= self.size) {
            return Err(MpiError::new(
                MpiErrorKind::Argument,
                format!(
                    "there is no rank {rank}: the job has the ranks 0 to {}",
                    self.size - 1
                ),
            ));
        }
        if let Some(tag) = tag.filter(|tag| !(0..=TAGS).contains(tag)) {
            return Err(MpiError::new(
                MpiErrorKind::Argument,
                format!("{tag} is no tag: tags are 0 to {TAGS}"),
            ));
        }
        Ok(())
    }
}

fn to_message(completed: Completed) -> Result<Message, MpiError> {
    Ok(Message {
        source: completed.source,
        tag: completed.tag,
        bytes: bytes_of(completed.buffer),
    })
}

/// Returns the bytes that were sent or received.
pub(crate) fn bytes_of(buffer: Buffer) -> Vec<u8> {
    match buffer {
        Buffer::None | Buffer::Words(..) => Vec::new(),
        Buffer::From(bytes) | Buffer::To(bytes) | Buffer::Both(_, bytes) => bytes,
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Comm")
            .field("rank", &self.rank)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Comm;
    use crate::api::fake;
    use crate::error::MpiErrorKind;
    use crate::op::RawComm;
    use crate::progress::MpiProgress;
    use std::sync::Arc;

    #[test]
    fn work_that_was_not_over_keeps_its_communicator() {
        let progress = Arc::new(MpiProgress::new(fake::api()));
        let comm = Comm::new(progress, RawComm(std::ptr::null_mut()), 0, 2);
        let mut work = comm.take_work().expect("it is free");
        assert!(comm.take_work().is_err(), "the other work goes on");
        work.is_over = true;
        let tag = work.tag;
        drop(work);
        let next = comm.take_work().expect("the first work is over");
        assert_ne!(
            next.tag, tag,
            "a slower rank may still receive words of the first"
        );
        drop(next);
        let error = comm.take_work().err().expect("words may be on their way");
        assert_eq!(error.kind(), MpiErrorKind::Argument, "{error}");
        assert!(comm.duplicate().expect("a copy").take_work().is_ok());
    }
}
