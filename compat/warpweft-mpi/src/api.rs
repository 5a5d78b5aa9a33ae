//! The functions of MPI that this crate uses, by the names and types of the standard ABI.
//!
//! # Invariants
//!
//! - The table lives as long as the process: MPI cannot be unloaded.
//! - After `init`, calls are made under the engine's lock, as `MPI_THREAD_SERIALIZED` demands.

#[cfg(feature = "raw")]
mod plain;

use crate::error::MpiError;
use crate::library::Library;
use std::ffi::{c_char, c_int, c_void};

/// A handle of MPI: a pointer, or a small number for a constant.
pub(crate) type Handle = *mut c_void;

pub(crate) const WORLD: Handle = std::ptr::without_provenance_mut(0x101);
pub(crate) const BYTE: Handle = std::ptr::without_provenance_mut(0x247);
pub(crate) const DOUBLE: Handle = std::ptr::without_provenance_mut(0x214);
pub(crate) const INT64: Handle = std::ptr::without_provenance_mut(0x258);
pub(crate) const UINT64: Handle = std::ptr::without_provenance_mut(0x259);
pub(crate) const SUM: Handle = std::ptr::without_provenance_mut(0x21);
pub(crate) const MIN: Handle = std::ptr::without_provenance_mut(0x22);
pub(crate) const MAX: Handle = std::ptr::without_provenance_mut(0x23);
pub(crate) const ANY_SOURCE: c_int = -1;
pub(crate) const ANY_TAG: c_int = -2;
pub(crate) const ERR_IN_STATUS: c_int = 19;
pub(crate) const ERR_TRUNCATE: c_int = 15;
const ERRORS_RETURN: Handle = std::ptr::without_provenance_mut(0x143);
const SERIALIZED: c_int = 2048;
const MAX_TEXT: usize = 8192;

/// How a message ended.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Status {
    pub(crate) source: c_int,
    pub(crate) tag: c_int,
    pub(crate) error: c_int,
    internal: [c_int; 5],
}

/// Declares the table, and how it is filled.
macro_rules! table {
    ($($(#[$only:meta])? $field:ident = $symbol:literal: fn($($kind:ty),*);)*) => {
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct Api {
            $($(#[$only])? $field: unsafe extern "C" fn($($kind),*) -> c_int,)*
        }

        impl Api {
            fn load(find: impl Fn(&str) -> Result<Handle, MpiError>) -> Result<Self, MpiError> {
                Ok(Self {
                    $($(#[$only])? $field: {
                        let found = find($symbol)?;
                        // SAFETY: the symbol is this function of the standard ABI, or the shim's of the
                        // same type.
                        unsafe { std::mem::transmute::<Handle, unsafe extern "C" fn($($kind),*) -> c_int>(found) }
                    },)*
                })
            }
        }
    };
}

table! {
    init_thread = "Init_thread": fn(Handle, Handle, c_int, *mut c_int);
    initialized = "Initialized": fn(*mut c_int);
    finalize = "Finalize": fn();
    comm_rank = "Comm_rank": fn(Handle, *mut c_int);
    comm_size = "Comm_size": fn(Handle, *mut c_int);
    comm_dup = "Comm_dup": fn(Handle, *mut Handle);
    comm_set_errhandler = "Comm_set_errhandler": fn(Handle, Handle);
    abort = "Abort": fn(Handle, c_int);
    library_version = "Get_library_version": fn(*mut c_char, *mut c_int);
    error_class = "Error_class": fn(c_int, *mut c_int);
    error_string = "Error_string": fn(c_int, *mut c_char, *mut c_int);
    isend = "Isend": fn(*const c_void, c_int, Handle, c_int, c_int, Handle, *mut Handle);
    irecv = "Irecv": fn(*mut c_void, c_int, Handle, c_int, c_int, Handle, *mut Handle);
    improbe = "Improbe": fn(c_int, c_int, Handle, *mut c_int, *mut Handle, *mut Status);
    imrecv = "Imrecv": fn(*mut c_void, c_int, Handle, *mut Handle, *mut Handle);
    ibarrier = "Ibarrier": fn(Handle, *mut Handle);
    ibcast = "Ibcast": fn(*mut c_void, c_int, Handle, c_int, Handle, *mut Handle);
    iallreduce = "Iallreduce": fn(*const c_void, *mut c_void, c_int, Handle, Handle, Handle, *mut Handle);
    iallgather = "Iallgather":
        fn(*const c_void, c_int, Handle, *mut c_void, c_int, Handle, Handle, *mut Handle);
    ialltoall = "Ialltoall":
        fn(*const c_void, c_int, Handle, *mut c_void, c_int, Handle, Handle, *mut Handle);
    cancel = "Cancel": fn(*mut Handle);
    testsome = "Testsome": fn(c_int, *mut Handle, *mut c_int, *mut c_int, *mut Status);
    get_count = "Get_count": fn(*const Status, Handle, *mut c_int);
    test_cancelled = "Test_cancelled": fn(*const Status, *mut c_int);
    #[cfg(feature = "raw")]
    send = "Send": fn(*const c_void, c_int, Handle, c_int, c_int, Handle);
    #[cfg(feature = "raw")]
    recv = "Recv": fn(*mut c_void, c_int, Handle, c_int, c_int, Handle, *mut Status);
    #[cfg(feature = "raw")]
    test = "Test": fn(*mut Handle, *mut c_int, *mut Status);
    #[cfg(feature = "raw")]
    wait = "Wait": fn(*mut Handle, *mut Status);
}

/// A collective that sends to each rank and receives of each.
type Exchange = unsafe extern "C" fn(
    *const c_void,
    c_int,
    Handle,
    *mut c_void,
    c_int,
    Handle,
    Handle,
    *mut Handle,
) -> c_int;

/// Fails unless `code` is 0.
fn check(api: &Api, what: &str, code: c_int) -> Result<(), MpiError> {
    if code == 0 {
        Ok(())
    } else {
        Err(MpiError::call(what, &api.text_of(code)))
    }
}

impl Api {
    /// Loads MPI.
    ///
    /// # Errors
    ///
    /// There is no library, or it is of another ABI or too old.
    pub(crate) fn find() -> Result<Self, MpiError> {
        let library = Library::find()?;
        Self::load(|symbol| library.function(symbol))
    }

    /// Initialises MPI for calls of any thread, one at a time.
    ///
    /// # Errors
    ///
    /// It is initialised already, fails, or allows calls of one thread only.
    pub(crate) fn init(&self) -> Result<(), MpiError> {
        let (mut before, mut level) = (0, 0);
        // SAFETY: the pointer is valid; this may be called at any time.
        check(self, "MPI_Initialized", unsafe {
            (self.initialized)(&raw mut before)
        })?;
        if before != 0 {
            return Err(MpiError::library(String::from(
                "MPI is initialised already: `Mpi::init` does so itself, once in a process",
            )));
        }
        let none = std::ptr::null_mut();
        // SAFETY: null arguments are allowed, and the pointer is valid.
        check(self, "MPI_Init_thread", unsafe {
            (self.init_thread)(none, none, SERIALIZED, &raw mut level)
        })?;
        check_level(level)?;
        // SAFETY: MPI is initialised.
        check(self, "MPI_Comm_set_errhandler", unsafe {
            (self.comm_set_errhandler)(WORLD, ERRORS_RETURN)
        })
    }

    pub(crate) fn finalize(&self) -> Result<(), MpiError> {
        // SAFETY: the caller has initialised MPI, and makes no further call.
        check(self, "MPI_Finalize", unsafe { (self.finalize)() })
    }

    pub(crate) fn rank(&self, comm: Handle) -> Result<usize, MpiError> {
        let mut rank = 0;
        // SAFETY: MPI is initialised, and the pointer is valid.
        check(self, "MPI_Comm_rank", unsafe {
            (self.comm_rank)(comm, &raw mut rank)
        })?;
        Ok(usize::try_from(rank).unwrap_or(0))
    }

    pub(crate) fn size(&self, comm: Handle) -> Result<usize, MpiError> {
        let mut size = 0;
        // SAFETY: MPI is initialised, and the pointer is valid.
        check(self, "MPI_Comm_size", unsafe {
            (self.comm_size)(comm, &raw mut size)
        })?;
        Ok(usize::try_from(size).unwrap_or(0))
    }

    /// Copies a communicator, which all of its ranks do. The copy's errors are returned.
    pub(crate) fn duplicate(&self, comm: Handle) -> Result<Handle, MpiError> {
        let mut copy = std::ptr::null_mut();
        // SAFETY: MPI is initialised, and the pointer is valid.
        check(self, "MPI_Comm_dup", unsafe {
            (self.comm_dup)(comm, &raw mut copy)
        })?;
        // SAFETY: as above; the copy is a communicator.
        check(self, "MPI_Comm_set_errhandler", unsafe {
            (self.comm_set_errhandler)(copy, ERRORS_RETURN)
        })?;
        Ok(copy)
    }

    /// Ends all ranks of the job.
    pub(crate) fn abort(&self, code: c_int) {
        // SAFETY: MPI is initialised. A failure is one that ends this process, too.
        unsafe { (self.abort)(WORLD, code) };
    }

    pub(crate) fn version(&self) -> String {
        let mut text = vec![0_u8; MAX_TEXT];
        let mut length = 0;
        // SAFETY: the buffer has MPI_MAX_LIBRARY_VERSION_STRING bytes.
        let code = unsafe { (self.library_version)(text.as_mut_ptr().cast(), &raw mut length) };
        said(code, text, length)
    }

    /// Returns the class of an error, which all libraries have in common.
    pub(crate) fn class_of(&self, error: c_int) -> c_int {
        let mut class = error;
        // SAFETY: the pointer is valid. A failure leaves the error as it is.
        unsafe { (self.error_class)(error, &raw mut class) };
        class
    }

    pub(crate) fn text_of(&self, error: c_int) -> String {
        let mut text = vec![0_u8; MAX_TEXT];
        let mut length = 0;
        // SAFETY: the buffer has at least MPI_MAX_ERROR_STRING bytes.
        let code = unsafe { (self.error_string)(error, text.as_mut_ptr().cast(), &raw mut length) };
        said(code, text, length)
    }

    /// # Safety
    ///
    /// The bytes stay where they are until the request is over, and are not changed.
    pub(crate) unsafe fn isend(
        &self,
        bytes: &[u8],
        dest: usize,
        tag: c_int,
        comm: Handle,
    ) -> Result<Handle, MpiError> {
        let count = count_of(bytes.len())?;
        self.post("MPI_Isend", |request| {
            // SAFETY: by contract, and MPI is initialised.
            unsafe {
                (self.isend)(
                    bytes.as_ptr().cast(),
                    count,
                    BYTE,
                    dest as c_int,
                    tag,
                    comm,
                    request,
                )
            }
        })
    }

    /// # Safety
    ///
    /// The bytes stay where they are until the request is over, and are not used.
    pub(crate) unsafe fn irecv(
        &self,
        bytes: &mut [u8],
        source: c_int,
        tag: c_int,
        comm: Handle,
    ) -> Result<Handle, MpiError> {
        let count = count_of(bytes.len())?;
        self.post("MPI_Irecv", |request| {
            // SAFETY: by contract, and MPI is initialised.
            unsafe { (self.irecv)(bytes.as_mut_ptr().cast(), count, BYTE, source, tag, comm, request) }
        })
    }

    /// Takes the first message that fits, if there is one. Returns it with its length.
    pub(crate) fn improbe(
        &self,
        source: c_int,
        tag: c_int,
        comm: Handle,
    ) -> Result<Option<(Handle, usize)>, MpiError> {
        let (mut flag, mut message, mut status) = (0, std::ptr::null_mut(), Status::default());
        // SAFETY: MPI is initialised, and the pointers are valid.
        check(self, "MPI_Improbe", unsafe {
            (self.improbe)(
                source,
                tag,
                comm,
                &raw mut flag,
                &raw mut message,
                &raw mut status,
            )
        })?;
        Ok((flag != 0).then(|| (message, self.bytes_of(&status))))
    }

    /// # Safety
    ///
    /// `message` is one of `improbe`, received once. The bytes stay where they are until the request is over,
    /// and are not used.
    pub(crate) unsafe fn imrecv(&self, bytes: &mut [u8], mut message: Handle) -> Result<Handle, MpiError> {
        let count = count_of(bytes.len())?;
        self.post("MPI_Imrecv", |request| {
            // SAFETY: by contract, and MPI is initialised.
            unsafe { (self.imrecv)(bytes.as_mut_ptr().cast(), count, BYTE, &raw mut message, request) }
        })
    }

    pub(crate) fn ibarrier(&self, comm: Handle) -> Result<Handle, MpiError> {
        self.post("MPI_Ibarrier", |request| {
            // SAFETY: MPI is initialised.
            unsafe { (self.ibarrier)(comm, request) }
        })
    }

    /// Contract: as `irecv`.
    pub(crate) unsafe fn ibcast(
        &self,
        bytes: &mut [u8],
        root: usize,
        comm: Handle,
    ) -> Result<Handle, MpiError> {
        let count = count_of(bytes.len())?;
        self.post("MPI_Ibcast", |request| {
            // SAFETY: by contract, and MPI is initialised.
            unsafe {
                (self.ibcast)(
                    bytes.as_mut_ptr().cast(),
                    count,
                    BYTE,
                    root as c_int,
                    comm,
                    request,
                )
            }
        })
    }

    /// Contract: as `isend` for `from` and `irecv` for `to`. Both have as many elements of `kind`.
    pub(crate) unsafe fn iallreduce(
        &self,
        from: &[u64],
        to: &mut [u64],
        (kind, op): (Handle, Handle),
        comm: Handle,
    ) -> Result<Handle, MpiError> {
        let count = count_of(from.len())?;
        self.post("MPI_Iallreduce", |request| {
            // SAFETY: by contract, and MPI is initialised.
            unsafe {
                (self.iallreduce)(
                    from.as_ptr().cast(),
                    to.as_mut_ptr().cast(),
                    count,
                    kind,
                    op,
                    comm,
                    request,
                )
            }
        })
    }

    /// Contract: as [`exchange`](Self::exchange), with all of `from` for each rank.
    pub(crate) unsafe fn iallgather(
        &self,
        from: &[u8],
        to: &mut [u8],
        comm: Handle,
    ) -> Result<Handle, MpiError> {
        // SAFETY: by contract.
        unsafe { self.exchange("MPI_Iallgather", self.iallgather, (from, to, from.len()), comm) }
    }

    /// Contract: as [`exchange`](Self::exchange), with `each` bytes of `from` for each rank.
    pub(crate) unsafe fn ialltoall(
        &self,
        from: &[u8],
        to: &mut [u8],
        each: usize,
        comm: Handle,
    ) -> Result<Handle, MpiError> {
        // SAFETY: by contract.
        unsafe { self.exchange("MPI_Ialltoall", self.ialltoall, (from, to, each), comm) }
    }

    /// Sends `each` bytes to each rank and receives as many of each.
    /// Contract: as `isend` for `from` and `irecv` for `to`, which has `each` bytes for each rank.
    unsafe fn exchange(
        &self,
        what: &str,
        call: Exchange,
        (from, to, each): (&[u8], &mut [u8], usize),
        comm: Handle,
    ) -> Result<Handle, MpiError> {
        let count = count_of(each)?;
        let (from, to) = (from.as_ptr().cast(), to.as_mut_ptr().cast());
        self.post(what, |request| {
            // SAFETY: by contract, and MPI is initialised.
            unsafe { call(from, count, BYTE, to, count, BYTE, comm, request) }
        })
    }

    /// Asks for the end of a receive, which still ends like any other.
    pub(crate) fn cancel(&self, request: &mut Handle) {
        // SAFETY: the request is not over. A failure leaves it as it is.
        unsafe { (self.cancel)(request) };
    }

    /// Looks which of the requests are over. Returns how many; `indices` and `statuses` name them.
    ///
    /// # Errors
    ///
    /// MPI as a whole fails. An error of one request is in its status.
    pub(crate) fn testsome(
        &self,
        requests: &mut [Handle],
        indices: &mut [c_int],
        statuses: &mut [Status],
    ) -> Result<usize, MpiError> {
        debug_assert!(indices.len() >= requests.len() && statuses.len() >= requests.len());
        let mut done = 0;
        // SAFETY: MPI is initialised, the arrays have as many elements, and the requests are not over.
        let code = unsafe {
            (self.testsome)(
                requests.len() as c_int,
                requests.as_mut_ptr(),
                &raw mut done,
                indices.as_mut_ptr(),
                statuses.as_mut_ptr(),
            )
        };
        let done = usize::try_from(done).unwrap_or(0);
        if code != 0 && self.class_of(code) == ERR_IN_STATUS {
            return Ok(done);
        }
        check(self, "MPI_Testsome", code)?;
        // Statuses without an error leave the field as it was.
        statuses[..done].iter_mut().for_each(|status| status.error = 0);
        Ok(done)
    }

    /// Returns the length of what was received.
    pub(crate) fn bytes_of(&self, status: &Status) -> usize {
        let mut count = 0;
        // SAFETY: the status is one of MPI's, and the pointer is valid.
        unsafe { (self.get_count)(status, BYTE, &raw mut count) };
        usize::try_from(count).unwrap_or(0)
    }

    pub(crate) fn was_cancelled(&self, status: &Status) -> bool {
        let mut flag = 0;
        // SAFETY: as above.
        unsafe { (self.test_cancelled)(status, &raw mut flag) };
        flag != 0
    }

    fn post(&self, what: &str, call: impl FnOnce(*mut Handle) -> c_int) -> Result<Handle, MpiError> {
        let mut request = std::ptr::null_mut();
        let code = call(&raw mut request);
        check(self, what, code)?;
        Ok(request)
    }
}

fn check_level(level: c_int) -> Result<(), MpiError> {
    if level >= SERIALIZED {
        return Ok(());
    }
    Err(MpiError::library(format!(
        "this MPI allows calls of one thread only (level {level}; MPI_THREAD_SERIALIZED is {SERIALIZED}): \
         use one that was built with threads"
    )))
}

/// Returns a length as MPI counts.
pub(crate) fn count_of(bytes: usize) -> Result<c_int, MpiError> {
    c_int::try_from(bytes).map_err(|_| MpiError::too_long(bytes))
}

fn said(code: c_int, mut text: Vec<u8>, length: c_int) -> String {
    if code != 0 {
        return String::from("MPI does not say");
    }
    text.truncate(usize::try_from(length).unwrap_or(0));
    String::from_utf8_lossy(&text).trim().to_owned()
}

#[cfg(test)]
pub(crate) mod fake;

#[cfg(test)]
mod tests {
    use super::{check_level, count_of};

    #[test]
    fn one_thread_is_not_enough() {
        assert!(check_level(2048).is_ok() && check_level(4096).is_ok());
        for level in [0, 1024] {
            let error = check_level(level).expect_err("too low").to_string();
            assert!(error.contains("one thread only"), "{error}");
        }
    }

    #[test]
    fn a_message_has_less_than_two_gibibytes() {
        assert!(count_of(i32::MAX as usize).is_ok());
        let error = count_of(1 << 31).expect_err("too long").to_string();
        assert!(error.contains("2147483648 bytes"), "{error}");
    }
}
