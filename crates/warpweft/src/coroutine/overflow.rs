//! The report of a fiber, or of a handled body, that overflows its stack.
//!
//! The guard below a stack turns the overflow into a signal. The handler runs on the thread's alternate
//! signal stack, which the standard library gives to each of its threads. (Where the program is not a Rust
//! one, there is none, and the process ends without a message.) It compares the address with the guard of the
//! fiber that runs on the thread. If they match, it writes a line and ends the process. Otherwise it leaves
//! the signal to the previous handler.
//!
//! # Invariants
//!
//! - The handler calls the [finders](Find), which read a thread-local word each and what it points to. It
//!   allocates nothing, and calls `write` and `abort`.

use super::memory::page;
use super::stack::StackMemory;
use std::cell::Cell;
use std::fmt::{self, Write};
use std::panic::Location;
use std::sync::OnceLock;
use warpweft_platform::stack_copy::StackDescription;
use warpweft_task::TaskInfo;

/// The number of bytes of a name that the report shows.
const SHOWN: usize = StackDescription::NOTHING.text.len();

/// What the label of a fiber's stack says.
pub(crate) const FIBER: &str = "fiber";
/// The kind in a note on a fiber; its word is the address of the spawn site.
pub(crate) const NOTED_FIBER: usize = 1;

/// The owner of a stack, for the report.
#[derive(Debug)]
pub(crate) struct Label {
    what: &'static str,
    bottom: usize,
    bytes: usize,
    /// The size of the guard, read before an overflow.
    guard: usize,
    location: Cell<Option<&'static Location<'static>>>,
    /// A copy: the task may end before its stack does.
    name: Cell<[u8; SHOWN]>,
    length: Cell<usize>,
}

impl Label {
    /// Creates the label of a `stack` that belongs to `what`.
    pub(crate) fn of(what: &'static str, stack: &StackMemory) -> Self {
        Self {
            what,
            bottom: stack.bottom(),
            bytes: stack.bytes(),
            guard: page(),
            location: Cell::new(None),
            name: Cell::new([0; SHOWN]),
            length: Cell::new(0),
        }
    }

    /// Notes that a body of the frame at `location` begins on the stack.
    pub(crate) fn write_location(&self, location: &'static Location<'static>) {
        self.location.set(Some(location));
    }

    /// Notes that a task begins on the stack.
    #[inline]
    pub(crate) fn write(&self, info: TaskInfo<'_>) {
        self.location.set(Some(info.location()));
        let name = info.name().unwrap_or("").as_bytes();
        self.length.set(name.len().min(SHOWN));
        if !name.is_empty() {
            let mut shown = [0; SHOWN];
            shown[..self.length.get()].copy_from_slice(&name[..self.length.get()]);
            self.name.set(shown);
        }
    }

    /// Returns name and spawn site of its last task.
    pub(crate) fn site(&self) -> (Option<Box<str>>, Option<&'static Location<'static>>) {
        let name = self.name.get();
        let name = name[..self.length.get()].utf8_chunks().next();
        (name.map(|chunk| Box::from(chunk.valid())), self.location.get())
    }

    /// Writes what it knows of a fiber.
    fn note(&self, note: &mut StackDescription) {
        if self.what != FIBER {
            return;
        }
        note.kind = NOTED_FIBER;
        note.word = self
            .location
            .get()
            .map_or(0, |location| std::ptr::from_ref(location).expose_provenance());
        note.text = self.name.get();
        note.length = self.length.get().min(SHOWN);
    }

    fn report(&self, to: &mut FixedText) -> fmt::Result {
        let name = self.name.get();
        let name = name[..self.length.get()].utf8_chunks().next();
        let name = name.map_or("", |chunk| chunk.valid());
        write!(to, "\n{} ", self.what)?;
        if !name.is_empty() {
            write!(to, "'{name}' ")?;
        }
        if let Some(location) = self.location.get() {
            write!(to, "(spawned at {location}) ")?;
        }
        let kib = self.bytes >> 10;
        writeln!(
            to,
            "has overflowed its stack of {kib} KiB: see Builder::fiber_stack_size"
        )
    }
}

/// Writes a note on the stack of the calling thread, if it is a fiber's. It is called in a handler of a
/// signal, and does what the report of an overflow does there.
pub(crate) fn describe(note: &mut StackDescription) {
    if let Some(label) = OF_POOLS.find() {
        label.note(note);
    }
}

/// A text that needs no allocation. What does not fit is cut off.
struct FixedText {
    bytes: [u8; 512],
    length: usize,
}

impl Write for FixedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - self.length;
        let part = &text.as_bytes()[..text.len().min(room)];
        self.bytes[self.length..self.length + part.len()].copy_from_slice(part);
        self.length += part.len();
        Ok(())
    }
}

/// Finds the label of the stack that the calling thread is on; null if it is on none of that kind. Called in
/// a signal handler.
pub(crate) type Find = fn() -> *const Label;

/// A kind of stacks, and the function by which the handler finds the one that overflowed.
#[derive(Debug)]
pub(crate) struct Finder(OnceLock<Find>);

/// Stacks on threads of pools.
pub(crate) static OF_POOLS: Finder = Finder(OnceLock::new());
/// Stacks of handled bodies on other threads.
pub(crate) static OUTSIDE: Finder = Finder(OnceLock::new());

impl Finder {
    /// Makes overflows of this kind of stacks reported from now on.
    #[inline]
    pub(crate) fn watch(&self, find: Find) {
        self.0.get_or_init(|| {
            handler::install_once();
            find
        });
    }

    fn find(&self) -> Option<&'static Label> {
        let label = self.0.get().map_or(std::ptr::null(), |find| find());
        // SAFETY: null, or the label of the stack that the handler interrupts, which is there while that
        // stack runs.
        unsafe { label.as_ref() }
    }
}

mod handler {
    use super::{FixedText, Label, OF_POOLS, OUTSIDE};
    use std::mem::MaybeUninit;
    use std::sync::OnceLock;

    /// The previous handlers.
    static BEFORE: OnceLock<[libc::sigaction; 2]> = OnceLock::new();

    const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

    pub(super) fn install_once() {
        BEFORE.get_or_init(|| SIGNALS.map(install));
    }

    fn install(signal: libc::c_int) -> libc::sigaction {
        // SAFETY: all zeroes are a valid `sigaction`.
        let mut ours: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        ours.sa_sigaction = on_signal as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        let mut before = ours;
        // SAFETY: both places are valid; the handler has the signature that the flags demand. If the call
        // fails, `before` is this handler, which is then never called.
        let _ = unsafe { libc::sigaction(signal, &raw const ours, &raw mut before) };
        before
    }

    extern "C" fn on_signal(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the system passes a valid pointer.
        let told = unsafe { &*info };
        // SAFETY: with these signals it has an address.
        let address = unsafe { told.si_addr() }.addr();
        if let Some(label) = OF_POOLS.find().or_else(|| OUTSIDE.find())
            && label.is_guard(address)
        {
            end(label);
        }
        pass_on(signal, info, context);
    }

    fn end(label: &Label) -> ! {
        let mut line = FixedText {
            bytes: [0; 512],
            length: 0,
        };
        let _ = label.report(&mut line);
        // SAFETY: the bytes are there.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, line.bytes.as_ptr().cast(), line.length) };
        std::process::abort();
    }

    fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        let place = usize::from(signal != SIGNALS[0]);
        let before = BEFORE.get().map(|before| &before[place]);
        match before {
            Some(before)
                if before.sa_sigaction > libc::SIG_IGN && before.sa_flags & libc::SA_SIGINFO != 0 =>
            {
                // SAFETY: a handler with this flag has this signature.
                let handler = unsafe {
                    std::mem::transmute::<
                        usize,
                        extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void),
                    >(before.sa_sigaction)
                };
                handler(signal, info, context);
            }
            Some(before) if before.sa_sigaction > libc::SIG_IGN => {
                // SAFETY: a handler without the flag has this signature.
                let handler =
                    unsafe { std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(before.sa_sigaction) };
                handler(signal);
            }
            _ => {
                // The access is repeated, and has the effect that it would have had without this handler.
                // SAFETY: the default action needs no handler.
                let _ = unsafe { libc::signal(signal, libc::SIG_DFL) };
            }
        }
    }

    impl Label {
        fn is_guard(&self, address: usize) -> bool {
            // Code enters a frame page by page, so the first access below the stack hits the guard, its
            // lowest page.
            (self.bottom..self.bottom + self.guard).contains(&address)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_cut_off() {
        let mut line = FixedText {
            bytes: [0; 512],
            length: 0,
        };
        for _ in 0..100 {
            line.write_str("1234567").expect("cut off");
        }
        assert_eq!(line.length, 512);
        assert!(line.bytes.chunks(7).take(73).all(|chunk| chunk == b"1234567"));
    }
}
