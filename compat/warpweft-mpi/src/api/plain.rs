//! The calls that only plain MPI needs. Statuses are ignored: a null pointer means that.

use super::{Api, BYTE, Handle, check, count_of};
use crate::error::MpiError;
use std::ffi::c_int;

impl Api {
    /// Sends, and returns when the bytes may be used again.
    pub(crate) fn send(&self, bytes: &[u8], dest: usize, tag: c_int, comm: Handle) -> Result<(), MpiError> {
        let count = count_of(bytes.len())?;
        // SAFETY: MPI is initialised, and the bytes are borrowed until it returns.
        let code = unsafe { (self.send)(bytes.as_ptr().cast(), count, BYTE, dest as c_int, tag, comm) };
        check(self, "MPI_Send", code)
    }

    /// Receives, and returns when the message is there.
    pub(crate) fn recv(
        &self,
        bytes: &mut [u8],
        source: usize,
        tag: c_int,
        comm: Handle,
    ) -> Result<(), MpiError> {
        let (count, ignore) = (count_of(bytes.len())?, std::ptr::null_mut());
        let (bytes, source) = (bytes.as_mut_ptr().cast(), source as c_int);
        // SAFETY: MPI is initialised, and the bytes are borrowed until it returns.
        let code = unsafe { (self.recv)(bytes, count, BYTE, source, tag, comm, ignore) };
        check(self, "MPI_Recv", code)
    }

    /// Looks whether a request is over. One that is must not be given again.
    pub(crate) fn test(&self, request: &mut Handle) -> Result<bool, MpiError> {
        let mut flag = 0;
        // SAFETY: MPI is initialised, the pointers are valid, and the request is not over.
        let code = unsafe { (self.test)(request, &raw mut flag, std::ptr::null_mut()) };
        check(self, "MPI_Test", code)?;
        Ok(flag != 0)
    }

    /// Waits until a request is over. It must not be given again.
    pub(crate) fn wait(&self, request: &mut Handle) -> Result<(), MpiError> {
        // SAFETY: as above.
        let code = unsafe { (self.wait)(request, std::ptr::null_mut()) };
        check(self, "MPI_Wait", code)
    }
}
