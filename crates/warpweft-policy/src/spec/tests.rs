//! What a text says, and what is wrong with it.

use super::{ParsePolicyError, PolicySpec};

fn spec(text: &str) -> Result<PolicySpec, ParsePolicyError> {
    text.parse()
}

#[test]
fn every_preset_parses_and_its_full_text_parses_to_itself() -> Result<(), ParsePolicyError> {
    for preset in PolicySpec::presets() {
        let full = preset.spec().to_string();
        assert_eq!(spec(preset.name())?.to_string(), full);
        assert_eq!(spec(&full)?.to_string(), full);
    }
    Ok(())
}

#[test]
fn every_value_is_understood() -> Result<(), ParsePolicyError> {
    let full = spec(" fifo + steal = atleast:10 +overflow=locked+ capacity=128 + yield=global ")?.to_string();
    assert_eq!(
        full,
        "fifo+steal=atleast:10+overflow=locked+capacity=128+yield=global"
    );
    Ok(())
}

/// Each word of the grammar stands for itself; those for a number get one.
#[test]
fn what_the_grammar_lists_is_understood() {
    let mut understood = 0;
    for line in PolicySpec::grammar() {
        let (start, values) = match line.split_once("= takes one of: ") {
            Some((name, values)) => (format!("fifo+{name}="), values),
            None => match line.split_once("an order is one of: ") {
                Some((_, orders)) => (String::new(), orders),
                None => continue,
            },
        };
        let values = values.replace("or a number of looks, from 1 to 65536", "65536");
        for value in values.split(", ") {
            let mut text = format!("{start}{value}");
            for word in [":N", ":K", ":PERCENT", ":LEVELS"] {
                text = text.replace(word, ":4");
            }
            text = text.replace("(ORDER)", "(lifo)");
            let parsed = text.parse::<PolicySpec>();
            let needs_a_feature = |error: &ParsePolicyError| error.to_string().contains("needs the feature");
            assert!(
                parsed.as_ref().map_or_else(needs_a_feature, |_| true),
                "{text}: {parsed:?}"
            );
            understood += 1;
        }
    }
    assert!(understood >= 30, "{understood}");
}

#[cfg(feature = "all-policies")]
#[test]
fn errors_name_the_place_and_what_would_be_right() {
    for (text, position, part) in [
        ("", 0, "fifo, fifo-behind, chain, lifo"),
        ("filo", 0, "`filo` is not an order"),
        ("slot:", 5, "is not a number of tasks"),
        ("stochastic:100", 11, "from 1 to 99"),
        ("reverse:0", 8, "a number of tasks of 0"),
        ("priority:65", 9, "from 1 to 64"),
        ("priority:3(lifo", 11, "`(lifo` has no end"),
        ("priority:3(deque)", 11, "`deque` is not an order of a level"),
        (
            "priority:3(priority:2)",
            11,
            "`priority:2` is not an order of a level",
        ),
        (
            "priority:3(lifo-behind)",
            11,
            "`lifo-behind` is not an order of a level; a queue behind is for tasks without priorities; a level has",
        ),
        ("priority:3(fifo-behind)", 11, "for tasks without priorities"),
        ("priority:3(shortest)", 11, "it has levels of its own"),
        (
            "priority:3(priority:3(fifo))",
            11,
            "`priority:3(fifo)` is not an order of a level",
        ),
        (
            "priority:3()",
            11,
            "the order of the levels is missing; a level has one of these orders: fifo, chain, lifo, slot:N, alternate:N",
        ),
        (
            "priority:3(filo)",
            11,
            "`filo` is not an order of a level; a level has one of these",
        ),
        (
            "priority:3(lifo+steal=one)",
            11,
            "`(lifo` has no end; options go behind the bracket: `priority:3(lifo)+steal=one`",
        ),
        (
            "priority:3( lifo + steal=one ) + yield=local",
            12,
            "`priority:3( lifo)+steal=one + yield=local`",
        ),
        (
            "priority:3(lifo+steal=one",
            11,
            "a level's order is in round brackets",
        ),
        (
            "lifo+priority:3",
            5,
            "a second order `priority:3` contradicts `lifo`; the order of the levels is in brackets: `priority:3(lifo)`",
        ),
        ("priority:0/10 + slot:3", 16, "`priority:0/10(slot:3)`"),
        ("lifo-behind+priority:3", 12, "an option is one of"),
        ("priority:3( slot:0 )", 17, "a number of tasks of 0"),
        ("priority:3(go)", 11, "fifo, chain, lifo, slot:N"),
        ("priority:0(lifo)", 9, "a number of levels of 0"),
        ("priority:0/0", 9, "shares of 0 % together"),
        ("priority:60/41", 9, "shares of 101 % together"),
        ("priority:60/many", 9, "is not a share for each level"),
        ("priority:60/300", 9, "is not a share for each level"),
        ("heap:3", 0, "slot:N, alternate:N"),
        ("fifo+slot:3", 5, "a second order `slot:3` contradicts `fifo`"),
        ("fifo+", 5, "an option is missing"),
        ("fifo+lifo", 5, "contradicts `fifo`"),
        ("fifo+steal=two", 11, "one, half, atleast:K"),
        ("fifo+steal=one:1", 11, "one, half, atleast:K"),
        ("fifo+steal=atleast:0", 19, "a least amount of 0"),
        ("fifo+steal=atleast", 18, "`` is not a least amount"),
        ("fifo+victims=nearest:many", 21, "a number from 1 to"),
        ("fifo+victims=all", 13, "random, nearest:N, topology, adaptive"),
        ("adaptive:0", 9, "a number of tasks of 0"),
        ("adaptive:many", 9, "is not a number of tasks"),
        ("adaptive+lifo", 9, "contradicts `adaptive`"),
        ("fifo+steal=adaptive:2", 11, "atleast:K, adaptive"),
        ("fifo+help=me", 10, "none, shed, shed-sticky, tickets"),
        (
            "fifo+overflow=multi:257",
            20,
            "a number of queues of 257 is too large",
        ),
        ("fifo+overflow=retry:0", 20, "a number of retries of 0"),
        ("fifo+capacity=0", 14, "from 1 to"),
        ("fifo+capacity=9999999999", 14, "too large"),
        ("fifo+capacity=-3", 14, "is not a capacity"),
        ("fifo+overflow=growl", 14, "grow, retry:N, locked"),
        ("fifo+ steal=one + steal=half", 18, "second time (first at 6)"),
        ("fifo+yield=", 11, "local, global"),
        ("fifo+woken=first", 11, "waker, last"),
        ("fifo+rebalance=on", 15, "off, or a number of looks"),
        ("fifo+rebalance=", 15, "`` is unknown"),
        ("fifo+rebalance=0", 15, "a number of looks of 0"),
        ("lifo+rebalance=65537", 15, "from 1 to 65536"),
        (
            "fifo+speed=9",
            5,
            "steal=, victims=, help=, overflow=, capacity=, yield=, woken=, rebalance=",
        ),
        ("fifo+größe", 5, "is not an option"),
        (
            "fifo-one+steal=half",
            9,
            "contradicts `fifo-one`, which has steal=one",
        ),
        (
            "fifo-one + steal=half",
            11,
            "begin with the order: `fifo+steal=half`",
        ),
        ("adaptive+victims=random", 9, "`adaptive:64+victims=random`"),
        ("fifo-retry+capacity=64", 11, "which has capacity=128"),
        ("fifo-retry+overflow=retry:7", 11, "which has overflow=retry:1024"),
        ("shed-sticky+help=shed", 12, "which has help=shed-sticky"),
    ] {
        fails(text, position, part);
    }
}

#[cfg(feature = "all-policies")]
#[test]
fn errors_of_pieces_name_the_place_and_what_would_be_right() {
    for (text, position, part) in [
        ("go+rebalance=16", 3, "`go` is one piece"),
        ("go+steal=one", 3, "`go` is one piece, and has no options"),
        ("tokio+capacity=128", 6, "`tokio` is one piece"),
        ("libfibre+lifo", 9, "`libfibre` is one piece"),
        ("negele:1", 7, "1 levels of priority; there may be 2 to 32"),
        ("negele:33", 7, "there may be 2 to 32"),
        ("negele:many", 7, "`many` is not a number of levels"),
        ("negele:99999999999999999999999", 7, "is not a number of levels"),
        ("negele+levels=3", 7, "has no options"),
        ("negele-local:0", 13, "2 to 32"),
        ("negele-local+balance=0", 21, "a number from 1 on"),
        ("negele-local+balance=1+balance=2", 23, "a second time"),
        (
            "negele-local+steal=one",
            13,
            "has these options, each once: balance=",
        ),
        ("fifo+negele:3", 5, "contradicts `fifo`"),
        ("cforall+lanes=17", 14, "there may be 1 to 16"),
        ("cforall+every=1", 14, "it is 2 or more"),
        ("cforall+age=99999999999", 12, "2^0 to 2^32"),
        ("cforall+far=257", 12, "0 to 256"),
        ("cforall+weight=0", 15, "1 to 16"),
        ("cforall+clock=never", 14, "`never` is not a number of pops"),
        ("cforall+capacity=0", 17, "from 1 to"),
        (
            "cforall+order=lifo",
            8,
            "lanes=, every=, age=, far=, weight=, clock=, capacity=",
        ),
        ("cforall+lanes=1+lanes=1", 16, "a second time"),
        ("prows+steal=one", 6, "capacity="),
        ("prows+capacity=0", 15, "from 1 to"),
        ("parsimonious+capacity=2+capacity=2", 24, "a second time"),
        ("edf+slack=0", 10, "a slack of 0 ms"),
        ("edf+slack=many", 10, "is not a number of milliseconds"),
        ("edf+steal=one", 4, "slack="),
        ("go:3", 0, "`go:3` is not an order"),
    ] {
        fails(text, position, part);
    }
}

#[test]
fn what_is_not_compiled_names_its_feature() {
    let policies = ["lifo", "deque", "slot", "slot:2+steal=one", "priority:3"];
    let all = [
        "chain",
        "adaptive",
        "alternate:2",
        "stochastic:80",
        "reverse",
        "cforall+lanes=2",
        "negele:4",
        "negele-local:3 + balance=16",
        "go",
        " go ",
        "tokio",
        "libfibre",
        "prows+capacity=2",
        "parsimonious",
        "edf+slack=5",
        "priority:3(lifo)",
        "priority:0/10(slot:3)",
    ];
    let with =
        |texts: &[&'static str], feature| texts.iter().map(|&text| (text, feature)).collect::<Vec<_>>();
    let is_there = |feature: &str| match feature {
        "policies" => cfg!(feature = "policies"),
        _ => cfg!(feature = "all-policies"),
    };
    for (text, feature) in [with(&policies, "policies"), with(&all, "all-policies")].concat() {
        let first = text.trim().split('+').next().unwrap_or_default().trim();
        if is_there(feature) {
            assert!(spec(text).is_ok(), "{text}");
            continue;
        }
        let problem = format!("`{first}` needs the feature `{feature}` of `warpweft`; without it there are");
        fails(text, usize::from(text.starts_with(' ')), &problem);
        assert!(PolicySpec::presets().all(|preset| preset.name() != first));
    }
    for text in ["fifo", "fifo-one+steal=one", "nearest", "tickets"] {
        assert!(spec(text).is_ok(), "it is always there");
    }
}

fn fails(text: &str, position: usize, part: &str) {
    let error = spec(text).expect_err(text);
    assert_eq!(error.position(), position, "{error}");
    assert!(error.to_string().contains(part), "{error}");
}

/// What a name says may be said once more.
#[cfg(feature = "policies")]
#[test]
fn what_a_name_says_may_be_repeated_and_added_to() -> Result<(), ParsePolicyError> {
    for (text, full) in [
        (
            "fifo-one+steal=one+yield=global",
            "fifo+steal=one+overflow=grow+capacity=256+yield=global",
        ),
        (
            "slot+overflow=locked",
            "slot:3+steal=half+overflow=locked+capacity=256+yield=local",
        ),
        (
            "shed+help=shed+capacity=64",
            "fifo+steal=half+help=shed+overflow=grow+capacity=64+yield=local",
        ),
        (
            "slot + rebalance=16",
            "slot:3+steal=half+overflow=grow+capacity=256+yield=local+rebalance=16",
        ),
        (
            "fifo+rebalance=off",
            "fifo+steal=half+overflow=grow+capacity=256+yield=local",
        ),
        (
            "lifo+rebalance=4",
            "lifo+steal=half+overflow=grow+capacity=256+yield=global+rebalance=4",
        ),
    ] {
        assert_eq!(spec(text)?.to_string(), full, "{text}");
        assert_eq!(spec(full)?.to_string(), full);
    }
    Ok(())
}

#[cfg(feature = "all-policies")]
#[test]
fn what_is_usual_for_a_piece_is_not_printed() -> Result<(), ParsePolicyError> {
    for (text, full) in [
        ("negele:4", "negele"),
        ("negele-local:3 + balance=16", "negele-local:3+balance=16"),
        ("cforall+far=0+lanes=1", "cforall+lanes=1+far=0"),
        ("cforall+lanes=2", "cforall"),
        ("edf + slack=100", "edf"),
        ("edf+slack=20", "edf+slack=20"),
    ] {
        assert_eq!(spec(text)?.to_string(), full, "{text}");
        assert_eq!(spec(full)?.to_string(), full);
    }
    Ok(())
}

#[cfg(feature = "all-policies")]
#[test]
fn levels_combine_with_every_order_and_with_shares() -> Result<(), ParsePolicyError> {
    let axes = "steal=half+overflow=grow+capacity=256+yield";
    for inner in [
        "lifo",
        "chain",
        "slot:3",
        "alternate:2",
        "stochastic:80",
        "reverse:4",
        "adaptive:64",
    ] {
        for levels in ["3", "64", "0/10", "60/30/10"] {
            let text = format!("priority:{levels}({inner})");
            let full = format!("{text}+{axes}=global");
            assert_eq!(spec(&text)?.to_string(), full);
            assert_eq!(spec(&full)?.to_string(), full);
        }
    }
    for (text, full) in [
        ("priority:3(fifo)", "priority:3"),
        ("priority: 0 / 0 / 10 ( fifo )", "priority:0/0/10"),
        ("priority:3", "priority:3"),
    ] {
        assert_eq!(spec(text)?.to_string(), format!("{full}+{axes}=local"));
    }
    Ok(())
}

/// A text may come from the environment, and threads may have small stacks.
#[test]
fn brackets_without_end_are_an_error() {
    let deep = "priority:1(".repeat(100_000);
    for text in [deep.clone(), deep + "fifo" + &")".repeat(100_000)] {
        let error = text.parse::<PolicySpec>().expect_err("no such policy");
        assert!(error.position() <= 11, "{}", error.position());
    }
}
