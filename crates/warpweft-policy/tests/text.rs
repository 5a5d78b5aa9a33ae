//! The text of a policy and its type are the same policy.
#![cfg(all(feature = "all-policies", not(any(warpweft_loom, warpweft_shuttle))))]

use proptest::prelude::*;
use std::num::NonZeroUsize;
use warpweft_policy::order::{FifoOrder, Mix, MixedOrder, Order, PriorityOrder, SlotOrder};
use warpweft_policy::{
    Cforall, Chained, Fifo, Help, Lifo, Negele, NegeleLocal, Overflow, ParsePolicyError, PolicySpec,
    Rebalance, StealAmount, Stealing, Victims, Woken, YieldTo,
};
use warpweft_queue::Amount;

fn number(most: usize) -> impl Strategy<Value = NonZeroUsize> {
    (1..=most).prop_map(|number| NonZeroUsize::new(number).expect("not 0"))
}

fn steal() -> impl Strategy<Value = StealAmount> {
    prop_oneof![
        Just(Amount::One.into()),
        Just(Amount::Half.into()),
        number(1 << 30).prop_map(|least| Amount::AtLeast(least).into()),
        Just(StealAmount::Adaptive),
    ]
}

fn victims() -> impl Strategy<Value = Victims> {
    prop_oneof![
        Just(Victims::Random),
        number(1 << 16).prop_map(Victims::Nearest),
        Just(Victims::Topology),
        Just(Victims::Adaptive)
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
type Axes = (StealAmount, Victims, Help, Overflow, usize, bool, bool, Rebalance);

fn axes() -> impl Strategy<Value = Axes> {
    (
        steal(),
        victims(),
        help(),
        overflow(),
        1..=1usize << 24,
        any::<bool>(),
        any::<bool>(),
        prop_oneof![Just(Rebalance::Off), number(1 << 16).prop_map(Rebalance::Every)],
    )
}

fn with<O: Order>(
    policy: Stealing<O>,
    (steal, victims, help, overflow, capacity, local, last, level): Axes,
) -> Stealing<O> {
    policy
        .steal(steal)
        .victims(victims)
        .help(help)
        .overflow(overflow)
        .capacity(capacity)
        .yield_to(if local { YieldTo::Local } else { YieldTo::Global })
        .woken(if last { Woken::Last } else { Woken::Waker })
        .rebalance(level)
}

fn piece() -> impl Strategy<Value = PolicySpec> {
    let constants = (
        1..=16usize,
        2..100u32,
        0..=32u32,
        0..=256u32,
        1..=16u32,
        1..100u32,
        1..1000usize,
    );
    let cforall = |(lanes, every, age, far, weight, clock, capacity)| {
        let policy = Cforall::new().lanes(lanes).every(every).age_log2(age).far(far);
        PolicySpec::from(policy.weight(weight).clock_every(clock).capacity(capacity))
    };
    prop_oneof![
        constants.prop_map(cforall),
        (2..=32usize).prop_map(|levels| PolicySpec::from(Negele::new().levels(levels))),
        (2..=32usize, 1..=u32::MAX).prop_map(|(levels, balance)| PolicySpec::from(
            NegeleLocal::new().levels(levels).balance(balance)
        )),
    ]
}

fn policy() -> impl Strategy<Value = PolicySpec> {
    let mix = prop_oneof![
        number(1 << 24).prop_map(Mix::Alternate),
        (1..=99u8).prop_map(Mix::Stochastic),
        number(1 << 24).prop_map(Mix::Reverse),
        number(1 << 24).prop_map(Mix::Adaptive),
    ];
    let mixed = |mix| Stealing::with_order(MixedOrder::new(mix).expect("possible"));
    let slotted = |limit| Stealing::with_order(SlotOrder::new(FifoOrder, limit));
    let prioritised = |levels| Stealing::with_order(PriorityOrder::new(FifoOrder, levels));
    prop_oneof![
        axes().prop_map(|axes| PolicySpec::from(with(Fifo::new(), axes))),
        axes().prop_map(|axes| PolicySpec::from(with(Chained::new(), axes))),
        axes().prop_map(|axes| PolicySpec::from(with(Lifo::new(), axes))),
        (mix, axes()).prop_map(move |(mix, axes)| PolicySpec::from(with(mixed(mix), axes))),
        (number(1 << 24), axes()).prop_map(move |(limit, axes)| PolicySpec::from(with(slotted(limit), axes))),
        (number(64), axes())
            .prop_map(move |(levels, axes)| PolicySpec::from(with(prioritised(levels), axes))),
    ]
}

/// Fails unless the text of the policy is read as the same policy. `Debug` names the type and all that the
/// recipe holds.
fn is_read_as_printed(typed: &PolicySpec) -> Result<(), TestCaseError> {
    let read: PolicySpec = typed
        .to_string()
        .parse()
        .map_err(|error: ParsePolicyError| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(format!("{:?}", read), format!("{:?}", typed));
    Ok(())
}

proptest! {
    #[test]
    fn what_is_printed_is_the_piece(typed in piece()) {
        is_read_as_printed(&typed)?;
    }
}

proptest! {
    #[test]
    fn what_is_printed_is_the_policy(typed in policy()) {
        is_read_as_printed(&typed)?;
    }

    /// Whatever is written, nothing panics, and an error points into the text.
    #[test]
    fn any_text_is_a_policy_or_an_error(text in "(fifo|lifo|chain|slot|cforall|negele|[a-z]{0,4})[:+=a-z0-9 é]{0,24}") {
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

#[test]
fn the_policy_that_learns_is_put_together_from_what_learns() -> Result<(), ParsePolicyError> {
    let every = NonZeroUsize::new(64).expect("not 0");
    let typed = Stealing::with_order(MixedOrder::new(Mix::Adaptive(every)).expect("possible"))
        .steal(StealAmount::Adaptive)
        .victims(Victims::Adaptive);
    let full = "adaptive:64+steal=adaptive+victims=adaptive+overflow=grow+capacity=256+yield=global";
    assert_eq!(typed.to_string(), full);
    assert_eq!("adaptive".parse::<PolicySpec>()?.to_string(), full);
    // The parts by themselves, in others.
    let read: PolicySpec = "fifo+steal=adaptive+victims=adaptive".parse()?;
    assert_eq!(
        read.to_string(),
        "fifo+steal=adaptive+victims=adaptive+overflow=grow+capacity=256+yield=local"
    );
    let read: PolicySpec = "adaptive:64+steal=one+yield=local".parse()?;
    assert_eq!(
        read.to_string(),
        "adaptive:64+steal=one+overflow=grow+capacity=256+yield=local"
    );
    Ok(())
}
