//! Words that are retired are used nowhere. The table says what to write instead.

use crate::repo::{self, Repo};
use crate::text::{self, Kind};
use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// The table, relative to the root.
const TABLE: &str = "xtask/words.toml";
/// Paths that are not read: history keeps its words, and the table has to name them.
const UNREAD: [&str; 3] = [repo::DECISIONS, "Cargo.lock", TABLE];
/// A document whose table says which name became which.
const CHANGES: &str = "CHANGELOG.md";

/// Complains of each line with a word that is retired.
pub(super) fn check(repo: &Repo) -> Result<Vec<String>> {
    let entries = parse(&fs::read_to_string(repo.root.join(TABLE))?)?;
    let index = Index::new(&entries);
    let mut complaints = Vec::new();
    for (path, area) in repo.sources(&["rs", "md", "toml"])? {
        if UNREAD.iter().any(|unread| path.starts_with(unread)) {
            continue;
        }
        let text = fs::read_to_string(repo.root.join(&path))?;
        let place = SourcePlace {
            path: &path,
            area: &area,
        };
        for (number, line) in index.uses(&place, &text) {
            let (old, better) = (entries[number].old(), &entries[number].better);
            complaints.push(format!("{}:{line}: `{old}` is retired: {better}", path.display()));
        }
    }
    Ok(complaints)
}

/// The table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    words: Vec<Entry>,
}

/// A retired word. It is one of `part`, `name`, `phrase` and `file`.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Parts of identifiers, in any case: `fall_over` is in `FallOver` and in `fall_over_now`.
    part: Option<String>,
    /// A whole identifier, in this case; in prose only within backticks, in strings not at all.
    name: Option<String>,
    /// Words of prose, in any case.
    phrase: Option<String>,
    /// The name of a file without its extension, or of a folder.
    file: Option<String>,
    /// The word to write instead.
    #[serde(rename = "use")]
    better: String,
    /// Only in these crates.
    #[serde(default)]
    crates: Vec<String>,
    /// Only in `code` (quoted code too) or only in `prose`.
    text: Option<Text>,
    /// Not in these files and folders.
    #[serde(default)]
    except: Vec<String>,
}

/// A kind of text that a word is limited to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Text {
    Code,
    Prose,
}

impl Entry {
    fn old(&self) -> &str {
        let forms = [&self.part, &self.name, &self.phrase, &self.file];
        forms.into_iter().flatten().next().map_or("", String::as_str)
    }

    fn holds_in(&self, place: &SourcePlace<'_>, kind: Kind) -> bool {
        let kind_fits = match self.text {
            None => true,
            Some(Text::Code) => kind != Kind::Prose,
            Some(Text::Prose) => kind == Kind::Prose,
        };
        let in_crate = self.crates.is_empty() || self.crates.iter().any(|name| name == place.area);
        kind_fits && in_crate && !self.except.iter().any(|path| place.path.starts_with(path))
    }
}

/// A file, relative to the root, and the crate or folder that it belongs to.
struct SourcePlace<'a> {
    path: &'a Path,
    area: &'a str,
}

/// The table, ready for look-ups by the first part or word of each entry.
struct Index<'a> {
    entries: &'a [Entry],
    /// By the first part of an identifier: the other parts.
    parts: HashMap<String, Vec<(usize, Vec<String>)>>,
    names: HashMap<&'a str, Vec<usize>>,
    phrases: HashMap<String, Vec<(usize, Vec<String>)>>,
    files: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Index<'a> {
    fn new(entries: &'a [Entry]) -> Self {
        let mut index = Self {
            entries,
            parts: HashMap::new(),
            names: HashMap::new(),
            phrases: HashMap::new(),
            files: HashMap::new(),
        };
        for (number, entry) in entries.iter().enumerate() {
            let put = |map: &mut HashMap<String, Vec<_>>, mut words: Vec<String>| {
                if !words.is_empty() {
                    let first = words.remove(0);
                    // A word alone is also found with the `s` of the plural.
                    if words.is_empty() {
                        map.entry(format!("{first}s"))
                            .or_default()
                            .push((number, Vec::new()));
                    }
                    map.entry(first).or_default().push((number, words));
                }
            };
            if let Some(part) = &entry.part {
                put(&mut index.parts, parts(part));
            }
            if let Some(phrase) = &entry.phrase {
                let words = words(phrase).into_iter().map(|word| word.text.to_lowercase());
                put(&mut index.phrases, words.collect());
            }
            if let Some(name) = &entry.name {
                index.names.entry(name).or_default().push(number);
            }
            if let Some(file) = &entry.file {
                index.files.entry(file).or_default().push(number);
            }
        }
        index
    }

    /// The uses in a file. One line counts once for an entry, its path is line 0.
    fn uses(&self, place: &SourcePlace<'_>, text: &str) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let stems = place.path.components().filter_map(|part| {
            let name = part.as_os_str().to_str()?;
            Some(name.split('.').next().unwrap_or(name))
        });
        for stem in stems {
            let numbers = self.files.get(stem).into_iter().flatten();
            found.extend(numbers.map(|number| (0, *number, Kind::Code)));
            self.in_code(stem, |number| found.push((0, number, Kind::Code)));
        }
        // The words of prose that follow each other, over the ends of lines.
        let mut said: Vec<(usize, Word<'_>)> = Vec::new();
        let is_table = |line: &str| place.path == Path::new(CHANGES) && line.trim_start().starts_with('|');
        let skipped: Vec<bool> = text.lines().map(is_table).collect();
        for piece in text::pieces(place.path, text) {
            if skipped[piece.line - 1] {
                continue;
            }
            for word in words(piece.text) {
                let mut add = |number: usize| found.push((piece.line, number, piece.kind));
                match piece.kind {
                    Kind::Code | Kind::Quoted => self.in_code(word.text, add),
                    Kind::Prose | Kind::String => self.in_parts(word.text, &mut add),
                }
                if piece.kind == Kind::Prose {
                    said.push((piece.line, word));
                }
            }
            if piece.kind != Kind::Prose {
                self.in_prose(&mut said, &mut found);
            }
        }
        self.in_prose(&mut said, &mut found);
        let mut uses: Vec<_> = found
            .into_iter()
            .filter(|(_, number, kind)| self.entries[*number].holds_in(place, *kind))
            .map(|(line, number, _)| (number, line))
            .collect();
        uses.sort_unstable();
        uses.dedup();
        uses
    }

    /// Words of code may have hyphens: names of files and packages. Their pieces are looked at as well.
    fn in_code(&self, word: &str, mut add: impl FnMut(usize)) {
        for name in word.split('-') {
            self.names
                .get(name)
                .into_iter()
                .flatten()
                .for_each(|number| add(*number));
            self.in_parts(name, &mut add);
        }
    }

    fn in_parts(&self, word: &str, add: &mut impl FnMut(usize)) {
        let parts = parts(word);
        for (place, part) in parts.iter().enumerate() {
            for (number, rest) in self.parts.get(part).into_iter().flatten() {
                if parts[place + 1..].starts_with(rest) {
                    add(*number);
                }
            }
        }
    }

    /// The phrases among the words that were said; those are used up.
    fn in_prose(&self, said: &mut Vec<(usize, Word<'_>)>, found: &mut Vec<(usize, usize, Kind)>) {
        for (place, (line, word)) in said.iter().enumerate() {
            let phrases = self.phrases.get(&word.text.to_lowercase());
            for (number, rest) in phrases.into_iter().flatten() {
                let after = said.get(place + 1..place + 1 + rest.len());
                let follows = |(word, (_, said)): (&String, &(usize, Word<'_>))| {
                    said.follows && said.text.to_lowercase() == *word
                };
                if after.is_some_and(|after| rest.iter().zip(after).all(follows)) {
                    found.push((*line, *number, Kind::Prose));
                }
            }
        }
        said.clear();
    }
}

/// A word and whether only space is between it and the word before.
#[derive(Debug, Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    follows: bool,
}

/// The words of a piece: letters, digits, `_` and inner hyphens. Signs of comments at its start are no text.
fn words(text: &str) -> Vec<Word<'_>> {
    let text = text.trim_start_matches(['/', '!', '*', '#', '>', ' ']);
    let is_inside = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let mut found = Vec::new();
    let mut follows = true;
    let mut rest = text;
    while let Some(start) = rest.find(is_inside) {
        follows &= rest[..start].trim().is_empty();
        rest = &rest[start..];
        let end = rest.find(|c| !is_inside(c)).unwrap_or(rest.len());
        let text = rest[..end].trim_matches('-');
        if !text.is_empty() {
            found.push(Word { text, follows });
            follows = true;
        }
        rest = &rest[end..];
    }
    found
}

/// The parts of an identifier, in lower case: `fall_over` and `FallOver` have two.
fn parts(name: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut last = '_';
    for c in name.chars() {
        let begins = !c.is_alphanumeric() || (c.is_uppercase() && !last.is_uppercase());
        if begins || found.is_empty() {
            found.push(String::new());
        }
        if let (true, Some(part)) = (c.is_alphanumeric(), found.last_mut()) {
            part.extend(c.to_lowercase());
        }
        last = c;
    }
    found.retain(|part| !part.is_empty());
    found
}

/// Reads the table.
fn parse(text: &str) -> Result<Vec<Entry>> {
    let table: Table = toml::from_str(text).with_context(|| format!("cannot parse {TABLE}"))?;
    for entry in &table.words {
        let forms = [&entry.part, &entry.name, &entry.phrase, &entry.file];
        if forms.into_iter().flatten().count() != 1 || entry.old().is_empty() {
            bail!(
                "{TABLE}: `{}` is not exactly one of part, name, phrase and file",
                entry.old()
            );
        }
    }
    Ok(table.words)
}

#[cfg(test)]
mod tests {
    use super::{Index, SourcePlace, parse, parts};
    use std::path::Path;

    const TABLE: &str = r#"words = [
    { part = "gad_get", use = "tool" },
    { name = "Knob", use = "Switch" },
    { phrase = "what so ever", use = "any" },
    { file = "knobs", use = "switches" },
    { part = "lever", use = "bar", crates = ["a"], text = "code", except = ["src/old"] },
]
"#;

    /// The uses as `line old`.
    fn found(path: &str, area: &str, text: &str) -> Vec<String> {
        let entries = parse(TABLE).unwrap();
        let place = SourcePlace {
            path: Path::new(path),
            area,
        };
        let mut uses: Vec<_> = Index::new(&entries)
            .uses(&place, text)
            .into_iter()
            .map(|(entry, line)| format!("{line} {}", entries[entry].old()))
            .collect();
        uses.sort();
        uses
    }

    #[test]
    fn identifiers_have_parts() {
        assert_eq!(parts("fall_over"), ["fall", "over"]);
        assert_eq!(parts("FallOver2"), ["fall", "over2"]);
        assert_eq!(parts("HTTPServer_x"), ["httpserver", "x"]);
    }

    #[test]
    fn parts_are_found_in_each_case() {
        let text = "struct GadGet;\nfn my_gad_get_now() {}\nfn gad() { get() }\n// A gad_get.\n";
        assert_eq!(found("x.rs", "a", text), ["1 gad_get", "2 gad_get", "4 gad_get"]);
    }

    #[test]
    fn names_are_found_in_code_only() {
        let text = "fn f(x: Knob) {}\nfn g(x: KnobX, knob: u8) -> &str { \"Knob\" }\n// Knob up, then `Knob`.\n// Knob.\n";
        assert_eq!(found("x.rs", "a", text), ["1 Knob", "3 Knob"]);
    }

    #[test]
    fn phrases_are_found_over_the_ends_of_lines() {
        let text = "// It is What\n// so ever.\nfn what_so_ever() {}\n// what, so ever; `what so ever`\n";
        assert_eq!(found("x.rs", "a", text), ["1 what so ever"]);
        assert_eq!(found("x.md", "a", "none what so ever\n"), ["1 what so ever"]);
    }

    #[test]
    fn files_are_found_and_limits_hold() {
        assert_eq!(found("src/knobs.rs", "a", ""), ["0 knobs"]);
        assert_eq!(found("src/knobs/x.rs", "a", ""), ["0 knobs"]);
        assert_eq!(found("x.rs", "a", "fn levers() {} // lever\n"), ["1 lever"]);
        assert_eq!(found("x.rs", "a", "fn f() {} // lever\n"), [] as [&str; 0]);
        assert_eq!(found("x.rs", "b", "fn lever() {}\n"), [] as [&str; 0]);
        assert_eq!(found("src/old/x.rs", "a", "fn lever() {}\n"), [] as [&str; 0]);
    }

    #[test]
    fn the_table_of_changes_may_name_them() {
        let text = "| `Knob` | `Switch` |\n\nA `Knob` again.\n";
        assert_eq!(found("CHANGELOG.md", "root", text), ["3 Knob"]);
    }

    #[test]
    fn an_entry_has_one_form() {
        assert!(parse("words = [{ use = \"x\" }]").is_err());
        assert!(parse("words = [{ part = \"a\", name = \"b\", use = \"x\" }]").is_err());
    }
}
