//! A baseline in a file: rows, their figures, and where and by which program they were measured.
//!
//! ```text
//!  base.json           rows, figures, machine, date, versions, the digest of the program
//!  base.json.program   a copy of the program, which takes turns with a later one
//! ```
//!
//! The copy is what makes a comparison sound: figures of another hour say little. Without it the recorded
//! figures are all there is. Then a verdict is refused where the machine is another one, or was busy.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::program::{Build, digest};
use super::rounds::JudgedRow;
use super::verdict::{Verdict, verdict};
use crate::error::{LabError, choose};
use crate::lab::Lab;
use crate::machine::Machine;
use crate::plan::Better;
use crate::stats::median_interval;

/// The form of the file. Another number is another form.
const FORM: u32 = 1;
/// Recorded figures are compared only if others used less than this share of the machine, both times.
pub(crate) const QUIET: f64 = 0.05;

/// A baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Baseline {
    /// The form of the file.
    pub(crate) baseline_form: u32,
    /// When it was measured, in seconds since 1970.
    pub(crate) date: u64,
    /// The program.
    pub(crate) build: Build,
    /// The copy of the program.
    pub(crate) program: Copied,
    /// The machine.
    pub(crate) machine: Machine,
    /// The share of it that other processes used meanwhile.
    pub(crate) others: Option<f64>,
    /// The rows.
    pub(crate) rows: Vec<Recorded>,
}

/// The copy of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Copied {
    /// Its file, seen from the folder of the baseline.
    pub(crate) file: PathBuf,
    /// The digest of its contents.
    pub(crate) digest: String,
}

/// A row with its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recorded {
    /// The row.
    #[serde(flatten)]
    pub(crate) row: JudgedRow,
    /// The values of each figure.
    pub(crate) values: Vec<Vec<f64>>,
}

impl Baseline {
    /// The form that is written.
    pub(crate) const FORM: u32 = FORM;

    /// Reads and checks a file.
    ///
    /// # Errors
    ///
    /// It cannot be read, is cut off, or is something else.
    pub(crate) fn read(path: &Path) -> Result<Self, LabError> {
        let refused = |reason: &str| LabError::file("read the baseline", path, reason);
        let text = fs::read_to_string(path).map_err(|error| refused(&error.to_string()))?;
        let baseline: Self = serde_json::from_str(&text).map_err(|error| {
            refused(&if error.is_eof() {
                format!("it is cut off: {error}")
            } else {
                format!("it was not written by `compare --baseline`: {error}")
            })
        })?;
        if baseline.baseline_form != FORM {
            return Err(refused(&format!(
                "its form is {}, and this program reads form {FORM}: record it anew",
                baseline.baseline_form
            )));
        }
        if baseline.rows.is_empty() {
            return Err(refused("it has no rows"));
        }
        for recorded in &baseline.rows {
            if recorded.values.len() != recorded.row.figures.len() {
                return Err(refused(&format!(
                    "its row `{}` has {} figures and values for {}",
                    recorded.row.name,
                    recorded.row.figures.len(),
                    recorded.values.len()
                )));
            }
        }
        Ok(baseline)
    }

    /// Checks that this program can run a row: its workload, its contestant, its parameters.
    pub(crate) fn check(lab: &Lab, row: &JudgedRow) -> Result<(), LabError> {
        let refused =
            |reason: String| LabError::Usage(format!("the row `{}` of the baseline: {reason}", row.name));
        let about = lab
            .workload_of(&row.request)
            .map_err(|error| refused(error.to_string()))?
            .about();
        lab.peer(&row.request.runtime)
            .map_err(|error| refused(error.to_string()))?;
        for param in about.params {
            if row.request.params.iter().all(|(name, _)| name != param.name) {
                return Err(refused(format!(
                    "it says nothing of the parameter `{}`, which {} has now: record the baseline anew",
                    param.name, about.name
                )));
            }
        }
        let declared: Vec<&str> = about.params.iter().map(|param| param.name).collect();
        for (name, _) in row.request.params.iter() {
            choose(&format!("parameters of {}", about.name), name, &declared)
                .map_err(|error| refused(error.to_string()))?;
        }
        Ok(())
    }

    /// The copy of the program, if it is there.
    ///
    /// # Errors
    ///
    /// There is another file in its place.
    pub(crate) fn program(&self, path: &Path) -> Result<Option<PathBuf>, LabError> {
        let program = path.with_file_name(&self.program.file);
        if !program.exists() {
            return Ok(None);
        }
        if digest(&program)? != self.program.digest {
            return Err(LabError::file(
                "compare with",
                &program,
                "it is not the program that was measured, which has another digest: record the baseline anew",
            ));
        }
        // A bare name would be looked for in the folders of the shell.
        let whole = fs::canonicalize(&program);
        whole
            .map(Some)
            .map_err(|error| LabError::file("compare with", &program, &error))
    }

    /// Why recorded figures allow no verdict, if they do not.
    pub(crate) fn refusal(&self, here: &Machine, others: Option<f64>) -> Option<String> {
        let then = &self.machine;
        let differs = |what: &str, then: &str, now: &str| {
            (then != now).then(|| format!("another {what}: {then} in the baseline, {now} here"))
        };
        let busy = |when: &str, others: Option<f64>| match others {
            Some(others) if others <= QUIET => None,
            Some(others) => Some(format!(
                "other processes used {:.0} % of the machine {when}",
                others * 100.0
            )),
            None => Some(format!("it is not known how busy the machine was {when}")),
        };
        differs("processor", &then.processor, &here.processor)
            .or_else(|| differs("number of CPUs", &then.cpus.to_string(), &here.cpus.to_string()))
            .or_else(|| differs("system", &then.system, &here.system))
            .or_else(|| differs("architecture", &then.architecture, &here.architecture))
            .or_else(|| busy("when the baseline was measured", self.others))
            .or_else(|| busy("now", others))
    }
}

/// The bounds of a cost of which the two sides were not measured in pairs, and what they show. Each side's
/// median has an interval, and each may be missed with half of the error.
pub(crate) fn unpaired(
    better: Better,
    baseline: &[f64],
    this: &[f64],
    error: f64,
) -> (Option<(f64, f64)>, Verdict) {
    let sides = median_interval(baseline, error / 2.0).zip(median_interval(this, error / 2.0));
    let interval = sides.and_then(|(baseline, this)| {
        let (low, high) = match better {
            Better::Less => (this.0 / baseline.1, this.1 / baseline.0),
            Better::More => (baseline.0 / this.1, baseline.1 / this.0),
        };
        (low.is_finite() && high.is_finite()).then_some((low, high))
    });
    (interval, verdict(interval))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::plan::Figure;
    use crate::testing::{chosen, lab};
    use std::io::Write;

    /// A row of the laboratory of the tests.
    pub(crate) fn row(workload: &str, figures: &[Figure]) -> JudgedRow {
        let request = chosen(workload, true, &[]).unwrap().request(Default::default());
        JudgedRow {
            name: format!("{workload}, 1 worker"),
            request: crate::workload::Request {
                runtime: String::from("tokio"),
                workers: 1,
                ..request
            },
            figures: figures.to_vec(),
        }
    }

    /// A baseline of made-up figures.
    pub(crate) fn baseline(rows: Vec<Recorded>) -> Baseline {
        Baseline {
            baseline_form: FORM,
            date: 1_000_000,
            build: Build::of(lab()),
            program: Copied {
                file: PathBuf::from("base.json.program"),
                digest: String::from("0"),
            },
            machine: Machine::here(),
            others: Some(0.01),
            rows,
        }
    }

    fn recorded() -> Recorded {
        Recorded {
            row: row("churn", &[Figure::RATE]),
            values: vec![vec![1.0; 12]],
        }
    }

    fn read(text: &str) -> Result<Baseline, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        Baseline::read(file.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_baseline_is_read_as_it_was_written_and_nothing_else_is() {
        let written = baseline(vec![recorded()]);
        let text = serde_json::to_string_pretty(&written).unwrap();
        assert_eq!(read(&text).unwrap(), written);
        assert!(read(&text[..text.len() / 2]).unwrap_err().contains("cut off"));
        assert!(
            read("{}")
                .unwrap_err()
                .contains("not written by `compare --baseline`")
        );
        let newer = text.replace("\"baseline_form\": 1", "\"baseline_form\": 2");
        assert!(read(&newer).unwrap_err().contains("its form is 2"));
        let empty = serde_json::to_string(&baseline(Vec::new())).unwrap();
        assert!(read(&empty).unwrap_err().contains("no rows"));
        let mut short = recorded();
        short.values.clear();
        let short = serde_json::to_string(&baseline(vec![short])).unwrap();
        assert!(read(&short).unwrap_err().contains("1 figures and values for 0"));
        let missing = Baseline::read(Path::new("/nowhere/base.json")).unwrap_err();
        assert!(missing.to_string().contains("/nowhere/base.json"));
    }

    #[test]
    fn rows_that_this_program_has_not_are_refused() {
        let text = |change: fn(&mut JudgedRow)| {
            let mut row = recorded().row;
            change(&mut row);
            Baseline::check(lab(), &row)
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default()
        };
        assert_eq!(text(|_| ()), "");
        assert!(text(|row| row.request.workload = String::from("chrun")).contains("did you mean `churn`?"));
        assert!(text(|row| row.request.runtime = String::from("tokyo")).contains("did you mean `tokio`?"));
        assert!(text(|row| row.request.params = Default::default()).contains("record the baseline anew"));
        assert!(
            text(|row| row.request.params = row.request.params.with_number("spim", 1))
                .contains("did you mean `spin`?")
        );
    }

    #[test]
    fn the_copy_is_missing_the_same_or_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("base.json");
        let mut baseline = baseline(vec![recorded()]);
        assert_eq!(baseline.program(&path).unwrap(), None);
        let copy = folder.path().join("base.json.program");
        fs::write(&copy, "program").unwrap();
        let text = baseline.program(&path).unwrap_err().to_string();
        assert!(text.contains("not the program that was measured"), "{text}");
        baseline.program.digest = digest(&copy).unwrap();
        let whole = fs::canonicalize(&copy).unwrap();
        assert_eq!(baseline.program(&path).unwrap(), Some(whole));
    }

    #[test]
    fn figures_of_another_machine_or_of_a_busy_one_allow_no_verdict() {
        let here = Machine::here();
        let baseline = baseline(vec![recorded()]);
        assert_eq!(baseline.refusal(&here, Some(0.02)), None);
        let refusal = |baseline: &Baseline, others| baseline.refusal(&here, others).unwrap_or_default();
        assert!(refusal(&baseline, Some(0.3)).contains("30 % of the machine now"));
        assert!(refusal(&baseline, None).contains("not known"));
        let change = |change: fn(&mut Baseline)| {
            let mut other = baseline.clone();
            change(&mut other);
            refusal(&other, Some(0.0))
        };
        assert!(change(|other| other.others = Some(0.4)).contains("when the baseline was measured"));
        assert!(change(|other| other.machine.cpus += 1).contains("number of CPUs"));
        assert!(change(|other| other.machine.processor.push('x')).contains("processor"));
        assert!(change(|other| other.machine.system.push_str("-next")).contains("system"));
    }

    #[test]
    fn unpaired_figures_show_a_loss_only_where_the_intervals_are_apart() {
        let around = |middle: f64| -> Vec<f64> { (0..20).map(|at| middle + f64::from(at) * 0.01).collect() };
        let of =
            |better, baseline: f64, this: f64| unpaired(better, &around(baseline), &around(this), 0.01).1;
        assert_eq!(of(Better::Less, 10.0, 11.0), Verdict::Loss);
        assert_eq!(of(Better::More, 10.0, 11.0), Verdict::Gain);
        assert_eq!(of(Better::Less, 10.0, 10.05), Verdict::NotToldApart);
        let few = unpaired(Better::Less, &[1.0; 4], &[2.0; 20], 0.01);
        assert_eq!(few, (None, Verdict::NotToldApart));
    }
}
