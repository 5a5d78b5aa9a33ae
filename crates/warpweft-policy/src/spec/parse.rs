//! From text to policy, or to an error that says where, what, and what would be right.

use super::kind::Kind;
use super::presets::PRESETS;
use super::words::{Parsed, Parser, Word};
use super::{PolicySpec, Preset};
use crate::order::{AnyOrder, FifoOrder, MOST_LEVELS, Mix, MixedOrder, PriorityOrder, SlotOrder};
use crate::policy::YieldTo;
use crate::stealing::{
    Axes, Help, MOST_CAPACITY, MOST_QUEUES, Overflow, Rebalance, StealAmount, Victims, Woken,
};
use crate::{Order, Stealing};
use warpweft_queue::{Amount, MAX_CAPACITY};

const ORDERS: &str = "an order is one of: fifo, fifo-behind, chain, lifo, lifo-behind, shortest, slot:N, alternate:N, stochastic:PERCENT, reverse:N, adaptive:N, priority:LEVELS, priority:LEVELS(ORDER)";
const INNER: &str = "a level has one of these orders: fifo, chain, lifo, slot:N, alternate:N, stochastic:PERCENT, reverse:N, adaptive:N";
const OPTIONS: &str =
    "an option is one of: steal=, victims=, help=, overflow=, capacity=, yield=, woken=, rebalance=";
const STEALS: &str = "steal= takes one of: one, half, atleast:K, adaptive";
const VICTIMS: &str = "victims= takes one of: random, nearest:N, topology, adaptive";
const HELPS: &str = "help= takes one of: none, shed, shed-sticky, tickets";
const OVERFLOWS: &str = "overflow= takes one of: grow, retry:N, locked, lockfree, multi:K";
const YIELDS: &str = "yield= takes one of: local, global";
const WOKENS: &str = "woken= takes one of: waker, last";
const CAPACITIES: &str = "capacity= takes a number of tasks";
const REBALANCES: &str = "rebalance= takes one of: off, or a number of looks, from 1 to 65536";
/// All of them, for a reader.
pub(super) const GRAMMAR: [&str; 9] = [
    ORDERS, STEALS, VICTIMS, HELPS, OVERFLOWS, CAPACITIES, YIELDS, WOKENS, REBALANCES,
];
/// The most looks after what is overdue between two at another worker's queue: some four million tasks.
const MOST_LOOKS: usize = 1 << 16;
/// The most times that a spawner may try again: some milliseconds.
const MOST_RETRIES: usize = 1_000_000;
/// The most victims: more than a pool can have.
const MOST_VICTIMS: usize = 1 << 16;

impl<'a> Parser<'a> {
    /// The first word: a name, or an order.
    pub(super) fn start(&self, word: Word<'_>) -> Parsed<Kind> {
        if let Some(kind) = self.named(word)? {
            return Ok(kind);
        }
        let problem = match word.text {
            "" => String::from("the order is missing"),
            text => format!("`{text}` is not an order"),
        };
        Err(self.error(word, problem, format!("{ORDERS}; or {}", Self::names())))
    }

    /// A name, or an order. `None`: it is neither.
    fn named(&self, word: Word<'_>) -> Parsed<Option<Kind>> {
        if let Some(preset) = PRESETS.iter().find(|preset| preset.name == word.text) {
            return Ok(Some((preset.make)()));
        }
        match word.split_once(':') {
            Some((name, number)) => self.order(name, number),
            None => Ok(None),
        }
    }

    /// Checks that this build compiles a pool for the policy that the first word named.
    pub(super) fn is_compiled(&self, word: Word<'_>, kind: &Kind) -> Parsed<()> {
        let Some(feature) = kind.missing_feature() else {
            return Ok(());
        };
        let problem = format!("`{}` needs the feature `{feature}` of `warpweft`", word.text);
        Err(self.error(word, problem, format!("without it {}", Self::names())))
    }

    fn names() -> String {
        let names: Vec<_> = PolicySpec::presets().map(Preset::name).collect();
        format!("there are these names: {}", names.join(", "))
    }

    /// An order with a number. `None`: there is no such order.
    fn order(&self, name: Word<'_>, number: Word<'_>) -> Parsed<Option<Kind>> {
        let every = || self.number(number, "a number of tasks", MOST_CAPACITY);
        let mix = match name.text {
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
            "priority" => return self.levels(number).map(Some),
            _ => return Ok(self.piece(name, number)?.map(Kind::Piece)),
        };
        let order = MixedOrder::new(mix).map_err(|error| self.error(number, error.to_string(), ORDERS))?;
        Ok(Some(Kind::Mixed(Stealing::with_order(order))))
    }

    /// Levels of urgency: how many, or the share of each, and perhaps the order of each.
    fn levels(&self, word: Word<'_>) -> Parsed<Kind> {
        let (levels, inner) = match word.split_once('(') {
            Some((levels, inner)) => {
                let Some(text) = inner.text.strip_suffix(')') else {
                    let problem = format!("`({}` has no end", inner.text);
                    return Err(self.error(inner, problem, self.bracket_of(inner)));
                };
                (levels, self.inner(Word { text, ..inner }.trimmed())?)
            }
            None => (word, None),
        };
        Ok(match inner {
            None => Kind::Prioritised(Stealing::with_order(self.ranked(FifoOrder, levels)?)),
            Some(inner) => Kind::Classed(Stealing::with_order(self.ranked(inner, levels)?)),
        })
    }

    /// The order of each level; `None` if it is the usual one.
    fn inner(&self, word: Word<'_>) -> Parsed<Option<AnyOrder>> {
        // No order of a level has a bracket: what is in it is not looked at, however deep it goes.
        let named = if word.text.contains('(') {
            None
        } else {
            self.named(word)?
        };
        Ok(match named {
            Some(Kind::Fifo(_)) if word.text == "fifo" => None,
            Some(Kind::Lifo(policy)) if word.text == "lifo" => Some((*policy.order()).into()),
            Some(Kind::Chained(policy)) if word.text == "chain" => Some((*policy.order()).into()),
            Some(Kind::Slotted(policy)) if word.text.contains(':') => Some((*policy.order()).into()),
            Some(Kind::Mixed(policy)) if word.text.contains(':') => Some((*policy.order()).into()),
            other => {
                let problem = match word.text {
                    "" => String::from("the order of the levels is missing"),
                    text => format!("`{text}` is not an order of a level"),
                };
                let valid = match other {
                    Some(Kind::FifoBehind(_) | Kind::LifoBehind(_)) => {
                        format!("a queue behind is for tasks without priorities; {INNER}")
                    }
                    Some(Kind::Shortest(_)) => format!("it has levels of its own; {INNER}"),
                    _ => String::from(INNER),
                };
                return Err(self.error(word, problem, valid));
            }
        })
    }

    /// Says what is right instead of a bracket that begins with `inner` and has no end there.
    fn bracket_of(&self, inner: Word<'_>) -> String {
        let (before, rest) = self.0.split_at(inner.position);
        match rest.split_once(')') {
            Some((inside, after)) if inside.contains('+') => {
                let (order, options) = inside.split_once('+').unwrap_or((inside, ""));
                let (order, options) = (order.trim(), options.trim());
                format!("options go behind the bracket: `{before}{order})+{options}{after}`")
            }
            _ => String::from("a level's order is in round brackets"),
        }
    }

    /// Says what is right instead of an order behind an order: levels of one of them, or options.
    fn instead_of(&self, first: Word<'_>, second: Word<'_>) -> String {
        for (levels, inner) in [(first, second), (second, first)] {
            if matches!(self.named(levels), Ok(Some(Kind::Prioritised(_)))) && self.inner(inner).is_ok() {
                let (levels, inner) = (levels.text, inner.text);
                return format!("the order of the levels is in brackets: `{levels}({inner})`");
            }
        }
        String::from(OPTIONS)
    }

    fn ranked<O: Order>(&self, inner: O, levels: Word<'_>) -> Parsed<PriorityOrder<O>> {
        if !levels.text.contains('/') {
            let levels = self.number(levels, "a number of levels", MOST_LEVELS)?;
            return Ok(PriorityOrder::new(inner, levels));
        }
        let shares: Result<Vec<u8>, _> = levels.text.split('/').map(|share| share.trim().parse()).collect();
        let Ok(shares) = shares else {
            let problem = format!("`{}` is not a share for each level", levels.text);
            let valid = "shares are whole numbers in percent, such as 0/0/10";
            return Err(self.error(levels, problem, valid));
        };
        PriorityOrder::with_shares(inner, &shares)
            .map_err(|error| self.error(levels, error.to_string(), "for example: 0/0/10"))
    }

    /// All other words. `kind` is assembled from parts.
    pub(super) fn options(
        &self,
        words: impl Iterator<Item = Word<'a>>,
        start: Word<'_>,
        kind: &mut Kind,
    ) -> Parsed<()> {
        let full = kind.to_string();
        let order = full.split('+').next().unwrap_or_default();
        if let Kind::Piece(piece) = kind {
            return self.piece_options(words, start, piece);
        }
        let Some((axes, usual)) = kind.axes_mut() else {
            return Ok(());
        };
        let mut seen: Vec<Word<'_>> = Vec::new();
        for word in words {
            let Some((name, value)) = word.split_once('=') else {
                if self.start(word).is_ok() {
                    let problem = format!("a second order `{}` contradicts `{}`", word.text, start.text);
                    return Err(self.error(word, problem, self.instead_of(start, word)));
                }
                let problem = match word.text {
                    "" => String::from("an option is missing"),
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
            Err(_) => Err(self.unknown(value, REBALANCES)),
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
