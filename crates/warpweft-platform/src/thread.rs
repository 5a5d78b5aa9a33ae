//! Threads of the build's world.

#[cfg(warpweft_loom)]
use loom::thread as imp;
#[cfg(warpweft_shuttle)]
use shuttle::thread as imp;
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
use std::thread as imp;

pub use imp::{JoinHandle, spawn, yield_now};

use std::io;

/// Starts a thread with a name and, if given, a stack of at least `stack_bytes` bytes.
///
/// # Errors
///
/// What the operating system says when it has no more threads (`EAGAIN`) or memory to give.
pub fn spawn_named<T: Send + 'static>(
    name: &str,
    stack_bytes: Option<usize>,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let mut builder = imp::Builder::new().name(name.to_owned());
    if let Some(bytes) = stack_bytes {
        builder = builder.stack_size(bytes);
    }
    builder.spawn(body)
}

/// Lets the calling thread wake from short sleeps about when it asked to. Linux otherwise adds up to 50 µs, to wake
/// several threads at once; elsewhere this does nothing.
pub fn sleep_sharply() {
    #[cfg(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle))))]
    {
        // SAFETY: it takes numbers by value and sets one of this thread.
        let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000_u64) };
    }
}

/// The number of CPUs that this process may use: its affinity mask and its cgroup quota are respected.
///
/// Where the system does not tell, 1.
#[must_use]
pub fn available_cpus() -> usize {
    #[cfg(any(warpweft_loom, warpweft_shuttle))]
    return 2;
    #[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
    std::thread::available_parallelism().map_or(1, usize::from)
}
