//! Decision records that comments and documents name exist.
//!
//! A record is named by its number: a word of prose of four digits that begins with `00`. A number without a
//! file must be in the table of `docs/decisions/README.md`, which says what became of it. So must each gap in
//! the numbers.

use crate::repo::{DECISIONS, Repo};
use crate::text::{self, Kind};
use anyhow::{Context as _, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

pub(super) fn check(repo: &Repo) -> Result<Vec<String>> {
    let folder = repo.root.join(DECISIONS);
    let mut written = BTreeSet::new();
    for path in repo.files(&folder, "md")? {
        written.extend(number_of_file(&path));
    }
    let readme = folder.join("README.md");
    let text = fs::read_to_string(&readme).with_context(|| format!("cannot read {}", readme.display()))?;
    let records = Records {
        written,
        given_up: given_up(&text),
    };
    let mut broken = records.gaps();
    for (path, _) in repo.sources(&["rs", "md", "toml"])? {
        let text = fs::read_to_string(repo.root.join(&path))?;
        for (line, number) in named(&path, &text) {
            if !records.known(number) {
                broken.push(format!(
                    "{}:{line}: there is no record {number:04}",
                    path.display()
                ));
            }
        }
    }
    Ok(broken)
}

/// The numbers of the records.
struct Records {
    written: BTreeSet<u16>,
    given_up: BTreeSet<u16>,
}

impl Records {
    fn known(&self, number: u16) -> bool {
        self.written.contains(&number) || self.given_up.contains(&number)
    }

    /// The numbers that nothing explains, and explanations of numbers that exist.
    fn gaps(&self) -> Vec<String> {
        let last = self.written.last().copied().unwrap_or(0);
        let missing = (1..=last).filter(|number| !self.known(*number));
        let missing = missing.map(|number| {
            format!("{DECISIONS}: {number:04} is missing, and README.md does not say what became of it")
        });
        let both = self.given_up.intersection(&self.written);
        let both =
            both.map(|number| format!("{DECISIONS}/README.md: {number:04} has a file, and was not given up"));
        missing.chain(both).collect()
    }
}

fn number_of_file(path: &Path) -> Option<u16> {
    let name = path.file_name()?.to_str()?;
    name.split_once('-')?.0.parse().ok()
}

/// A word of four digits that begins with `00`.
fn number(word: &str) -> Option<u16> {
    let digits = word.len() == 4 && word.starts_with("00") && word.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| word.parse().ok()).flatten()
}

/// The records that the prose of a file names, with their lines.
fn named(path: &Path, text: &str) -> Vec<(usize, u16)> {
    let pieces = text::pieces(path, text);
    let prose = pieces.into_iter().filter(|piece| piece.kind == Kind::Prose);
    prose
        .flat_map(|piece| {
            let is_inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
            let words = piece.text.split(move |c| !is_inside(c));
            words.filter_map(number).map(move |number| (piece.line, number))
        })
        .collect()
}

/// The numbers of the first column of the table in the README; `0031 to 0034` are four.
fn given_up(text: &str) -> BTreeSet<u16> {
    let mut found = BTreeSet::new();
    let rows = text.lines().filter_map(|line| line.strip_prefix('|'));
    for cell in rows.filter_map(|row| row.split('|').next()) {
        let mut from = None;
        for word in cell.split([' ', ',']) {
            match (number(word), from) {
                (Some(to), Some(from)) => found.extend(from..=to),
                (Some(number), None) => drop(found.insert(number)),
                (None, _) => {}
            }
            from = if word == "to" { found.last().copied() } else { None };
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Records, given_up, named};
    use std::path::Path;

    fn numbers(text: &str) -> Vec<u16> {
        given_up(text).into_iter().collect()
    }

    #[test]
    fn numbers_in_prose_are_records() {
        let text = "// See record 0054 (0055), [0056](x/0057-y.md); not `0058`, RUSTSEC-2025-0023, 10059.\n\
                    let x = 0060; // 0061's\n";
        let found = named(Path::new("x.rs"), text);
        assert_eq!(found, [(1, 54), (1, 55), (1, 56), (2, 61)]);
        assert_eq!(named(Path::new("x.md"), "as 0003 says"), [(1, 3)]);
    }

    #[test]
    fn the_table_has_single_numbers_and_ranges() {
        let text = "0001\n| number | why |\n|---|---|\n| 0031 to 0034, 0040 | of 0050 |\n| 0043 | x |\n";
        assert_eq!(numbers(text), [31, 32, 33, 34, 40, 43]);
    }

    #[test]
    fn each_gap_is_explained() {
        let records = Records {
            written: [1, 2, 5, 6].into(),
            given_up: [3, 6].into(),
        };
        let found = records.gaps();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("0004 is missing"), "{found:?}");
        assert!(found[1].contains("0006 has a file"), "{found:?}");
        assert!(records.known(5) && !records.known(4));
    }
}
