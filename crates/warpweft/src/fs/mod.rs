//! Files.
//!
//! The system gives no readiness for files: who reads one waits in the kernel. So each operation here is a
//! call on one of the threads of [`spawn_blocking`](crate::spawn_blocking), and takes some microseconds more
//! than the call itself. Many small ones are cheaper as one: [`call`] has any closure called there. In a
//! closure instead of a future [`blocking`](crate::blocking) around `std::fs` does the same in place.
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
//! All functions give what the system says, as those of `std::fs` do. Beside that:
//! [`NotConnected`](io::ErrorKind::NotConnected) when the runtime shuts down before the call was made, and an
//! error if there is no thread for it.
//!
//! # Panics
//!
//! Outside of any runtime, if the default one cannot be built.
//!
//! # Cancellation
//!
//! A call that has begun cannot be taken back. A future that is dropped leaves it to itself: what it was to
//! write may be written.

pub(crate) mod file;

pub use file::File;

use crate::io::run_blocking::run_blocking;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

/// Has `operation` called where it may wait for files, and gives its result: whatever of `std::fs` is not
/// here, or several operations at the price of one.
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
/// Those of `operation`, and of the [module](self).
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

/// All bytes of a file.
///
/// # Errors
///
/// See the [module](self).
pub async fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    on(path, std::fs::read).await
}

/// All of a file, which is text.
///
/// # Errors
///
/// See the [module](self); and [`InvalidData`](io::ErrorKind::InvalidData) if it is no UTF-8.
pub async fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    on(path, std::fs::read_to_string).await
}

/// Writes a file, which is made if it is not there and holds nothing else afterwards.
///
/// # Errors
///
/// See the [module](self).
pub async fn write(path: impl AsRef<Path>, contents: impl Into<Vec<u8>>) -> io::Result<()> {
    let contents = contents.into();
    on(path, move |path| std::fs::write(path, contents)).await
}

/// What the system knows of a file; of what it leads to, if it is a link.
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

/// Gives a file another name, in the place of what has it.
///
/// # Errors
///
/// See the [module](self).
pub async fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let to = to.as_ref().to_owned();
    on(from, move |from| std::fs::rename(from, to)).await
}

/// Makes a folder, and those that it lies in.
///
/// # Errors
///
/// See the [module](self).
pub async fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    on(path, std::fs::create_dir_all).await
}
