//! Parameters of the workloads: named, typed, bounded, with defaults; written `key=value` on the command
//! line.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{LabError, choose};
use crate::output::Pending;

/// The values that a parameter may have.
#[derive(Clone, Copy, Debug)]
pub enum Domain {
    /// A number between two bounds, both allowed.
    Number {
        /// The least.
        least: u64,
        /// The greatest.
        most: u64,
    },
    /// One of some words.
    Word(&'static [&'static str]),
    /// A file that will be written, or none.
    File,
}

/// A list of parameters, an entry a line: `params! { Param::number("n", "1k", 1, 1_000, "tasks"); }`.
#[macro_export]
macro_rules! params {
    ($($param:expr;)*) => { &[$($param),*] };
}

/// A list of variants, an entry a line: `variants! { Variant::new("many", &[("n", "1m")], "a million tasks");
/// }`.
#[macro_export]
macro_rules! variants {
    ($($variant:expr;)*) => { &[$($variant),*] };
}

/// The value for no file.
const NO_FILE: &str = "none";

/// A parameter of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name on the command line and in the records.
    pub name: &'static str,
    /// Its meaning.
    pub about: &'static str,
    /// The values that it may have.
    pub domain: Domain,
    /// Its default.
    pub default: &'static str,
}

/// A named setting of some parameters: `packet/heavier`.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// The part behind the slash.
    pub name: &'static str,
    /// Its purpose.
    pub about: &'static str,
    /// The parameters that it sets.
    pub set: &'static [(&'static str, &'static str)],
}

impl Param {
    /// A number between two bounds, both allowed.
    pub const fn number(
        name: &'static str,
        default: &'static str,
        least: u64,
        most: u64,
        about: &'static str,
    ) -> Self {
        let domain = Domain::Number { least, most };
        Self {
            name,
            about,
            domain,
            default,
        }
    }

    /// One of some words.
    pub const fn word(
        name: &'static str,
        default: &'static str,
        words: &'static [&'static str],
        about: &'static str,
    ) -> Self {
        let domain = Domain::Word(words);
        Self {
            name,
            about,
            domain,
            default,
        }
    }

    /// A file that will be written, or none.
    pub const fn file(name: &'static str, default: &'static str, about: &'static str) -> Self {
        let domain = Domain::File;
        Self {
            name,
            about,
            domain,
            default,
        }
    }
}

impl Variant {
    /// Its name, the parameters that it sets, and its purpose.
    pub const fn new(
        name: &'static str,
        set: &'static [(&'static str, &'static str)],
        about: &'static str,
    ) -> Self {
        Self { name, about, set }
    }
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A word.
    Word(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Word(word) => word.fmt(f),
        }
    }
}

/// All parameters of one run, each with a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(BTreeMap<String, Value>);

impl Params {
    /// The defaults of a workload.
    pub fn defaults(declared: &[Param]) -> Self {
        let mut params = Self::default();
        for param in declared {
            params
                .set(declared, param.name, param.default)
                .expect("a default lies within its own domain (a unit test reads all of them)");
        }
        params
    }

    /// Sets one parameter from text.
    pub fn set(&mut self, declared: &[Param], name: &str, text: &str) -> Result<(), LabError> {
        let names: Vec<&str> = declared.iter().map(|param| param.name).collect();
        let param = &declared[choose("parameters of this workload", name, &names)?];
        let value = match param.domain {
            Domain::Number { least, most } => {
                let number = parse_number(text).filter(|number| (least..=most).contains(number));
                Value::Number(number.ok_or_else(|| {
                    LabError::Usage(format!(
                        "`{name}={text}`: {name} ({}) is a whole number from {least} to {most}; \
                         50k, 10m and 1_000 are understood",
                        param.about
                    ))
                })?)
            }
            Domain::File => {
                if text != NO_FILE {
                    // Refused now if it cannot be written, not by every run.
                    drop(Pending::open("write", Path::new(text))?);
                }
                Value::Word(text.to_owned())
            }
            Domain::Word(words) => {
                Value::Word(words[choose(&format!("values of {name}"), text, words)?].to_owned())
            }
        };
        self.0.insert(param.name.to_owned(), value);
        Ok(())
    }

    /// Sets a parameter from `key=value`.
    pub fn assign(&mut self, declared: &[Param], assignment: &str) -> Result<(), LabError> {
        let (name, value) = assignment.split_once('=').ok_or_else(|| {
            let names: Vec<&str> = declared.iter().map(|param| param.name).collect();
            LabError::Usage(format!(
                "`{assignment}` is no parameter: write KEY=VALUE\n  parameters of this workload: {}",
                names.join(", ")
            ))
        })?;
        self.set(declared, name, value)
    }

    /// The value of a number parameter. The workload declared it, so it is there.
    pub fn number(&self, name: &str) -> u64 {
        match self.0.get(name) {
            Some(Value::Number(number)) => *number,
            other => unreachable!("the workload declares `{name}` as a number, found {other:?}"),
        }
    }

    /// The value of a number parameter, if the workload declared it.
    pub fn number_if_any(&self, name: &str) -> Option<u64> {
        match self.0.get(name) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// The value of a word parameter. The workload declared it, so it is there.
    pub fn word(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(Value::Word(word)) => word,
            other => unreachable!("the workload declares `{name}` as a word, found {other:?}"),
        }
    }

    /// The file that a parameter names, if any.
    pub fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.word(name))
            .filter(|path| *path != NO_FILE)
            .map(PathBuf::from)
    }

    /// Returns true if there is a word parameter of that name with this value.
    pub fn is(&self, name: &str, word: &str) -> bool {
        matches!(self.0.get(name), Some(Value::Word(own)) if own == word)
    }

    /// The same parameters with one number changed.
    pub fn with_number(&self, name: &str, number: u64) -> Self {
        let mut changed = self.clone();
        changed.0.insert(name.to_owned(), Value::Number(number));
        changed
    }

    /// All parameters in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, value)) in self.iter().enumerate() {
            if place > 0 {
                f.write_str(" ")?;
            }
            write!(f, "{name}={value}")?;
        }
        Ok(())
    }
}

/// One list of settings for each value of the setting that has several: `wait=1,50,100`.
pub(crate) fn variations(settings: &[String]) -> Result<Vec<Vec<String>>, LabError> {
    let is_list = |setting: &str| {
        setting
            .split_once('=')
            .is_some_and(|(_, value)| value.contains(','))
    };
    let mut listed = settings
        .iter()
        .enumerate()
        .filter(|(_, setting)| is_list(setting));
    let (Some((at, list)), other) = (listed.next(), listed.next()) else {
        return Ok(vec![settings.to_vec()]);
    };
    if let Some((_, other)) = other {
        return Err(LabError::Usage(format!(
            "`{list}` and `{other}` are lists: one setting may have several values, each of which is measured by itself"
        )));
    }
    let (name, values) = list.split_once('=').unwrap_or_default();
    let with = |value: &str| {
        let mut settings = settings.to_vec();
        settings[at] = format!("{name}={value}");
        settings
    };
    Ok(values.split(',').map(with).collect())
}

/// Reads 50000, 50_000, 50k, 10m or 1g (powers of a thousand).
fn parse_number(text: &str) -> Option<u64> {
    let digits = text.replace('_', "").to_ascii_lowercase();
    let (digits, factor) = match digits.chars().last()? {
        'k' => (&digits[..digits.len() - 1], 1_000),
        'm' => (&digits[..digits.len() - 1], 1_000_000),
        'g' => (&digits[..digits.len() - 1], 1_000_000_000),
        _ => (digits.as_str(), 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &[Param] = &[
        Param {
            name: "n",
            about: "tasks",
            domain: Domain::Number { least: 1, most: 1000 },
            default: "10",
        },
        Param {
            name: "mode",
            about: "how",
            domain: Domain::Word(&["batch", "one"]),
            default: "batch",
        },
    ];

    #[test]
    fn numbers_have_suffixes_and_separators() {
        for (text, number) in [
            ("7", 7),
            ("50k", 50_000),
            ("10M", 10_000_000),
            ("1_000", 1000),
            ("2g", 2_000_000_000),
        ] {
            assert_eq!(parse_number(text), Some(number), "{text}");
        }
        for text in ["", "k", "-1", "1.5", "x", "99999999999g"] {
            assert_eq!(parse_number(text), None, "{text}");
        }
    }

    #[test]
    fn assignments_change_the_defaults() {
        let mut params = Params::defaults(DECLARED);
        params.assign(DECLARED, "n=1k").unwrap();
        params.assign(DECLARED, "mode=one").unwrap();
        assert_eq!((params.number("n"), params.word("mode")), (1000, "one"));
        assert_eq!(params.to_string(), "mode=one n=1000");
    }

    #[test]
    fn wrong_assignments_say_what_would_be_right() {
        let mut params = Params::defaults(DECLARED);
        let mut error = |text: &str| params.assign(DECLARED, text).unwrap_err().to_string();
        assert!(error("n=0").contains("from 1 to 1000"));
        assert!(error("n=x").contains("whole number"));
        assert!(error("nn=1").contains("parameters of this workload: n, mode"));
        assert!(error("mode=two").contains("values of mode: batch, one"));
        assert!(error("n").contains("KEY=VALUE"));
    }

    #[test]
    fn a_list_of_values_becomes_lists_of_settings() {
        let settings = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let varied = |text: &str| variations(&settings(text));
        assert_eq!(varied("n=5 mode=one").unwrap(), [settings("n=5 mode=one")]);
        assert_eq!(
            varied("n=5,7 mode=one").unwrap(),
            [settings("n=5 mode=one"), settings("n=7 mode=one")]
        );
        let text = varied("n=5,7 mode=one,batch").unwrap_err().to_string();
        assert!(text.contains("one setting may have several values"), "{text}");
        // What is left out, or is no setting, is the parameters' to refuse.
        assert_eq!(varied("n=5,").unwrap(), [settings("n=5"), settings("n=")]);
        let mut params = Params::defaults(DECLARED);
        assert!(params.assign(DECLARED, &varied("5,7").unwrap()[0][0]).is_err());
    }

    #[test]
    fn parameters_survive_json() {
        let params = Params::defaults(DECLARED);
        let text = serde_json::to_string(&params).unwrap();
        assert_eq!(text, r#"{"mode":"batch","n":10}"#);
        assert_eq!(serde_json::from_str::<Params>(&text).unwrap(), params);
    }
}
