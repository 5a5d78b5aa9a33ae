//! The policies that a text can name, as one type.

use super::pieces::Piece;
use crate::stealing::Axes;
use crate::{
    Chained, Classed, Fifo, FifoBehind, Lifo, LifoBehind, Mixed, Policy, Prioritised, Shortest, Slotted,
};
use std::fmt;

/// The types of policies that a text can name. A worker's loop is compiled for each that this build has the
/// feature of.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    Fifo(Fifo),
    FifoBehind(FifoBehind),
    LifoBehind(LifoBehind),
    Shortest(Shortest),
    Chained(Chained),
    Lifo(Lifo),
    Mixed(Mixed),
    Slotted(Slotted),
    Prioritised(Prioritised),
    Classed(Classed),
    Piece(Piece),
}

impl Kind {
    /// The axes of a policy that is assembled from parts, and what they are with its order alone; `None` for
    /// one that is one piece.
    pub(super) fn axes_mut(&mut self) -> Option<(&mut Axes, Axes)> {
        match self {
            Self::Fifo(policy) => Some((policy.axes_mut(), Fifo::USUAL)),
            Self::FifoBehind(policy) => Some((policy.axes_mut(), FifoBehind::USUAL)),
            Self::LifoBehind(policy) => Some((policy.axes_mut(), LifoBehind::USUAL)),
            Self::Shortest(policy) => Some((policy.axes_mut(), Shortest::USUAL)),
            Self::Chained(policy) => Some((policy.axes_mut(), Chained::USUAL)),
            Self::Lifo(policy) => Some((policy.axes_mut(), Lifo::USUAL)),
            Self::Mixed(policy) => Some((policy.axes_mut(), Mixed::USUAL)),
            Self::Slotted(policy) => Some((policy.axes_mut(), Slotted::USUAL)),
            Self::Prioritised(policy) => Some((policy.axes_mut(), Prioritised::USUAL)),
            Self::Classed(policy) => Some((policy.axes_mut(), Classed::USUAL)),
            Self::Piece(_) => None,
        }
    }

    /// Returns the feature that this build would need to visit the policy; `None` if it can.
    pub(super) fn missing_feature(&self) -> Option<&'static str> {
        match self {
            Self::Fifo(_) | Self::Shortest(_) => None,
            Self::Lifo(_) | Self::Slotted(_) | Self::Prioritised(_) => {
                (!cfg!(feature = "policies")).then_some("policies")
            }
            Self::FifoBehind(_)
            | Self::LifoBehind(_)
            | Self::Chained(_)
            | Self::Mixed(_)
            | Self::Classed(_)
            | Self::Piece(_) => (!cfg!(feature = "all-policies")).then_some("all-policies"),
        }
    }

    /// Visits the policy. Its feature must not be [missing](Self::missing_feature).
    pub(super) fn visit<V: PolicyVisitor>(self, visitor: V) -> V::Output {
        match self {
            Self::Fifo(policy) => visitor.visit(policy),
            Self::Shortest(policy) => visitor.visit(policy),
            #[cfg(feature = "policies")]
            Self::Lifo(policy) => visitor.visit(policy),
            #[cfg(feature = "policies")]
            Self::Slotted(policy) => visitor.visit(policy),
            #[cfg(feature = "policies")]
            Self::Prioritised(policy) => visitor.visit(policy),
            #[cfg(feature = "all-policies")]
            Self::FifoBehind(policy) => visitor.visit(policy),
            #[cfg(feature = "all-policies")]
            Self::LifoBehind(policy) => visitor.visit(policy),
            #[cfg(feature = "all-policies")]
            Self::Chained(policy) => visitor.visit(policy),
            #[cfg(feature = "all-policies")]
            Self::Mixed(policy) => visitor.visit(policy),
            #[cfg(feature = "all-policies")]
            Self::Classed(policy) => visitor.visit(policy),
            #[cfg(feature = "all-policies")]
            Self::Piece(piece) => piece.visit(visitor),
            #[cfg(not(feature = "all-policies"))]
            _ => unreachable!("a spec has no policy whose feature is missing"),
        }
    }
}

/// Receives the policy of a [`PolicySpec`](super::PolicySpec) as its own type.
pub trait PolicyVisitor {
    /// What the visit results in.
    type Output;

    /// Called once, with the policy.
    fn visit<P: Policy>(self, policy: P) -> Self::Output;
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo(policy) => policy.fmt(f),
            Self::FifoBehind(policy) => policy.fmt(f),
            Self::LifoBehind(policy) => policy.fmt(f),
            Self::Shortest(policy) => policy.fmt(f),
            Self::Chained(policy) => policy.fmt(f),
            Self::Lifo(policy) => policy.fmt(f),
            Self::Mixed(policy) => policy.fmt(f),
            Self::Slotted(policy) => policy.fmt(f),
            Self::Prioritised(policy) => policy.fmt(f),
            Self::Classed(policy) => policy.fmt(f),
            Self::Piece(piece) => piece.fmt(f),
        }
    }
}
