//! Detects that this process is a forked child.
//!
//! `fork()` copies memory but only one thread. A pool in the child has queues and no workers, so nothing may
//! wait for it. Each process image has a generation, which changes in a forked child. A pool remembers the
//! generation of its process.
//!
//! # Invariants
//!
//! - The child's handler allocates nothing and takes no lock. It touches atomics, and data of the thread that
//!   forked.
//! - The address of a [`Listed`] value is not used again while the value lives. So an address of another
//!   generation belongs to a value that stayed in the parent.

// Not the checkers' atomics: a model does not fork.
use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crate::thread_word;

/// The number of a signal by which a user asks a process for something that the program defines.
#[cfg(unix)]
pub const SIGUSR1: i32 = libc::SIGUSR1;

/// The number of another such signal.
#[cfg(unix)]
pub const SIGUSR2: i32 = libc::SIGUSR2;

/// Returns a descriptor that is readable when the child process with that number has ended. Linux has them
/// since 5.3.
///
/// # Errors
///
/// The system's error.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn descriptor_of(child: u32) -> std::io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd as _;
    let child = i32::try_from(child).map_err(|_| std::io::ErrorKind::InvalidInput)?;
    // SAFETY: the call takes two numbers, and no memory.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_pidfd_open,
            libc::c_long::from(child),
            libc::c_long::from(0),
        )
    };
    match i32::try_from(descriptor) {
        // SAFETY: the kernel has just made this descriptor, for this caller.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(std::io::Error::last_os_error()),
    }
}

static GENERATION: AtomicU64 = AtomicU64::new(0);

/// See [`has_special_cases`].
static SPECIAL: AtomicBool = AtomicBool::new(false);

/// The function that is called in each forked child, on its thread.
static IN_CHILD: OnceLock<fn()> = OnceLock::new();

/// Returns a number that is constant in one process, and different in a child made by `fork()`, once
/// [`watch_forks`] was called.
#[inline]
#[must_use]
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Returns false while nothing is true of this process that few programs need: it was forked, or
/// [`note_special_case`] was called. So frequent code pays one look for all such cases.
#[inline]
#[must_use]
pub fn has_special_cases() -> bool {
    SPECIAL.load(Ordering::Relaxed)
}

/// Makes [`has_special_cases`] return true from now on.
pub fn note_special_case() {
    SPECIAL.store(true, Ordering::Relaxed);
}

/// Makes a forked child change its [`generation`] and call `in_child` before `fork()` returns there. It may
/// be called several times: the first `in_child` counts.
///
/// The copy of the process may have been made in the middle of anything that other threads did. So `in_child`
/// allocates nothing, takes no lock, and touches only atomics and its thread's data.
pub fn watch_forks(in_child: fn()) {
    IN_CHILD.get_or_init(|| in_child);
    #[cfg(unix)]
    {
        use std::sync::Once;
        extern "C" fn before() {
            FORKING.fetch_add(1, Ordering::SeqCst);
            // Bounded: a thread may be delayed at its start by anything.
            for _ in 0..PATIENCE {
                // Dekker: with `Between::new`, which writes `BETWEEN` and reads `FORKING`.
                if BETWEEN.load(Ordering::SeqCst) == 0 {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
        }
        extern "C" fn in_parent() {
            FORKING.fetch_sub(1, Ordering::SeqCst);
        }
        extern "C" fn handler() {
            GENERATION.fetch_add(1, Ordering::Relaxed);
            SPECIAL.store(true, Ordering::Relaxed);
            // It counts threads that are not here.
            FORKING.store(0, Ordering::Relaxed);
            BETWEEN.store(0, Ordering::Relaxed);
            if let Some(in_child) = IN_CHILD.get() {
                in_child();
            }
        }
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: the handlers have the right signature and live forever, and the child's touches only
            // what the module's first invariant allows. If the system has no memory for it, forks are not
            // noticed, as without the handlers.
            unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(handler)) };
        });
    }
}

/// How many threads are about to fork.
static FORKING: AtomicUsize = AtomicUsize::new(0);
/// How many threads of ours are in the standard library's own code, at their start or end.
static BETWEEN: AtomicUsize = AtomicUsize::new(0);
/// How long a fork waits for those threads, in tenths of a millisecond.
#[cfg(unix)]
const PATIENCE: u32 = 1000;

/// Marks a thread that starts or ends. It is in the standard library's code, which takes a lock of the
/// process, so a fork and such a thread wait for each other. If the lock were held at the fork, each thread
/// that the child starts would wait for it forever.
#[derive(Debug)]
#[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
pub(crate) struct Between(());

#[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
impl Between {
    pub(crate) fn new() -> Self {
        loop {
            BETWEEN.fetch_add(1, Ordering::SeqCst);
            if FORKING.load(Ordering::SeqCst) == 0 {
                return Self(());
            }
            drop(Self(()));
            std::thread::yield_now();
        }
    }
}

#[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
impl Drop for Between {
    fn drop(&mut self) {
        // In a child that was forked meanwhile it is 0 already.
        let less = |between: usize| between.checked_sub(1);
        let _ = BETWEEN.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }
}

/// Returns true if this is a forked child with no other thread than the calling one. Returns false if the
/// system does not report it.
#[must_use]
pub fn is_alone() -> bool {
    generation() != 0 && threads() == Some(1)
}

/// Returns how many threads the process has.
fn threads() -> Option<usize> {
    if cfg!(target_os = "linux") {
        std::fs::read_dir("/proc/self/task").ok().map(Iterator::count)
    } else {
        None
    }
}

// True if a task panicked on this thread, in a forked child.
thread_word!(static PANICKED: bool = false);

/// Records that a task of this thread has ended by a panic. In a forked child this decides the status of
/// [`end_child`].
#[cold]
pub fn note_panic() {
    if generation() != 0 {
        PANICKED.with(|panicked| panicked.set(true));
    }
}

/// The status of a child whose task panicked, or could not continue.
pub const FAILED: i32 = 101;

/// Ends a forked child whose task has ended, on the thread of that task: with status 0, or with [`FAILED`] if
/// the task panicked.
///
/// Nothing else runs: no destructor, no exit handler, no flush of a buffer that the parent has, too.
#[cold]
pub fn end_child() -> ! {
    let panicked = PANICKED.with(std::cell::Cell::get);
    leave(if panicked { FAILED } else { 0 })
}

/// Ends the process if it is a forked child. Called where a thread of a pool of the parent continues after a
/// task, a waker or a destructor.
#[inline]
pub fn end_child_if(is_forked: bool) {
    if is_forked {
        end_child();
    }
}

/// Ends a forked child that cannot continue: writes `why` to the standard error stream, and exits with status
/// [`FAILED`].
#[cold]
pub fn fail_child(why: &str) -> ! {
    tell(why);
    leave(FAILED)
}

/// Refuses a wait in a forked child that nothing can end.
///
/// # Panics
///
/// Always. If the thread is panicking already, the process ends as by [`fail_child`].
#[cold]
#[track_caller]
pub fn refuse_wait(what: &str) -> ! {
    if std::thread::panicking() {
        fail_child(what);
    }
    panic!("{what}");
}

/// Makes the process call `function` when it ends by `exit` or by the return of `main`. It is not called
/// after an abort, a signal, or `_exit`. Returns false if the system has no place for it, or no such list.
///
/// Other threads run meanwhile, and the calling thread's data with destructors may be gone. A forked child
/// calls it, too. `function` must not unwind.
pub fn at_exit(function: extern "C" fn()) -> bool {
    #[cfg(unix)]
    // SAFETY: the function has the right signature and lives forever.
    return unsafe { libc::atexit(function) } == 0;
    #[cfg(not(unix))]
    {
        let _ = function;
        false
    }
}

fn leave(status: i32) -> ! {
    #[cfg(unix)]
    // SAFETY: it takes a number and does not return.
    unsafe {
        libc::_exit(status)
    }
    #[cfg(not(unix))]
    std::process::exit(status)
}

/// Writes a line to the standard error stream, without the locks of the standard library: a thread of the
/// parent may hold them.
fn tell(message: &str) {
    #[cfg(unix)]
    for part in [message, "\n"] {
        // SAFETY: the system reads `len` bytes of a valid string. If it fails, the message is lost.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
    }
    #[cfg(not(unix))]
    eprintln!("{message}");
}

/// Passes the word of one task to the one thread that continues with the task in a forked child.
#[derive(Debug)]
pub struct Awaited {
    /// The wanted word, or 0.
    wanted: AtomicUsize,
    /// The word that was given, or 0.
    given: AtomicUsize,
}

impl Awaited {
    /// Makes one that wants no word.
    #[must_use]
    pub const fn nothing() -> Self {
        Self {
            wanted: AtomicUsize::new(0),
            given: AtomicUsize::new(0),
        }
    }

    /// Sets the wanted word, which is not 0.
    pub fn want(&self, word: usize) {
        self.wanted.store(word, Ordering::SeqCst);
    }

    /// Leaves `word` for the thread if it is the wanted one. Any thread may call it. No thread gives the word
    /// twice before it was taken.
    pub fn give(&self, word: usize) {
        if self.wanted.load(Ordering::SeqCst) == word {
            self.given.store(word, Ordering::SeqCst);
        }
    }

    /// Takes the word, if it was given. Then it is no longer wanted.
    pub fn take(&self) -> Option<NonZeroUsize> {
        let given = NonZeroUsize::new(self.given.swap(0, Ordering::SeqCst));
        if given.is_some() {
            self.wanted.store(0, Ordering::SeqCst);
        }
        given
    }
}

/// An entry of the list of values that only the threads of one process can serve. Entries are reused and
/// never freed.
struct Entry {
    /// [`VACANT`], [`TAKEN`], or the listed address.
    address: AtomicUsize,
    generation: AtomicU64,
    next: AtomicPtr<Entry>,
}

const VACANT: usize = 0;
/// Not the address of a listed value, because those are aligned.
const TAKEN: usize = 1;

/// The youngest entry.
static ENTRIES: AtomicPtr<Entry> = AtomicPtr::new(std::ptr::null_mut());

fn entries() -> impl Iterator<Item = &'static Entry> {
    // SAFETY: null, or an entry, which is never freed. Ordering: Acquire pairs with the Release that
    // published it.
    let entry = |place: &AtomicPtr<Entry>| unsafe { place.load(Ordering::Acquire).as_ref() };
    std::iter::successors(entry(&ENTRIES), move |last| entry(&last.next))
}

/// Keeps the address that [`Listed::new`] was given in the list while the value lives.
#[derive(Debug)]
pub struct Listed(&'static AtomicUsize);

impl Listed {
    /// Lists `address`, which is not 0 and aligned, as one of this process.
    #[must_use]
    pub fn new(address: usize) -> Self {
        // Ordering: Acquire takes the entry from its last user.
        let take = |entry: &&Entry| {
            entry
                .address
                .compare_exchange(VACANT, TAKEN, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        };
        let entry = entries().find(take).unwrap_or_else(Entry::fresh);
        entry.generation.store(generation(), Ordering::Relaxed);
        // Ordering: Release, so that a reader that sees the address sees its generation.
        entry.address.store(address, Ordering::Release);
        Self(&entry.address)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        // Ordering: Release pairs with the Acquire of the next user.
        self.0.store(VACANT, Ordering::Release);
    }
}

impl Entry {
    /// Makes a new entry in the list, already taken.
    fn fresh() -> &'static Self {
        let entry = Box::leak(Box::new(Self {
            address: AtomicUsize::new(TAKEN),
            generation: AtomicU64::new(0),
            next: AtomicPtr::new(std::ptr::null_mut()),
        }));
        let mut head = ENTRIES.load(Ordering::Relaxed);
        loop {
            entry.next.store(head, Ordering::Relaxed);
            // Ordering: Release publishes the entry.
            match ENTRIES.compare_exchange_weak(head, entry, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return entry,
                Err(now) => head = now,
            }
        }
    }
}

/// Returns true if `address` was [listed](Listed) by a process from which this one was forked. The threads of
/// that process stayed there.
#[must_use]
pub fn stayed_in_parent(address: usize) -> bool {
    // Ordering: Acquire pairs with the Release in `Listed::new`.
    let here = entries().find(|entry| entry.address.load(Ordering::Acquire) == address);
    here.is_some_and(|entry| entry.generation.load(Ordering::Relaxed) != generation())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{Awaited, Listed, generation, is_alone, stayed_in_parent, watch_forks};
    use std::sync::atomic::{AtomicU64, Ordering};

    static CALLED: AtomicU64 = AtomicU64::new(0);

    /// Forks, and returns the result of `child` in the child.
    fn in_child(child: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child calls the closure, which takes no lock of another thread, and leaves by `_exit`.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            let status = i32::from(!child());
            // SAFETY: `_exit` ends the child at once, without running anything of the parent's.
            unsafe { libc::_exit(status) };
        }
        let mut status = 0;
        // SAFETY: waits for the child that was just made; `status` is valid for a write.
        let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!(waited, pid);
        status == 0
    }

    #[test]
    fn a_child_has_another_generation_and_is_alone() {
        watch_forks(|| {
            CALLED.fetch_add(1, Ordering::Relaxed);
        });
        watch_forks(|| unreachable!("the first one counts"));
        let here = generation();
        let word = Box::new(0_u64);
        let listed = Listed::new(std::ptr::from_ref(&*word).addr());
        let address = std::ptr::from_ref(&*word).addr();
        assert!(!stayed_in_parent(address) && !is_alone());
        assert!(in_child(
            || generation() != here && CALLED.load(Ordering::Relaxed) == 1
        ));
        assert!(in_child(is_alone), "other tests' threads stay in the parent");
        assert!(in_child(
            || stayed_in_parent(address) && !stayed_in_parent(address + 64)
        ));
        assert!(in_child(|| {
            drop(listed);
            let again = Listed::new(address);
            !stayed_in_parent(address) && in_child(|| stayed_in_parent(again.0.load(Ordering::Relaxed)))
        }));
        assert_eq!((generation(), CALLED.load(Ordering::Relaxed)), (here, 0));
    }

    #[test]
    fn only_what_is_awaited_is_taken_and_once() {
        let awaited = Awaited::nothing();
        awaited.give(8);
        assert_eq!(awaited.take(), None);
        awaited.want(8);
        awaited.give(16);
        assert_eq!(awaited.take(), None);
        awaited.give(8);
        assert_eq!(awaited.take().map(usize::from), Some(8));
        awaited.give(8);
        assert_eq!(awaited.take(), None);
    }

    #[test]
    fn places_of_the_list_are_used_again() {
        let mut others = Vec::new();
        for _ in 0..100 {
            let kept: Vec<_> = (1..=10).map(|n| Listed::new(n * 64)).collect();
            others.extend(kept.iter().map(|listed| std::ptr::from_ref(listed.0).addr()));
        }
        others.sort_unstable();
        others.dedup();
        assert!(others.len() <= 12, "{}", others.len());
    }
}
