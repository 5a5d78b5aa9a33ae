//! Hints to the cache.

/// Asks the processor to load the line at `address` into its first-level cache. It is a hint: the address may
/// be anything, nothing is read, and without such an instruction nothing happens.
#[inline]
pub fn prefetch(address: *const u8) {
    hint::<false>(address);
}

/// Does the same for a line that will be written to: it is taken from the other caches.
#[inline]
pub fn prefetch_to_write(address: *const u8) {
    hint::<true>(address);
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn hint<const WRITE: bool>(address: *const u8) {
    use core::arch::asm;
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    if WRITE {
        // SAFETY: every x86-64 has it, or executes it as a no-op. It does not fault, and touches nothing that
        // the compiler relies on.
        unsafe { asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly)) };
    } else {
        // SAFETY: every x86-64 has it, and it does not fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline]
fn hint<const WRITE: bool>(address: *const u8) {
    use core::arch::asm;
    if WRITE {
        // SAFETY: every AArch64 has it. It does not fault, and touches nothing that the compiler relies on.
        unsafe { asm!("prfm pstl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly)) };
    } else {
        // SAFETY: as above.
        unsafe { asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly)) };
    }
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[inline]
fn hint<const WRITE: bool>(_address: *const u8) {}
