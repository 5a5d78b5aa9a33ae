//! What `compare` and `results` measure, as data: lines of a comparison with what was published about them,
//! and tables of the results document.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::error::{LabError, choose};
use crate::machine::cpus;

/// Figures that others published.
#[derive(Debug)]
pub struct Published {
    /// Their authors, and where they are.
    pub source: &'static str,
    /// The findings in words, if the figures were drawn and not written.
    pub said: &'static str,
    /// The columns of their table; none if there is no table.
    pub columns: &'static [&'static str],
    /// Its rows: a name, and a figure for each column.
    pub rows: &'static [(&'static str, &'static [&'static str])],
}

/// One comparison.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// Its name on the page and on the command line.
    pub name: &'static str,
    /// The workload, with a variant.
    pub workload: &'static str,
    /// Further settings.
    pub settings: &'static [&'static str],
    /// The settings that `--quick` replaces or adds.
    pub quick: &'static [&'static str],
    /// The contestants.
    pub runtimes: &'static [&'static str],
    /// The policies made for such a workload. If none are asked for, they are measured beside those that are
    /// in every line.
    pub policies: &'static [&'static str],
    /// True if more workers than processors are measured as well.
    pub crowded: bool,
    /// True if contestants are known not to complete: that is a figure, not an error.
    pub may_not_complete: bool,
    /// The figures that were published about it.
    pub published: Option<&'static Published>,
}

/// A table of the results document.
#[derive(Clone, Copy, Debug)]
pub struct Measurement {
    /// Its heading, and its name on the command line.
    pub name: &'static str,
    /// The line of `bench` that measures it.
    pub line: &'static str,
    /// The words that are added to the line without `--full`: a smaller size.
    pub quick: &'static str,
    /// The further figures that have a column.
    pub measures: &'static [&'static str],
}

/// Which values of a figure are good ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Rates: more is better.
    More,
    /// Times, bytes, processor time: less is better.
    Less,
}

/// A figure of a run that is compared with a baseline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// `rate` for operations per second; `p50`, `p99`, `p999` or `max` for a latency in nanoseconds; or the
    /// name of a measure.
    pub name: Cow<'static, str>,
    /// Which values are good.
    pub better: Better,
}

impl Figure {
    /// Operations per second.
    pub const RATE: Self = Self {
        name: Cow::Borrowed("rate"),
        better: Better::More,
    };

    /// A figure of that name, of which less is better.
    pub const fn less(name: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            better: Better::Less,
        }
    }
}

/// A line of `bench` whose figures are compared with a baseline.
#[derive(Clone, Copy, Debug)]
pub struct Guard {
    /// Its name on the command line. Each number of workers is a row.
    pub name: &'static str,
    /// The words behind `bench`. Each contestant and number of workers in it is a row.
    pub line: &'static str,
    /// The words that `--quick` adds: a smaller size.
    pub quick: &'static str,
    /// The figures that are judged.
    pub figures: &'static [Figure],
}

/// Rows under one name: `compare --set NAME`.
#[derive(Clone, Copy, Debug)]
pub struct GuardSet {
    /// Its name.
    pub name: &'static str,
    /// Its lines.
    pub guards: &'static [Guard],
}

impl Comparison {
    /// An empty comparison: `Comparison { name: "churn", ..Comparison::NEW }`.
    pub const NEW: Self = Self {
        name: "",
        workload: "",
        settings: &[],
        quick: &[],
        runtimes: &[],
        policies: &[],
        crowded: false,
        may_not_complete: false,
        published: None,
    };

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
pub(crate) fn chosen(lines: &[Comparison], names: &[String]) -> Result<Vec<Comparison>, LabError> {
    let family = |line: &Comparison| line.name.split('/').next().unwrap_or_default();
    let mut valid: Vec<&str> = Vec::new();
    for line in lines {
        for name in [family(line), line.name] {
            if !valid.contains(&name) {
                valid.push(name);
            }
        }
    }
    for name in names {
        choose("comparisons", name, &valid)?;
    }
    let wanted = |line: &&Comparison| {
        names.is_empty() || names.iter().any(|name| name == line.name || name == family(line))
    };
    Ok(lines.iter().filter(wanted).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::lab;

    #[test]
    fn lines_are_chosen_one_by_one_or_by_the_family() {
        let lines = lab().comparisons;
        let names = |wanted: &[&str]| -> Vec<&str> {
            let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
            let chosen = chosen(lines, &wanted).unwrap();
            chosen.iter().map(|line| line.name).collect()
        };
        assert_eq!(names(&["churn/few"]), ["churn/few"]);
        assert_eq!(names(&["churn"]).len(), 2);
        assert_eq!(names(&[]).len(), lines.len());
        let text = chosen(lines, &[String::from("chrun")]).unwrap_err().to_string();
        assert!(text.contains("did you mean `churn`?"), "{text}");
    }
}
