//! Snapshots of the flight recorder that are taken when a stall is reported.
//!
//! # Invariants
//!
//! - The monitor starts a thread for a snapshot and waits for none. Nothing is done on the thread that is
//!   stuck.
//! - A pool makes one snapshot at a time, and at most one in [`PAUSE_NS`].
//! - A file is complete: it takes its name when it is written.

use crate::observe::recorder::snapshot::Snapshot;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use warpweft_platform::clock;
use warpweft_platform::thread::{pause, spawn_named};

/// The least time between two snapshots of a pool.
const PAUSE_NS: u64 = 10_000_000_000;
/// How often the end of a pool looks whether the last one is done.
const LOOK_NS: u64 = 200_000;
/// How long the end of a pool waits for the last one.
pub(crate) const LAST_WAIT_NS: u64 = 2_000_000_000;

/// Where snapshots go.
#[derive(Clone)]
pub(crate) enum RecordTo {
    /// A file, in the format of Perfetto. The latest snapshot takes the place of the one before.
    File(PathBuf),
    Program(Arc<dyn Fn(Snapshot) + Send + Sync>),
}

impl RecordTo {
    /// Finds out whether the file can be written.
    ///
    /// # Errors
    ///
    /// The path, and why not.
    pub(crate) fn check(&self) -> Result<(), (PathBuf, io::Error)> {
        let Self::File(path) = self else {
            return Ok(());
        };
        let check = || {
            if path.is_dir() {
                return Err(io::Error::from(io::ErrorKind::IsADirectory));
            }
            let partial = partial(path)?;
            File::create(&partial)?;
            fs::remove_file(&partial)
        };
        check().map_err(|error| (path.clone(), error))
    }

    fn give(&self, snapshot: Snapshot) {
        match self {
            Self::Program(tell) => tell(snapshot),
            Self::File(path) => {
                if let Err(error) = write(path, &snapshot) {
                    let path = path.display();
                    let text =
                        format!("warpweft: the flight recorder could not be written to `{path}`: {error}\n");
                    // If no program reads it, nothing is lost.
                    let _ = io::stderr().lock().write_all(text.as_bytes());
                }
            }
        }
    }
}

/// Returns the name that the file has until it is complete.
fn partial(path: &Path) -> io::Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it names no file"));
    };
    let mut partial = OsString::from(name);
    partial.push(format!(".{}.partial", std::process::id()));
    Ok(path.with_file_name(partial))
}

fn write(path: &Path, snapshot: &Snapshot) -> io::Result<()> {
    let partial = partial(path)?;
    let mut file = BufWriter::new(File::create(&partial)?);
    let written = snapshot
        .write_perfetto(&mut file)
        .and_then(|()| file.into_inner().map_err(io::IntoInnerError::into_error))
        .and_then(|_| fs::rename(&partial, path));
    if written.is_err() {
        // It has been said, or will be, why the file is missing.
        let _ = fs::remove_file(&partial);
    }
    written
}

/// The snapshots of a pool. The monitor's thread has them.
#[derive(Debug, Default)]
pub(crate) struct Recordings {
    /// When the last one began.
    last_ns: Option<u64>,
    /// The thread that makes the last one has a share of it.
    making: Arc<()>,
}

impl Recordings {
    /// Begins to make a snapshot, unless it is too soon.
    pub(crate) fn begin(&mut self, to: &RecordTo, snapshot: impl FnOnce() -> Snapshot + Send + 'static) {
        let now = clock::now_ns();
        let is_soon = self
            .last_ns
            .is_some_and(|last| now.saturating_sub(last) < PAUSE_NS);
        if is_soon || self.is_making() {
            return;
        }
        self.last_ns = Some(now);
        let (to, making) = (to.clone(), Arc::clone(&self.making));
        let body = move || {
            to.give(snapshot());
            drop(making);
        };
        // Without a thread there is no snapshot: the monitor does not wait for a file.
        let _ = spawn_named("warpweft-record", None, body);
    }

    fn is_making(&self) -> bool {
        Arc::strong_count(&self.making) > 1
    }

    /// Waits for the last one, because the pool ends, or until `end`.
    pub(crate) fn finish(&self, end: u64) {
        while self.is_making() && clock::now_ns() < end {
            pause(LOOK_NS);
        }
    }
}
