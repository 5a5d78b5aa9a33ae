//! Threads of the present build.

#[cfg(warpweft_loom)]
use loom::thread as imp;
#[cfg(warpweft_shuttle)]
use shuttle::thread as imp;
#[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
use std::thread as imp;
#[cfg(warpweft_sim)]
use warpweft_sim as imp;

pub use imp::{JoinHandle, spawn, yield_now};
// The checkers' threads unwind as the system's do.
pub use std::thread::panicking;

use crate::thread_word;
#[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
use crate::{cgroup, process::Between};
use std::any::Any;
#[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
use std::cell::{Cell, RefCell};
use std::io;
// Not the checkers' atomics: a model does not run out of threads.
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// Makes [`spawn_named`] refuse the next `count` threads of this process, as if the system had no more. For
/// tests of that case.
pub fn refuse(count: usize) {
    REFUSED.store(count, Ordering::Relaxed);
}

static GRANTED: AtomicUsize = AtomicUsize::new(UNLIMITED);
const UNLIMITED: usize = usize::MAX;

/// Makes [`spawn_named`] grant the next `count` threads of this process and refuse those after them; `None`
/// removes the limit. For tests of code that gets only some of its threads.
pub fn grant(count: Option<usize>) {
    GRANTED.store(count.unwrap_or(UNLIMITED), Ordering::Relaxed);
}

/// Returns true if a test wants this thread to be refused.
fn is_refused() -> bool {
    let less = |count: usize| count.checked_sub(1);
    let take = |word: &AtomicUsize| word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    take(&REFUSED).is_ok() || (GRANTED.load(Ordering::Relaxed) != UNLIMITED && take(&GRANTED).is_err())
}

/// Returns the name of the calling thread. It has none under the checkers, and none once its local data is
/// destroyed.
#[must_use]
pub fn current_name() -> Option<String> {
    if cfg!(any(warpweft_loom, warpweft_shuttle)) {
        return None;
    }
    #[cfg(warpweft_sim)]
    return warpweft_sim::current_name();
    // The standard library panics in a late destructor, as that of a key of `pthread`, which may wake a task.
    #[cfg(not(warpweft_sim))]
    std::panic::catch_unwind(|| std::thread::current().name().map(String::from)).unwrap_or_default()
}

/// Starts a thread with a name and, if given, a stack of at least `stack_bytes` bytes.
///
/// # Errors
///
/// The system's error if it has no more threads (`EAGAIN`) or memory; or the name has a null byte, with which
/// the standard library would panic.
pub fn spawn_named<T: Send + 'static>(
    name: &str,
    stack_bytes: Option<usize>,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    if is_refused() {
        // Linux's message, because the number differs between systems.
        return Err(io::Error::new(
            io::ErrorKind::WouldBlock,
            "Resource temporarily unavailable (as a test has asked for)",
        ));
    }
    if name.contains('\0') {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("the name of a thread cannot have a null byte: {name:?}"),
        ));
    }
    start(name, stack_bytes, Box::new(body))
}

/// Starts the thread. It is compiled once for each result, not for each body.
fn start<T: Send + 'static>(
    name: &str,
    stack_bytes: Option<usize>,
    body: Box<dyn FnOnce() -> T + Send>,
) -> io::Result<JoinHandle<T>> {
    let mut builder = imp::Builder::new().name(name.to_owned());
    if let Some(bytes) = stack_bytes {
        builder = builder.stack_size(bytes);
    }
    #[cfg(any(warpweft_loom, warpweft_shuttle, warpweft_sim))]
    return builder.spawn(body);
    #[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
    {
        let starts = Between::new();
        // The new thread has the slice of this one until it asks for another.
        let slice_ns = SLICE_NS.with(Cell::get);
        builder.spawn(move || {
            drop(starts);
            SLICE_NS.with(|word| word.set(slice_ns));
            let _ends = Ends;
            body()
        })
    }
}

/// Keeps a value until the calling thread ends. If it is about to end, the value is dropped at once. Under
/// the checkers, whose threads come back, the value is never dropped.
pub fn keep_until_exit(value: Box<dyn Any>) {
    #[cfg(any(warpweft_loom, warpweft_shuttle))]
    std::mem::forget(value);
    #[cfg(warpweft_sim)]
    warpweft_sim::keep_until_exit(value);
    #[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
    {
        std::thread_local!(static KEPT: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) });
        let mut value = Some(value);
        // An error: the thread ends.
        let _ = KEPT.try_with(|kept| kept.borrow_mut().extend(value.take()));
    }
}

#[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
std::thread_local! {
    /// Dropped after the standard library's code at a thread's end.
    static ENDS: Cell<Option<Between>> = const { Cell::new(None) };
}

/// Dropped when the thread's function has ended.
#[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
struct Ends;

#[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
impl Drop for Ends {
    fn drop(&mut self) {
        ENDS.set(Some(Between::new()));
    }
}

/// Sleeps for `ns` nanoseconds; no thread wakes it. Under the checkers, where no time passes, it yields to
/// the other threads.
pub fn pause(ns: u64) {
    if cfg!(any(warpweft_loom, warpweft_shuttle)) {
        yield_now();
        return;
    }
    #[cfg(warpweft_sim)]
    warpweft_sim::sleep(ns);
    #[cfg(not(warpweft_sim))]
    std::thread::sleep(std::time::Duration::from_nanos(ns));
}

/// Calls `sleep`, a short sleep that should end on time. Linux otherwise adds up to 50 µs, to wake several
/// threads at once. Afterwards the thread has the slack with which it was started. Elsewhere this only calls
/// `sleep`.
pub fn with_exact_timer<R>(sleep: impl FnOnce() -> R) -> R {
    /// Also if `sleep` unwinds.
    struct UsualSlack;
    impl Drop for UsualSlack {
        fn drop(&mut self) {
            // 0 is the thread's default.
            set_timer_slack(0);
        }
    }
    set_timer_slack(1_000);
    let _usual = UsualSlack;
    sleep()
}

#[cfg(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle, warpweft_sim))))]
fn set_timer_slack(ns: u64) {
    // SAFETY: it takes numbers by value and sets one of this thread. If it fails, sleeps are as imprecise as
    // before.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns) };
}

#[cfg(not(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))))]
fn set_timer_slack(_ns: u64) {}

/// The shortest slice that Linux gives, in nanoseconds: for a thread that sleeps most of the time.
pub const SHORTEST_SLICE_NS: u64 = 100_000;

thread_word!(static SLICE_NS: u64 = 0);

/// Requests time slices of that many nanoseconds for the calling thread; with 0 the system chooses them
/// again. Linux takes 0.1 to 100 ms. Short slices come sooner: a thread that sleeps most of the time runs
/// soon after it was woken, even if others compute. But after a slice others have their turn.
///
/// Linux does this from 6.12 on, without privileges; elsewhere and under the checkers it has no effect. Costs
/// two system calls, about a microsecond, if the setting changes.
#[inline]
pub fn set_slice(ns: u64) {
    if SLICE_NS.with(|word| word.replace(ns)) != ns {
        slice::set(ns);
    }
}

#[cfg(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle, warpweft_sim))))]
mod slice {
    /// The data that `sched_getattr` writes and `sched_setattr` reads, in its first form.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        /// For the usual policy: the length of a slice in nanoseconds; 0 lets the system choose.
        runtime: u64,
        deadline: u64,
        period: u64,
    }

    const SIZE: u32 = size_of::<Attributes>() as u32;

    /// The system's policies for which a slice can be set: usual and batch.
    const FAIR: [u32; 2] = [libc::SCHED_OTHER as u32, libc::SCHED_BATCH as u32];

    fn get() -> Option<Attributes> {
        let mut now = Attributes::default();
        // SAFETY: the system writes at most `SIZE` bytes to `now`, which has as many. 0 is the calling
        // thread.
        let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut now, SIZE, 0) };
        (got == 0 && FAIR.contains(&now.policy)).then_some(now)
    }

    #[cold]
    pub(super) fn set(ns: u64) {
        let Some(mut now) = get() else {
            return;
        };
        now.runtime = ns;
        // SAFETY: the system reads `size` bytes, which the call above has written. If it fails, slices do not
        // change.
        let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const now, 0) };
    }

    #[cfg(test)]
    mod tests {
        use super::{Attributes, get};
        use crate::thread::{SHORTEST_SLICE_NS, set_slice};

        /// Before Linux 6.12 the system has no such slices, and reports 0 for each.
        fn keeps_slices() -> bool {
            let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
            let mut numbers = release
                .split(['.', '-'])
                .map(|part| part.parse::<u32>().unwrap_or(0));
            (numbers.next(), numbers.next()) >= (Some(6), Some(12))
        }

        #[test]
        fn a_short_slice_thread_has_short_slices_until_it_is_so_no_more() {
            // On its own thread, so that other tests keep their slices.
            let seen = std::thread::spawn(|| {
                let usual = get()?;
                set_slice(SHORTEST_SLICE_NS);
                set_slice(SHORTEST_SLICE_NS);
                let short_slice = get()?;
                set_slice(0);
                Some([usual, short_slice, get()?])
            });
            let Some([usual, short_slice, after]) = seen.join().expect("no panic") else {
                return;
            };
            let rest = |of: &Attributes| (of.policy, of.flags, of.nice, of.priority);
            assert_eq!(rest(&short_slice), rest(&usual), "nothing else changes");
            assert_eq!(rest(&after), rest(&usual));
            if keeps_slices() {
                assert_eq!(short_slice.runtime, 100_000, "a tenth of a millisecond");
                assert_eq!(after.runtime, usual.runtime);
            }
        }
    }
}

#[cfg(not(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))))]
mod slice {
    pub(super) fn set(_ns: u64) {}
}

/// Returns the number of CPUs that the machine has online, whatever this process may use of them.
///
/// Returns that of [`available_cpus`] if the system does not report it.
#[must_use]
pub fn machine_cpus() -> usize {
    #[cfg(all(unix, not(any(warpweft_loom, warpweft_shuttle, warpweft_sim))))]
    {
        // SAFETY: `sysconf` reads a value of the system, and takes no pointer.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        if let Ok(cpus) = usize::try_from(cpus)
            && cpus > 0
        {
            return cpus;
        }
    }
    available_cpus()
}

/// Returns the number of CPUs that this process may use, respecting its affinity mask and its cgroup quota.
/// Of a fraction of a CPU it returns the whole ones, but one at least.
///
/// Returns 1 if the system does not report it.
#[must_use]
pub fn available_cpus() -> usize {
    #[cfg(any(warpweft_loom, warpweft_shuttle))]
    return 2;
    #[cfg(warpweft_sim)]
    return warpweft_sim::allowed().len().max(1);
    #[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
    {
        let root = SYSTEM_ROOT.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(allowed) = crate::affinity::allowed().filter(|allowed| !allowed.is_empty()) {
            let root = root.as_deref().unwrap_or(Path::new("/"));
            return cgroup::quota(root).map_or(allowed.len(), |quota| quota.min(allowed.len()));
        }
        std::thread::available_parallelism().map_or(1, usize::from)
    }
}

// Not the checkers' lock: it is held while a path is copied, and no model sets it.
#[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
static SYSTEM_ROOT: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Makes [`available_cpus`] read the files of the process's cgroups below this folder; `None` is `/`. For
/// tests of changes that the machine does not let them make.
#[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
pub fn read_cgroups_below(root: Option<PathBuf>) {
    *SYSTEM_ROOT.lock().unwrap_or_else(PoisonError::into_inner) = root;
}

#[cfg(all(
    test,
    target_os = "linux",
    not(any(warpweft_loom, warpweft_shuttle, warpweft_sim))
))]
mod name_tests {
    use super::current_name;
    use std::ffi::c_void;
    use std::ptr::without_provenance;
    use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

    static KEY: AtomicU32 = AtomicU32::new(0);
    static ROUNDS: AtomicUsize = AtomicUsize::new(0);

    /// Asks in each of the rounds in which the system calls destructors. A panic would end the process.
    extern "C" fn ends(_: *mut c_void) {
        let _ = current_name();
        if ROUNDS.fetch_add(1, Ordering::Relaxed) < 2 {
            // SAFETY: the key was made, and its value is only a mark.
            unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), without_provenance(1)) };
        }
    }

    #[test]
    fn a_thread_that_ends_may_be_asked_for_its_name() {
        let mut key = 0;
        // SAFETY: the place is valid, and the destructor may be called on any thread.
        assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(ends)) }, 0);
        KEY.store(key, Ordering::Relaxed);
        let named = std::thread::Builder::new().name(String::from("kafka"));
        let thread = named.spawn(move || {
            // SAFETY: as above.
            unsafe { libc::pthread_setspecific(key, without_provenance(1)) };
            current_name()
        });
        let name = thread.expect("a thread").join().expect("no panic");
        assert_eq!(name.as_deref(), Some("kafka"));
        assert_eq!(
            ROUNDS.load(Ordering::Relaxed),
            3,
            "the system has called it thrice"
        );
    }
}
