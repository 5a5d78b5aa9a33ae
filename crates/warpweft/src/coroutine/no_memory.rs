//! Memory for stacks where a fiber's stack is a thread's (see `on_thread.rs`): numbers instead of memory.

use std::io;

/// As in `memory.rs`; nothing is guarded here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guards {
    None,
}

#[derive(Debug)]
pub(crate) struct Mapping(usize);

impl Mapping {
    #[allow(clippy::unnecessary_wraps, reason = "as in `memory.rs`")]
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        Ok(Self(bytes))
    }

    pub(crate) fn start(&self) -> usize {
        page()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0
    }
}

pub(crate) fn page() -> usize {
    4096
}

pub(crate) fn guards() -> Guards {
    Guards::None
}

/// # Safety
///
/// None; as in `memory.rs`.
#[allow(clippy::unnecessary_wraps, reason = "as in `memory.rs`")]
pub(crate) unsafe fn guard(_address: usize, _guards: Guards) -> io::Result<()> {
    Ok(())
}

/// # Safety
///
/// None; as in `memory.rs`.
pub(crate) unsafe fn forget(_address: usize, _bytes: usize) {}

pub(crate) fn used(_address: usize, _bytes: usize) -> Option<usize> {
    None
}
