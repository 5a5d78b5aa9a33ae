//! Counts the basic blocks that the program executes, if the compiler was told to report them.
//!
//! A basic block is a piece of straight code that ends with a jump. With the flags below the compiler calls a
//! function of this file in each of them, after it has optimised the code. So the time between two accesses
//! follows from the code that ran between them. Without the flags it is a constant.
//!
//! ```text
//! RUSTFLAGS="--cfg warpweft_sim --cfg warpweft_sim_blocks -C passes=sancov-module
//!            -C llvm-args=-sanitizer-coverage-level=2 -C llvm-args=-sanitizer-coverage-prune-blocks=0
//!            -C llvm-args=-sanitizer-coverage-trace-pc-guard" cargo build --target x86_64-unknown-linux-gnu
//! ```
//!
//! They are for the target alone, and so `--target` must be given: build scripts and macros have no such
//! function.
//!
//! A processor runs several blocks at once while it guesses right which one comes next. So wrong guesses
//! count, too, by a predictor as processors have them. After a random choice it guesses wrong, and it learns
//! what repeats.
//!
//! ```text
//!   this block, those before it ──▶ long table ── sure ─────────▶ guess
//!   this block ───────────────────▶ short table ── otherwise ───▶ guess
//! ```
//!
//! The simulator's own blocks are not counted: between [`pause`] and [`go_on`] none is, also where such a
//! stretch lies within another one. A block that counts by mistake does harm even if nobody is charged for
//! it: the predictor learns from it, and the simulator's way through its tables depends on the host. Those of
//! the host's other threads would be counted, so they should sleep while a simulation runs.

/// True if the program reports its blocks.
pub(crate) const COUNTED: bool = cfg!(warpweft_sim_blocks);

/// What ran, and where the calling thread was.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Executed {
    /// True if blocks counted.
    #[cfg(warpweft_sim_blocks)]
    counted: bool,
    /// The number of blocks.
    pub(crate) blocks: u64,
    /// How often another one came than the predictor guessed.
    pub(crate) wrong: u64,
    /// The last block, and a mixture of those before it.
    #[cfg(any(test, warpweft_sim_blocks))]
    last: u32,
    #[cfg(any(test, warpweft_sim_blocks))]
    history: u64,
}

/// Stops counting, and returns what ran since the last call; nothing in a program that does not report it.
#[inline(always)]
pub(crate) fn pause() -> Executed {
    #[cfg(warpweft_sim_blocks)]
    {
        reports::pause()
    }
    #[cfg(not(warpweft_sim_blocks))]
    {
        Executed::default()
    }
}

/// Returns true if blocks count just now. It is false in a program that does not report them.
#[inline]
pub(crate) fn count() -> bool {
    #[cfg(warpweft_sim_blocks)]
    {
        reports::counts()
    }
    #[cfg(not(warpweft_sim_blocks))]
    {
        false
    }
}

/// Counts again if blocks counted before, with the history that the calling thread had.
#[inline]
pub(crate) fn go_on(before: Executed) {
    #[cfg(warpweft_sim_blocks)]
    reports::go_on(before);
    #[cfg(not(warpweft_sim_blocks))]
    let _ = before;
}

impl Executed {
    /// The start of a thread whose blocks count.
    pub(crate) fn start() -> Self {
        Self {
            #[cfg(warpweft_sim_blocks)]
            counted: true,
            ..Self::default()
        }
    }

    /// The same place of the program, and nothing that ran.
    #[inline]
    pub(crate) fn place(mut self) -> Self {
        (self.blocks, self.wrong) = (0, 0);
        self
    }
}

/// Calls `f`, whose blocks are not those of the program.
#[inline]
pub(crate) fn uncounted<R>(f: impl FnOnce() -> R) -> R {
    let before = pause();
    let result = f();
    go_on(before);
    result
}

#[cfg(any(test, warpweft_sim_blocks))]
mod predictor {
    use super::Executed;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    /// Entries of the short table: one for each block of a large program.
    const SHORT: usize = 1 << 19;
    /// Entries of the long one. A loop has hundreds of histories, and two that share an entry cost a wrong
    /// guess in each round: among these entries there is hardly such a pair.
    const LONG: usize = 1 << 20;
    /// From this count on an entry of the long table is sure.
    const SURE: u32 = 2;
    /// The count of an entry, how often it was right of late, is its lowest two bits.
    const COUNT: u32 = 3;

    /// The block that comes next, with a count below it. Only threads of the host that run side by side could
    /// disturb each other, and a simulation runs on one.
    struct Entry(AtomicU32);

    impl Entry {
        fn guess(&self) -> (u32, u32) {
            let entry = self.0.load(Relaxed);
            (entry >> 2, entry & COUNT)
        }

        fn learn(&self, next: u32) {
            let (guess, count) = self.guess();
            let entry = if guess == next {
                guess << 2 | (count + 1).min(COUNT)
            } else if count == 0 {
                next << 2
            } else {
                guess << 2 | (count - 1)
            };
            self.0.store(entry, Relaxed);
        }
    }

    pub(super) struct Predictor {
        short: [Entry; SHORT],
        long: [Entry; LONG],
    }

    impl Predictor {
        pub(super) const fn new() -> Self {
            Self {
                short: [const { Entry(AtomicU32::new(0)) }; SHORT],
                long: [const { Entry(AtomicU32::new(0)) }; LONG],
            }
        }

        /// Goes on to a block. Returns true if the guess was another one.
        #[inline(always)]
        pub(super) fn step(&self, at: &mut Executed, next: u32) -> bool {
            let short = &self.short[at.last as usize % SHORT];
            let mixed = (at.history ^ u64::from(at.last)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let long = &self.long[(mixed >> 40) as usize % LONG];
            let guess = match long.guess() {
                (guess, SURE..) => guess,
                _ => short.guess().0,
            };
            short.learn(next);
            long.learn(next);
            // It is as long as a word: the last sixteen blocks.
            at.history = at.history << 4 ^ u64::from(at.last);
            at.last = next;
            guess != next
        }
    }

    #[cfg(test)]
    mod tests {
        use super::{Executed, Predictor};

        /// Returns how many of the last thousand guesses were wrong.
        fn wrong(blocks: impl Iterator<Item = u32>) -> usize {
            static PREDICTORS: [Predictor; 3] = [const { Predictor::new() }; 3];
            static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
            let new = &PREDICTORS[NEXT.fetch_add(1, super::Relaxed)];
            let mut at = Executed::default();
            let guesses: Vec<bool> = blocks
                .take(100_000)
                .map(|block| new.step(&mut at, block))
                .collect();
            guesses.iter().rev().take(1000).filter(|wrong| **wrong).count()
        }

        #[test]
        fn what_repeats_is_learnt_and_chance_is_not() {
            assert_eq!(wrong((0..).map(|n| n % 7 + 1)), 0, "a loop");
            // The second visit of 1 goes elsewhere than the first one.
            assert_eq!(wrong([1, 2, 1, 3].into_iter().cycle()), 0, "a pattern");
            let mut random = fastrand::Rng::with_seed(1);
            // Every second block is one of two by chance.
            let chance = (0..).map(|n| if n % 2 == 0 { 1 } else { random.u32(2..4) });
            let wrong = wrong(chance);
            assert!((150..350).contains(&wrong), "{wrong} of 500 by chance");
        }
    }
}

#[cfg(warpweft_sim_blocks)]
mod reports {
    use super::Executed;
    use super::predictor::Predictor;
    #[cfg(target_arch = "x86_64")]
    use std::arch::asm;
    use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

    static PREDICTOR: Predictor = Predictor::new();
    static BLOCKS: AtomicU64 = AtomicU64::new(0);
    static WRONG: AtomicU64 = AtomicU64::new(0);
    static LAST: AtomicU32 = AtomicU32::new(0);
    static HISTORY: AtomicU64 = AtomicU64::new(0);
    /// Where the compiler's numbers of blocks begin.
    static FIRST: AtomicUsize = AtomicUsize::new(0);
    /// True if blocks count just now. On x86-64 it is read and written without a call: what is called may
    /// report its blocks, and so call the reader. Elsewhere the program must be optimised, so that nothing is
    /// called.
    static COUNTS: AtomicBool = AtomicBool::new(false);

    #[inline(always)]
    pub(super) fn counts() -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            let counts: u32;
            // SAFETY: it reads a byte that is there for ever, as a relaxed atomic access does.
            unsafe {
                asm!(
                    "movzx {0:e}, byte ptr [rip + {1}]",
                    out(reg) counts,
                    sym COUNTS,
                    options(nostack, preserves_flags)
                );
            }
            counts != 0
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            COUNTS.load(Relaxed)
        }
    }

    #[inline(always)]
    fn set_counts(counts: bool) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: it writes 0 or 1 to a byte that is there for ever, as a relaxed atomic access does.
        unsafe {
            asm!(
                "mov byte ptr [rip + {1}], {0}",
                in(reg_byte) counts as u8,
                sym COUNTS,
                options(nostack, preserves_flags)
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        COUNTS.store(counts, Relaxed);
    }

    #[inline(always)]
    pub(super) fn pause() -> Executed {
        let counted = counts();
        set_counts(false);
        let executed = Executed {
            counted,
            blocks: BLOCKS.load(Relaxed),
            wrong: WRONG.load(Relaxed),
            last: LAST.load(Relaxed),
            history: HISTORY.load(Relaxed),
        };
        BLOCKS.store(0, Relaxed);
        WRONG.store(0, Relaxed);
        executed
    }

    #[inline(always)]
    pub(super) fn go_on(at: Executed) {
        BLOCKS.store(at.blocks, Relaxed);
        WRONG.store(at.wrong, Relaxed);
        LAST.store(at.last, Relaxed);
        HISTORY.store(at.history, Relaxed);
        set_counts(at.counted);
    }

    // SAFETY: the compiler's calls expect this name and signature, and no library of this build has it: the
    // flags that ask for the calls come with the cfg.
    #[unsafe(no_mangle)]
    extern "C" fn __sanitizer_cov_trace_pc_guard(guard: *mut u32) {
        if !counts() {
            return;
        }
        // What is called from here may report its own blocks, and they do not count.
        set_counts(false);
        let block = (guard.addr() - FIRST.load(Relaxed)) / size_of::<u32>();
        let mut at = Executed {
            last: LAST.load(Relaxed),
            history: HISTORY.load(Relaxed),
            ..Executed::default()
        };
        let wrong = PREDICTOR.step(&mut at, block as u32);
        LAST.store(at.last, Relaxed);
        HISTORY.store(at.history, Relaxed);
        // No read-modify-write: it would take longer than most blocks.
        BLOCKS.store(BLOCKS.load(Relaxed) + 1, Relaxed);
        WRONG.store(WRONG.load(Relaxed) + u64::from(wrong), Relaxed);
        set_counts(true);
    }

    // SAFETY: as above. The compiler calls it before `main`, perhaps often, with the same range each time.
    #[unsafe(no_mangle)]
    extern "C" fn __sanitizer_cov_trace_pc_guard_init(first: *mut u32, _end: *mut u32) {
        FIRST.store(first.addr(), Relaxed);
    }
}
