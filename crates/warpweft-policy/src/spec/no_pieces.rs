//! The place of `pieces.rs` without the feature `policies`: no text names a policy that is one piece.

use super::kind::PolicyVisitor;
use super::words::{Parsed, Parser, Word};
use std::fmt;

/// There is none.
#[derive(Debug, Clone)]
pub(super) enum Piece {}

impl Piece {
    pub(super) fn visit<V: PolicyVisitor>(self, _visitor: V) -> V::Output {
        match self {}
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl<'a> Parser<'a> {
    #[allow(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "it has the signature of `pieces.rs`"
    )]
    pub(super) fn piece(&self, _name: Word<'_>, _number: Word<'_>) -> Parsed<Option<Piece>> {
        Ok(None)
    }

    #[allow(clippy::unused_self, reason = "it has the signature of `pieces.rs`")]
    pub(super) fn piece_options(
        &self,
        _words: impl Iterator<Item = Word<'a>>,
        _start: Word<'_>,
        piece: &mut Piece,
    ) -> Parsed<()> {
        match *piece {}
    }
}
