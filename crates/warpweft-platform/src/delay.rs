//! Named delay points, where a preempted thread does the most harm.
//!
//! A lock-free protocol is most fragile between the store that publishes something and the next access.
//! `point` marks such steps. In the product it does nothing. With `--cfg warpweft_chaos` it now and then
//! yields or sleeps, so that a stress test on two cores meets the interleavings of a machine with two
//! hundred.

/// Marks a step where a delay is interesting. `name` is the protocol step that was just done.
#[inline(always)]
pub fn point(name: &'static str) {
    #[cfg(warpweft_chaos)]
    chaos::delay(name);
    #[cfg(not(warpweft_chaos))]
    let _ = name;
}

#[cfg(warpweft_chaos)]
mod chaos {
    use std::time::Duration;

    pub(super) fn delay(_name: &'static str) {
        match fastrand::u32(..1024) {
            0..2 => std::thread::sleep(Duration::from_micros(fastrand::u64(1..200))),
            2..64 => std::thread::yield_now(),
            64..128 => (0..fastrand::u32(..500)).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
    }
}
