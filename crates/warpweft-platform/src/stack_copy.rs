//! A copy of the stack of another thread of this process, for reports of code that is stuck.
//!
//! A thread [asks](ask) for the stack of another one. The other one gets a signal, whose handler copies its
//! registers and at most 64 KiB of its stack to a buffer that was prepared. It does not unwind: the copy is
//! unwound later, on another thread. Asking does not wait, because the other thread may have no CPU.
//!
//! The system reads the stack on behalf of the handler, by `process_vm_readv`. So the handler need not know
//! where the stack ends: fibers have their own stacks, and so may code that this library does not know.
//!
//! # Invariants
//!
//! - The handler allocates nothing, takes no lock, and cannot panic. It uses the thread's alternate stack,
//!   blocks other signals meanwhile, and keeps `errno`.
//! - It answers only signals with a value of ours. All others go to the previous handler.
//! - The buffers are never freed, so a signal that comes late finds them. See [`request`] for whose they are.

#[cfg_attr(
    not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(any(warpweft_loom, warpweft_shuttle, warpweft_sim))
    )),
    path = "stack_copy/unsupported.rs"
)]
mod by_signal;
#[doc(hidden)]
pub mod request;

pub use by_signal::{Asked, ask, copy_at, word_in_memory};

use std::fmt;
use std::time::Duration;

/// The most bytes of a stack that are copied.
pub const MOST_BYTES: usize = 64 << 10;

/// How long a thread has to answer: after this time it is said to have no CPU.
pub const PATIENCE: Duration = Duration::from_millis(500);

/// The registers from which a stack is unwound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Registers {
    /// The address of the next instruction.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer, or what else is in its register.
    pub fp: u64,
    /// On aarch64 the link register.
    pub lr: u64,
}

/// What the program says of the stack, at the moment of the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackDescription {
    /// A word that means something to the program; 0 if it says nothing.
    pub word: usize,
    /// A second one.
    pub kind: usize,
    /// A text.
    pub text: [u8; 48],
    /// The length of the text.
    pub length: usize,
}

impl StackDescription {
    /// A note that says nothing.
    pub const NOTHING: Self = Self {
        word: 0,
        kind: 0,
        text: [0; 48],
        length: 0,
    };
}

/// Writes a note on the stack of the calling thread. It is called in a handler of a signal: it allocates
/// nothing, takes no lock and does not panic.
pub type Describe = fn(&mut StackDescription);

/// The registers and the upper end of a stack of another thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackCopy {
    /// The registers at the moment of the copy.
    pub registers: Registers,
    /// The address of the first byte.
    pub start: u64,
    /// The bytes, up to the end of the stack or [`MOST_BYTES`].
    pub bytes: Vec<u8>,
    /// What the program said of it.
    pub note: StackDescription,
}

impl StackCopy {
    /// Returns the eight bytes at `address`, if they were copied.
    #[must_use]
    pub fn word_at(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }
}

/// Why there is no copy of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoCopy {
    /// This system or processor is not supported: it needs Linux on x86-64 or aarch64.
    Unsupported,
    /// The program, or a library of it, has its own handler for the signal with this number.
    SignalInUse(i32),
    /// No handler can be set for the signal with this number.
    BadSignal(i32),
    /// The system has refused to send the signal; with the error's number.
    Refused(i32),
    /// The thread has ended.
    Ended,
    /// The thread blocks the signal with this number.
    Blocked(i32),
    /// The thread had no CPU for [`PATIENCE`], so the signal did not reach it.
    NoCpu,
    /// The stack could not be read; with the error's number. A sandbox may forbid it.
    Unreadable(i32),
    /// Copies for other threads are being made.
    Busy,
}

impl fmt::Display for NoCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => f.write_str("stacks are read on Linux with x86-64 or aarch64 only"),
            Self::SignalInUse(signal) => {
                write!(
                    f,
                    "the program has its own handler for signal {signal}, so choose another one"
                )
            }
            Self::BadSignal(signal) => write!(f, "signal {signal} cannot be handled, so choose another one"),
            Self::Refused(error) => write!(f, "the system sends no signal: {}", system(*error)),
            Self::Ended => f.write_str("its thread has ended"),
            Self::Blocked(signal) => write!(f, "its thread blocks signal {signal}"),
            Self::NoCpu => {
                write!(
                    f,
                    "no CPU: its thread did not run for {} ms",
                    PATIENCE.as_millis()
                )
            }
            Self::Unreadable(error) => write!(f, "the system does not let it be read: {}", system(*error)),
            Self::Busy => f.write_str("the stacks of other threads are being read"),
        }
    }
}

fn system(error: i32) -> std::io::Error {
    std::io::Error::from_raw_os_error(error)
}
