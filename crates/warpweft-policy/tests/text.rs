//! The text of a policy and its type are the same policy.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

use proptest::prelude::*;
use std::num::NonZeroUsize;
use warpweft_policy::order::{FifoOrder, Mix, MixedOrder, Order, PriorityOrder, SlotOrder};
use warpweft_policy::{
    Fifo, Help, Lifo, Overflow, ParsePolicyError, PolicySpec, Stealing, Victims, Woken, YieldTo,
};
use warpweft_queue::Amount;

fn number(most: usize) -> impl Strategy<Value = NonZeroUsize> {
    (1..=most).prop_map(|number| NonZeroUsize::new(number).expect("not 0"))
}

fn steal() -> impl Strategy<Value = Amount> {
    prop_oneof![
        Just(Amount::One),
        Just(Amount::Half),
        number(1 << 30).prop_map(Amount::AtLeast)
    ]
}

fn victims() -> impl Strategy<Value = Victims> {
    prop_oneof![
        Just(Victims::Random),
        number(1 << 16).prop_map(Victims::Nearest),
        Just(Victims::Topology)
    ]
}

fn overflow() -> impl Strategy<Value = Overflow> {
    prop_oneof![
        Just(Overflow::Grow),
        number(1_000_000).prop_map(Overflow::Retry),
        Just(Overflow::Locked),
        Just(Overflow::LockFree),
        number(256).prop_map(Overflow::Multi),
    ]
}

fn help() -> impl Strategy<Value = Help> {
    prop_oneof![
        Just(Help::None),
        Just(Help::Shed),
        Just(Help::ShedSticky),
        Just(Help::Tickets)
    ]
}

/// What is not the order, for a policy of any order.
type Axes = (Amount, Victims, Help, Overflow, usize, bool, bool);

fn axes() -> impl Strategy<Value = Axes> {
    (
        steal(),
        victims(),
        help(),
        overflow(),
        1..=1usize << 24,
        any::<bool>(),
        any::<bool>(),
    )
}

fn with<O: Order>(
    policy: Stealing<O>,
    (steal, victims, help, overflow, capacity, local, last): Axes,
) -> Stealing<O> {
    policy
        .steal(steal)
        .victims(victims)
        .help(help)
        .overflow(overflow)
        .capacity(capacity)
        .yield_to(if local { YieldTo::Local } else { YieldTo::Global })
        .woken(if last { Woken::Last } else { Woken::Waker })
}

fn policy() -> impl Strategy<Value = PolicySpec> {
    let mix = prop_oneof![
        number(1 << 24).prop_map(Mix::Alternate),
        (1..=99u8).prop_map(Mix::Stochastic),
        number(1 << 24).prop_map(Mix::Reverse),
    ];
    let mixed = |mix| Stealing::with_order(MixedOrder::new(mix).expect("possible"));
    let slotted = |limit| Stealing::with_order(SlotOrder::new(FifoOrder, limit));
    let prioritised = |levels| Stealing::with_order(PriorityOrder::new(FifoOrder, levels));
    prop_oneof![
        axes().prop_map(|axes| PolicySpec::from(with(Fifo::new(), axes))),
        axes().prop_map(|axes| PolicySpec::from(with(Lifo::new(), axes))),
        (mix, axes()).prop_map(move |(mix, axes)| PolicySpec::from(with(mixed(mix), axes))),
        (number(1 << 24), axes()).prop_map(move |(limit, axes)| PolicySpec::from(with(slotted(limit), axes))),
        (number(64), axes())
            .prop_map(move |(levels, axes)| PolicySpec::from(with(prioritised(levels), axes))),
    ]
}

proptest! {
    /// `Debug` names the type and all that the recipe holds.
    #[test]
    fn what_is_printed_is_the_policy(typed in policy()) {
        let read: PolicySpec = typed.to_string().parse().map_err(|error: ParsePolicyError| {
            TestCaseError::fail(error.to_string())
        })?;
        prop_assert_eq!(format!("{:?}", read), format!("{:?}", typed));
    }

    /// Whatever is written, nothing panics, and an error points into the text.
    #[test]
    fn any_text_is_a_policy_or_an_error(text in "(fifo|lifo|slot|[a-z]{0,4})[:+=a-z0-9 é]{0,24}") {
        if let Err(error) = text.parse::<PolicySpec>() {
            prop_assert!(error.position() <= text.len() && text.is_char_boundary(error.position()), "{}", error);
        }
    }
}

#[test]
fn the_example_of_the_documentation() -> Result<(), ParsePolicyError> {
    let text = "lifo+steal=half+victims=nearest:15+overflow=multi:5+yield=global";
    let [fifteen, five] = [15, 5].map(|number| NonZeroUsize::new(number).expect("not 0"));
    let typed = Lifo::new()
        .steal(Amount::Half)
        .victims(Victims::Nearest(fifteen))
        .overflow(Overflow::Multi(five))
        .yield_to(YieldTo::Global);
    let read: PolicySpec = text.parse()?;
    assert_eq!(read.to_string(), typed.to_string());
    assert_eq!(
        read.to_string(),
        "lifo+steal=half+victims=nearest:15+overflow=multi:5+capacity=256+yield=global"
    );
    Ok(())
}
