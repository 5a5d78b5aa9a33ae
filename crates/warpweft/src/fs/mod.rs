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
//! All functions return the system's errors, of the same kind as those of `std::fs`. Functions that take a
//! path name it: ``open `/x`: No such file or directory (os error 2)``. [`os_error`](crate::io::os_error)
//! finds the system's number. The functions also return [`NotConnected`](io::ErrorKind::NotConnected) if the
//! runtime shuts down before the call was made, and an error if there is no thread for it.
//!
//! # Panics
//!
//! Outside of any runtime, if the default one cannot be built.
//!
//! # Cancellation
//!
//! A call that has begun cannot be stopped. If its future is dropped, it runs to its end, and may still
//! write.

pub(crate) mod dir;
pub(crate) mod file;
mod positioned;

pub use dir::{DirEntry, ReadDir, read_dir};
pub use file::File;

use crate::io::named::named;
use crate::io::run_blocking::run_blocking;
use std::fs::{Metadata, Permissions};
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

/// Calls `operation` with the path. An error says what was attempted, and the path.
async fn on<T: Send + 'static>(
    attempt: &'static str,
    path: impl AsRef<Path>,
    operation: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let path = path.as_ref().to_owned();
    run_blocking(move || {
        operation(&path).map_err(|error| named(error, format!("{attempt} `{}`", path.display())))
    })
    .await
}

/// Calls `operation` with two paths, which an error names.
async fn on_both<T: Send + 'static>(
    attempt: &'static str,
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    operation: impl FnOnce(&Path, &Path) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (from, to) = (from.as_ref().to_owned(), to.as_ref().to_owned());
    run_blocking(move || {
        operation(&from, &to).map_err(|error| {
            let attempt = format!("{attempt} `{}` to `{}`", from.display(), to.display());
            named(error, attempt)
        })
    })
    .await
}

/// Functions of `std::fs` with one path.
macro_rules! with_a_path {
    ($($(#[$doc:meta])* $name:ident, $attempt:literal, $result:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// See the [module](self).
        pub async fn $name(path: impl AsRef<Path>) -> io::Result<$result> {
            on($attempt, path, |path| std::fs::$name(path)).await
        }
    )*};
}

/// Functions of `std::fs` with two paths.
macro_rules! with_two_paths {
    ($($(#[$doc:meta])* $name:ident, $attempt:literal, $result:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// See the [module](self).
        pub async fn $name(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<$result> {
            on_both($attempt, from, to, |from, to| std::fs::$name(from, to)).await
        }
    )*};
}

with_a_path! {
    /// Reads all bytes of a file.
    read, "read", Vec<u8>;
    /// Reads all of a file as text; [`InvalidData`](io::ErrorKind::InvalidData) if it is not UTF-8.
    read_to_string, "read", String;
    /// Returns a file's metadata, or those of its target if it is a link.
    metadata, "read the metadata of", Metadata;
    /// Returns a file's metadata, of a link its own.
    symlink_metadata, "read the metadata of", Metadata;
    /// Returns the path to which a link leads.
    read_link, "read the link", PathBuf;
    /// Returns the absolute path without links, `.` and `..`. The file must exist.
    canonicalize, "resolve", PathBuf;
    /// Creates a folder, whose parent must exist.
    create_dir, "create the folder", ();
    /// Creates a folder, and all its missing parents. It may exist.
    create_dir_all, "create the folder", ();
    /// Removes a file.
    remove_file, "remove", ();
    /// Removes an empty folder.
    remove_dir, "remove the folder", ();
    /// Removes a folder with all that is in it. Links are removed, and not followed.
    remove_dir_all, "remove the folder", ();
}

with_two_paths! {
    /// Renames a file, and replaces one that has the new name. Both must be on one file system.
    rename, "rename", ();
    /// Copies the bytes and permissions of a file, and replaces one that has the new name. Returns the number
    /// of bytes. The system copies by itself where it can.
    copy, "copy", u64;
    /// Gives a file a second name.
    hard_link, "link", ();
}

/// Replaces the contents of a file, which is created if necessary.
///
/// # Errors
///
/// See the [module](self).
pub async fn write(path: impl AsRef<Path>, contents: impl Into<Vec<u8>>) -> io::Result<()> {
    let contents = contents.into();
    on("write", path, move |path| std::fs::write(path, contents)).await
}

/// Returns whether there is a file, or something else, at a path. A link whose target is missing is none.
///
/// # Errors
///
/// See the [module](self): a folder on the way must not be searched, for instance.
pub async fn try_exists(path: impl AsRef<Path>) -> io::Result<bool> {
    on("look for", path, Path::try_exists).await
}

/// Sets the permissions of a file.
///
/// # Errors
///
/// See the [module](self).
pub async fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    on("set the permissions of", path, move |path| {
        std::fs::set_permissions(path, permissions)
    })
    .await
}

/// Creates a link at `link` that leads to `target`, which need not exist.
///
/// # Errors
///
/// See the [module](self).
#[cfg(unix)]
pub async fn symlink(target: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    on_both("link", link, target, |link, target| {
        std::os::unix::fs::symlink(target, link)
    })
    .await
}
