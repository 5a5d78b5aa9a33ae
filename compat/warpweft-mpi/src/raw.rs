//! MPI's own calls, as a program without this crate makes them. They are for measurements beside plain MPI.
//!
//! Other programs use [`Mpi`](crate::Mpi): nothing here is awaited, and nothing looks at a request by itself.
//!
//! # Invariants
//!
//! - One call at a time: each takes [`RawMpi`] by `&mut`, and MPI is initialised once in a process.
//! - A request owns what MPI reads and writes. Nobody else sees the bytes before it is over, and they leak if
//!   it is dropped before.

use crate::api::{Api, Handle, Status, WORLD};
use crate::error::MpiError;
use crate::op::Buffer;
use std::ffi::c_int;

/// How many requests [`RawMpi::test_some`] looks at in one call.
pub const WINDOW: usize = 64;

/// MPI in this process, for calls of any thread, one at a time (`MPI_THREAD_SERIALIZED`).
#[derive(Debug)]
pub struct RawMpi {
    api: Api,
    world: Handle,
    rank: usize,
    size: usize,
}

// SAFETY: the handle is one of the process, and `&mut self` lets one thread call at a time.
unsafe impl Send for RawMpi {}

/// What MPI works on: a message or a collective, with its bytes.
#[derive(Debug)]
#[must_use = "a request that is dropped before its end leaks its bytes"]
pub struct RawRequest {
    handle: Handle,
    buffer: Buffer,
    is_over: bool,
}

// SAFETY: the handle is one of the process, and is used through `RawMpi` only.
unsafe impl Send for RawRequest {}

impl RawRequest {
    /// Returns what was received, or the bytes that were sent. A receive keeps the length of its buffer, also
    /// if the message was shorter.
    ///
    /// # Panics
    ///
    /// If the request is not over.
    #[must_use]
    pub fn into_bytes(mut self) -> Vec<u8> {
        assert!(self.is_over, "MPI still works on these bytes");
        match std::mem::replace(&mut self.buffer, Buffer::None) {
            Buffer::From(bytes) | Buffer::To(bytes) | Buffer::Both(_, bytes) => bytes,
            Buffer::None | Buffer::Words(..) => Vec::new(),
        }
    }
}

impl Drop for RawRequest {
    fn drop(&mut self) {
        if !self.is_over {
            std::mem::forget(std::mem::replace(&mut self.buffer, Buffer::None));
        }
    }
}

impl RawMpi {
    /// Begins MPI in this process. The thread that calls this also calls [`finalize`](Self::finalize).
    ///
    /// # Errors
    ///
    /// As [`Mpi::init`](crate::Mpi::init).
    pub fn init() -> Result<Self, MpiError> {
        let api = Api::find()?;
        api.init()?;
        Ok(Self {
            world: api.duplicate(WORLD)?,
            rank: api.rank(WORLD)?,
            size: api.size(WORLD)?,
            api,
        })
    }

    /// Ends MPI in this process. All ranks call this, after the end of their last request.
    ///
    /// # Errors
    ///
    /// MPI fails.
    pub fn finalize(self) -> Result<(), MpiError> {
        self.api.finalize()
    }

    /// Ends all ranks of the job at once, with this exit code.
    pub fn abort(&mut self, code: i32) -> ! {
        self.api.abort(code);
        std::process::exit(code)
    }

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

    /// `MPI_Isend`.
    ///
    /// # Errors
    ///
    /// MPI fails, or the message has 2 GiB or more.
    pub fn isend(&mut self, to: usize, tag: i32, bytes: Vec<u8>) -> Result<RawRequest, MpiError> {
        // SAFETY: the request keeps the bytes until it is over; a vector that moves leaves them in place.
        let handle = unsafe { self.api.isend(&bytes, to, tag, self.world) }?;
        Ok(RawRequest::new(handle, Buffer::From(bytes)))
    }

    /// `MPI_Irecv`, of a message that is at most as long as the buffer.
    ///
    /// # Errors
    ///
    /// As [`isend`](Self::isend).
    pub fn irecv(&mut self, from: usize, tag: i32, mut buffer: Vec<u8>) -> Result<RawRequest, MpiError> {
        // SAFETY: as `isend`.
        let handle = unsafe { self.api.irecv(&mut buffer, from as c_int, tag, self.world) }?;
        Ok(RawRequest::new(handle, Buffer::To(buffer)))
    }

    /// `MPI_Send`: returns when the bytes may be used again.
    ///
    /// # Errors
    ///
    /// As [`isend`](Self::isend).
    pub fn send(&mut self, to: usize, tag: i32, bytes: &[u8]) -> Result<(), MpiError> {
        self.api.send(bytes, to, tag, self.world)
    }

    /// `MPI_Recv`: returns when the message is there.
    ///
    /// # Errors
    ///
    /// As [`isend`](Self::isend).
    pub fn recv(&mut self, from: usize, tag: i32, buffer: &mut [u8]) -> Result<(), MpiError> {
        self.api.recv(buffer, from, tag, self.world)
    }

    /// `MPI_Ibarrier`.
    ///
    /// # Errors
    ///
    /// MPI fails.
    pub fn ibarrier(&mut self) -> Result<RawRequest, MpiError> {
        let handle = self.api.ibarrier(self.world)?;
        Ok(RawRequest::new(handle, Buffer::None))
    }

    /// `MPI_Iallgather`: each rank gets the bytes of all. All give as many.
    ///
    /// # Errors
    ///
    /// As [`isend`](Self::isend).
    pub fn iallgather(&mut self, bytes: Vec<u8>) -> Result<RawRequest, MpiError> {
        let mut all = vec![0; bytes.len() * self.size];
        // SAFETY: as `isend`, and there is room for the bytes of each rank.
        let handle = unsafe { self.api.iallgather(&bytes, &mut all, self.world) }?;
        Ok(RawRequest::new(handle, Buffer::Both(bytes, all)))
    }

    /// `MPI_Ialltoall`: each rank gets its part of the bytes of all. All give as many.
    ///
    /// # Errors
    ///
    /// As [`isend`](Self::isend).
    ///
    /// # Panics
    ///
    /// If the length is no multiple of the number of ranks.
    pub fn ialltoall(&mut self, bytes: Vec<u8>) -> Result<RawRequest, MpiError> {
        assert_eq!(bytes.len() % self.size, 0, "each rank gets as many bytes");
        let (each, mut all) = (bytes.len() / self.size, vec![0; bytes.len()]);
        // SAFETY: as `isend`; both buffers have `each` bytes for each rank.
        let handle = unsafe { self.api.ialltoall(&bytes, &mut all, each, self.world) }?;
        Ok(RawRequest::new(handle, Buffer::Both(bytes, all)))
    }

    /// `MPI_Test`: looks once. Returns true if the request is over.
    ///
    /// # Errors
    ///
    /// The message failed, or is longer than its buffer.
    pub fn test(&mut self, request: &mut RawRequest) -> Result<bool, MpiError> {
        if !request.is_over {
            request.is_over = self.api.test(&mut request.handle)?;
        }
        Ok(request.is_over)
    }

    /// `MPI_Wait`: returns when the request is over.
    ///
    /// # Errors
    ///
    /// As [`test`](Self::test).
    pub fn wait(&mut self, request: &mut RawRequest) -> Result<(), MpiError> {
        if !request.is_over {
            self.api.wait(&mut request.handle)?;
            request.is_over = true;
        }
        Ok(())
    }

    /// `MPI_Testsome`: looks once at all of these. Adds the places of those that are over to `over`, in their
    /// order.
    ///
    /// # Errors
    ///
    /// As [`test`](Self::test), for the first that failed. It is over, too, and not among `over`.
    ///
    /// # Panics
    ///
    /// If there are more than [`WINDOW`], or one is over already.
    pub fn test_some(&mut self, requests: &mut [RawRequest], over: &mut Vec<usize>) -> Result<(), MpiError> {
        let count = requests.len();
        assert!(count <= WINDOW, "{count} requests are too many for one call");
        let mut handles = [std::ptr::null_mut(); WINDOW];
        for (handle, request) in handles.iter_mut().zip(&*requests) {
            assert!(
                !request.is_over,
                "MPI does not know a request any more that is over"
            );
            *handle = request.handle;
        }
        let (mut indices, mut statuses) = ([0; WINDOW], [Status::default(); WINDOW]);
        let done = self
            .api
            .testsome(&mut handles[..count], &mut indices, &mut statuses)?;
        let (first, mut failed) = (over.len(), None);
        // MPI has freed each of them, those after one that failed as well.
        for (index, status) in indices.iter().zip(&statuses).take(done) {
            let index = usize::try_from(*index).unwrap_or(0);
            requests[index].is_over = true;
            match status.error {
                0 => over.push(index),
                error => failed = failed.or(Some(error)),
            }
        }
        over[first..].sort_unstable();
        match failed {
            Some(error) => Err(MpiError::call("a message", &self.api.text_of(error))),
            None => Ok(()),
        }
    }
}

impl RawRequest {
    fn new(handle: Handle, buffer: Buffer) -> Self {
        Self {
            handle,
            buffer,
            is_over: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RawMpi;
    use crate::api::fake;

    #[test]
    fn all_that_mpi_freed_are_over_also_if_one_failed() {
        let mut mpi = RawMpi {
            api: fake::api(),
            world: std::ptr::null_mut(),
            rank: 0,
            size: 2,
        };
        let kinds = [fake::OPEN, fake::WRONG, fake::OVER, fake::WRONG, fake::OVER];
        fake::with(|fake| fake.receives.extend(kinds));
        let mut requests = kinds.map(|_| mpi.irecv(1, 3, vec![0; 8]).expect("it begins"));
        let mut over = vec![7];
        let error = mpi.test_some(&mut requests, &mut over).expect_err("two failed");
        assert!(error.to_string().starts_with("a message failed"), "{error}");
        let are_over = requests.each_ref().map(|request| request.is_over);
        assert_eq!(are_over, [false, true, true, true, true]);
        assert_eq!(over, [7, 2, 4]);
    }
}
