//! The words of a policy's text, and errors that say where in it something is wrong.

use std::fmt;
use std::num::NonZeroUsize;

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

/// A word of the text and where it begins.
#[derive(Clone, Copy)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    pub(super) position: usize,
}

impl<'a> Word<'a> {
    /// The word without the spaces around it.
    pub(super) fn trimmed(self) -> Self {
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
    pub(super) fn named(self) -> (&'a str, Self) {
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
pub(super) struct Parser<'a>(pub(super) &'a str);

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

    pub(super) fn unknown(&self, value: Word<'_>, valid: &str) -> ParsePolicyError {
        self.error(value, format!("`{}` is unknown", value.text), valid)
    }

    pub(super) fn words(&self) -> impl Iterator<Item = Word<'a>> {
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
}
