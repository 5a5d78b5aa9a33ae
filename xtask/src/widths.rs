//! Lines of comments and documents that are too wide.
//!
//! rustfmt keeps code to 110 columns and leaves comments alone. Tables and blocks of code in documents may be
//! wider. So may a line with one word that fills most of it, such as an address.

use crate::repo::Repo;
use crate::text::{self, Kind};
use anyhow::Result;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The widest line.
pub(crate) const MOST: usize = 110;
/// A word of this many columns excuses its line.
const LONG_WORD: usize = 70;

/// A line that is too wide.
pub(crate) struct Wide {
    pub(crate) path: PathBuf,
    /// The crate, or the folder at the top.
    pub(crate) area: String,
    pub(crate) line: usize,
    pub(crate) columns: usize,
}

/// All lines of comments and documents that are too wide. The records of decisions are read as well.
pub(crate) fn wide(repo: &Repo) -> Result<Vec<Wide>> {
    let mut found = Vec::new();
    for (path, area) in repo.sources(&["rs", "md"])? {
        let text = fs::read_to_string(repo.root.join(&path))?;
        for (line, columns) in too_wide(&path, &text) {
            found.push(Wide {
                path: path.clone(),
                area: area.clone(),
                line,
                columns,
            });
        }
    }
    Ok(found)
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
