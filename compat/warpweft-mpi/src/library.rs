//! Loads MPI's library at run time.
//!
//! A library of the standard ABI (MPI 5) is used as it is. Any other is reached through the shim, which has
//! the same functions under the prefix `ww_`. A library stays loaded as long as the process lives.

use crate::error::MpiError;
use std::env;
use std::ffi::{CStr, CString, c_void};

/// The names under which a library is looked for, in this order, unless `WARPWEFT_MPI_LIB` has one.
const LIBRARIES: [&str; 3] = ["libmpi_abi.so.1", "libmpi_abi.so", "libwarpweft_mpi_shim.so"];

/// A library that is loaded, and the prefix of its functions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Library {
    handle: *mut c_void,
    prefix: &'static str,
}

impl Library {
    /// Loads the library that the environment names, or the first that is there.
    ///
    /// # Errors
    ///
    /// There is none, or it is of another ABI.
    pub(crate) fn find() -> Result<Self, MpiError> {
        let own = env::var("WARPWEFT_MPI_LIB").ok();
        let built = option_env!("WARPWEFT_MPI_SHIM");
        let names: Vec<&str> = match &own {
            Some(name) => vec![name],
            None => built.into_iter().chain(LIBRARIES).collect(),
        };
        let mut reasons = Vec::new();
        for name in names {
            match Self::open(name) {
                Ok(library) => return Ok(library),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(MpiError::no_library(&reasons, own.is_some()))
    }

    /// # Errors
    ///
    /// What the loader says.
    fn open(name: &str) -> Result<Self, String> {
        let path = CString::new(name).map_err(|_| format!("`{name}` has a zero byte"))?;
        // SAFETY: the path is a C string. MPI's initialisers may run any code, as a linked library's may.
        // Global: OpenMPI's own modules look for its symbols.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if handle.is_null() {
            // SAFETY: it may be called at any time.
            let text = unsafe { libc::dlerror() };
            // SAFETY: after a failure it is a C string that lives until the next call of this thread.
            let text = unsafe { CStr::from_ptr(text) };
            return Err(text.to_string_lossy().into_owned());
        }
        let shim = Self {
            handle,
            prefix: "ww_",
        };
        if shim.function("Init_thread").is_ok() {
            return Ok(shim);
        }
        let standard = Self {
            handle,
            prefix: "MPI_",
        };
        // Libraries of other ABIs have all the other functions, with other types.
        if standard.function("Abi_get_version").is_err() {
            return Err(format!(
                "`{name}` has no MPI_Abi_get_version, so it is no MPI of the standard ABI"
            ));
        }
        Ok(standard)
    }

    pub(crate) fn function(self, symbol: &str) -> Result<*mut c_void, MpiError> {
        let name = format!("{}{symbol}", self.prefix);
        let Ok(name) = CString::new(name) else {
            unreachable!("the table has no zero bytes")
        };
        // SAFETY: the handle is a loaded library's, and the name is a C string.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        if found.is_null() {
            Err(MpiError::library(format!(
                "the library has no function {}: MPI of version 3 at least is needed",
                name.to_string_lossy()
            )))
        } else {
            Ok(found)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Library;

    #[test]
    fn a_library_that_is_no_mpi_is_refused_by_name() {
        let error = Library::open("libc.so.6").expect_err("no MPI");
        assert!(error.contains("no MPI_Abi_get_version"), "{error}");
        let error = Library::open("libno_such_mpi.so").expect_err("no file");
        assert!(error.contains("libno_such_mpi.so"), "{error}");
    }
}
