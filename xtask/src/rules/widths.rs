//! Lines of comments and documents are as narrow as those of code.
//!
//! rustfmt keeps code to 110 columns and leaves comments alone. Tables and blocks of code in documents may be
//! wider. So may a line with one word that fills most of it, such as an address.

use crate::repo::Repo;
use crate::text::{self, Kind};
use anyhow::Result;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The widest line.
const MOST: usize = 110;
/// A word of this many columns excuses its line.
const LONG_WORD: usize = 70;

/// The records of decisions are read as well.
pub(super) fn check(repo: &Repo) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for (path, _) in repo.sources(&["rs", "md"])? {
        let text = fs::read_to_string(repo.root.join(&path))?;
        for (line, columns) in too_wide(&path, &text) {
            complaints.push(format!(
                "{}:{line}: {columns} columns, more than {MOST}",
                path.display()
            ));
        }
    }
    Ok(complaints)
}

fn too_wide(path: &Path, text: &str) -> Vec<(usize, usize)> {
    let is_document = path.extension().is_some_and(|extension| extension == "md");
    let prose: BTreeSet<usize> = text::pieces(path, text)
        .iter()
        // In a comment, code is meant to be read as well.
        .filter(|piece| piece.kind == Kind::Prose || (!is_document && piece.kind == Kind::Quoted))
        .map(|piece| piece.line)
        .collect();
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line));
    lines
        .filter(|(number, line)| {
            let start = line.trim_start();
            let comment = is_document || start.starts_with("//") || line.contains(" //");
            let table = start.trim_start_matches(['/', '!', ' ']).starts_with('|');
            let long_word = line
                .split_whitespace()
                .any(|word| word.chars().count() > LONG_WORD);
            comment && prose.contains(number) && !table && !long_word
        })
        .map(|(number, line)| (number, line.chars().count()))
        .filter(|(_, columns)| *columns > MOST)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::too_wide;
    use std::path::Path;

    #[test]
    fn wide_lines_are_found() {
        let wide = "many words ".repeat(11);
        let text =
            format!("/// {wide}\nfn f() {{}} // {wide}\nlet s = \"{wide}\";\n/// | {wide} |\n// narrow\n");
        let found: Vec<_> = too_wide(Path::new("x.rs"), &text);
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 2]);
        let text = format!(
            "{wide}\n| {wide} |\n```\n{wide}\n```\nsee https://{}\n",
            "x".repeat(120)
        );
        assert_eq!(too_wide(Path::new("x.md"), &text), [(1, 121)]);
    }
}
