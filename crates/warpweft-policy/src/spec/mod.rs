//! Policies as text: `lifo+steal=half+victims=nearest:15+overflow=multi:5+yield=global`.
//!
//! ```text
//! policy   = ( name | order ) { "+" option } | piece
//! name     = one of `PolicySpec::presets`
//! order    = "fifo" | "chain" | "lifo" | "slot:" N | "alternate:" N | "stochastic:" PERCENT | "reverse:" N | "adaptive:" N | "priority:" LEVELS
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
//!          | "cforall" { "+lanes=" N | "+every=" N | "+age=" LOG2 | "+far=" OF256 | "+weight=" SIXTEENTHS | "+clock=" N | "+capacity=" N }
//!          | ( "prows" | "parsimonious" ) [ "+capacity=" N ]
//! ```
//!
//! Spaces around words do not matter. What is left out is as the name or the order has it. What a name says
//! is not taken back by an option: `fifo-one+steal=half` is an error, and `fifo+steal=half` is what was
//! meant. Options of the axes are for policies that are assembled from parts; a policy that is one piece has
//! its own, or none.
//!
//! Texts of pieces need the feature `policies`. A pool's code is compiled for each policy that a text can
//! name, so a program that needs none of the pieces builds faster without them.
//!
//! # A policy more
//!
//! One that is one piece is a variant of [`Piece`], with its line in each `match` of `pieces.rs`, a line of
//! [`PRESETS`], and a name in `no_pieces.rs`. One that is assembled is a line of [`PRESETS`].

mod parse;
#[cfg(feature = "policies")]
mod pieces;
#[cfg(not(feature = "policies"))]
#[path = "no_pieces.rs"]
mod pieces;
mod presets;
#[cfg(test)]
mod tests;

use crate::stealing::Axes;
use crate::{Chained, Fifo, Lifo, Mixed, Policy, Prioritised, Slotted};
use pieces::Piece;
use presets::PRESETS;
use std::fmt;

pub use parse::ParsePolicyError;

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

/// The types of policies that a text can name: a worker's loop is compiled for each.
#[derive(Debug, Clone)]
enum Kind {
    Fifo(Fifo),
    Chained(Chained),
    Lifo(Lifo),
    Mixed(Mixed),
    Slotted(Slotted),
    Prioritised(Prioritised),
    Piece(Piece),
}

impl Kind {
    /// The axes of a policy that is assembled from parts, and what they are with its order alone; `None` for
    /// one that is one piece.
    fn axes_mut(&mut self) -> Option<(&mut Axes, Axes)> {
        match self {
            Self::Fifo(policy) => Some((policy.axes_mut(), Fifo::USUAL)),
            Self::Chained(policy) => Some((policy.axes_mut(), Chained::USUAL)),
            Self::Lifo(policy) => Some((policy.axes_mut(), Lifo::USUAL)),
            Self::Mixed(policy) => Some((policy.axes_mut(), Mixed::USUAL)),
            Self::Slotted(policy) => Some((policy.axes_mut(), Slotted::USUAL)),
            Self::Prioritised(policy) => Some((policy.axes_mut(), Prioritised::USUAL)),
            Self::Piece(_) => None,
        }
    }
}

/// Receives the policy of a [`PolicySpec`] as a type of its own.
pub trait PolicyVisitor {
    /// What the visit results in.
    type Output;

    /// Called once, with the policy.
    fn visit<P: Policy>(self, policy: P) -> Self::Output;
}

impl PolicySpec {
    /// Calls the visitor with the policy that the text described: one instance of the visitor's code per
    /// policy type, and no indirection afterwards.
    pub fn visit<V: PolicyVisitor>(self, visitor: V) -> V::Output {
        match self.0 {
            Kind::Fifo(policy) => visitor.visit(policy),
            Kind::Chained(policy) => visitor.visit(policy),
            Kind::Lifo(policy) => visitor.visit(policy),
            Kind::Mixed(policy) => visitor.visit(policy),
            Kind::Slotted(policy) => visitor.visit(policy),
            Kind::Prioritised(policy) => visitor.visit(policy),
            Kind::Piece(piece) => piece.visit(visitor),
        }
    }

    /// The policies worth comparing at first sight.
    #[must_use]
    pub fn presets() -> &'static [Preset] {
        PRESETS
    }
}

/// A policy that has a name.
pub struct Preset {
    name: &'static str,
    about: &'static str,
    source: &'static str,
    make: fn() -> Kind,
}

impl Preset {
    /// What it is called: a text that parses.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it does, and what it may be good for.
    #[must_use]
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// Where it comes from.
    #[must_use]
    pub fn source(&self) -> &'static str {
        self.source
    }

    /// The policy.
    #[must_use]
    pub fn spec(&self) -> PolicySpec {
        PolicySpec((self.make)())
    }
}

impl fmt::Debug for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Preset").field("name", &self.name).finish()
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

impl From<Chained> for PolicySpec {
    fn from(policy: Chained) -> Self {
        Self(Kind::Chained(policy))
    }
}

impl From<Lifo> for PolicySpec {
    fn from(policy: Lifo) -> Self {
        Self(Kind::Lifo(policy))
    }
}

impl From<Mixed> for PolicySpec {
    fn from(policy: Mixed) -> Self {
        Self(Kind::Mixed(policy))
    }
}

impl From<Slotted> for PolicySpec {
    fn from(policy: Slotted) -> Self {
        Self(Kind::Slotted(policy))
    }
}

impl From<Prioritised> for PolicySpec {
    fn from(policy: Prioritised) -> Self {
        Self(Kind::Prioritised(policy))
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo(policy) => policy.fmt(f),
            Self::Chained(policy) => policy.fmt(f),
            Self::Lifo(policy) => policy.fmt(f),
            Self::Mixed(policy) => policy.fmt(f),
            Self::Slotted(policy) => policy.fmt(f),
            Self::Prioritised(policy) => policy.fmt(f),
            Self::Piece(piece) => piece.fmt(f),
        }
    }
}
