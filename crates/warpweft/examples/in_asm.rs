//! What `cargo xtask asm` counts in machine code: the worker loop of each policy, and what a check of
//! cooperative code adds to a function.
//!
//! The loops of the functions end at an unknown time, so that the compiler leaves each turn a turn. A pool
//! whose policy may be named by the environment has the loops of all policies.

use std::hint::black_box;
use warpweft::{BuildError, Runtime, cooperative};

/// Each function twice: as it is, and cooperative.
macro_rules! twice {
    ($(fn $plain:ident/$checked:ident $arguments:tt -> $output:ty { $($body:tt)* })*) => {$(
        #[inline(never)]
        fn $plain $arguments -> $output { $($body)* }
        #[inline(never)]
        #[cooperative]
        fn $checked $arguments -> $output { $($body)* }
    )*};
}

twice! {
    fn plain_entry/checked_entry(n: u64) -> u64 {
        n.rotate_left(7) ^ n
    }

    fn plain_turn/checked_turn(n: u64) -> u64 {
        let (mut now, mut turns) = (n, 0);
        while now & 0xffff != 0 {
            now ^= now << 13;
            now ^= now >> 7;
            now ^= now << 17;
            turns += 1;
        }
        turns
    }
}

fn main() -> Result<(), BuildError> {
    let n = black_box(88_172_645_463_325_252);
    let turns = Runtime::builder().build()?.block_on(async move {
        assert_eq!(black_box(plain_entry(n)), black_box(checked_entry(n)));
        assert_eq!(black_box(plain_turn(n)), black_box(checked_turn(n)));
        checked_turn(n)
    });
    println!("{turns} turns, with checks and without");
    Ok(())
}
