//! Programs that are started, spoken to and waited for.
//!
//! ```
//! use warpweft::process::Command;
//!
//! let runtime = warpweft::Runtime::builder().workers(1).build()?;
//! runtime.block_on(async {
//!     let output = Command::new("echo").arg("hello").output().await?;
//!     assert!(output.status.success());
//!     assert_eq!(output.stdout, b"hello\n");
//!     Ok::<(), std::io::Error>(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Command`] and [`Child`] have the methods of [`std::process`], of which those that wait are futures. In a
//! closure they work through [`block_on`](crate::block_on). Pipes are
//! [`AsyncRead`](futures_io::AsyncRead) and [`AsyncWrite`](futures_io::AsyncWrite). This module is on Unix
//! only.
//!
//! # How a child is waited for
//!
//! On Linux by a descriptor of the process (`pidfd_open`) in the runtime's own poller. Where there is none
//! (before Linux 5.3, in some sandboxes, on other systems) by the signal `SIGCHLD`. Both cost no thread, and
//! nothing polls. A wait costs a descriptor per child, or two with the signal.
//!
//! A program that does not start is an error that names it. [`os_error`](crate::io::os_error) finds the
//! system's number.
//!
//! # Cancellation
//!
//! A wait that is dropped loses nothing: the next one returns the same status. **A child lives on when its
//! [`Child`] is dropped**, as one of `std` does, unless [`kill_on_drop`](Command::kill_on_drop) was set. In
//! both cases it is reaped when it ends: it does not stay behind as a zombie, as long as the runtime lives.
//! If that ends first, the next [`spawn`](Command::spawn) in any runtime reaps what has ended.
//!
//! # `fork()`
//!
//! In a child that the program makes by `fork()`, dropping a [`Child`] of its parent kills and reaps nothing,
//! and waiting for one is an error.

pub(crate) mod child;
pub(crate) mod command;
mod ending;
mod orphans;
pub(crate) mod pipes;

pub use child::Child;
pub use command::Command;
pub use pipes::{ChildStderr, ChildStdin, ChildStdout};
pub use std::process::{ExitStatus, Output, Stdio};
