//! The order of rayon's deques keeps all duties but one, which its document tells: an old task may wait for
//! ever.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

use warpweft_conformance::{
    Duty, Verdict, evictions_are_honest, extracts_are_honest, nothing_lost, nothing_lost_in_transfers,
    nothing_lost_with_threads, nothing_starves, panics_end_cleanly, rest_leaves_nothing, scan_is_exhaustive,
    wakes_are_honest,
};
use warpweft_policy::order::StackOrder;
use warpweft_policy::{Amount, Stealing};

const NAME: &str = "stack";

fn stack(capacity: usize) -> Stealing<StackOrder> {
    Stealing::with_order(StackOrder)
        .steal(Amount::One)
        .capacity(capacity)
}

#[test]
fn it_keeps_the_duties() -> Verdict {
    for capacity in [2, 256] {
        let policy = stack(capacity);
        nothing_lost(NAME, &policy)?;
        nothing_lost_with_threads(NAME, &policy)?;
        nothing_lost_in_transfers(NAME, &policy)?;
        scan_is_exhaustive(NAME, &policy)?;
        extracts_are_honest(NAME, &policy)?;
        evictions_are_honest(NAME, &policy)?;
        rest_leaves_nothing(NAME, &policy)?;
        wakes_are_honest(NAME, &policy)?;
        panics_end_cleanly(NAME, move || stack(capacity))?;
    }
    Ok(())
}

#[test]
fn an_old_task_may_wait_for_ever() {
    let broken = nothing_starves(NAME, &stack(256)).expect_err("newer tasks go first");
    assert_eq!(broken.duty(), Duty::NothingStarves, "{broken}");
}
