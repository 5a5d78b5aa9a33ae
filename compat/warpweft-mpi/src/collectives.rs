//! What all ranks of a communicator do together.
//!
//! Each rank calls the same collectives of a communicator in the same order. MPI does not check that.

use crate::api::{Api, DOUBLE, Handle, INT64, MAX, MIN, SUM, UINT64};
use crate::comm::{Comm, bytes_of};
use crate::error::{MpiError, MpiErrorKind};
use crate::op::{Buffer, Op, Peer, PeerKind};
use crate::request::Request;

/// How [`Comm::all_reduce`] combines numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reduce {
    /// Adds them. Integers wrap around.
    Sum,
    /// Takes the smallest.
    Min,
    /// Takes the largest.
    Max,
}

mod sealed {
    use super::Handle;

    /// A number of 8 bytes that MPI can combine.
    pub trait Number: Copy + Send + 'static {
        /// Returns MPI's type.
        fn kind() -> Handle;
        /// Returns its 8 bytes.
        fn to_word(self) -> u64;
        /// Returns the number of these 8 bytes.
        fn from_word(word: u64) -> Self;
    }
}

/// The numbers that [`Comm::all_reduce`] combines: `i64`, `u64` and `f64`.
pub trait Number: sealed::Number {}

macro_rules! number {
    ($($number:ident: $kind:ident),*) => {$(
        impl Number for $number {}

        impl sealed::Number for $number {
            fn kind() -> Handle {
                $kind
            }

            fn to_word(self) -> u64 {
                u64::from_ne_bytes(self.to_ne_bytes())
            }

            fn from_word(word: u64) -> Self {
                Self::from_ne_bytes(word.to_ne_bytes())
            }
        }
    )*};
}

number!(i64: INT64, u64: UINT64, f64: DOUBLE);

impl Comm {
    /// Waits until all ranks have called it.
    ///
    /// # Errors
    ///
    /// MPI fails, or was finalised.
    pub fn barrier(&self) -> Request<()> {
        let posted = self.collect(Buffer::None, |api, _, comm| api.ibarrier(comm));
        Request::new(&self.progress, posted, |_| Ok(()))
    }

    /// Gives all ranks the bytes of the rank `root`. All ranks give as many bytes; those of the others are
    /// overwritten.
    ///
    /// # Errors
    ///
    /// There is no such rank, MPI fails, or was finalised.
    pub fn broadcast(&self, root: usize, bytes: Vec<u8>) -> Request<Vec<u8>> {
        let posted = self.check(Some(root), None).and_then(|()| {
            self.collect(Buffer::To(bytes), |api, buffer, comm| {
                let Buffer::To(bytes) = buffer else {
                    unreachable!("it was given above")
                };
                // SAFETY: the engine keeps the bytes until the request is over, and does not use them.
                unsafe { api.ibcast(bytes, root, comm) }
            })
        });
        Request::new(&self.progress, posted, |completed| Ok(bytes_of(completed.buffer)))
    }

    /// Combines the numbers of all ranks, place by place, and gives all ranks the result. All ranks give as
    /// many.
    ///
    /// # Errors
    ///
    /// MPI fails, or was finalised.
    #[allow(clippy::needless_pass_by_value, reason = "as the other collectives")]
    pub fn all_reduce<T: Number>(&self, numbers: Vec<T>, reduce: Reduce) -> Request<Vec<T>> {
        let op = match reduce {
            Reduce::Sum => SUM,
            Reduce::Min => MIN,
            Reduce::Max => MAX,
        };
        let words: Vec<u64> = numbers.iter().map(|number| number.to_word()).collect();
        let result = vec![0; words.len()];
        let posted = self.collect(Buffer::Words(words, result), |api, buffer, comm| {
            let Buffer::Words(from, to) = buffer else {
                unreachable!("it was given above")
            };
            // SAFETY: the engine keeps both until the request is over; they have as many numbers.
            unsafe { api.iallreduce(from, to, (T::kind(), op), comm) }
        });
        Request::new(&self.progress, posted, |completed| match completed.buffer {
            Buffer::Words(_, result) => Ok(result.into_iter().map(T::from_word).collect()),
            _ => unreachable!("it was given above"),
        })
    }

    /// Gives all ranks the bytes of all ranks, in the order of their numbers. All ranks give as many.
    ///
    /// # Errors
    ///
    /// MPI fails, or was finalised.
    pub fn all_gather(&self, bytes: Vec<u8>) -> Request<Vec<u8>> {
        let room = vec![0; bytes.len() * self.size()];
        let posted = self.collect(Buffer::Both(bytes, room), |api, buffer, comm| {
            let Buffer::Both(from, to) = buffer else {
                unreachable!("it was given above")
            };
            // SAFETY: the engine keeps both until the request is over; there is room for each rank.
            unsafe { api.iallgather(from, to, comm) }
        });
        Request::new(&self.progress, posted, |completed| Ok(bytes_of(completed.buffer)))
    }

    /// Sends each rank its part of the bytes: the first to rank 0, and so on. The result has the parts that
    /// the ranks sent to this one. All ranks give as many bytes, a multiple of the number of ranks.
    ///
    /// # Errors
    ///
    /// The length is no such multiple, MPI fails, or was finalised.
    pub fn all_to_all(&self, bytes: Vec<u8>) -> Request<Vec<u8>> {
        let (len, size) = (bytes.len(), self.size());
        let posted = if len.is_multiple_of(size) {
            self.collect(Buffer::Both(bytes, vec![0; len]), |api, buffer, comm| {
                let Buffer::Both(from, to) = buffer else {
                    unreachable!("it was given above")
                };
                // SAFETY: the engine keeps both until the request is over; both have a part for each rank.
                unsafe { api.ialltoall(from, to, len / size, comm) }
            })
        } else {
            Err(MpiError::new(
                MpiErrorKind::Argument,
                format!("{len} bytes cannot be sent to {size} ranks in equal parts"),
            ))
        };
        Request::new(&self.progress, posted, |completed| Ok(bytes_of(completed.buffer)))
    }

    fn collect(
        &self,
        buffer: Buffer,
        post: impl FnOnce(&Api, &mut Buffer, Handle) -> Result<Handle, MpiError>,
    ) -> Result<std::sync::Arc<Op>, MpiError> {
        let peer = Peer {
            kind: PeerKind::Collective,
            rank: None,
            tag: None,
        };
        let comm = self.handle.0;
        self.progress
            .post(peer, buffer, |api, buffer| post(api, buffer, comm))
    }
}
