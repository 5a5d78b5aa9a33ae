//! An open file.

use super::{on, positioned};
use crate::io::run_blocking::run_blocking;
use std::fs::{Metadata, OpenOptions};
use std::hint::black_box;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;

/// An open file. Bytes go in and out by value, because a detached call must not write into a buffer that was
/// freed.
///
/// Clones share the file and its position. `read_at` and `write_at` do not use the position, so several tasks
/// may use them at a time. On Windows they move it.
///
/// ```
/// use warpweft::fs::{self, File};
///
/// let path = std::env::temp_dir().join(format!("warpweft-file-{}", std::process::id()));
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let file = File::create(&path).await?;
///     file.write_all("0123456789").await?;
///     file.write_at(4, "....").await?;
///     file.sync_all().await?;
///     let file = File::open(&path).await?;
///     assert_eq!(file.read_at(2, 4).await?, b"23..");
///     assert_eq!(file.read_at(8, 100).await?, b"89");
///     fs::remove_file(&path).await
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// See the [module](super).
#[derive(Debug, Clone)]
pub struct File(Arc<std::fs::File>);

impl File {
    /// Opens a file to read.
    ///
    /// # Errors
    ///
    /// See [`File`].
    pub async fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        on("open", path, |path| std::fs::File::open(path))
            .await
            .map(Self::from_std)
    }

    /// Creates a file to write, or empties an existing one.
    ///
    /// # Errors
    ///
    /// See [`File`].
    pub async fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        on("create", path, |path| std::fs::File::create(path))
            .await
            .map(Self::from_std)
    }

    /// Opens a file as `options` say: to append, only if it is new, and so on.
    ///
    /// ```
    /// use std::fs::OpenOptions;
    /// use warpweft::fs::{self, File};
    ///
    /// let path = std::env::temp_dir().join(format!("warpweft-append-{}", std::process::id()));
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     for line in ["one\n", "two\n"] {
    ///         let options = OpenOptions::new().append(true).create(true).clone();
    ///         File::open_with(options, &path).await?.write_all(line).await?;
    ///     }
    ///     assert_eq!(fs::read(&path).await?, b"one\ntwo\n");
    ///     fs::remove_file(&path).await
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// See [`File`].
    pub async fn open_with(options: OpenOptions, path: impl AsRef<Path>) -> io::Result<Self> {
        on("open", path, move |path| options.open(path))
            .await
            .map(Self::from_std)
    }

    /// Converts a file of `std`, opened in any mode.
    #[must_use]
    pub fn from_std(file: std::fs::File) -> Self {
        Self(Arc::new(file))
    }

    /// Returns the system's file, for operations that do not wait.
    #[must_use]
    pub fn get_ref(&self) -> &std::fs::File {
        &self.0
    }

    /// Calls `operation` on a thread where it may wait for the file, and returns its result.
    ///
    /// # Errors
    ///
    /// Its own, and those of [`File`].
    ///
    /// # Panics
    ///
    /// If `operation` does.
    pub async fn call<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&std::fs::File) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let file = Arc::clone(&self.0);
        run_blocking(move || operation(&file)).await
    }

    /// Reads up to `length` bytes from `offset` on. Returns fewer only at the end of the file, and none
    /// behind it.
    ///
    /// # Errors
    ///
    /// See [`File`].
    pub async fn read_at(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        self.call(move |file| read_at(file, offset, length)).await
    }

    /// Writes all bytes from `offset` on.
    ///
    /// # Errors
    ///
    /// See [`File`]; some bytes may have been written.
    pub async fn write_at(&self, offset: u64, bytes: impl Into<Vec<u8>>) -> io::Result<()> {
        let bytes = bytes.into();
        self.call(move |file| positioned::write_all(file, &bytes, offset))
            .await
    }

    /// Writes all bytes at the position, and moves the position behind them.
    ///
    /// # Errors
    ///
    /// See [`File`]; some bytes may have been written.
    pub async fn write_all(&self, bytes: impl Into<Vec<u8>>) -> io::Result<()> {
        let bytes = bytes.into();
        self.call(move |mut file| file.write_all(&bytes)).await
    }

    /// Waits until the written bytes and the file's metadata are on the disk.
    ///
    /// # Errors
    ///
    /// See [`File`].
    pub async fn sync_all(&self) -> io::Result<()> {
        self.call(std::fs::File::sync_all).await
    }

    /// Truncates the file, or extends it with zeros.
    ///
    /// # Errors
    ///
    /// See [`File`].
    pub async fn set_len(&self, length: u64) -> io::Result<()> {
        self.call(move |file| file.set_len(length)).await
    }

    /// Returns the file's metadata.
    ///
    /// # Errors
    ///
    /// See [`File`].
    pub async fn metadata(&self) -> io::Result<Metadata> {
        self.call(std::fs::File::metadata).await
    }
}

/// Returns so many zeros.
fn zeros(length: usize) -> io::Result<Vec<u8>> {
    // What the system gives is zero already, so nothing is written. But that call has no way to fail: a file
    // with holes may be longer than memory, and so another one asks before.
    let mut attempt = Vec::<u8>::new();
    attempt.try_reserve_exact(length).map_err(|_| out_of_memory())?;
    // Without a use the compiler may leave it out.
    drop(black_box(attempt));
    Ok(vec![0; length])
}

fn out_of_memory() -> io::Error {
    ErrorKind::OutOfMemory.into()
}

fn read_at(file: &std::fs::File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    if i64::try_from(offset).is_err() {
        // Beyond every file, and beyond what systems can ask for.
        return Ok(Vec::new());
    }
    // The buffer fits what is there, not what was requested, which may be any number.
    let there = usize::try_from(file.metadata()?.len().saturating_sub(offset)).unwrap_or(usize::MAX);
    // Files without a length, such as devices and `/proc`, are read in pieces.
    let mut bytes = zeros(length.min(there.max(4096)))?;
    let mut filled = 0;
    loop {
        match positioned::read(file, &mut bytes[filled..], offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if filled == bytes.len() {
            if filled == length {
                break;
            }
            let more = length.min(filled.saturating_mul(2));
            bytes
                .try_reserve_exact(more - filled)
                .map_err(|_| out_of_memory())?;
            bytes.resize(more, 0);
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{read_at, zeros};
    use std::io::ErrorKind;

    #[test]
    fn what_memory_cannot_hold_is_an_error() {
        let error = zeros(isize::MAX as usize).expect_err("no machine has that");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    }

    #[test]
    fn there_is_nothing_behind_the_largest_file() {
        let file = std::fs::File::open(std::env::current_exe().expect("a path")).expect("this program");
        assert_eq!(read_at(&file, u64::MAX, 10).expect("no error"), b"");
    }
}
