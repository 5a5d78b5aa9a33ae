//! From text to policy, or to an error that says where, what, and what would be right.

use super::{Kind, PRESETS, PolicySpec};
use crate::Stealing;
use crate::order::{FifoOrder, MOST_LEVELS, Mix, MixedOrder, PriorityOrder, SlotOrder};
use crate::stealing::{Axes, Help, MOST_CAPACITY, MOST_QUEUES, Overflow, Victims, Woken, YieldTo};
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use warpweft_queue::{Amount, MAX_CAPACITY};

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

const ORDERS: &str =
    "an order is one of: fifo, lifo, slot:N, alternate:N, stochastic:PERCENT, reverse:N, priority:LEVELS";
const OPTIONS: &str = "an option is one of: steal=, victims=, help=, overflow=, capacity=, yield=, woken=";
const STEALS: &str = "steal= takes one of: one, half, atleast:K";
const VICTIMS: &str = "victims= takes one of: random, nearest:N, topology";
const HELPS: &str = "help= takes one of: none, shed, shed-sticky, tickets";
const OVERFLOWS: &str = "overflow= takes one of: grow, retry:N, locked, lockfree, multi:K";
const YIELDS: &str = "yield= takes one of: local, global";
const WOKENS: &str = "woken= takes one of: waker, last";
/// The most times that a spawner may try again: some milliseconds.
const MOST_RETRIES: usize = 1_000_000;
/// The most victims: more than a pool can have.
const MOST_VICTIMS: usize = 1 << 16;

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

    /// `name:number`: the name, and where the number is, or should be.
    fn named(self) -> (&'a str, Self) {
        let nothing = Self {
            text: "",
            position: self.position + self.text.len(),
        };
        match self.split_once(':') {
            Some((name, number)) => (name.text, number),
            None => (self.text, nothing),
        }
    }
}

/// Parses the words of one text.
struct Parser<'a>(&'a str);

type Parsed<T> = Result<T, ParsePolicyError>;

impl<'a> Parser<'a> {
    fn error(&self, at: Word<'_>, problem: impl Into<String>, valid: impl Into<String>) -> ParsePolicyError {
        ParsePolicyError {
            text: self.0.to_owned(),
            position: at.position,
            problem: problem.into(),
            valid: valid.into(),
        }
    }

    fn unknown(&self, value: Word<'_>, valid: &str) -> ParsePolicyError {
        self.error(value, format!("`{}` is unknown", value.text), valid)
    }

    fn words(&self) -> impl Iterator<Item = Word<'a>> {
        let mut position = 0;
        self.0.split('+').map(move |text| {
            let word = Word { text, position };
            position += text.len() + 1;
            word.trimmed()
        })
    }

    fn number(&self, word: Word<'_>, what: &str, limit: usize) -> Parsed<NonZeroUsize> {
        let valid = || format!("{what} is a number from 1 to {limit}");
        match word.text.parse::<usize>() {
            Ok(number) if number <= limit => {
                NonZeroUsize::new(number).ok_or_else(|| self.error(word, format!("{what} of 0"), valid()))
            }
            Ok(number) => Err(self.error(word, format!("{what} of {number} is too large"), valid())),
            Err(_) => Err(self.error(word, format!("`{}` is not {what}", word.text), valid())),
        }
    }

    /// The first word: a name, or an order.
    fn start(&self, word: Word<'_>) -> Parsed<Kind> {
        if let Some(preset) = PRESETS.iter().find(|preset| preset.name == word.text) {
            return Ok((preset.make)());
        }
        if let Some((name, number)) = word.split_once(':')
            && let Some(kind) = self.order(name.text, number)?
        {
            return Ok(kind);
        }
        let problem = match word.text {
            "" => String::from("the order is missing"),
            text => format!("`{text}` is not an order"),
        };
        let names: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
        let valid = format!("{ORDERS}; or there are these names: {}", names.join(", "));
        Err(self.error(word, problem, valid))
    }

    /// An order with a number. `None`: there is no such order.
    fn order(&self, name: &str, number: Word<'_>) -> Parsed<Option<Kind>> {
        let every = || self.number(number, "a number of tasks", MOST_CAPACITY);
        let mix = match name {
            "alternate" => Mix::Alternate(every()?),
            "reverse" => Mix::Reverse(every()?),
            "stochastic" => {
                let percent = self.number(number, "a probability in percent", 99)?;
                Mix::Stochastic(u8::try_from(percent.get()).unwrap_or(u8::MAX))
            }
            "slot" => {
                let order = SlotOrder::new(FifoOrder, every()?);
                return Ok(Some(Kind::Slotted(Stealing::with_order(order))));
            }
            "priority" => {
                let levels = self.number(number, "a number of levels", MOST_LEVELS)?;
                let order = PriorityOrder::new(FifoOrder, levels);
                return Ok(Some(Kind::Prioritised(Stealing::with_order(order))));
            }
            _ => return Ok(None),
        };
        let order = MixedOrder::new(mix).map_err(|error| self.error(number, error.to_string(), ORDERS))?;
        Ok(Some(Kind::Mixed(Stealing::with_order(order))))
    }

    /// All other words.
    fn options(&self, words: impl Iterator<Item = Word<'a>>, start: Word<'_>, axes: &mut Axes) -> Parsed<()> {
        let mut seen: Vec<Word<'_>> = Vec::new();
        for word in words {
            let Some((name, value)) = word.split_once('=') else {
                let problem = match word.text {
                    "" => String::from("an option is missing"),
                    text if self.start(word).is_ok() => {
                        format!("a second order `{text}` contradicts `{}`", start.text)
                    }
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
            self.option(name, value, axes)?;
        }
        Ok(())
    }

    /// The words of a policy that has but one option.
    fn only_capacity(&self, words: impl Iterator<Item = Word<'a>>, start: Word<'_>) -> Parsed<usize> {
        let mut capacity = None;
        for word in words {
            let value = word
                .split_once('=')
                .filter(|(name, _)| name.text == "capacity" && capacity.is_none());
            let Some((_, value)) = value else {
                let problem = format!("`{}` is not an option", word.text);
                let valid = format!("`{}` has one option, capacity=, once", start.text);
                return Err(self.error(word, problem, valid));
            };
            capacity = Some(self.number(value, "a capacity", MOST_CAPACITY)?.get());
        }
        capacity.ok_or_else(|| self.error(start, "an option is missing", OPTIONS))
    }

    fn option(&self, name: Word<'_>, value: Word<'_>, axes: &mut Axes) -> Parsed<()> {
        match name.text {
            "steal" => axes.steal = self.steal(value)?,
            "victims" => axes.victims = self.victims(value)?,
            "help" => {
                axes.help = match value.text {
                    "none" => Help::None,
                    "shed" => Help::Shed,
                    "shed-sticky" => Help::ShedSticky,
                    "tickets" => Help::Tickets,
                    _ => return Err(self.unknown(value, HELPS)),
                }
            }
            "overflow" => axes.overflow = self.overflow(value)?,
            "capacity" => axes.capacity = self.number(value, "a capacity", MOST_CAPACITY)?.get(),
            "yield" => {
                axes.yield_to = match value.text {
                    "local" => YieldTo::Local,
                    "global" => YieldTo::Global,
                    _ => return Err(self.unknown(value, YIELDS)),
                }
            }
            "woken" => {
                axes.woken = match value.text {
                    "waker" => Woken::Waker,
                    "last" => Woken::Last,
                    _ => return Err(self.unknown(value, WOKENS)),
                }
            }
            other => return Err(self.error(name, format!("`{other}=` is not an option"), OPTIONS)),
        }
        Ok(())
    }

    fn steal(&self, value: Word<'_>) -> Parsed<Amount> {
        match value.named() {
            ("atleast", number) => self
                .number(number, "a least amount", MAX_CAPACITY)
                .map(Amount::AtLeast),
            _ if value.text == "one" => Ok(Amount::One),
            _ if value.text == "half" => Ok(Amount::Half),
            _ => Err(self.unknown(value, STEALS)),
        }
    }

    fn victims(&self, value: Word<'_>) -> Parsed<Victims> {
        match value.named() {
            ("nearest", number) => self
                .number(number, "a number of victims", MOST_VICTIMS)
                .map(Victims::Nearest),
            _ if value.text == "random" => Ok(Victims::Random),
            _ if value.text == "topology" => Ok(Victims::Topology),
            _ => Err(self.unknown(value, VICTIMS)),
        }
    }

    fn overflow(&self, value: Word<'_>) -> Parsed<Overflow> {
        match value.named() {
            ("retry", number) => self
                .number(number, "a number of retries", MOST_RETRIES)
                .map(Overflow::Retry),
            ("multi", number) => self
                .number(number, "a number of queues", MOST_QUEUES)
                .map(Overflow::Multi),
            _ if value.text == "grow" => Ok(Overflow::Grow),
            _ if value.text == "locked" => Ok(Overflow::Locked),
            _ if value.text == "lockfree" => Ok(Overflow::LockFree),
            _ => Err(self.unknown(value, OVERFLOWS)),
        }
    }
}

impl FromStr for PolicySpec {
    type Err = ParsePolicyError;

    fn from_str(text: &str) -> Result<Self, ParsePolicyError> {
        let parser = Parser(text);
        let mut words = parser.words().peekable();
        let start = words.next().unwrap_or(Word {
            text: "",
            position: 0,
        });
        let mut kind = parser.start(start)?;
        match (kind.axes_mut(), words.peek().copied()) {
            (Some(axes), _) => parser.options(words, start, axes)?,
            (None, None) => {}
            (None, Some(option)) => match kind.capacity_mut() {
                Some(capacity) => *capacity = parser.only_capacity(words, start)?,
                None => {
                    let problem = format!("`{}` is one piece, and has no options", start.text);
                    return Err(parser.error(option, problem, "options go with an order"));
                }
            },
        }
        Ok(Self(kind))
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
        for preset in PolicySpec::presets() {
            let full = preset.spec().to_string();
            assert_eq!(spec(preset.name())?.to_string(), full);
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
            ("slot:", 5, "is not a number of tasks"),
            ("stochastic:100", 11, "from 1 to 99"),
            ("reverse:0", 8, "a number of tasks of 0"),
            ("priority:65", 9, "from 1 to 64"),
            ("heap:3", 0, "slot:N, alternate:N"),
            ("fifo+slot:3", 5, "a second order `slot:3` contradicts `fifo`"),
            ("fifo+", 5, "an option is missing"),
            ("fifo+lifo", 5, "contradicts `fifo`"),
            ("fifo+steal=two", 11, "one, half, atleast:K"),
            ("fifo+steal=one:1", 11, "one, half, atleast:K"),
            ("fifo+steal=atleast:0", 19, "a least amount of 0"),
            ("fifo+steal=atleast", 18, "`` is not a least amount"),
            ("fifo+victims=nearest:many", 21, "a number from 1 to"),
            ("fifo+victims=all", 13, "random, nearest:N, topology"),
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
            (
                "fifo+speed=9",
                5,
                "steal=, victims=, help=, overflow=, capacity=, yield=, woken=",
            ),
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
