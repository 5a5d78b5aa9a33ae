//! Policies as text: `lifo+steal=half+overflow=grow`.
//!
//! ```text
//! policy   = order { "+" option }
//! order    = "fifo" | "lifo" | "prows" | "parsimonious"        (the last two have one option: capacity=)
//! option   = "steal="    ( "one" | "half" | "atleast:" K )
//!          | "overflow=" ( "grow" | "locked" )
//!          | "capacity=" N
//!          | "yield="    ( "local" | "global" )
//! ```
//!
//! Spaces around words do not matter. What is left out has the order's default.

use crate::stealing::MOST_CAPACITY;
use crate::{Fifo, Lifo, Overflow, Parsimonious, Policy, ProWs, Stealing, YieldTo, order::Order};
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use warpweft_queue::{Amount, MAX_CAPACITY};

/// A policy that was described by a text.
///
/// ```
/// use warpweft_policy::PolicySpec;
/// let spec: PolicySpec = "lifo + steal=one".parse()?;
/// assert_eq!(spec.to_string(), "lifo+steal=one+overflow=grow+capacity=256+yield=global");
/// let error = "lifo+stael=one".parse::<PolicySpec>().unwrap_err();
/// assert_eq!(error.position(), 5);
/// assert!(error.to_string().contains("steal="));
/// # Ok::<(), warpweft_policy::ParsePolicyError>(())
/// ```
#[derive(Debug, Clone)]
pub struct PolicySpec(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Fifo(Fifo),
    Lifo(Lifo),
    ProWs(ProWs),
    Parsimonious(Parsimonious),
}

/// Receives the policy of a [`PolicySpec`] as a type of its own.
pub trait PolicyVisitor {
    /// What the visit results in.
    type Output;

    /// Called once, with the policy.
    fn visit<P: Policy>(self, policy: P) -> Self::Output;
}

impl PolicySpec {
    /// Calls the visitor with the policy that the text described: one instance of the visitor's code per policy type,
    /// and no indirection afterwards.
    pub fn visit<V: PolicyVisitor>(self, visitor: V) -> V::Output {
        match self.0 {
            Kind::Fifo(policy) => visitor.visit(policy),
            Kind::Lifo(policy) => visitor.visit(policy),
            Kind::ProWs(policy) => visitor.visit(policy),
            Kind::Parsimonious(policy) => visitor.visit(policy),
        }
    }

    /// The policies worth comparing at first sight, each with a line on what it is for.
    #[must_use]
    pub fn presets() -> &'static [(&'static str, &'static str)] {
        &[
            ("fifo", "oldest first, thieves take half: fair, best at the tail"),
            (
                "lifo",
                "newest first, thieves take the oldest half: locality, tasks that spawn tasks",
            ),
            (
                "fifo+steal=one",
                "oldest first, thieves take one: few heavy tasks",
            ),
            (
                "lifo+steal=one",
                "newest first, thieves take the oldest: the classic deque",
            ),
            (
                "fifo+overflow=locked",
                "oldest first in a bounded ring, the rest in a locked queue: as in Go and tokio",
            ),
            (
                "prows",
                "newest first; a task that waits leaves its deque to thieves: fork-join that waits on I/O",
            ),
            (
                "parsimonious",
                "newest first; a woken task comes back to its worker: the rival of prows",
            ),
        ]
    }
}

impl Default for PolicySpec {
    /// `fifo`: nobody starves, whatever the workload.
    fn default() -> Self {
        Self(Kind::Fifo(Fifo::new()))
    }
}

impl From<Fifo> for PolicySpec {
    fn from(policy: Fifo) -> Self {
        Self(Kind::Fifo(policy))
    }
}

impl From<Lifo> for PolicySpec {
    fn from(policy: Lifo) -> Self {
        Self(Kind::Lifo(policy))
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Fifo(policy) => policy.fmt(f),
            Kind::Lifo(policy) => policy.fmt(f),
            Kind::ProWs(policy) => policy.fmt(f),
            Kind::Parsimonious(policy) => policy.fmt(f),
        }
    }
}

/// What is wrong with a policy's text, where, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsePolicyError {
    text: String,
    position: usize,
    problem: String,
    valid: String,
}

impl ParsePolicyError {
    /// Where the wrong word begins: a byte offset into the text.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }
}

impl fmt::Display for ParsePolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            text,
            position,
            problem,
            valid,
        } = self;
        write!(f, "policy `{text}`, at position {position}: {problem}; {valid}")
    }
}

impl std::error::Error for ParsePolicyError {}

const ORDERS: &str = "an order is one of: fifo, lifo, prows, parsimonious";
const OPTIONS: &str = "an option is one of: steal=, overflow=, capacity=, yield=";
const STEALS: &str = "steal= takes one of: one, half, atleast:K";
const OVERFLOWS: &str = "overflow= takes one of: grow, locked";
const YIELDS: &str = "yield= takes one of: local, global";

/// A word of the text and where it begins.
#[derive(Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Word<'a> {
    /// The word without the spaces around it.
    fn trimmed(self) -> Self {
        let start = self.text.trim_start();
        Self {
            text: start.trim_end(),
            position: self.position + (self.text.len() - start.len()),
        }
    }

    fn split_once(self, at: char) -> Option<(Self, Self)> {
        let (left, right) = self.text.split_once(at)?;
        let right = Self {
            text: right,
            position: self.position + left.len() + at.len_utf8(),
        };
        Some((Self { text: left, ..self }.trimmed(), right.trimmed()))
    }
}

/// Parses the words of one text.
struct Parser<'a>(&'a str);

impl<'a> Parser<'a> {
    fn error(&self, at: Word<'_>, problem: impl Into<String>, valid: impl Into<String>) -> ParsePolicyError {
        ParsePolicyError {
            text: self.0.to_owned(),
            position: at.position,
            problem: problem.into(),
            valid: valid.into(),
        }
    }

    fn words(&self) -> impl Iterator<Item = Word<'a>> {
        let mut position = 0;
        self.0.split('+').map(move |text| {
            let word = Word { text, position };
            position += text.len() + 1;
            word.trimmed()
        })
    }

    fn number(&self, word: Word<'_>, what: &str, limit: usize) -> Result<NonZeroUsize, ParsePolicyError> {
        let valid = || format!("{what} is a number from 1 to {limit}");
        match word.text.parse::<usize>() {
            Ok(number) if number <= limit => {
                NonZeroUsize::new(number).ok_or_else(|| self.error(word, format!("{what} of 0"), valid()))
            }
            Ok(number) => Err(self.error(word, format!("{what} of {number} is too large"), valid())),
            Err(_) => Err(self.error(word, format!("`{}` is not {what}", word.text), valid())),
        }
    }

    fn options<O: Order>(
        &self,
        words: impl Iterator<Item = Word<'a>>,
    ) -> Result<Stealing<O>, ParsePolicyError> {
        let mut policy = Stealing::<O>::new();
        let mut seen: Vec<Word<'_>> = Vec::new();
        for word in words {
            let Some((name, value)) = word.split_once('=') else {
                let problem = match word.text {
                    "" => String::from("an option is missing"),
                    "fifo" | "lifo" => format!("a second order `{}` contradicts `{}`", word.text, O::NAME),
                    text => format!("`{text}` is not an option"),
                };
                return Err(self.error(word, problem, OPTIONS));
            };
            if let Some(first) = seen.iter().find(|first| first.text == name.text) {
                let problem = format!(
                    "`{}` is given a second time (first at {})",
                    name.text, first.position
                );
                return Err(self.error(name, problem, "say each option once"));
            }
            seen.push(name);
            let unknown = |valid| self.error(value, format!("`{}` is unknown", value.text), valid);
            policy = match (name.text, value.text) {
                ("steal", "one") => policy.steal(Amount::One),
                ("steal", "half") => policy.steal(Amount::Half),
                ("steal", _) => match value.split_once(':') {
                    Some((least, number)) if least.text == "atleast" => policy.steal(Amount::AtLeast(
                        self.number(number, "a least amount", MAX_CAPACITY)?,
                    )),
                    _ => return Err(unknown(STEALS)),
                },
                ("overflow", "grow") => policy.overflow(Overflow::Grow),
                ("overflow", "locked") => policy.overflow(Overflow::Locked),
                ("overflow", _) => return Err(unknown(OVERFLOWS)),
                ("capacity", _) => policy.capacity(self.number(value, "a capacity", MOST_CAPACITY)?.get()),
                ("yield", "local") => policy.yield_to(YieldTo::Local),
                ("yield", "global") => policy.yield_to(YieldTo::Global),
                ("yield", _) => return Err(unknown(YIELDS)),
                (other, _) => return Err(self.error(name, format!("`{other}=` is not an option"), OPTIONS)),
            };
        }
        Ok(policy)
    }
}

impl Parser<'_> {
    /// The options of an order that has none but its capacity.
    fn capacity<'a>(
        &self,
        mut words: impl Iterator<Item = Word<'a>>,
        default: usize,
    ) -> Result<usize, ParsePolicyError> {
        let unknown = |word: Word<'_>| {
            let problem = format!("`{}` is not an option", word.text);
            self.error(word, problem, "the one option here is capacity=, once")
        };
        let Some(word) = words.next() else {
            return Ok(default);
        };
        let value = word.split_once('=').filter(|(name, _)| name.text == "capacity");
        let (_, value) = value.ok_or_else(|| unknown(word))?;
        let capacity = self.number(value, "a capacity", MOST_CAPACITY)?.get();
        words.next().map_or(Ok(capacity), |word| Err(unknown(word)))
    }
}

impl FromStr for PolicySpec {
    type Err = ParsePolicyError;

    fn from_str(text: &str) -> Result<Self, ParsePolicyError> {
        let parser = Parser(text);
        let mut words = parser.words();
        let order = words.next().unwrap_or(Word {
            text: "",
            position: 0,
        });
        match order.text {
            "fifo" => Ok(Self(Kind::Fifo(parser.options(words)?))),
            "lifo" => Ok(Self(Kind::Lifo(parser.options(words)?))),
            "prows" => {
                let policy = ProWs::new();
                let capacity = parser.capacity(words, policy.capacity)?;
                Ok(Self(Kind::ProWs(policy.capacity(capacity))))
            }
            "parsimonious" => {
                let policy = Parsimonious::new();
                let capacity = parser.capacity(words, policy.capacity)?;
                Ok(Self(Kind::Parsimonious(policy.capacity(capacity))))
            }
            "" => Err(parser.error(order, "the order is missing", ORDERS)),
            other => Err(parser.error(order, format!("`{other}` is not an order"), ORDERS)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> Result<PolicySpec, ParsePolicyError> {
        text.parse()
    }

    #[test]
    fn every_preset_parses_and_its_full_text_parses_to_itself() -> Result<(), ParsePolicyError> {
        for (text, _) in PolicySpec::presets() {
            let full = spec(text)?.to_string();
            assert_eq!(spec(&full)?.to_string(), full);
        }
        Ok(())
    }

    #[test]
    fn every_value_is_understood() -> Result<(), ParsePolicyError> {
        let full =
            spec(" fifo + steal = atleast:10 +overflow=locked+ capacity=128 + yield=global ")?.to_string();
        assert_eq!(
            full,
            "fifo+steal=atleast:10+overflow=locked+capacity=128+yield=global"
        );
        Ok(())
    }

    #[test]
    fn errors_name_the_place_and_what_would_be_right() {
        for (text, position, part) in [
            ("", 0, "fifo, lifo"),
            ("filo", 0, "`filo` is not an order"),
            ("fifo+", 5, "an option is missing"),
            ("fifo+lifo", 5, "contradicts `fifo`"),
            ("fifo+steal=two", 11, "one, half, atleast:K"),
            ("fifo+steal=atleast:0", 19, "a least amount of 0"),
            ("fifo+capacity=0", 14, "from 1 to"),
            ("fifo+capacity=9999999999", 14, "too large"),
            ("fifo+capacity=-3", 14, "is not a capacity"),
            ("fifo+overflow=growl", 14, "grow, locked"),
            ("fifo+ steal=one + steal=half", 18, "second time (first at 6)"),
            ("fifo+yield=", 11, "local, global"),
            ("fifo+speed=9", 5, "steal=, overflow=, capacity=, yield="),
            ("fifo+größe", 5, "is not an option"),
            ("prows+steal=one", 6, "capacity="),
            ("prows+capacity=0", 15, "from 1 to"),
            ("parsimonious+capacity=2+capacity=2", 24, "once"),
        ] {
            let error = spec(text).expect_err(text);
            assert_eq!(error.position(), position, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
