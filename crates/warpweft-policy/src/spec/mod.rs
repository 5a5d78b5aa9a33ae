//! Policies as text: `lifo+steal=half+victims=nearest:15+overflow=multi:5+yield=global`.
//!
//! ```text
//! policy   = ( name | order ) { "+" option } | piece
//! name     = one of `PolicySpec::presets`
//! order    = "fifo" | "fifo-behind" | "chain" | "lifo" | "lifo-behind" | "shortest" | "slot:" N
//!          | "alternate:" N | "stochastic:" PERCENT | "reverse:" N | "adaptive:" N | "priority:" levels [ "(" order ")" ]
//! levels   = N | SHARE { "/" SHARE }
//! option   = "steal="    ( "one" | "half" | "atleast:" K | "adaptive" )
//!          | "victims="  ( "random" | "nearest:" N | "topology" | "adaptive" )
//!          | "help="     ( "none" | "shed" | "shed-sticky" | "tickets" )
//!          | "overflow=" ( "grow" | "retry:" N | "locked" | "lockfree" | "multi:" K )
//!          | "capacity=" N
//!          | "yield="    ( "local" | "global" )
//!          | "woken="    ( "waker" | "last" )
//!          | "rebalance="    ( "off" | N )
//! piece    = "go" | "tokio" | "libfibre"
//!          | "negele" [ ":" LEVELS ] | "negele-local" [ ":" LEVELS ] [ "+balance=" N ]
//!          | "cforall" { "+lanes=" N | "+every=" N | "+age=" LOG2 | "+far=" OF256 | "+weight=" SIXTEENTHS |
//!          "+clock=" N | "+capacity=" N }
//!          | ( "prows" | "parsimonious" ) [ "+capacity=" N ] | "edf" [ "+slack=" MS ]
//! ```
//!
//! `priority:` is a number of levels, or the least share of each level in percent of the time; and the order
//! on each level, which is `fifo` if none is named. That order has neither levels nor a queue behind.
//! Options follow the bracket: `priority:3(lifo)+steal=one`.
//!
//! Spaces around words do not matter. What is left out is as the name or the order has it. What a name says
//! is not taken back by an option: `fifo-one+steal=half` is an error, and `fifo+steal=half` is what was
//! meant. Options of the axes are for policies that are assembled from parts; a policy that is one piece has
//! its own, or none.
//!
//! A pool's code is compiled for each type of policy that a text can name, so features bound them: without
//! any these are `shortest`, which is the default, and `fifo`, with their options; `policies` adds `lifo`,
//! `slot` and `priority`, and `all-policies` the rest. A text that needs a feature is an error that names it.
//!
//! # Adding a policy
//!
//! One that is one piece is a variant of `Piece`, with its line in each `match` of `pieces.rs`, and a line of
//! [`PRESETS`]. One that is assembled is a line of [`PRESETS`].
//!
//! # Invariant
//!
//! A [`PolicySpec`] has a policy whose pool this build compiles: `Kind::missing_feature` returns `None`. The
//! parser checks this, and the conversions of other types have the feature's `cfg`.

mod kind;
mod parse;
mod pieces;
mod presets;
#[cfg(test)]
mod tests;
mod words;

#[cfg(feature = "all-policies")]
use crate::{Cforall, Chained, Classed, Mixed, Negele, NegeleLocal};
use crate::{Fifo, Shortest};
#[cfg(feature = "policies")]
use crate::{Lifo, Prioritised, Slotted};
use kind::Kind;
#[cfg(feature = "all-policies")]
use pieces::Piece;
use presets::PRESETS;
use std::fmt;
use std::str::FromStr;
use words::{Parser, Word};

pub use kind::PolicyVisitor;
pub use presets::Preset;
pub use words::ParsePolicyError;

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

impl PolicySpec {
    /// Calls the visitor with the policy that the text described: one instance of the visitor's code per
    /// policy type, and no indirection afterwards.
    pub fn visit<V: PolicyVisitor>(self, visitor: V) -> V::Output {
        self.0.visit(visitor)
    }

    /// Returns the policies worth comparing at first sight, as far as the features of this build have them.
    pub fn presets() -> impl Iterator<Item = &'static Preset> {
        PRESETS
            .iter()
            .filter(|preset| (preset.make)().missing_feature().is_none())
    }

    /// Returns what a text may say beside the names of [`presets`](Self::presets): one line has the
    /// orders, and one more for each option its values. An error of a text says the line that was not met.
    ///
    /// ```
    /// use warpweft_policy::PolicySpec;
    /// let of_steal = |line: &&str| line.starts_with("steal= takes one of: one, half");
    /// assert!(PolicySpec::grammar().iter().any(of_steal));
    /// ```
    #[must_use]
    pub const fn grammar() -> &'static [&'static str] {
        &parse::GRAMMAR
    }
}

impl Preset {
    /// The policy.
    #[must_use]
    pub fn spec(&self) -> PolicySpec {
        PolicySpec((self.make)())
    }
}

impl Default for PolicySpec {
    /// `shortest`: no task starves, whatever the workload, and what is short does not wait for what is long.
    fn default() -> Self {
        Self(Kind::Shortest(Shortest::new()))
    }
}

impl From<Shortest> for PolicySpec {
    fn from(policy: Shortest) -> Self {
        Self(Kind::Shortest(policy))
    }
}

impl From<Fifo> for PolicySpec {
    fn from(policy: Fifo) -> Self {
        Self(Kind::Fifo(policy))
    }
}

#[cfg(feature = "all-policies")]
impl From<Chained> for PolicySpec {
    fn from(policy: Chained) -> Self {
        Self(Kind::Chained(policy))
    }
}

#[cfg(feature = "policies")]
impl From<Lifo> for PolicySpec {
    fn from(policy: Lifo) -> Self {
        Self(Kind::Lifo(policy))
    }
}

#[cfg(feature = "all-policies")]
impl From<Mixed> for PolicySpec {
    fn from(policy: Mixed) -> Self {
        Self(Kind::Mixed(policy))
    }
}

#[cfg(feature = "policies")]
impl From<Slotted> for PolicySpec {
    fn from(policy: Slotted) -> Self {
        Self(Kind::Slotted(policy))
    }
}

#[cfg(feature = "policies")]
impl From<Prioritised> for PolicySpec {
    fn from(policy: Prioritised) -> Self {
        Self(Kind::Prioritised(policy))
    }
}

#[cfg(feature = "all-policies")]
impl From<Classed> for PolicySpec {
    fn from(policy: Classed) -> Self {
        Self(Kind::Classed(policy))
    }
}

#[cfg(feature = "all-policies")]
impl From<Negele> for PolicySpec {
    fn from(policy: Negele) -> Self {
        Self(Kind::Piece(Piece::Negele(policy)))
    }
}

#[cfg(feature = "all-policies")]
impl From<NegeleLocal> for PolicySpec {
    fn from(policy: NegeleLocal) -> Self {
        Self(Kind::Piece(Piece::NegeleLocal(policy)))
    }
}

#[cfg(feature = "all-policies")]
impl From<Cforall> for PolicySpec {
    fn from(policy: Cforall) -> Self {
        Self(Kind::Piece(Piece::Cforall(policy)))
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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
        parser.is_compiled(start, &kind)?;
        parser.options(words, start, &mut kind)?;
        Ok(Self(kind))
    }
}
