//! The options of policies that are one piece. The policies decide which values are possible; this file only
//! adds the position in the text.

use super::Kind;
use super::parse::{Parsed, Parser, Word};
use crate::stealing::MOST_CAPACITY;
use crate::{Cforall, Negele, NegeleLocal, PolicyError};

impl<'a> Parser<'a> {
    /// Parses a piece with a number; `None` if there is no such piece.
    pub(super) fn piece(&self, name: &str, number: Word<'_>) -> Parsed<Option<Kind>> {
        let levels = || self.whole(number, "a number of levels");
        Ok(Some(match name {
            "negele" => {
                let policy = Negele::new().levels(levels()?);
                self.possible(policy.check(), number)?;
                Kind::Negele(policy)
            }
            "negele-local" => {
                let policy = NegeleLocal::new().levels(levels()?);
                self.possible(policy.check(), number)?;
                Kind::NegeleLocal(policy)
            }
            _ => return Ok(None),
        }))
    }

    /// Parses the words after the first one.
    pub(super) fn piece_options(
        &self,
        words: impl Iterator<Item = Word<'a>>,
        start: Word<'_>,
        kind: &mut Kind,
    ) -> Parsed<()> {
        let names = kind.options();
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
            self.set(kind, name.text, value)?;
        }
        Ok(())
    }

    fn set(&self, kind: &mut Kind, name: &str, value: Word<'_>) -> Parsed<()> {
        match kind {
            Kind::ProWs(policy) => policy.capacity = self.capacity(value)?,
            Kind::Parsimonious(policy) => policy.capacity = self.capacity(value)?,
            Kind::NegeleLocal(policy) => {
                *policy = policy.clone().balance(self.small(value, "a number of tasks")?);
                self.possible(policy.check(), value)?;
            }
            Kind::Cforall(policy) => {
                *policy = self.constant(policy.clone(), name, value)?;
                self.possible(policy.check(), value)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Parses one of the constants of C∀.
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
        // A value that is too large for any of them is too large for its policy, too.
        self.whole(value, what)
            .map(|number| u32::try_from(number).unwrap_or(u32::MAX))
    }

    /// Parses a number, 0 included.
    fn whole(&self, value: Word<'_>, what: &str) -> Parsed<usize> {
        let number = value.text.parse();
        number.map_err(|_| {
            let problem = format!("`{}` is not {what}", value.text);
            self.error(value, problem, format!("{what} is a whole number"))
        })
    }

    /// Turns a policy's error into an error of the text.
    fn possible(&self, check: Result<(), PolicyError>, value: Word<'_>) -> Parsed<()> {
        check.map_err(|error| {
            let error = error.to_string();
            let (problem, valid) = error.split_once(": ").unwrap_or((&error, "another number"));
            self.error(value, problem, valid)
        })
    }
}
