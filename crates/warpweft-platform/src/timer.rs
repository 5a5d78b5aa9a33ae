//! A timer of the system as a descriptor, for pollers.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

/// A `timerfd` on the monotonic clock: it becomes readable when its time is over.
#[derive(Debug)]
pub struct Timer(OwnedFd);

impl Timer {
    /// A timer that is not set.
    ///
    /// # Errors
    ///
    /// The system gives no descriptor.
    pub fn new() -> io::Result<Self> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: it takes numbers and touches no memory of ours.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor, and nothing else closes it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Ends once, in `ns` nanoseconds, instead of when it would have ended before. 0 stops the timer.
    ///
    /// # Errors
    ///
    /// The system refuses, as a sandbox may.
    pub fn set(&self, ns: u64) -> io::Result<()> {
        const SECOND: u64 = 1_000_000_000;
        let once = libc::itimerspec {
            it_interval: libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: libc::timespec {
                tv_sec: (ns / SECOND) as i64,
                tv_nsec: (ns % SECOND) as libc::c_long,
            },
        };
        let fd = self.0.as_raw_fd();
        // SAFETY: the descriptor is open, the kernel reads one `itimerspec`, and only during the call; the
        // old setting is not written, for its pointer is null.
        match unsafe { libc::timerfd_settime(fd, 0, &raw const once, std::ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::Timer;
    use std::os::fd::AsRawFd as _;
    use std::time::{Duration, Instant};

    /// Waits for at most `ms` milliseconds. Returns true if the timer has ended.
    fn has_ended(timer: &Timer, ms: i32) -> bool {
        let mut fd = libc::pollfd {
            fd: timer.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: it reads and writes one `pollfd`, and only during the call.
        let ready = unsafe { libc::poll(&raw mut fd, 1, ms) };
        ready == 1
    }

    #[test]
    fn it_ends_when_it_was_set_to_and_not_before() {
        let timer = Timer::new().expect("a descriptor");
        assert!(!has_ended(&timer, 0), "it is not set");
        let start = Instant::now();
        timer.set(3_000_000).expect("it is set");
        assert!(has_ended(&timer, 10_000));
        assert!(start.elapsed() >= Duration::from_millis(3));
        timer.set(3_600_000_000_000).expect("it is set again");
        assert!(!has_ended(&timer, 20), "only the last time counts");
        timer.set(1).expect("it is set again");
        assert!(has_ended(&timer, 10_000));
        timer.set(0).expect("it is stopped");
        assert!(!has_ended(&timer, 20));
    }
}
