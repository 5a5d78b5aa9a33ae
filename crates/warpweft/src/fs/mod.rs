//! Files and folders.
//!
//! The system reports no readiness for files: a thread that reads one blocks in the kernel. So each operation
//! here is a call on one of the threads of [`spawn_blocking`](crate::spawn_blocking), and takes some
//! microseconds more than the call itself. Many small operations are cheaper in one closure for [`call`]. In
//! a closure instead of a future, [`blocking`](crate::blocking) around `std::fs` does the same in place.
//!
//! ```
//! use warpweft::fs;
//!
//! let path = std::env::temp_dir().join(format!("warpweft-fs-{}", std::process::id()));
//! let runtime = warpweft::Runtime::builder().workers(1).build()?;
//! runtime.block_on(async {
//!     fs::write(&path, "three\nlines\nhere\n").await?;
//!     let text = fs::read_to_string(&path).await?;
//!     assert_eq!(text.lines().count(), 3);
//!     assert_eq!(fs::metadata(&path).await?.len(), 17);
//!     fs::remove_file(&path).await
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors
//!
//! All functions return the system's errors, as those of `std::fs` do. They also return
//! [`NotConnected`](io::ErrorKind::NotConnected) if the runtime shuts down before the call was made, and an
//! error if there is no thread for it.
//!
//! # Panics
//!
//! Outside of any runtime, if the default one cannot be built.
//!
//! # Cancellation
//!
//! A call that has begun cannot be stopped. If its future is dropped, it runs to its end, and may still
//! write.

pub(crate) mod file;
mod positioned;

pub use file::File;

use crate::io::run_blocking::run_blocking;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

/// Calls `operation` on a thread where it may wait for files, and returns its result. Use it for other
/// functions of `std::fs`, or for several operations at the price of one.
///
/// ```
/// use warpweft::fs;
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// let names = runtime.block_on(fs::call(|| {
///     let mut names = Vec::new();
///     for entry in std::fs::read_dir(".")? {
///         names.push(entry?.file_name());
///     }
///     Ok(names)
/// }))?;
/// assert!(!names.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The error of `operation`, and those of the [module](self).
///
/// # Panics
///
/// If `operation` does.
pub async fn call<T: Send + 'static>(
    operation: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    run_blocking(operation).await
}

/// Calls `operation` with the path.
async fn on<T: Send + 'static>(
    path: impl AsRef<Path>,
    operation: impl FnOnce(PathBuf) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let path = path.as_ref().to_owned();
    run_blocking(move || operation(path)).await
}

/// Reads all bytes of a file.
///
/// # Errors
///
/// See the [module](self).
pub async fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    on(path, std::fs::read).await
}

/// Reads all of a file as text.
///
/// # Errors
///
/// See the [module](self); and [`InvalidData`](io::ErrorKind::InvalidData) if it is not UTF-8.
pub async fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    on(path, std::fs::read_to_string).await
}

/// Replaces the contents of a file, which is created if necessary.
///
/// # Errors
///
/// See the [module](self).
pub async fn write(path: impl AsRef<Path>, contents: impl Into<Vec<u8>>) -> io::Result<()> {
    let contents = contents.into();
    on(path, move |path| std::fs::write(path, contents)).await
}

/// Returns a file's metadata, or those of its target if it is a link.
///
/// # Errors
///
/// See the [module](self).
pub async fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    on(path, std::fs::metadata).await
}

/// Removes a file.
///
/// # Errors
///
/// See the [module](self).
pub async fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    on(path, std::fs::remove_file).await
}

/// Renames a file, and replaces one that has the new name.
///
/// # Errors
///
/// See the [module](self).
pub async fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let to = to.as_ref().to_owned();
    on(from, move |from| std::fs::rename(from, to)).await
}

/// Creates a folder, and all its missing parents.
///
/// # Errors
///
/// See the [module](self).
pub async fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    on(path, std::fs::create_dir_all).await
}
