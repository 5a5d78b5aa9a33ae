//! An MPI for unit tests: what comes is a script of the calling thread, and what is called is recorded.

use super::{Api, ERR_IN_STATUS, Handle, Status};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use warpweft_platform::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A request that is over at the next test, one that never is, and one that is over with an error.
pub(crate) const OVER: usize = 1;
pub(crate) const OPEN: usize = 2;
pub(crate) const WRONG: usize = 3;
/// The request of the message number 0; the others follow.
const RECEIVED: usize = 16;
/// Any code that is no other constant.
const FAILED: c_int = 99;

/// The script and the record of a thread.
#[derive(Debug, Default)]
pub(crate) struct Fake {
    /// The messages that come for any probe: who sent each, and its bytes.
    pub(crate) incoming: VecDeque<(c_int, Vec<u8>)>,
    /// The messages that probes found.
    received: Vec<(c_int, Vec<u8>)>,
    /// What was sent.
    pub(crate) sent: Vec<Vec<u8>>,
    /// The kinds of requests that receives, and those that barriers, become; the default is [`OPEN`] and
    /// [`OVER`].
    pub(crate) receives: VecDeque<usize>,
    pub(crate) barrier: Option<usize>,
    pub(crate) barriers: usize,
    pub(crate) finalized: usize,
    /// A test of requests fails as a whole.
    pub(crate) test_fails: bool,
}

thread_local! {
    static FAKE: RefCell<Fake> = RefCell::default();
}

/// Calls `f` with the calling thread's script.
pub(crate) fn with<R>(f: impl FnOnce(&mut Fake) -> R) -> R {
    FAKE.with_borrow_mut(f)
}

/// Returns the table.
pub(crate) fn api() -> Api {
    let refuse: extern "C" fn() -> c_int = refuse;
    let Ok(none) = Api::load(|_| Ok(refuse as Handle)) else {
        unreachable!("each function is found")
    };
    Api {
        finalize,
        comm_dup,
        comm_set_errhandler,
        error_class,
        error_string,
        isend,
        irecv,
        improbe,
        imrecv,
        ibarrier,
        cancel,
        testsome,
        get_count,
        test_cancelled,
        ..none
    }
}

/// Stands for the functions that no test needs: it looks at no argument, and does not return.
extern "C" fn refuse() -> c_int {
    eprintln!("a test calls a function of MPI that it has not provided");
    std::process::abort()
}

fn handle(number: usize) -> Handle {
    std::ptr::without_provenance_mut(number)
}

extern "C" fn finalize() -> c_int {
    with(|fake| fake.finalized += 1);
    0
}

unsafe extern "C" fn comm_dup(_: Handle, copy: *mut Handle) -> c_int {
    // SAFETY: as MPI's: the pointer is valid.
    unsafe { *copy = handle(5) };
    0
}

unsafe extern "C" fn comm_set_errhandler(_: Handle, _: Handle) -> c_int {
    0
}

unsafe extern "C" fn error_class(error: c_int, class: *mut c_int) -> c_int {
    // SAFETY: as above.
    unsafe { *class = error };
    0
}

unsafe extern "C" fn error_string(_: c_int, _: *mut c_char, length: *mut c_int) -> c_int {
    // SAFETY: as above.
    unsafe { *length = 0 };
    0
}

unsafe extern "C" fn isend(
    bytes: *const c_void,
    count: c_int,
    _: Handle,
    _: c_int,
    _: c_int,
    _: Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: as MPI's: there are so many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), count as usize) };
    with(|fake| fake.sent.push(bytes.to_vec()));
    // SAFETY: as above.
    unsafe { *request = handle(OVER) };
    0
}

unsafe extern "C" fn irecv(
    _: *mut c_void,
    _: c_int,
    _: Handle,
    _: c_int,
    _: c_int,
    _: Handle,
    request: *mut Handle,
) -> c_int {
    let kind = with(|fake| fake.receives.pop_front()).unwrap_or(OPEN);
    // SAFETY: as above.
    unsafe { *request = handle(kind) };
    0
}

unsafe extern "C" fn improbe(
    _: c_int,
    _: c_int,
    _: Handle,
    flag: *mut c_int,
    message: *mut Handle,
    status: *mut Status,
) -> c_int {
    let found = with(|fake| {
        let (source, bytes) = fake.incoming.pop_front()?;
        let len = bytes.len();
        fake.received.push((source, bytes));
        Some((fake.received.len() - 1, source, len))
    });
    // SAFETY: as above.
    unsafe { *flag = c_int::from(found.is_some()) };
    if let Some((number, source, len)) = found {
        // SAFETY: as above.
        unsafe { *message = handle(RECEIVED + number) };
        // SAFETY: as above.
        unsafe { *status = of(source, len) };
    }
    0
}

fn of(source: c_int, len: usize) -> Status {
    let mut status = Status {
        source,
        ..Status::default()
    };
    status.internal[0] = len as c_int;
    status
}

unsafe extern "C" fn imrecv(
    to: *mut c_void,
    count: c_int,
    _: Handle,
    message: *mut Handle,
    request: *mut Handle,
) -> c_int {
    // SAFETY: as MPI's: there is room for so many bytes.
    let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), count as usize) };
    // SAFETY: as above.
    let message = unsafe { *message };
    with(|fake| to.copy_from_slice(&fake.received[message.addr() - RECEIVED].1));
    // SAFETY: as above.
    unsafe { *request = message };
    0
}

unsafe extern "C" fn ibarrier(_: Handle, request: *mut Handle) -> c_int {
    let kind = with(|fake| {
        fake.barriers += 1;
        fake.barrier.unwrap_or(OVER)
    });
    // SAFETY: as above.
    unsafe { *request = handle(kind) };
    0
}

/// It changes nothing: the receive stays as it is.
unsafe extern "C" fn cancel(_: *mut Handle) -> c_int {
    0
}

unsafe extern "C" fn testsome(
    count: c_int,
    requests: *mut Handle,
    done: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    if with(|fake| fake.test_fails) {
        return FAILED;
    }
    let len = count as usize;
    // SAFETY: as MPI's: each array has so many elements.
    let requests = unsafe { std::slice::from_raw_parts_mut(requests, len) };
    // SAFETY: as above.
    let indices = unsafe { std::slice::from_raw_parts_mut(indices, len) };
    // SAFETY: as above.
    let statuses = unsafe { std::slice::from_raw_parts_mut(statuses, len) };
    let (mut over, mut code) = (0, 0);
    for (index, request) in requests.iter_mut().enumerate() {
        let mut status = match request.addr() {
            OPEN => continue,
            number @ RECEIVED.. => with(|fake| {
                let (source, bytes) = &fake.received[number - RECEIVED];
                of(*source, bytes.len())
            }),
            _ => Status::default(),
        };
        if request.addr() == WRONG {
            status.error = FAILED;
            code = ERR_IN_STATUS;
        }
        *request = std::ptr::null_mut();
        indices[over] = index as c_int;
        statuses[over] = status;
        over += 1;
    }
    // SAFETY: as above.
    unsafe { *done = over as c_int };
    code
}

unsafe extern "C" fn get_count(status: *const Status, _: Handle, count: *mut c_int) -> c_int {
    // SAFETY: as above.
    let status = unsafe { &*status };
    // SAFETY: as above.
    unsafe { *count = status.internal[0] };
    0
}

unsafe extern "C" fn test_cancelled(_: *const Status, flag: *mut c_int) -> c_int {
    // SAFETY: as above.
    unsafe { *flag = 0 };
    0
}

/// The system's allocator, which records whether one piece of memory was freed.
struct Watching;

#[global_allocator]
static MEMORY: Watching = Watching;
static WATCHED: AtomicUsize = AtomicUsize::new(0);
static FREED: AtomicBool = AtomicBool::new(false);

/// From now on `is_freed` is about this memory. One test may use it.
pub(crate) fn watch(bytes: &[u8]) {
    WATCHED.store(bytes.as_ptr().addr(), Ordering::Relaxed);
}

pub(crate) fn is_freed() -> bool {
    FREED.load(Ordering::Relaxed)
}

// SAFETY: the system's allocator does what this promises.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if at.addr() == WATCHED.load(Ordering::Relaxed) {
            FREED.store(true, Ordering::Relaxed);
        }
        // SAFETY: by contract.
        unsafe { System.dealloc(at, layout) }
    }
}
