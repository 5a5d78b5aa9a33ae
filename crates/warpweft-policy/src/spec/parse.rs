//! From text to policy, or to an error that says where, what, and what would be right.

use super::{Kind, PRESETS, PolicySpec};
use crate::Stealing;
use crate::order::{FifoOrder, MOST_LEVELS, Mix, MixedOrder, PriorityOrder, SlotOrder};
use crate::stealing::{
    Axes, Help, MOST_CAPACITY, MOST_QUEUES, Overflow, Rebalance, StealAmount, Victims, Woken, YieldTo,
};
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

const ORDERS: &str = "an order is one of: fifo, chain, lifo, slot:N, alternate:N, stochastic:PERCENT, reverse:N, adaptive:N, priority:LEVELS";
const OPTIONS: &str =
    "an option is one of: steal=, victims=, help=, overflow=, capacity=, yield=, woken=, rebalance=";
const STEALS: &str = "steal= takes one of: one, half, atleast:K, adaptive";
const VICTIMS: &str = "victims= takes one of: random, nearest:N, topology, adaptive";
const HELPS: &str = "help= takes one of: none, shed, shed-sticky, tickets";
const OVERFLOWS: &str = "overflow= takes one of: grow, retry:N, locked, lockfree, multi:K";
const YIELDS: &str = "yield= takes one of: local, global";
const WOKENS: &str = "woken= takes one of: waker, last";
const LEVELS: &str = "rebalance= takes one of: off, or a number of looks, from 1 to 65536";
/// The most looks after what is overdue between two at another worker's queue: some four million tasks.
const MOST_LOOKS: usize = 1 << 16;
/// The most times that a spawner may try again: some milliseconds.
const MOST_RETRIES: usize = 1_000_000;
/// The most victims: more than a pool can have.
const MOST_VICTIMS: usize = 1 << 16;

/// A word of the text and where it begins.
#[derive(Clone, Copy)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
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

    pub(super) fn split_once(self, at: char) -> Option<(Self, Self)> {
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
pub(super) struct Parser<'a>(&'a str);

pub(super) type Parsed<T> = Result<T, ParsePolicyError>;

impl<'a> Parser<'a> {
    pub(super) fn error(
        &self,
        at: Word<'_>,
        problem: impl Into<String>,
        valid: impl Into<String>,
    ) -> ParsePolicyError {
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

    pub(super) fn number(&self, word: Word<'_>, what: &str, limit: usize) -> Parsed<NonZeroUsize> {
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
            "adaptive" => Mix::Adaptive(every()?),
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
            _ => return self.piece(name, number),
        };
        let order = MixedOrder::new(mix).map_err(|error| self.error(number, error.to_string(), ORDERS))?;
        Ok(Some(Kind::Mixed(Stealing::with_order(order))))
    }

    /// All other words. `kind` is assembled from parts.
    fn options(&self, words: impl Iterator<Item = Word<'a>>, start: Word<'_>, kind: &mut Kind) -> Parsed<()> {
        let full = kind.to_string();
        let order = full.split('+').next().unwrap_or_default();
        let Some((axes, usual)) = kind.axes_mut() else {
            return self.piece_options(words, start, kind);
        };
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
            let before = axes.value(name.text);
            self.option(name, value, axes)?;
            // A name that says something of this option cannot say something else.
            if let Some(before) = before.filter(|before| usual.value(name.text).as_ref() != Some(before))
                && axes.value(name.text).as_ref() != Some(&before)
            {
                let (start, name_, value) = (start.text, name.text, value.text);
                let problem = format!("`{name_}={value}` contradicts `{start}`, which has {name_}={before}");
                let valid = format!("to choose it, begin with the order: `{order}+{name_}={value}`");
                return Err(self.error(name, problem, valid));
            }
        }
        Ok(())
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
            "rebalance" => axes.rebalance = self.level(value)?,
            other => return Err(self.error(name, format!("`{other}=` is not an option"), OPTIONS)),
        }
        Ok(())
    }

    fn steal(&self, value: Word<'_>) -> Parsed<StealAmount> {
        match value.named() {
            ("atleast", number) => self
                .number(number, "a least amount", MAX_CAPACITY)
                .map(|least| Amount::AtLeast(least).into()),
            _ if value.text == "one" => Ok(Amount::One.into()),
            _ if value.text == "half" => Ok(Amount::Half.into()),
            _ if value.text == "adaptive" => Ok(StealAmount::Adaptive),
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
            _ if value.text == "adaptive" => Ok(Victims::Adaptive),
            _ => Err(self.unknown(value, VICTIMS)),
        }
    }

    fn level(&self, value: Word<'_>) -> Parsed<Rebalance> {
        match value.text.parse::<usize>() {
            _ if value.text == "off" => Ok(Rebalance::Off),
            Ok(_) => self
                .number(value, "a number of looks", MOST_LOOKS)
                .map(Rebalance::Every),
            Err(_) => Err(self.unknown(value, LEVELS)),
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
        let mut words = parser.words();
        let start = words.next().unwrap_or(Word {
            text: "",
            position: 0,
        });
        let mut kind = parser.start(start)?;
        parser.options(words, start, &mut kind)?;
        Ok(Self(kind))
    }
}
