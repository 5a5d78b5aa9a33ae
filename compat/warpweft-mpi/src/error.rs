//! What goes wrong between ranks.

use std::error::Error;
use std::fmt;

/// Why a call of MPI, or a message, failed. The text names what was wrong and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MpiError {
    kind: MpiErrorKind,
    text: String,
}

/// The kinds of [`MpiError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MpiErrorKind {
    /// There is no library of MPI, or none that this crate can use.
    Library,
    /// A call of MPI failed.
    Call,
    /// A message is longer than the buffer that waited for it.
    Truncated,
    /// An argument names a rank, a tag or a length that cannot be.
    Argument,
    /// A message is not of the type that the receiver expects.
    Type,
    /// The job ends: `Mpi::finalize` was called.
    Finished,
    /// A function gave no result on another rank, or the ranks have different functions.
    Remote,
}

impl MpiError {
    pub(crate) fn new(kind: MpiErrorKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }

    pub(crate) fn library(text: String) -> Self {
        Self::new(MpiErrorKind::Library, text)
    }

    pub(crate) fn no_library(reasons: &[String], named: bool) -> Self {
        let mut text = String::from("no MPI was found:");
        for reason in reasons {
            text += "\n  ";
            text += reason;
        }
        text += if named {
            "\nWARPWEFT_MPI_LIB must name a library of the standard ABI (libmpi_abi.so), or the shim"
        } else {
            "\ninstall one of the standard ABI, for example MPICH 5 (`pip install mpich`, and its `lib` \
             in LD_LIBRARY_PATH), or build with the feature `mpicc` for the MPI of this system (Debian: \
             `apt install libopenmpi-dev openmpi-bin`); WARPWEFT_MPI_LIB names a library elsewhere"
        };
        Self::library(text)
    }

    pub(crate) fn call(what: &str, said: &str) -> Self {
        Self::new(MpiErrorKind::Call, format!("{what} failed: {said}"))
    }

    pub(crate) fn too_long(bytes: usize) -> Self {
        Self::new(
            MpiErrorKind::Argument,
            format!("a message of {bytes} bytes is too long: MPI counts to 2147483647; send it in parts"),
        )
    }

    pub(crate) fn finished() -> Self {
        Self::new(
            MpiErrorKind::Finished,
            "MPI was finalised: no message can be sent or received any more",
        )
    }

    /// Returns the kind of the failure.
    #[must_use]
    pub fn kind(&self) -> MpiErrorKind {
        self.kind
    }
}

impl fmt::Display for MpiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for MpiError {}
