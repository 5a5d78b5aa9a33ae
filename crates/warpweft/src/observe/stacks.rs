//! Unwinding of copied stacks, by the crates `framehop` and `backtrace`.
//!
//! A stack is unwound on a thread of its own: the dynamic linker's lock, which is needed, may be held by the
//! code that is stuck, and reading the symbols of a large program takes a second. Whoever waits gives up
//! after [`PATIENCE`].
//!
//! # Invariants
//!
//! - Unwind information is read only in a callback of the dynamic linker, which unloads no library meanwhile.
//! - At most [`THREADS`] stacks are unwound at a time.
//! - Names are looked up under one lock of the crate `backtrace`, which keeps what it has read of a library.
//!   So whatever [`prepare`] has begun to read is read once, and a report waits for the rest of it only.

mod library;

use self::library::{Library, libraries};
use super::stack::{Frame, NoStack, Stack};
use framehop::{FrameAddress, Unwinder as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use warpweft_platform::clock::now_ns;
use warpweft_platform::stack_copy::{Asked, Describe, StackCopy, ask};
use warpweft_platform::sync::{Condvar, Mutex, StaticMutex};
use warpweft_platform::thread::{pause, spawn_named};

#[cfg(target_arch = "aarch64")]
use framehop::aarch64::{
    CacheAarch64 as Cache, UnwindRegsAarch64 as UnwindRegs, UnwinderAarch64 as Unwinder,
};
#[cfg(target_arch = "x86_64")]
use framehop::x86_64::{CacheX86_64 as Cache, UnwindRegsX86_64 as UnwindRegs, UnwinderX86_64 as Unwinder};

/// How long the functions of a stack are searched for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// The most frames of a stack.
const MOST_FRAMES: usize = 256;
const THREADS: usize = 4;
/// How often a dump looks whether its stacks are there.
const LOOK_NS: u64 = 200_000;

/// How many stacks are being unwound.
static BUSY: StaticMutex<usize> = StaticMutex::new(0);

/// A stack that was asked for.
#[derive(Debug)]
pub(crate) struct Reading {
    state: State,
    since: Instant,
}

#[derive(Debug)]
enum State {
    Asked(Asked),
    Copied(Box<StackCopy>),
    Unwinding(Arc<Mutex<Unwound>>),
}

/// What the thread that unwinds has found so far.
#[derive(Debug, Default)]
struct Unwound {
    /// The stack without names, which is there soon.
    addresses: Option<Stack>,
    /// The stack with names.
    named: Option<Stack>,
}

impl Reading {
    /// Asks for the stack of that thread.
    pub(crate) fn new(thread: u32, signal: Option<i32>, describe: Describe) -> Result<Self, NoStack> {
        Ok(Self {
            state: State::Asked(ask(thread, signal, describe)?),
            since: Instant::now(),
        })
    }

    /// Returns the stack, if it is known by now, or why it is not. `on_copy` is called when the copy is
    /// there: it returns false if the copy is of no use.
    pub(crate) fn poll(
        &mut self,
        on_copy: impl FnOnce(&StackCopy) -> bool,
    ) -> Option<Result<Stack, NoStack>> {
        if let State::Asked(asked) = &mut self.state {
            match asked.poll()? {
                Err(error) => return Some(Err(error.into())),
                Ok(copy) if !on_copy(&copy) => return Some(Err(NoStack::Continued)),
                Ok(copy) => self.state = State::Copied(Box::new(copy)),
            }
            self.since = Instant::now();
        }
        if let State::Copied(copy) = &self.state
            && let Some(unwinding) = begin(copy)
        {
            self.state = State::Unwinding(unwinding);
        }
        if let State::Unwinding(found) = &self.state
            && let Some(stack) = found.lock().named.take()
        {
            return Some(Ok(stack));
        }
        (self.since.elapsed() > PATIENCE).then(|| self.addresses())
    }

    /// Returns the stack without names, if it is known.
    fn addresses(&self) -> Result<Stack, NoStack> {
        match &self.state {
            State::Unwinding(found) => found.lock().addresses.take().ok_or(NoStack::NotRead),
            _ => Err(NoStack::NotRead),
        }
    }

    /// Returns the stack without names, if it is known and the names are being looked up.
    pub(crate) fn early(&self) -> Option<Stack> {
        match &self.state {
            State::Unwinding(found) => found.lock().addresses.clone(),
            _ => None,
        }
    }

    /// Returns what is known of the stack, or why there is none, when the report cannot wait any longer.
    pub(crate) fn give_up(self) -> Result<Stack, NoStack> {
        match self.state {
            State::Asked(asked) => Err(asked.give_up().into()),
            _ => self.addresses(),
        }
    }
}

/// Starts a thread that unwinds the copy. Returns `None` if there are too many, or no more threads.
fn begin(copy: &StackCopy) -> Option<Arc<Mutex<Unwound>>> {
    /// One of the threads.
    struct Place;
    impl Drop for Place {
        fn drop(&mut self) {
            BUSY.with(|busy| *busy -= 1);
        }
    }
    let place = BUSY.with(|busy| {
        (*busy < THREADS).then(|| {
            *busy += 1;
            Place
        })
    })?;
    let found = Arc::new(Mutex::new(Unwound::default()));
    let (result, copy) = (Arc::clone(&found), copy.clone());
    let body = move || {
        let _place = place;
        // Unwind: a defect of what reads the program's symbols is no reason to end the process. The report
        // then has what was found before.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let addresses = unwind(&copy);
            result.lock().addresses = Some(addresses.nameless());
            let named = addresses.name();
            result.lock().named = Some(named);
        }));
    };
    spawn_named("warpweft-stack", None, body).ok().map(|_| found)
}

/// Returns why no stack is read in this program: here they are.
pub(crate) fn why_none() -> Option<NoStack> {
    None
}

/// Begins to read the symbols of the program, on a separate thread: a report that names functions is likely.
/// It takes a tenth of a second or more, once in a process. Later calls do nothing.
pub(crate) fn prepare() {
    static IS_BEGUN: StaticMutex<bool> = StaticMutex::new(false);
    if IS_BEGUN.with(|is_begun| std::mem::replace(is_begun, true)) {
        return;
    }
    let body = || {
        // Any functions of the program and of the system's library do: whole files are read.
        let known: [*const (); 2] = [prepare as *const (), libc::nanosleep as *const ()];
        let addresses = StackAddresses {
            frames: known.map(|it| (it.addr() as u64, None)).into(),
            cut: None,
        };
        // Unwind: as in `begin`.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(addresses.name())));
    };
    // Without a thread the first report comes later.
    let _ = spawn_named("warpweft-stack", None, body);
}

/// Looks up the names of a stack that has none. Returns `None` if they are not found in time.
///
/// The addresses are those of this process, and of libraries that are loaded. On a separate thread, because a
/// thread that is stuck may hold the dynamic linker's lock.
pub(super) fn named_soon(stack: &Stack) -> Option<Stack> {
    let named = Arc::new((Mutex::new(None), Condvar::new()));
    let (result, addresses) = (Arc::clone(&named), StackAddresses::of(stack));
    let body = move || {
        // Unwind: as in `begin`.
        let stack = catch_unwind(AssertUnwindSafe(|| addresses.name())).ok();
        *result.0.lock() = Some(stack);
        result.1.notify_all();
    };
    spawn_named("warpweft-stack", None, body).ok()?;
    let end_ns = now_ns().saturating_add(u64::try_from(PATIENCE.as_nanos()).unwrap_or(u64::MAX));
    let mut found = named.0.lock();
    while found.is_none() {
        match end_ns.saturating_sub(now_ns()) {
            0 => return None,
            left_ns => found = named.1.wait_for(found, left_ns),
        }
    }
    found.take().flatten()
}

/// Until when stacks are waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) names_ns: u64,
    pub(crate) addresses_ns: u64,
}

/// What is known of some stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnwindProgress {
    Nothing,
    Addresses,
    Names,
}

/// Unwinds copies, and waits for that.
pub(crate) fn of_copies(copies: Vec<StackCopy>, ends: Ends) -> Vec<Result<Stack, NoStack>> {
    let progress = match copies.is_empty() {
        true => UnwindProgress::Names,
        false => UnwindProgress::Nothing,
    };
    let none = vec![Err(NoStack::NotRead); copies.len()];
    let found = Arc::new(Mutex::new((none, progress)));
    let results = Arc::clone(&found);
    let body = move || {
        // Unwind: as in `begin`.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let all: Vec<_> = copies.iter().map(unwind).collect();
            let addresses = all.iter().map(|addresses| Ok(addresses.nameless()));
            *results.lock() = (addresses.collect(), UnwindProgress::Addresses);
            for (at, addresses) in all.into_iter().enumerate() {
                let named = addresses.name();
                results.lock().0[at] = Ok(named);
            }
        }));
        results.lock().1 = UnwindProgress::Names;
    };
    let waits = |progress| match progress {
        UnwindProgress::Nothing => now_ns() < ends.addresses_ns,
        UnwindProgress::Addresses => now_ns() < ends.names_ns,
        UnwindProgress::Names => false,
    };
    if spawn_named("warpweft-stack", None, body).is_ok() {
        while waits(found.lock().1) {
            pause(LOOK_NS);
        }
    }
    let found = found.lock();
    found.0.clone()
}

/// The addresses of a stack.
struct StackAddresses {
    /// Each is that of an instruction, or the one before a return address.
    frames: Vec<(u64, Option<(String, u64)>)>,
    cut: Option<&'static str>,
}

/// Unwinds a copy.
fn unwind(copy: &StackCopy) -> StackAddresses {
    let mut addresses = StackAddresses {
        frames: Vec::new(),
        cut: Some("the program has no unwind information"),
    };
    // In the callback, so that no library is unloaded meanwhile. It stops at the first one.
    libraries(&mut |_| {
        let mut loaded = Vec::new();
        libraries(&mut |library| {
            loaded.extend(Library::of(library));
            true
        });
        addresses = unwind_with(copy, &loaded);
        false
    });
    addresses
}

fn unwind_with(copy: &StackCopy, loaded: &[Library]) -> StackAddresses {
    let mut unwinder = Unwinder::<&'static [u8]>::new();
    for library in loaded {
        unwinder.add_module(library.module());
    }
    let mut cache = Cache::<framehop::MayAllocateDuringUnwind>::new_in();
    let from = copy.registers;
    #[cfg(target_arch = "x86_64")]
    let registers = UnwindRegs::new(from.pc, from.sp, from.fp);
    // The upper bits of a return address may be a signature.
    #[cfg(target_arch = "aarch64")]
    let registers = UnwindRegs::new_with_ptr_auth_mask(
        framehop::aarch64::PtrAuthMask::new_24_40(),
        from.lr,
        from.sp,
        from.fp,
    );
    let mut read = |address| copy.word_at(address).ok_or(());
    let mut frames = unwinder.iter_frames(from.pc, registers, &mut cache, &mut read);
    let mut found = Vec::new();
    let cut = loop {
        match frames.next() {
            Ok(Some(frame)) => {
                // Addresses for the search: a call may be the last instruction of its function.
                let address = match frame {
                    FrameAddress::InstructionPointer(address) => address,
                    FrameAddress::ReturnAddress(address) => address.get() - 1,
                };
                let place = loaded.iter().find_map(|library| library.place(address));
                found.push((address, place));
            }
            Ok(None) => break None,
            Err(_) if found.len() <= 1 => break Some("the function has no unwind information"),
            Err(_) => break Some("the rest of the stack was not copied, or has no unwind information"),
        }
        if found.len() >= MOST_FRAMES {
            break Some("it has too many frames");
        }
    };
    StackAddresses { frames: found, cut }
}

impl StackAddresses {
    /// Those of a stack without names.
    fn of(stack: &Stack) -> Self {
        let frames = stack.frames.iter();
        Self {
            frames: frames
                .map(|frame| (frame.address, frame.module.clone()))
                .collect(),
            cut: stack.cut,
        }
    }

    /// Returns the stack without names.
    fn nameless(&self) -> Stack {
        let frame = |(address, module): &(u64, Option<(String, u64)>)| nameless(*address, module.clone());
        Stack {
            frames: self.frames.iter().map(frame).collect(),
            cut: self.cut,
            is_unnamed: false,
        }
    }

    /// Looks the names up.
    fn name(self) -> Stack {
        let mut frames = Vec::new();
        for (address, module) in self.frames {
            let before = frames.len();
            // The crate looks one byte before what it is given, as for a return address.
            let after = std::ptr::without_provenance_mut((address + 1) as usize);
            backtrace::resolve(after, |symbol| {
                frames.push(Frame {
                    address,
                    function: symbol.name().map(|name| format!("{name:#}")),
                    file: symbol.filename().map(|file| file.display().to_string()),
                    line: symbol.lineno(),
                    module: None,
                });
            });
            if frames[before..].iter().all(|frame| frame.function.is_none()) {
                frames.truncate(before);
                frames.push(nameless(address, module));
            }
        }
        Stack {
            frames,
            cut: self.cut,
            is_unnamed: false,
        }
    }
}

fn nameless(address: u64, module: Option<(String, u64)>) -> Frame {
    Frame {
        address,
        function: None,
        file: None,
        line: None,
        module,
    }
}
