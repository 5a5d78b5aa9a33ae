//! The programs, with their sizes and their operations.

use super::treesum;
use crate::prelude::*;

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// See `fib`.
    Fib,
    /// See `sorts`.
    Quicksort,
    /// See `sorts`.
    Mergesort,
    /// See `matmul`.
    Matmul,
    /// See `nbody`.
    Nbody,
    /// See `treesum`.
    Treesum,
}

/// A program as users see it.
pub(super) struct Entry {
    /// The program.
    pub(super) which: Which,
    /// Its name.
    pub(super) name: &'static str,
    /// The unit of operations.
    unit: &'static str,
    /// The meaning of `n`.
    size: &'static str,
    /// The least `n`.
    pub(super) least: u64,
    /// The greatest `n`.
    most: u64,
    /// The `n` that is taken when none is named.
    pub(super) usual: u64,
    /// The `n` that shows that it works, and nothing else.
    smoke: u64,
}

impl Entry {
    const fn new(
        which: Which,
        name: &'static str,
        [unit, size]: [&'static str; 2],
        [least, most, usual, smoke]: [u64; 4],
    ) -> Self {
        Self {
            which,
            name,
            unit,
            size,
            least,
            most,
            usual,
            smoke,
        }
    }
}

/// The programs, the default one first: unit and size; least, most, usual and smallest `n`.
pub(super) const PROGRAMS: [Entry; 6] = [
    Entry::new(
        Which::Fib,
        "fib",
        ["joins", "which Fibonacci number"],
        [2, 50, 34, 18],
    ),
    Entry::new(
        Which::Quicksort,
        "quicksort",
        ["elements", "elements"],
        [1, 100_000_000, 1_000_000, 20_000],
    ),
    Entry::new(
        Which::Mergesort,
        "mergesort",
        ["elements", "elements"],
        [1, 100_000_000, 1_000_000, 20_000],
    ),
    Entry::new(
        Which::Matmul,
        "matmul",
        ["multiply-adds", "rows and columns"],
        [1, 4096, 512, 100],
    ),
    Entry::new(Which::Nbody, "nbody", ["pairs", "bodies"], [1, 50_000, 4000, 200]),
    Entry::new(
        Which::Treesum,
        "treesum",
        ["nodes", "nodes"],
        [1, 10_000_000, 100_000, 1000],
    ),
];

/// The parameters.
pub(crate) const PARAMS: &[Param] = params! {
    Param::word("program", "fib", &["fib", "quicksort", "mergesort", "matmul", "nbody", "treesum"],
        "what is run");
    Param::number("n", "0", 0, 100_000_000, "size of the problem; 0: the usual one of the program");
    Param::number("sums", "0", 0, 100_000_000,
        "treesum: how often the tree is summed up in a run; 0: as often as makes 20m nodes");
    Param::word("form", "cx", &["cx", "free"],
        "warpweft: whether branches hand the right to fork down (cx) or each join looks for it, as rayon's \
         does (free); no other has both");
};

/// The variants: the programs.
pub(crate) const VARIANTS: &[Variant] = variants! {
    Variant::new("fib", &[("program", "fib")],
        "fib(n) with a join at every call, n = 34; no cut-off (the default)");
    Variant::new("quicksort", &[("program", "quicksort")],
        "n = 1m random u64 in place, ranges up to 1024 by sort_unstable");
    Variant::new("mergesort", &[("program", "mergesort")],
        "n = 1m random u64 with a buffer, ranges up to 1024 by sort_unstable; merges are sequential");
    Variant::new("matmul", &[("program", "matmul")],
        "product of two n x n matrices of f64, n = 512, halved down to 64 x 64");
    Variant::new("nbody", &[("program", "nbody")],
        "the forces between n = 4000 bodies, halved down to 16, each against all");
    Variant::new("treesum", &[("program", "treesum")],
        "sum over a sparse tree of n = 100k nodes with a join at every node, again and again");
};

/// Fills in what depends on the program, and refuses sizes that do not fit it. Gives back what an operation
/// is.
pub(crate) fn settle(params: &mut Params, smoke: bool) -> Result<&'static str, LabError> {
    let entry = named(params);
    let Entry {
        name,
        size,
        least,
        most,
        ..
    } = entry;
    let n = match params.number("n") {
        0 if smoke => entry.smoke,
        0 => entry.usual,
        n => n,
    };
    if !(*least..=*most).contains(&n) {
        return Err(LabError::Usage(format!(
            "`n={n}`: for {name}, n ({size}) is a whole number from {least} to {most}"
        )));
    }
    let sums = match (entry.which, params.number("sums")) {
        (Which::Treesum, 0) => treesum::enough(n),
        (_, sums) => sums,
    };
    *params = params.with_number("n", n).with_number("sums", sums);
    Ok(entry.unit)
}

/// The program that these parameters name.
pub(super) fn named(params: &Params) -> &'static Entry {
    let name = params.word("program");
    // The parameter's domain holds no other name.
    PROGRAMS
        .iter()
        .find(|entry| entry.name == name)
        .unwrap_or(&PROGRAMS[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::{Chosen, Domain, Files};
    use std::time::Duration;

    fn choose(text: &str, smoke: bool, settings: &[String]) -> Result<Chosen, LabError> {
        crate::lab([]).choose(text, smoke, settings, &Files::default(), Duration::MAX)
    }

    #[test]
    fn every_program_is_a_word_and_a_variant() {
        let Domain::Word(words) = PARAMS[0].domain else {
            panic!("{:?}", PARAMS[0]);
        };
        let names = PROGRAMS.map(|entry| entry.name);
        assert_eq!(words, names);
        assert_eq!(
            VARIANTS.iter().map(|variant| variant.name).collect::<Vec<_>>(),
            names
        );
        for variant in VARIANTS {
            assert_eq!(variant.set, [("program", variant.name)]);
        }
    }

    #[test]
    fn sizes_units_and_repetitions_are_those_of_the_program() {
        for (index, entry) in PROGRAMS.iter().enumerate() {
            let parse =
                |smoke, settings: &[String]| choose(&format!("fork-join/{}", entry.name), smoke, settings);
            let chosen = parse(false, &[]).unwrap();
            assert_eq!(
                (chosen.params.number("n"), chosen.unit),
                (entry.usual, entry.unit)
            );
            assert_eq!(parse(true, &[]).unwrap().params.number("n"), entry.smoke);
            assert_eq!(named(&chosen.params).which, PROGRAMS[index].which);
            for n in [entry.least, entry.most] {
                parse(false, &[format!("n={n}")]).unwrap();
            }
            let beyond = parse(false, &[format!("n={}", entry.most + 1)]).err();
            let text = beyond.map(|error| error.to_string()).unwrap_or_default();
            assert!(text.contains(&format!("to {}", entry.most)), "{text}");
        }
        let sums = |settings: &[String]| {
            let chosen = choose("fork-join/treesum", false, settings).unwrap();
            chosen.params.number("sums")
        };
        assert_eq!(sums(&[]), 200);
        assert_eq!(sums(&[String::from("sums=7")]), 7);
        assert_eq!(sums(&[String::from("n=1")]), 20_000_000);
    }
}
