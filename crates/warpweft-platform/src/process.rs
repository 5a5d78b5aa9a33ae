//! Whether this is still the process that it was.
//!
//! `fork()` copies memory but only one thread. A pool in the child has queues and no workers: whoever waits for it waits
//! for ever. So each process image has a generation, which changes in a forked child, and a pool remembers its own.

// Not the checkers' atomics: a model does not fork.
use std::sync::atomic::{AtomicU64, Ordering};

static GENERATION: AtomicU64 = AtomicU64::new(0);

/// A number that is the same in one process, and different in a child made by `fork()`, once [`watch_forks`] was called.
#[inline]
#[must_use]
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// From now on a forked child has another [`generation`]. May be called again and again.
pub fn watch_forks() {
    #[cfg(unix)]
    {
        use std::sync::Once;
        extern "C" fn in_child() {
            // All that may be done here: this runs in a child that may have been copied in the middle of anything.
            GENERATION.fetch_add(1, Ordering::Relaxed);
        }
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: the handler has the right signature, lives for ever, and only touches an atomic. Should the
            // system have no room for it, forks go unnoticed, as they would without it.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn a_child_has_another_generation() {
        super::watch_forks();
        let here = super::generation();
        // SAFETY: the child only reads an atomic and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            let changed = super::generation() != here;
            // SAFETY: `_exit` ends the child at once, without running anything of the parent's.
            unsafe { libc::_exit(i32::from(!changed)) };
        }
        let mut status = 0;
        // SAFETY: waits for the child that was just made; `status` is valid for a write.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((waited, status), (child, 0));
        assert_eq!(super::generation(), here);
    }
}
