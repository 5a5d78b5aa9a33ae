//! Words that the project no longer uses: the table, where they occur, and the command that counts them.

use crate::repo::{self, Repo};
use crate::text::{self, Kind};
use crate::{run, widths};
use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The table, relative to the root.
pub(crate) const TABLE: &str = "xtask/words.toml";
/// Paths that are not read: history keeps its words, and the table has to name them.
const UNREAD: [&str; 3] = [repo::DECISIONS, "Cargo.lock", TABLE];
/// A document whose table says which name became which.
const CHANGES: &str = "CHANGELOG.md";

/// Count the words that are retired.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// List the uses of this word or phrase, as `file:line`.
    #[arg(long, value_name = "WORD")]
    show: Option<String>,
    /// List the lines of comments and documents of this crate that are too wide.
    #[arg(long, value_name = "CRATE")]
    wide: Option<String>,
    /// Set `enforce = true` for each word of the table that is used nowhere.
    #[arg(long)]
    enforce: bool,
    /// The table; without it the one of the tree.
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
}

/// The table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    pub(crate) words: Vec<Entry>,
}

/// A retired word. It is one of `part`, `name`, `phrase` and `file`.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    /// Parts of identifiers, in any case: `fall_over` is in `FallOver` and in `fall_over_now`.
    pub(crate) part: Option<String>,
    /// A whole identifier, in this case; in prose only within backticks, in strings not at all.
    pub(crate) name: Option<String>,
    /// Words of prose, in any case.
    pub(crate) phrase: Option<String>,
    /// The name of a file without its extension, or of a folder.
    pub(crate) file: Option<String>,
    /// The word to write instead.
    #[serde(rename = "use")]
    pub(crate) better: String,
    /// True if `cargo xtask rules` fails where it is used.
    pub(crate) enforce: bool,
    /// Only in these crates.
    #[serde(default)]
    pub(crate) crates: Vec<String>,
    /// Only in `code` (quoted code too) or only in `prose`.
    pub(crate) text: Option<Text>,
    /// Not in these files and folders.
    #[serde(default)]
    pub(crate) except: Vec<String>,
}

/// A kind of text that a word is limited to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Text {
    Code,
    Prose,
}

impl Entry {
    pub(crate) fn old(&self) -> &str {
        let forms = [&self.part, &self.name, &self.phrase, &self.file];
        forms.into_iter().flatten().next().map_or("", String::as_str)
    }

    fn form(&self) -> &'static str {
        match self {
            Entry { part: Some(_), .. } => "part",
            Entry { name: Some(_), .. } => "name",
            Entry { phrase: Some(_), .. } => "phrase",
            _ => "file",
        }
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

/// A use of a retired word: the number of its entry, and where it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) entry: usize,
    pub(crate) path: PathBuf,
    pub(crate) line: usize,
}

/// The table, ready for look-ups by the first part or word of each entry.
pub(crate) struct Index<'a> {
    entries: &'a [Entry],
    /// By the first part of an identifier: the other parts.
    parts: HashMap<String, Vec<(usize, Vec<String>)>>,
    names: HashMap<&'a str, Vec<usize>>,
    phrases: HashMap<String, Vec<(usize, Vec<String>)>>,
    files: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Index<'a> {
    pub(crate) fn new(entries: &'a [Entry]) -> Self {
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
pub(crate) fn table(path: &Path) -> Result<Table> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text)
}

fn parse(text: &str) -> Result<Table> {
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
    Ok(table)
}

/// All uses in the tree of what is in the table.
pub(crate) fn uses(repo: &Repo, entries: &[Entry]) -> Result<Vec<Use>> {
    let index = Index::new(entries);
    let mut found = Vec::new();
    for (path, area) in repo.sources(&["rs", "md", "toml"])? {
        if UNREAD.iter().any(|unread| path.starts_with(unread)) {
            continue;
        }
        let text = fs::read_to_string(repo.root.join(&path))?;
        let place = SourcePlace {
            path: &path,
            area: &area,
        };
        for (entry, line) in index.uses(&place, &text) {
            found.push(Use {
                entry,
                path: path.clone(),
                line,
            });
        }
    }
    Ok(found)
}

/// Prints the counts, or the uses of one word.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<()> {
    if let Some(area) = &options.wide {
        let wide = widths::wide(repo)?;
        let lines = wide.iter().filter(|line| line.area == *area);
        let lines = lines.map(|line| {
            format!(
                "{}:{}: {} columns\n",
                line.path.display(),
                line.line,
                line.columns
            )
        });
        return run::print(&lines.collect::<String>());
    }
    let path = options.table.clone();
    let path = path.unwrap_or_else(|| repo.root.join(TABLE));
    let table = table(&path)?;
    let uses = uses(repo, &table.words)?;
    if let Some(word) = &options.show {
        let is_meant = |entry: &Entry| entry.old().eq_ignore_ascii_case(word);
        if !table.words.iter().any(is_meant) {
            bail!("{TABLE} has no `{word}`");
        }
        let meant = uses.iter().filter(|found| is_meant(&table.words[found.entry]));
        let lines = meant.map(|found| format!("{}:{}\n", found.path.display(), found.line));
        return run::print(&lines.collect::<String>());
    }
    let mut counts = vec![0; table.words.len()];
    for found in &uses {
        counts[found.entry] += 1;
    }
    if options.enforce {
        let text = fs::read_to_string(&path)?;
        return Ok(fs::write(&path, enforced(&text, &table.words, &counts))?);
    }
    let mut text = report(&table.words, &counts);
    let _ = writeln!(
        text,
        "\nLines of comments and documents above {} columns:",
        widths::MOST
    );
    let mut areas = BTreeMap::new();
    for line in widths::wide(repo)? {
        *areas.entry(line.area).or_insert(0) += 1;
    }
    for (area, count) in areas {
        let _ = writeln!(text, "{count:>6}  {area}");
    }
    run::print(&text)
}

/// The counts as a table, most first.
fn report(entries: &[Entry], counts: &[usize]) -> String {
    let mut text = String::new();
    let mut order: Vec<_> = (0..entries.len()).filter(|number| counts[*number] > 0).collect();
    order.sort_by_key(|number| std::cmp::Reverse(counts[*number]));
    for number in order {
        let (entry, count) = (&entries[number], counts[number]);
        let _ = write!(
            text,
            "{count:>6}  {:6}  {:24}  {}",
            entry.form(),
            entry.old(),
            entry.better
        );
        if !entry.crates.is_empty() {
            let _ = write!(text, " (in {})", entry.crates.join(", "));
        }
        text.push('\n');
    }
    let gone = counts.iter().filter(|count| **count == 0).count();
    let _ = writeln!(
        text,
        "\n{} lines with one of {} words; {gone} more words are used nowhere.",
        counts.iter().sum::<usize>(),
        entries.len() - gone
    );
    let ready = entries.iter().zip(counts);
    let ready = ready.filter(|(entry, count)| !entry.enforce && **count == 0);
    let ready: Vec<_> = ready.map(|(entry, _)| entry.old()).collect();
    if !ready.is_empty() {
        let _ = writeln!(
            text,
            "Ready for `cargo xtask words --enforce`: {}",
            ready.join(", ")
        );
    }
    text
}

/// The table with `enforce = true` in the lines of the words that are gone.
fn enforced(text: &str, entries: &[Entry], counts: &[usize]) -> String {
    let is_gone = |line: &str| {
        entries.iter().zip(counts).any(|(entry, count)| {
            let key = format!("{{ {} = \"{}\",", entry.form(), entry.old());
            *count == 0 && line.trim_start().starts_with(&key)
        })
    };
    let lines = text.lines().map(|line| {
        if is_gone(line) {
            line.replace("enforce = false", "enforce = true") + "\n"
        } else {
            format!("{line}\n")
        }
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::{Index, SourcePlace, enforced, parse, parts};
    use std::path::Path;

    const TABLE: &str = r#"words = [
    { part = "gad_get", use = "tool", enforce = false },
    { name = "Knob", use = "Switch", enforce = false },
    { phrase = "what so ever", use = "any", enforce = false },
    { file = "knobs", use = "switches", enforce = false },
    { part = "lever", use = "bar", enforce = false, crates = ["a"], text = "code", except = ["src/old"] },
]
"#;

    /// The uses as `line old`.
    fn found(path: &str, area: &str, text: &str) -> Vec<String> {
        let table = parse(TABLE).unwrap();
        let place = SourcePlace {
            path: Path::new(path),
            area,
        };
        let mut uses: Vec<_> = Index::new(&table.words)
            .uses(&place, text)
            .into_iter()
            .map(|(entry, line)| format!("{line} {}", table.words[entry].old()))
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
    fn words_that_are_gone_are_enforced() {
        let table = parse(TABLE).unwrap();
        let text = enforced(TABLE, &table.words, &[1, 0, 1, 1, 1]);
        assert!(text.contains("{ name = \"Knob\", use = \"Switch\", enforce = true }"));
        assert_eq!(text.matches("enforce = false").count(), 4);
        assert!(parse("words = [{ use = \"x\", enforce = true }]").is_err());
    }
}
