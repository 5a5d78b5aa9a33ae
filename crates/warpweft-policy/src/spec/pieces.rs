//! Policies that are one piece, and their options. What is possible the policies know themselves: this file
//! only adds where in the text the impossible is.

#[cfg(feature = "all-policies")]
use super::kind::PolicyVisitor;
use super::words::{Parsed, Parser, Word};
use crate::stealing::MOST_CAPACITY;
use crate::{Cforall, Edf, Go, Libfibre, Negele, NegeleLocal, Parsimonious, PolicyError, ProWs, Tokio};
use std::fmt;
use std::time::Duration;

/// The policies that are one piece.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    Negele(Negele),
    NegeleLocal(NegeleLocal),
    Cforall(Cforall),
    Go(Go),
    Tokio(Tokio),
    Libfibre(Libfibre),
    ProWs(ProWs),
    Parsimonious(Parsimonious),
    Edf(Edf),
}

impl Piece {
    #[cfg(feature = "all-policies")]
    pub(super) fn visit<V: PolicyVisitor>(self, visitor: V) -> V::Output {
        match self {
            Self::Negele(policy) => visitor.visit(policy),
            Self::NegeleLocal(policy) => visitor.visit(policy),
            Self::Cforall(policy) => visitor.visit(policy),
            Self::Go(policy) => visitor.visit(policy),
            Self::Tokio(policy) => visitor.visit(policy),
            Self::Libfibre(policy) => visitor.visit(policy),
            Self::ProWs(policy) => visitor.visit(policy),
            Self::Parsimonious(policy) => visitor.visit(policy),
            Self::Edf(policy) => visitor.visit(policy),
        }
    }

    fn options(&self) -> &'static [&'static str] {
        match self {
            Self::ProWs(_) | Self::Parsimonious(_) => &["capacity"],
            Self::NegeleLocal(_) => &["balance"],
            Self::Edf(_) => &["slack"],
            Self::Cforall(_) => &["lanes", "every", "age", "far", "weight", "clock", "capacity"],
            Self::Negele(_) | Self::Go(_) | Self::Tokio(_) | Self::Libfibre(_) => &[],
        }
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Negele(policy) => policy.fmt(f),
            Self::NegeleLocal(policy) => policy.fmt(f),
            Self::Cforall(policy) => policy.fmt(f),
            Self::Go(policy) => policy.fmt(f),
            Self::Tokio(policy) => policy.fmt(f),
            Self::Libfibre(policy) => policy.fmt(f),
            Self::ProWs(policy) => policy.fmt(f),
            Self::Parsimonious(policy) => policy.fmt(f),
            Self::Edf(policy) => policy.fmt(f),
        }
    }
}

impl<'a> Parser<'a> {
    /// A piece with a number. `None`: there is no such piece.
    pub(super) fn piece(&self, name: Word<'_>, number: Word<'_>) -> Parsed<Option<Piece>> {
        let levels = || self.whole(number, "a number of levels");
        Ok(Some(match name.text {
            "negele" => {
                let policy = Negele::new().levels(levels()?);
                self.possible(policy.check(), number)?;
                Piece::Negele(policy)
            }
            "negele-local" => {
                let policy = NegeleLocal::new().levels(levels()?);
                self.possible(policy.check(), number)?;
                Piece::NegeleLocal(policy)
            }
            _ => return Ok(None),
        }))
    }

    /// The words after the first one.
    pub(super) fn piece_options(
        &self,
        words: impl Iterator<Item = Word<'a>>,
        start: Word<'_>,
        piece: &mut Piece,
    ) -> Parsed<()> {
        let names = piece.options();
        let mut seen = Vec::new();
        for word in words {
            let option = word
                .split_once('=')
                .filter(|(name, _)| names.contains(&name.text));
            let Some((name, value)) = option else {
                let valid = if names.is_empty() {
                    String::from("options go with an order")
                } else {
                    format!(
                        "`{}` has these options, each once: {}=",
                        start.text,
                        names.join("=, ")
                    )
                };
                let problem = match names {
                    [] => format!("`{}` is one piece, and has no options", start.text),
                    _ => format!("`{}` is not an option", word.text),
                };
                return Err(self.error(word, problem, valid));
            };
            if seen.contains(&name.text) {
                let problem = format!("`{}` is given a second time", name.text);
                return Err(self.error(name, problem, "say each option once"));
            }
            seen.push(name.text);
            self.set(piece, name.text, value)?;
        }
        Ok(())
    }

    fn set(&self, piece: &mut Piece, name: &str, value: Word<'_>) -> Parsed<()> {
        match piece {
            Piece::ProWs(policy) => policy.capacity = self.capacity(value)?,
            Piece::Parsimonious(policy) => policy.capacity = self.capacity(value)?,
            Piece::NegeleLocal(policy) => {
                *policy = policy.clone().balance(self.small(value, "a number of tasks")?);
                self.possible(policy.check(), value)?;
            }
            Piece::Cforall(policy) => {
                *policy = self.constant(policy.clone(), name, value)?;
                self.possible(policy.check(), value)?;
            }
            Piece::Edf(policy) => {
                let ms = self.whole(value, "a number of milliseconds")?;
                *policy = policy.clone().slack(Duration::from_millis(ms as u64));
                self.possible(policy.check(), value)?;
            }
            Piece::Negele(_) | Piece::Go(_) | Piece::Tokio(_) | Piece::Libfibre(_) => {}
        }
        Ok(())
    }

    /// One of the constants of C∀.
    fn constant(&self, policy: Cforall, name: &str, value: Word<'_>) -> Parsed<Cforall> {
        Ok(match name {
            "lanes" => policy.lanes(self.whole(value, "a number of lanes")?),
            "every" => policy.every(self.small(value, "a number of pops")?),
            "age" => policy.age_log2(self.small(value, "a power of two")?),
            "far" => policy.far(self.small(value, "a number of choices of 256")?),
            "weight" => policy.weight(self.small(value, "a number of sixteenths")?),
            "clock" => policy.clock_every(self.small(value, "a number of pops")?),
            _ => policy.capacity(self.capacity(value)?),
        })
    }

    fn capacity(&self, value: Word<'_>) -> Parsed<usize> {
        self.number(value, "a capacity", MOST_CAPACITY).map(Into::into)
    }

    fn small(&self, value: Word<'_>, what: &str) -> Parsed<u32> {
        // What is too large for any of them is so for its policy, too.
        self.whole(value, what)
            .map(|number| u32::try_from(number).unwrap_or(u32::MAX))
    }

    /// A number, 0 included.
    fn whole(&self, value: Word<'_>, what: &str) -> Parsed<usize> {
        let number = value.text.parse();
        number.map_err(|_| {
            let problem = format!("`{}` is not {what}", value.text);
            self.error(value, problem, format!("{what} is a whole number"))
        })
    }

    /// What a policy says of itself, as an error of the text.
    fn possible(&self, check: Result<(), PolicyError>, value: Word<'_>) -> Parsed<()> {
        check.map_err(|error| {
            let error = error.to_string();
            let (problem, valid) = error.split_once(": ").unwrap_or((&error, "another number"));
            self.error(value, problem, valid)
        })
    }
}
