//! What is compared: workload × settings × contestants × workers, one line each, with what was published
//! beside it.
//!
//! A further workload is a further line here.

use std::collections::BTreeSet;

use super::published::{self, Published};
use crate::error::{LabError, choose};
use crate::harness::machine::cpus;
use crate::peers::Runtime;

/// One comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// What it is called on the page and on the command line.
    pub(crate) name: &'static str,
    /// The workload, with a variant.
    pub(crate) workload: &'static str,
    /// Further settings.
    pub(crate) settings: &'static [&'static str],
    /// What `--quick` sets instead, or as well.
    pub(crate) quick: &'static [&'static str],
    /// Who takes part.
    pub(crate) runtimes: &'static [Runtime],
    /// Which policies besides those that are in every line, if none are asked for: those that were made for
    /// such a workload.
    pub(crate) policies: &'static [&'static str],
    /// Whether there are more workers than processors as well.
    pub(crate) crowded: bool,
    /// Whether contestants are known not to complete: that is a figure, not an error.
    pub(crate) may_not_complete: bool,
    /// What others found.
    pub(crate) published: Option<&'static Published>,
}

/// Whose tasks park, or send.
const EVERYBODY: &[Runtime] = &[
    Runtime::Warpweft,
    Runtime::Tokio,
    Runtime::Smol,
    Runtime::May,
    Runtime::Threads,
    Runtime::Go,
    Runtime::Java,
];
/// Those who have stacks to switch.
const STACKS: &[Runtime] = &[Runtime::Warpweft, Runtime::May];

/// A line of a micro-benchmark.
const fn micro(name: &'static str, workload: &'static str) -> Line {
    Line {
        name,
        workload,
        settings: &[],
        quick: &["ms=100"],
        runtimes: EVERYBODY,
        policies: &[],
        crowded: false,
        may_not_complete: false,
        published: None,
    }
}

/// A line in which everybody is busy all the time, so that who has fewer tasks serves them more often.
const fn busy(name: &'static str, published: &'static Published) -> Line {
    Line {
        policies: &["fifo+rebalance=16"],
        published: Some(published),
        ..micro(name, name)
    }
}

/// Tasks that wake each other and work on arrays.
const fn locality(name: &'static str) -> Line {
    Line {
        policies: &["fifo+woken=last"],
        published: Some(&published::LOCALITY),
        ..micro(name, name)
    }
}

/// A line of a micro-benchmark on stacks.
const fn fibers(name: &'static str, workload: &'static str, settings: &'static [&'static str]) -> Line {
    Line {
        settings,
        runtimes: STACKS,
        ..micro(name, workload)
    }
}

/// Leaders that spin.
const fn transfer(name: &'static str) -> Line {
    Line {
        crowded: true,
        may_not_complete: true,
        published: Some(&published::TRANSFER),
        ..micro(name, name)
    }
}

/// A concurrent program, in the size in which it was published.
const fn program(name: &'static str) -> Line {
    Line {
        quick: &[],
        published: Some(&published::PROGRAMS),
        ..micro(name, name)
    }
}

/// All lines, in the order of the page.
pub(crate) const LINES: &[Line] = &[
    busy("cycle", &published::CYCLE),
    micro("cycle/one", "cycle/one"),
    fibers("cycle/fibers", "cycle/fibers", &[]),
    fibers("cycle/one-fibers", "cycle/fibers", &["rings=1"]),
    busy("yield", &published::YIELD),
    micro("yield/one", "yield/one"),
    fibers("yield/fibers", "yield/fibers", &[]),
    fibers("yield/one-fibers", "yield/fibers", &["tasks=1"]),
    Line {
        published: Some(&published::CHURN),
        ..micro("churn", "churn")
    },
    micro("churn/few", "churn/few"),
    micro("churn/sem", "churn/sem"),
    locality("locality/share"),
    locality("locality/noshare"),
    transfer("transfer/park"),
    transfer("transfer/park-another"),
    transfer("transfer/yield"),
    Line {
        published: None,
        ..program("create")
    },
    Line {
        published: None,
        ..program("create/all")
    },
    Line {
        published: None,
        ..program("switch")
    },
    program("city"),
    program("eratosthenes"),
    program("mandelbrot"),
    Line {
        published: None,
        ..program("matrix")
    },
    program("news"),
    program("producer"),
    program("producer/pairs64"),
    program("token-ring"),
];

impl Line {
    /// The worker counts, if none are asked for.
    pub(crate) fn workers(&self, quick: bool) -> Vec<usize> {
        let cpus = cpus();
        let mut counts = BTreeSet::from([cpus]);
        if !quick {
            counts.insert(1);
        }
        if self.crowded {
            counts.insert(4 * cpus);
        }
        counts.into_iter().collect()
    }

    /// All its settings.
    pub(crate) fn settings(&self, quick: bool) -> Vec<String> {
        let further = if quick { self.quick } else { &[] };
        self.settings
            .iter()
            .chain(further)
            .map(|text| (*text).to_owned())
            .collect()
    }
}

/// The lines of these names, or those whose workload has that name; all if there are none.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<Line>, LabError> {
    let family = |line: &Line| line.name.split('/').next().unwrap_or_default();
    let mut valid: Vec<&str> = Vec::new();
    for line in LINES {
        for name in [family(line), line.name] {
            if !valid.contains(&name) {
                valid.push(name);
            }
        }
    }
    for name in names {
        choose("comparisons", name, &valid)?;
    }
    let wanted =
        |line: &&Line| names.is_empty() || names.iter().any(|name| name == line.name || name == family(line));
    Ok(LINES.iter().filter(wanted).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::spec;

    #[test]
    fn every_line_is_a_workload_with_settings_that_it_has() {
        for line in LINES {
            for quick in [false, true] {
                spec::parse(line.workload, false, &line.settings(quick)).unwrap();
                assert!(!line.workers(quick).is_empty());
            }
        }
        let names: BTreeSet<_> = LINES.iter().map(|line| line.name).collect();
        assert_eq!(names.len(), LINES.len(), "each line has a name of its own");
    }

    #[test]
    fn the_policies_of_a_line_are_policies() {
        for policy in LINES.iter().flat_map(|line| line.policies) {
            crate::peers::check_policy(policy).unwrap();
        }
    }

    #[test]
    fn lines_are_chosen_one_by_one_or_by_the_family() {
        let names = |wanted: &[&str]| -> Vec<&str> {
            let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
            chosen(&wanted).unwrap().iter().map(|line| line.name).collect()
        };
        assert_eq!(names(&["churn/few"]), ["churn/few"]);
        assert_eq!(names(&["transfer"]).len(), 3);
        assert_eq!(names(&[]).len(), LINES.len());
        let text = chosen(&[String::from("chrun")]).unwrap_err().to_string();
        assert!(text.contains("did you mean `churn`?"), "{text}");
    }
}
