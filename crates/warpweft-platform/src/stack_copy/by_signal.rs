//! The signal: its handler, and the thread that sends it.

use super::request::{Request, Withdrawn};
use super::{Describe, MOST_BYTES, NoCopy, PATIENCE, Registers, StackCopy, StackDescription};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::{Mutex, OnceLock, TryLockError};
use std::time::{Duration, Instant};

/// The signal that is used if the program chooses none. It is ignored where no handler is set, and few
/// programs use it: it announces urgent data of a socket to its owner.
const USUAL: i32 = libc::SIGURG;

/// How many copies are made at a time, at most.
const SLOTS: usize = 8;

/// Below the stack pointer, where a function that calls none may have its locals.
const RED_ZONE: usize = 128;

/// The unit in which the stack is read: memory is there or not by pages, of this size or a multiple.
const PAGE: usize = 4096;

struct Slot {
    request: Request,
    buffer: OnceLock<Box<Buffer>>,
}

struct Buffer(UnsafeCell<Copied>);

struct Copied {
    registers: Registers,
    start: usize,
    length: usize,
    error: i32,
    note: StackDescription,
    bytes: [u8; MOST_BYTES],
}

// SAFETY: the content is touched only by the thread to which it belongs by the slot's request.
unsafe impl Sync for Buffer {}
// SAFETY: it is plain data.
unsafe impl Send for Buffer {}

static BUFFERS: [Slot; SLOTS] = [const {
    Slot {
        request: Request::new(),
        buffer: OnceLock::new(),
    }
}; SLOTS];

/// The highest number of a signal, and one more.
const SIGNALS: usize = 65;

/// What handled each signal before.
static BEFORE: [OnceLock<libc::sigaction>; SIGNALS] = [const { OnceLock::new() }; SIGNALS];

/// What the system passes to the handler of a signal that was sent with a value.
#[repr(C)]
struct SignalInfo {
    signal: i32,
    error: i32,
    code: i32,
    padding: i32,
    process: i32,
    user: u32,
    value: usize,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<SignalInfo>() == size_of::<libc::siginfo_t>());

/// A request that was made. When it is dropped, it is withdrawn.
#[derive(Debug)]
pub struct Asked {
    slot: usize,
    thread: u32,
    signal: i32,
    since: Instant,
    ended: bool,
}

/// Asks for a copy of the stack of the thread with that kernel's number, which belongs to this process.
/// `describe` is called in its handler. `signal` is the number of the signal; `None` means `SIGURG`,
/// which is refused if the program handles it.
///
/// It does not wait. The thread is disturbed for some microseconds, and system calls that are not restarted
/// after a signal (`poll`, `nanosleep`) return `EINTR` there.
///
/// # Errors
///
/// The signal cannot be used, the system does not send it, or too many copies are being made.
pub fn ask(thread: u32, signal: Option<i32>, describe: Describe) -> Result<Asked, NoCopy> {
    let number = install(signal)?;
    let free = |&slot: &usize| {
        // The buffer is there before the request can be seen.
        BUFFERS[slot].buffer.get_or_init(Buffer::new);
        BUFFERS[slot].request.ask(thread)
    };
    // The handler begins at once, so what it is to call is set first: all requests use the same function.
    DESCRIBE.get_or_init(|| describe);
    let slot = (0..SLOTS).find(free).ok_or(NoCopy::Busy)?;
    let asked = Asked {
        slot,
        thread,
        signal: number,
        since: Instant::now(),
        ended: false,
    };
    match send(thread, number, &raw const BUFFERS[slot]) {
        0 => Ok(asked),
        libc::ESRCH => Err(NoCopy::Ended),
        error => Err(NoCopy::Refused(error)),
    }
}

/// Copies a stack that does not run, such as that of a suspended fiber, from the stack pointer in `registers`
/// on. It sends no signal. If the stack continues meanwhile, or goes, the copy is of no use, and that is all:
/// the caller looks afterwards whether it is the same suspension.
///
/// # Errors
///
/// There is no memory at that address, or the system does not let it be read.
pub fn copy_at(registers: Registers) -> Result<StackCopy, NoCopy> {
    let mut bytes = vec![0; MOST_BYTES];
    let start = usize::try_from(registers.sp).unwrap_or(usize::MAX) & !7;
    let Some(whole) = bytes.first_chunk_mut() else {
        return Err(NoCopy::Busy);
    };
    let (length, error) = read(start, whole);
    bytes.truncate(length);
    match length {
        0 => Err(NoCopy::Unreadable(error)),
        _ => Ok(StackCopy {
            registers,
            start: start as u64,
            bytes,
            note: StackDescription::NOTHING,
        }),
    }
}

/// Reads the eight bytes at `address`. Returns `None` if there is no memory, or the system does not let it be
/// read. Other threads may write them meanwhile: then it is any of the values.
#[must_use]
pub fn word_in_memory(address: u64) -> Option<u64> {
    let mut word = 0_u64;
    let local = libc::iovec {
        iov_base: (&raw mut word).cast(),
        iov_len: size_of::<u64>(),
    };
    let remote = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(usize::try_from(address).ok()?),
        iov_len: size_of::<u64>(),
    };
    // SAFETY: `getpid` has no precondition.
    let process = unsafe { libc::getpid() };
    // SAFETY: the system writes to the word, whose size it knows, and checks the address that it reads.
    let read = unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) };
    (read == size_of::<u64>() as isize).then_some(word)
}

static DESCRIBE: OnceLock<Describe> = OnceLock::new();

impl Buffer {
    fn new() -> Box<Self> {
        // On the heap from the beginning: a thread's stack may be small.
        let mut buffer = Box::<Self>::new_uninit();
        // SAFETY: the box has room for one.
        unsafe { buffer.as_mut_ptr().write_bytes(0, 1) };
        // SAFETY: it has numbers only, for which zeroes are valid.
        unsafe { buffer.assume_init() }
    }
}

impl Asked {
    /// Returns the answer, if there is one. It does not wait, and gives up after [`PATIENCE`].
    pub fn poll(&mut self) -> Option<Result<StackCopy, NoCopy>> {
        if BUFFERS[self.slot].request.is_done() {
            return Some(self.take());
        }
        (self.since.elapsed() >= PATIENCE).then(|| self.withdraw())
    }

    /// Withdraws the request. Returns why there is no answer.
    #[must_use]
    pub fn give_up(mut self) -> NoCopy {
        self.withdraw().err().unwrap_or(NoCopy::NoCpu)
    }

    fn withdraw(&mut self) -> Result<StackCopy, NoCopy> {
        match BUFFERS[self.slot].request.withdraw(self.thread) {
            Withdrawn::Done => return self.take(),
            Withdrawn::Unanswered | Withdrawn::Copying => self.ended = true,
        }
        Err(match blocks(self.thread, self.signal) {
            None => NoCopy::Ended,
            Some(true) => NoCopy::Blocked(self.signal),
            Some(false) => NoCopy::NoCpu,
        })
    }

    /// Takes the copy, which is there.
    fn take(&mut self) -> Result<StackCopy, NoCopy> {
        self.ended = true;
        let slot = &BUFFERS[self.slot];
        let Some(buffer) = slot.buffer.get() else {
            return Err(NoCopy::Busy);
        };
        // SAFETY: the request is done, so that the buffer is ours until its release.
        let copied = unsafe { &*buffer.0.get() };
        let length = copied.length.min(MOST_BYTES);
        let copy = StackCopy {
            registers: copied.registers,
            start: copied.start as u64,
            bytes: copied.bytes[..length].to_vec(),
            note: copied.note,
        };
        let error = copied.error;
        slot.request.release();
        match length {
            0 => Err(NoCopy::Unreadable(error)),
            _ => Ok(copy),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.ended && BUFFERS[self.slot].request.withdraw(self.thread) == Withdrawn::Done {
            BUFFERS[self.slot].request.release();
        }
    }
}

/// Returns true if the thread blocks the signal; `None` if there is no such thread any more.
fn blocks(thread: u32, signal: i32) -> Option<bool> {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask >> (signal - 1) & 1 == 1)
}

/// Makes `signal` ours, if it is not yet. Returns its number.
fn install(signal: Option<i32>) -> Result<i32, NoCopy> {
    let number = signal.unwrap_or(USUAL);
    // Those that the processor raises, and those that end or stop the process whatever it wants.
    const NEVER: [i32; 9] = [
        libc::SIGKILL,
        libc::SIGSTOP,
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGABRT,
        libc::SIGSYS,
    ];
    let place = usize::try_from(number).ok().and_then(|number| BEFORE.get(number));
    let place = place.filter(|_| number > 0 && !NEVER.contains(&number));
    let place = place.ok_or(NoCopy::BadSignal(number))?;
    // A thread that another one delays here gives up: in a forked child the lock may be held for ever.
    static INSTALLS: Mutex<()> = Mutex::new(());
    let lock = || match INSTALLS.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => {
            std::thread::sleep(Duration::from_micros(100));
            None
        }
    };
    let _alone = (0..100).find_map(|_| lock()).ok_or(NoCopy::Busy)?;
    let present = action(number, None).ok_or(NoCopy::BadSignal(number))?;
    if present.sa_sigaction == ours() {
        return Ok(number);
    }
    // A handler that was set after ours replaces it, and is not replaced again: it may belong to code that
    // knows of ours, and passes signals on.
    let is_free = present.sa_sigaction <= libc::SIG_IGN;
    if place.get().is_some() || !is_free && signal.is_none() {
        return Err(NoCopy::SignalInUse(number));
    }
    place.get_or_init(|| present);
    // SAFETY: all zeroes are a valid `sigaction`.
    let mut new: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    new.sa_sigaction = ours();
    new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the set is valid for a write.
    unsafe { libc::sigfillset(&raw mut new.sa_mask) };
    action(number, Some(&new)).ok_or(NoCopy::BadSignal(number))?;
    Ok(number)
}

fn ours() -> usize {
    on_signal as *const () as usize
}

/// Sets the action of a signal, if there is one to set. Returns the one before.
fn action(signal: i32, new: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    // SAFETY: all zeroes are a valid `sigaction`.
    let mut before: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: both are valid or null, and our handler has the signature that its flags demand.
    let result = unsafe { libc::sigaction(signal, new, &raw mut before) };
    (result == 0).then_some(before)
}

/// Sends the signal to the thread, with the address of the slot. Returns the number of the error, or 0.
fn send(thread: u32, signal: i32, slot: *const Slot) -> i32 {
    let info = SignalInfo {
        signal,
        error: 0,
        code: libc::SI_QUEUE,
        padding: 0,
        process: std::process::id().cast_signed(),
        // SAFETY: `getuid` has no precondition.
        user: unsafe { libc::getuid() },
        value: slot.addr(),
        rest: [0; 12],
    };
    let process = std::process::id();
    // SAFETY: the information has the size and the layout that the system expects.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            process,
            thread,
            signal,
            &raw const info,
        )
    };
    match result {
        0 => 0,
        _ => std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EINVAL),
    }
}

/// Returns the place of this thread's `errno`.
fn errno() -> *mut i32 {
    // SAFETY: `__errno_location` has no precondition.
    unsafe { libc::__errno_location() }
}

/// The handler. See the invariants of `stack_copy`.
extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the C library keeps the place of this thread's `errno` until the thread ends.
    let before = unsafe { errno().read() };
    // SAFETY: by SA_SIGINFO the information is valid until the handler returns. The assertion above checks
    // its size.
    let told = unsafe { &*info.cast::<SignalInfo>() };
    let slot = (told.code == libc::SI_QUEUE)
        .then(|| {
            BUFFERS
                .iter()
                .find(|slot| std::ptr::from_ref(*slot).addr() == told.value)
        })
        .flatten();
    match slot {
        Some(slot) => answer(slot, context.cast()),
        None => pass_on(signal, info, context),
    }
    // SAFETY: the C library keeps the place of this thread's `errno` until the thread ends.
    unsafe { errno().write(before) };
}

fn answer(slot: &Slot, context: *const libc::ucontext_t) {
    // SAFETY: `gettid` has no precondition.
    let thread = unsafe { libc::gettid() };
    let Some(buffer) = slot.buffer.get() else {
        return;
    };
    if !slot.request.begin(thread.cast_unsigned()) {
        return;
    }
    // SAFETY: the request has begun, so the buffer is ours until its end.
    let copied = unsafe { &mut *buffer.0.get() };
    // SAFETY: by SA_SIGINFO the system passes a context that is valid until the handler returns.
    copied.registers = registers(unsafe { &*context });
    copied.note = StackDescription::NOTHING;
    if let Some(describe) = DESCRIBE.get() {
        describe(&mut copied.note);
    }
    #[allow(clippy::cast_possible_truncation, reason = "an address of a 64-bit process")]
    let start = (copied.registers.sp as usize).saturating_sub(RED_ZONE) & !7;
    copied.start = start;
    (copied.length, copied.error) = read(start, &mut copied.bytes);
    slot.request.end();
}

#[cfg(target_arch = "x86_64")]
fn registers(context: &libc::ucontext_t) -> Registers {
    let [pc, sp, fp] = [libc::REG_RIP, libc::REG_RSP, libc::REG_RBP]
        .map(|register| context.uc_mcontext.gregs[register as usize].cast_unsigned());
    Registers { pc, sp, fp, lr: 0 }
}

#[cfg(target_arch = "aarch64")]
fn registers(context: &libc::ucontext_t) -> Registers {
    let its = &context.uc_mcontext;
    Registers {
        pc: its.pc,
        sp: its.sp,
        fp: its.regs[29],
        lr: its.regs[30],
    }
}

/// Copies the memory from `start` on as far as it is there. Returns the number of bytes, and the number of
/// the error if there are none.
fn read(start: usize, to: &mut [u8; MOST_BYTES]) -> (usize, i32) {
    const PARTS: usize = MOST_BYTES / PAGE + 1;
    let mut parts = [libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    }; PARTS];
    // A part is read as a whole or not at all: each ends where a page does.
    let (mut at, end) = (start, start.saturating_add(MOST_BYTES));
    let mut count = 0;
    for part in &mut parts {
        if at >= end {
            break;
        }
        let next = ((at | (PAGE - 1)).saturating_add(1)).min(end);
        part.iov_base = std::ptr::without_provenance_mut(at);
        part.iov_len = next - at;
        at = next;
        count += 1;
    }
    let local = libc::iovec {
        iov_base: to.as_mut_ptr().cast(),
        iov_len: MOST_BYTES,
    };
    // SAFETY: `getpid` has no precondition.
    let process = unsafe { libc::getpid() };
    // SAFETY: the system writes to the buffer, whose size it knows, and checks the addresses that it reads.
    let read = unsafe {
        libc::syscall(
            libc::SYS_process_vm_readv,
            process,
            &raw const local,
            1_usize,
            parts.as_ptr(),
            count,
            0_usize,
        )
    };
    match usize::try_from(read) {
        Ok(read) => (read, 0),
        // SAFETY: the C library keeps the place of this thread's `errno` until the thread ends.
        Err(_) => (0, unsafe { errno().read() }),
    }
}

/// Does what the previous handler of the signal does.
fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let place = usize::try_from(signal).ok().and_then(|signal| BEFORE.get(signal));
    let Some(before) = place.and_then(OnceLock::get) else {
        return;
    };
    match before.sa_sigaction {
        libc::SIG_IGN => (),
        libc::SIG_DFL => as_by_default(signal, before),
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: a handler with this flag has this signature.
            let handler = unsafe {
                std::mem::transmute::<usize, extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void)>(
                    handler,
                )
            };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: a handler without the flag has this signature.
            let handler = unsafe { std::mem::transmute::<usize, extern "C" fn(i32)>(handler) };
            handler(signal);
        }
    }
}

/// Does what the system does with a signal without a handler.
fn as_by_default(signal: i32, before: &libc::sigaction) {
    // These are ignored.
    if [libc::SIGURG, libc::SIGCHLD, libc::SIGWINCH, libc::SIGCONT].contains(&signal) {
        return;
    }
    // The signal comes again when the handler returns, and ends or stops the process.
    if action(signal, Some(before)).is_some() {
        // SAFETY: `raise` takes any number, and refuses one that is no signal.
        let _ = unsafe { libc::raise(signal) };
    }
}
