//! Memory for stacks, by the system's calls.

use std::io;
use std::ptr::NonNull;
use warpweft_platform::atomic::{AtomicU32, Ordering};

/// Installs a guard that costs no mapping; Linux since 6.13. Not every version of `libc` has it.
#[cfg(target_os = "linux")]
const MADV_GUARD_INSTALL: libc::c_int = 102;

/// The kind of guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guards {
    /// A mark in the page table: no separate mapping.
    Marks,
    /// No access rights: this splits the mapping in two.
    Protect,
}

const UNKNOWN: u32 = 0;
const MARKS: u32 = 1;
const PROTECT: u32 = 2;

/// What this kernel supports; found out at the first mapping.
static KNOWN: AtomicU32 = AtomicU32::new(UNKNOWN);

pub(crate) fn page() -> usize {
    // SAFETY: it takes a number and returns one.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

/// A piece of address space without content.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it is an address and a size; the pool decides which thread uses what is inside.
unsafe impl Send for Mapping {}

impl Mapping {
    /// # Errors
    ///
    /// The error of the system: no address space, or too many mappings.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        #[cfg(not(target_os = "linux"))]
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON;
        // SAFETY: it asks for new memory at any address.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(io::Error::last_os_error)?;
        #[cfg(target_os = "linux")]
        // A huge page would make 2 MiB resident for a stack that uses one page.
        // SAFETY: the range is the mapping just made. Where it fails, stacks only cost more.
        let _ = unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_NOHUGEPAGE) };
        Ok(Self { start, bytes })
    }

    pub(crate) fn start(&self) -> usize {
        self.start.as_ptr().expose_provenance()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` mapped it, and its owner says that no code uses it any more.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Returns the kind of guards that this kernel supports.
pub(crate) fn guards() -> Guards {
    // Ordering: the word is all that is communicated.
    match KNOWN.load(Ordering::Relaxed) {
        UNKNOWN => {
            let guards = probe();
            let word = if guards == Guards::Marks { MARKS } else { PROTECT };
            KNOWN.store(word, Ordering::Relaxed);
            guards
        }
        MARKS => Guards::Marks,
        _ => Guards::Protect,
    }
}

#[cfg(target_os = "linux")]
fn probe() -> Guards {
    let marked = Mapping::new(page()).is_ok_and(|mapping| mark(mapping.start(), page()).is_ok());
    if marked { Guards::Marks } else { Guards::Protect }
}

#[cfg(not(target_os = "linux"))]
fn probe() -> Guards {
    Guards::Protect
}

fn mark(address: usize, bytes: usize) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let address = std::ptr::with_exposed_provenance_mut(address);
        // SAFETY: the caller owns the page, and no code uses it.
        if unsafe { libc::madvise(address, bytes, MADV_GUARD_INSTALL) } == 0 {
            return Ok(());
        }
        Err(io::Error::last_os_error())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (address, bytes);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Makes the page at `address` a guard: an access to it ends the process.
///
/// # Errors
///
/// With [`Guards::Protect`] each guard takes a mapping of the process, and the kernel gives no more than
/// `vm.max_map_count`.
///
/// # Safety
///
/// The page belongs to a mapping of the caller's, and no code uses it.
pub(crate) unsafe fn guard(address: usize, guards: Guards) -> io::Result<()> {
    match guards {
        // Memory that is locked cannot be marked: the program may have called `mlockall` since.
        Guards::Marks if mark(address, page()).is_ok() => Ok(()),
        Guards::Marks | Guards::Protect => {
            let address = std::ptr::with_exposed_provenance_mut(address);
            // SAFETY: by contract.
            match unsafe { libc::mprotect(address, page(), libc::PROT_NONE) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }
}

/// Gives the memory of the range back to the system. It reads as zeroes afterwards.
///
/// # Safety
///
/// The range belongs to a mapping of the caller's, and its content is not needed.
pub(crate) unsafe fn forget(address: usize, bytes: usize) {
    // SAFETY: by contract. Where it fails, the memory stays.
    let _ = unsafe {
        libc::madvise(
            std::ptr::with_exposed_provenance_mut(address),
            bytes,
            libc::MADV_DONTNEED,
        )
    };
}

/// Returns the bytes in use at the high end of the range, counted from its lowest page with content. Returns
/// `None` if the system does not report it.
#[cfg(target_os = "linux")]
pub(crate) fn used(address: usize, bytes: usize) -> Option<usize> {
    let mut pages = vec![0_u8; bytes / page()];
    // SAFETY: the vector has a byte for each page of the range; if the range is not mapped, it fails.
    let told = unsafe {
        libc::mincore(
            std::ptr::with_exposed_provenance_mut(address),
            bytes,
            pages.as_mut_ptr(),
        )
    };
    if told != 0 {
        return None;
    }
    let lowest = pages.iter().position(|page| page & 1 != 0);
    Some(lowest.map_or(0, |lowest| bytes - lowest * page()))
}

/// Returns the bytes in use at the high end of the range: not known on this system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn used(_address: usize, _bytes: usize) -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_and_what_is_forgotten() {
        let bytes = 16 * page();
        let mapping = Mapping::new(bytes).expect("memory");
        assert_eq!(used(mapping.start(), bytes), Some(0));
        let word = std::ptr::with_exposed_provenance_mut::<u8>(mapping.start() + bytes - 3 * page());
        // SAFETY: inside the mapping.
        unsafe { word.write(1) };
        assert_eq!(used(mapping.start(), bytes), Some(3 * page()));
        // SAFETY: its content is not needed.
        unsafe { forget(mapping.start(), bytes) };
        assert_eq!(used(mapping.start(), bytes), Some(0));
    }

    #[test]
    fn either_guard_is_made() {
        let mapping = Mapping::new(4 * page()).expect("memory");
        for (place, guards) in [(0, guards()), (2, Guards::Protect)] {
            // SAFETY: a page of the mapping, which no code uses.
            unsafe { guard(mapping.start() + place * page(), guards) }.expect("a guard");
        }
    }
}
