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

use super::stack::{Frame, NoStack, Stack};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder as _};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use warpweft_platform::clock::now_ns;
use warpweft_platform::stack_copy::{Asked, Describe, StackCopy, ask};
use warpweft_platform::sync::{Mutex, StaticMutex};
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
const LOOK_NS: u64 = 500_000;

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
    Unwinding(Arc<Mutex<Found>>),
}

/// What the thread that unwinds has found so far.
#[derive(Debug, Default)]
struct Found {
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
fn begin(copy: &StackCopy) -> Option<Arc<Mutex<Found>>> {
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
    let found = Arc::new(Mutex::new(Found::default()));
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
        let addresses = Addresses {
            frames: known.map(|it| (it.addr() as u64, None)).into(),
            cut: None,
        };
        // Unwind: as in `begin`.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(addresses.name())));
    };
    // Without a thread the first report comes later.
    let _ = spawn_named("warpweft-stack", None, body);
}

/// Unwinds copies, and waits for that until `end_ns`.
pub(crate) fn of_copies(copies: &[StackCopy], end_ns: u64) -> Vec<Result<Stack, NoStack>> {
    let none = vec![Err(NoStack::NotRead); copies.len()];
    let found = Arc::new(Mutex::new((none, copies.is_empty())));
    let (results, copies) = (Arc::clone(&found), copies.to_vec());
    let body = move || {
        // Unwind: as in `begin`.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let all: Vec<_> = copies.iter().map(unwind).collect();
            for (at, addresses) in all.iter().enumerate() {
                results.lock().0[at] = Ok(addresses.nameless());
            }
            for (at, addresses) in all.into_iter().enumerate() {
                let named = addresses.name();
                results.lock().0[at] = Ok(named);
            }
        }));
        results.lock().1 = true;
    };
    if spawn_named("warpweft-stack", None, body).is_ok() {
        while !found.lock().1 && now_ns() < end_ns {
            pause(LOOK_NS);
        }
    }
    let found = found.lock();
    found.0.clone()
}

/// The addresses of a stack.
struct Addresses {
    /// Each is that of an instruction, or the one before a return address.
    frames: Vec<(u64, Option<(String, u64)>)>,
    cut: Option<&'static str>,
}

/// Unwinds a copy.
fn unwind(copy: &StackCopy) -> Addresses {
    let mut addresses = Addresses {
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

fn unwind_with(copy: &StackCopy, loaded: &[Library]) -> Addresses {
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
    Addresses { frames: found, cut }
}

impl Addresses {
    /// Returns the stack without names.
    fn nameless(&self) -> Stack {
        let frame = |(address, module): &(u64, Option<(String, u64)>)| nameless(*address, module.clone());
        Stack {
            frames: self.frames.iter().map(frame).collect(),
            cut: self.cut,
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
        let cut = self.cut;
        Stack { frames, cut }
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

/// Calls `visit` for each library, the program first, until it returns false.
fn libraries(visit: &mut dyn FnMut(&libc::dl_phdr_info) -> bool) {
    unsafe extern "C" fn each(
        library: *mut libc::dl_phdr_info,
        _: libc::size_t,
        visit: *mut libc::c_void,
    ) -> libc::c_int {
        let visit = visit.cast::<&mut dyn FnMut(&libc::dl_phdr_info) -> bool>();
        // SAFETY: `libraries` passes this pointer, to a function that it borrows meanwhile.
        let visit = unsafe { &mut *visit };
        // SAFETY: the dynamic linker passes a valid pointer.
        let library = unsafe { &*library };
        libc::c_int::from(!visit(library))
    }
    let mut visit = visit;
    // SAFETY: the callback has the right signature, and is called during this call only.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut visit).cast()) };
}

/// A loaded library or the program.
struct Library {
    name: String,
    base: u64,
    /// Where its segments are.
    range: Range<u64>,
    /// The segment with code.
    text: Range<u64>,
    /// The index of the unwind information.
    index: Range<u64>,
    /// From the unwind information to the end of its segment.
    frames: Range<u64>,
}

impl Library {
    /// Describes a library, if it has unwind information.
    fn of(library: &libc::dl_phdr_info) -> Option<Self> {
        let base = library.dlpi_addr;
        // SAFETY: the dynamic linker says how many headers there are.
        let headers = unsafe { std::slice::from_raw_parts(library.dlpi_phdr, library.dlpi_phnum.into()) };
        let range = |header: &libc::Elf64_Phdr| {
            let start = base.wrapping_add(header.p_vaddr);
            start..start.wrapping_add(header.p_memsz)
        };
        let segments: Vec<_> = headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD)
            .collect();
        let index = headers
            .iter()
            .find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?;
        let index = range(index);
        // Code that may be run and not read is left alone.
        let readable = libc::PF_X | libc::PF_R;
        let text = segments
            .iter()
            .find(|segment| segment.p_flags & readable == readable)?;
        // The header: a version, how the pointer is encoded, two more such bytes, and the pointer. Linkers
        // write it relative to its place, in four bytes.
        // SAFETY: it is a part of the library that is loaded.
        let [version, encoding, ..] = *(unsafe { bytes(index.start..index.start + 8) }) else {
            return None;
        };
        if (version, encoding) != (1, 0x1b) {
            return None;
        }
        // SAFETY: as above.
        let offset = unsafe { bytes(index.start + 4..index.start + 8) };
        let offset = i32::from_ne_bytes(offset.try_into().ok()?);
        let start = (index.start + 4).checked_add_signed(offset.into())?;
        let segment = segments
            .iter()
            .map(|segment| range(segment))
            .find(|segment| segment.contains(&start))?;
        // SAFETY: null, or a text of the dynamic linker.
        let name =
            (!library.dlpi_name.is_null()).then(|| unsafe { std::ffi::CStr::from_ptr(library.dlpi_name) });
        let name = name
            .map(|name| name.to_string_lossy().into_owned())
            .filter(|name| !name.is_empty());
        let program =
            || std::env::current_exe().map_or_else(|_| String::new(), |path| path.display().to_string());
        let ends = segments.iter().map(|segment| range(segment));
        Some(Self {
            name: name.unwrap_or_else(program),
            base,
            range: ends.clone().map(|it| it.start).min()?..ends.map(|it| it.end).max()?,
            text: range(text),
            index,
            frames: start..segment.end,
        })
    }

    /// Describes it to the unwinder. Only in the dynamic linker's callback.
    fn module(&self) -> Module<&'static [u8]> {
        let relative = |range: &Range<u64>| range.start - self.base..range.end - self.base;
        // SAFETY: these are parts of a library that is loaded while the unwinder is used.
        let parts = [&self.text, &self.index, &self.frames].map(|part| unsafe { bytes(part.clone()) });
        let sections = ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: Some(relative(&self.text)),
            text: Some(parts[0]),
            eh_frame_hdr_svma: Some(relative(&self.index)),
            eh_frame_hdr: Some(parts[1]),
            eh_frame_svma: Some(relative(&self.frames)),
            eh_frame: Some(parts[2]),
            ..Default::default()
        };
        Module::new(self.name.clone(), self.range.clone(), self.base, sections)
    }

    /// Returns its name and the place in it, if it has that address.
    fn place(&self, address: u64) -> Option<(String, u64)> {
        self.range
            .contains(&address)
            .then(|| (self.name.clone(), address - self.base))
    }
}

/// Returns the memory at these addresses.
///
/// # Safety
///
/// It is readable, is not written, and stays there while the result is used.
unsafe fn bytes(range: Range<u64>) -> &'static [u8] {
    let start = std::ptr::with_exposed_provenance(range.start as usize);
    // SAFETY: by contract.
    unsafe { std::slice::from_raw_parts(start, (range.end - range.start) as usize) }
}
