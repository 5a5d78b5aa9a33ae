//! Children made by `fork()`, under a time limit, and counters that they share with their parent.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a child may take, in seconds. What it does takes milliseconds.
const LIMIT: u32 = 60;

/// How a child has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Status(i32),
    Signal(i32),
}

/// The status of a child whose task panicked, or could not continue.
pub(crate) const FAILED: End = End::Status(101);
pub(crate) const RETURNED: End = End::Status(0);

/// `fork()`. In the child, which gets 0, a clock runs that ends it by a signal.
pub(crate) fn fork() -> libc::pid_t {
    // SAFETY: what may be done in the child of a runtime's thread is what these tests are about.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "no process");
    if pid == 0 {
        // SAFETY: it takes a number, and sets the clock of the child.
        unsafe { libc::alarm(LIMIT) };
    }
    pid
}

/// How the child ended. A child that hangs ends by its clock.
pub(crate) fn end_of(child: libc::pid_t) -> End {
    assert!(child > 0, "called in the parent");
    let start = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: waits for a child of this process; `status` is valid for a write.
        let waited = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        if waited == child {
            break;
        }
        assert_eq!(waited, 0, "it is our child");
        assert!(
            start.elapsed() < Duration::from_secs(2 * u64::from(LIMIT)),
            "the clock of the child has stopped"
        );
        std::thread::sleep(Duration::from_micros(200));
    }
    if libc::WIFEXITED(status) {
        End::Status(libc::WEXITSTATUS(status))
    } else {
        End::Signal(libc::WTERMSIG(status))
    }
}

#[cfg_attr(not(feature = "net"), allow(dead_code, reason = "its tests need sockets"))]
/// Ends the calling process with 0 if `right`: for children that have no task that could return.
pub(crate) fn leave(right: bool) -> ! {
    // SAFETY: it takes a number and does not return.
    unsafe { libc::_exit(i32::from(!right)) }
}

/// Counters that parents and children share: each thing that runs in either is counted once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shared(&'static [AtomicU32]);

impl Shared {
    /// All 0. They stay mapped for ever.
    pub(crate) fn new(count: usize) -> Self {
        let bytes = count * size_of::<AtomicU32>();
        let (rights, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping, wherever there is room.
        let place = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, kind, -1, 0) };
        assert_ne!(place, libc::MAP_FAILED);
        // SAFETY: the mapping is as long, aligned to a page, zero, and never goes.
        Self(unsafe { std::slice::from_raw_parts(place.cast(), count) })
    }

    pub(crate) fn count(&self, at: usize) {
        self.0[at].fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn get(&self, at: usize) -> u32 {
        self.0[at].load(Ordering::SeqCst)
    }

    pub(crate) fn all(&self) -> Vec<u32> {
        self.0.iter().map(|count| count.load(Ordering::SeqCst)).collect()
    }

    /// What counts when it is dropped.
    pub(crate) fn guard(self, at: usize) -> Guard {
        Guard(self, at)
    }
}

/// See [`Shared::guard`].
#[derive(Debug)]
pub(crate) struct Guard(Shared, usize);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.count(self.1);
    }
}
