//! Systems whose stacks are not read, and the model checkers.

use super::{Describe, NoCopy, Registers, StackCopy};

/// A request that was made; here there is none.
#[derive(Debug)]
pub enum Asked {}

/// Asks for a copy of the stack of a thread.
///
/// # Errors
///
/// Always: this system is not supported.
pub fn ask(_thread: u32, _signal: Option<i32>, _describe: Describe) -> Result<Asked, NoCopy> {
    Err(NoCopy::Unsupported)
}

/// Copies a stack that does not run, from the stack pointer in `registers` on.
///
/// # Errors
///
/// Always: this system is not supported.
pub fn copy_at(_registers: Registers) -> Result<StackCopy, NoCopy> {
    Err(NoCopy::Unsupported)
}

/// Reads a word of this process's memory.
#[must_use]
pub fn word_in_memory(_address: u64) -> Option<u64> {
    None
}

impl Asked {
    /// Returns the answer.
    pub fn poll(&mut self) -> Option<Result<StackCopy, NoCopy>> {
        match *self {}
    }

    /// Returns why there is no answer.
    #[must_use]
    pub fn give_up(self) -> NoCopy {
        match self {}
    }
}
