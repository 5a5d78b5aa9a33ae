//! The entries of a folder.

use super::{on, run_blocking};
use futures_core::Stream;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs::{FileType, Metadata};
use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// How many entries one call reads.
const BATCH: usize = 256;

/// Returns the entries of a folder, in no order, without `.` and `..`.
///
/// The system is asked for 256 at a time, on a thread of [`spawn_blocking`](crate::spawn_blocking).
///
/// ```
/// use warpweft::fs;
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let mut entries = fs::read_dir(".").await?;
///     while let Some(entry) = entries.next().await? {
///         if entry.file_type().await?.is_dir() {
///             println!("{}", entry.path().display());
///         }
///     }
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// See the [module](super).
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    on("read the folder", path, |path| {
        let mut entries = std::fs::read_dir(path)?;
        Ok(ReadDir {
            ready: batch(&mut entries),
            more: More::Here(entries),
        })
    })
    .await
}

/// The entries of a folder, which is a stream, too. See [`read_dir`].
///
/// **Cancellation.** A [`next`](Self::next) that is dropped loses no entry.
pub struct ReadDir {
    ready: VecDeque<io::Result<DirEntry>>,
    more: More,
}

/// What was not read yet.
enum More {
    Here(std::fs::ReadDir),
    Asked(Pin<Box<dyn Future<Output = io::Result<Batch>> + Send + Sync>>),
    Over,
}

type Batch = (VecDeque<io::Result<DirEntry>>, std::fs::ReadDir);

/// Reads the next entries; none at the end.
fn batch(entries: &mut std::fs::ReadDir) -> VecDeque<io::Result<DirEntry>> {
    entries
        .take(BATCH)
        .map(|entry| entry.map(DirEntry::new))
        .collect()
}

impl ReadDir {
    /// Returns the next entry, or `None` after the last one.
    ///
    /// # Errors
    ///
    /// The system's error; further entries may follow.
    pub async fn next(&mut self) -> io::Result<Option<DirEntry>> {
        poll_fn(|cx| self.poll_entry(cx)).await.transpose()
    }

    fn poll_entry(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<DirEntry>>> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Poll::Ready(Some(entry));
            }
            match std::mem::replace(&mut self.more, More::Over) {
                More::Over => return Poll::Ready(None),
                More::Here(mut entries) => {
                    let next = run_blocking(move || Ok((batch(&mut entries), entries)));
                    self.more = More::Asked(Box::pin(next));
                }
                More::Asked(mut next) => {
                    let polled = next.as_mut().poll(cx);
                    if polled.is_pending() {
                        self.more = More::Asked(next);
                    }
                    match ready!(polled) {
                        Ok((entries, _)) if entries.is_empty() => {}
                        Ok((entries, more)) => {
                            self.ready = entries;
                            self.more = More::Here(more);
                        }
                        Err(error) => return Poll::Ready(Some(Err(error))),
                    }
                }
            }
        }
    }
}

impl Stream for ReadDir {
    type Item = io::Result<DirEntry>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_entry(cx)
    }
}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadDir")
            .field("ready", &self.ready)
            .finish_non_exhaustive()
    }
}

/// An entry of a folder: see [`read_dir`].
#[derive(Debug, Clone)]
pub struct DirEntry {
    entry: Arc<std::fs::DirEntry>,
    /// Most systems return it with the entry.
    kind: Option<FileType>,
}

impl DirEntry {
    fn new(entry: std::fs::DirEntry) -> Self {
        Self {
            kind: entry.file_type().ok(),
            entry: Arc::new(entry),
        }
    }

    /// Returns the path of the folder with the name of the entry.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.entry.path()
    }

    /// Returns the name.
    #[must_use]
    pub fn file_name(&self) -> OsString {
        self.entry.file_name()
    }

    /// Returns whether it is a file, a folder or a link, mostly without asking the system.
    ///
    /// # Errors
    ///
    /// See the [module](super).
    pub async fn file_type(&self) -> io::Result<FileType> {
        if let Some(kind) = self.kind {
            return Ok(kind);
        }
        let entry = Arc::clone(&self.entry);
        on("read the type of", self.path(), move |_| entry.file_type()).await
    }

    /// Returns the metadata, of a link its own.
    ///
    /// # Errors
    ///
    /// See the [module](super).
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let entry = Arc::clone(&self.entry);
        on("read the metadata of", self.path(), move |_| entry.metadata()).await
    }
}
