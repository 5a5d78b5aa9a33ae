//! What a run came to: times, counts, and the contended lines with the places in the source that access them.

use crate::hooks::HookReport;
use crate::owners::LineOwners;
use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write as _};
use std::panic::Location;

/// A place in the source that accesses memory.
type Site = &'static Location<'static>;

/// Counts of one place at one part of a line.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    misses: u64,
    ticks: u64,
}

/// Misses by line, byte within the line, and place.
#[derive(Debug, Default)]
pub(crate) struct Contention(HashMap<(u32, u8, usize), (Site, Count)>);

impl Contention {
    pub(crate) fn note(&mut self, line: usize, offset: usize, site: Site, ticks: u64) {
        let key = (line as u32, offset as u8, std::ptr::from_ref(site).addr());
        let (_, count) = self.0.entry(key).or_insert_with(|| (site, Count::default()));
        count.misses += 1;
        count.ticks += ticks;
    }

    /// The lines that were waited for the longest, at most that number.
    pub(crate) fn lines(&self, most: usize, names: &mut dyn FnMut(Site) -> String) -> Vec<LineReport> {
        let mut lines: BTreeMap<u32, Vec<AccessSite>> = BTreeMap::new();
        for (&(line, offset, _), &(site, count)) in &self.0 {
            lines.entry(line).or_default().push(AccessSite {
                offset: offset.into(),
                name: names(site),
                file: site.file().to_owned(),
                line: site.line(),
                misses: count.misses,
                wait_ns: count.ticks / crate::machine::TICKS,
            });
        }
        let mut lines: Vec<_> = lines
            .into_iter()
            .map(|(number, mut places)| {
                places.sort_by(|a, b| {
                    let key =
                        |place: &AccessSite| (std::cmp::Reverse(place.wait_ns), place.offset, place.line);
                    key(a).cmp(&key(b)).then_with(|| a.file.cmp(&b.file))
                });
                LineReport {
                    number: number as usize,
                    misses: places.iter().map(|place| place.misses).sum(),
                    wait_ns: places.iter().map(|place| place.wait_ns).sum(),
                    places,
                }
            })
            .collect();
        lines.sort_by_key(|line| (std::cmp::Reverse(line.wait_ns), line.number));
        lines.truncate(most);
        lines
    }
}

/// A place in the source that missed a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessSite {
    /// The byte of the line.
    pub offset: usize,
    /// The field that was accessed, as the source has it, if the source is there: `Injector.head`,
    /// or an expression.
    pub name: String,
    /// The file.
    pub file: String,
    /// The line of the file.
    pub line: u32,
    /// How often it missed.
    pub misses: u64,
    /// How long it waited for the line, in nanoseconds.
    pub wait_ns: u64,
}

/// A cache line that threads waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineReport {
    /// Its number, in the order of first accesses.
    pub number: usize,
    /// How often a core missed it.
    pub misses: u64,
    /// How long cores waited for it, in nanoseconds.
    pub wait_ns: u64,
    /// Who did, the longest first.
    pub places: Vec<AccessSite>,
}

impl LineReport {
    /// Returns the fields of which two or more share the line: the bytes, and the expressions by which they
    /// were accessed. It is empty if there is only one.
    #[must_use]
    pub fn shared_by(&self) -> Vec<(usize, String)> {
        let mut fields: BTreeMap<usize, &AccessSite> = BTreeMap::new();
        for place in &self.places {
            fields.entry(place.offset).or_insert(place);
        }
        if fields.len() < 2 {
            return Vec::new();
        }
        let named = fields
            .into_iter()
            .map(|(offset, place)| (offset, place.name.clone()));
        named.collect()
    }
}

impl fmt::Display for LineReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.wait_ns as f64 / 1e3;
        writeln!(
            f,
            "line {}: {us:.1} us waited in {} misses",
            self.number, self.misses
        )?;
        for place in self.places.iter().take(6) {
            writeln!(
                f,
                "  byte {:2}  {:32} {}:{}  {} misses, {:.1} us",
                place.offset,
                place.name,
                place.file,
                place.line,
                place.misses,
                place.wait_ns as f64 / 1e3
            )?;
        }
        let shared = self.shared_by();
        if !shared.is_empty() {
            let mut text = String::new();
            for (offset, name) in shared {
                let _ = write!(
                    text,
                    "{} {name} at {offset}",
                    if text.is_empty() { "" } else { "," }
                );
            }
            writeln!(f, "  these share the line:{text}")?;
        }
        Ok(())
    }
}

/// What a run came to. All of it is simulated.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The name of the machine.
    pub machine: String,
    /// The seed.
    pub seed: u64,
    /// The virtual time at the end, in nanoseconds.
    pub time_ns: u64,
    /// Steps of the log.
    pub steps: u64,
    /// The hash of the log. Equal runs have equal ones.
    pub hash: u64,
    /// The first steps of the log as text: as many as [`Settings::keep`](crate::Settings::keep) says.
    pub log: String,
    /// Accesses to memory that the model has seen.
    pub accesses: u64,
    /// Those that had to wait for another core or for memory.
    pub misses: u64,
    /// How long threads waited for lines, and for their stores, in nanoseconds.
    pub waited_ns: u64,
    /// How often the simulator changed from one thread to another.
    pub switches: u64,
    /// How often a thread woke another one.
    pub wakes: u64,
    /// Threads that had not ended when the closure had.
    pub left: usize,
    /// The lines that were waited for the longest.
    pub lines: Vec<LineReport>,
    /// The named parts of the program, those that waited the longest first.
    pub hooks: Vec<HookReport>,
    /// Which core had those lines when, if [`Settings::owners`](crate::Settings::owners) asks for it.
    pub owners: Vec<LineOwners>,
}

/// Finds the expressions in the source.
#[derive(Debug, Default)]
pub(crate) struct Names {
    files: HashMap<String, Vec<String>>,
}

impl Names {
    /// The expression that is accessed at a place: what stands before the call.
    pub(crate) fn of(&mut self, site: Site) -> String {
        let lines = self.files.entry(site.file().to_owned()).or_insert_with(|| {
            // The compiler's paths begin at the workspace, which is the present folder or one above it.
            let above = ["", "../", "../../", "../../../"];
            let mut texts = above
                .iter()
                .map(|above| std::fs::read_to_string(format!("{above}{}", site.file())));
            let text = texts.find_map(Result::ok).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        });
        let line = site.line() as usize;
        let Some(name) = receiver(lines, line, site.column() as usize) else {
            // Its source is not here: the program runs elsewhere than where it was built.
            return format!("{}:{line}", site.file());
        };
        match (name.strip_prefix("self."), structure(lines, line)) {
            (Some(field), Some(structure)) => format!("{structure}.{field}"),
            _ => name,
        }
    }
}

/// The type in whose `impl` block a line is, from 1.
fn structure(lines: &[String], line: usize) -> Option<String> {
    let header = lines[..line.min(lines.len())]
        .iter()
        .rev()
        .find(|line| line.starts_with("impl"))?;
    let mut rest = header.strip_prefix("impl")?;
    if rest.starts_with('<') {
        let mut depth = 0_i32;
        let end = rest.char_indices().find(|&(_, letter)| {
            depth += i32::from(letter == '<') - i32::from(letter == '>');
            depth == 0
        });
        rest = &rest[end?.0 + 1..];
    }
    let own = rest.split_once(" for ").map_or(rest, |(_, own)| own).trim_start();
    let is_end = |letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == ':');
    let path = own.split(is_end).next()?;
    path.rsplit("::")
        .next()
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
}

/// The expression before the method that is called at a line and column, both from 1. Line breaks and blanks
/// within it are left out.
fn receiver(lines: &[String], line: usize, column: usize) -> Option<String> {
    let mut before: Vec<char> = Vec::new();
    let first = line.saturating_sub(6).max(1);
    for number in first..line {
        before.extend(lines.get(number - 1)?.trim().chars());
    }
    before.extend(lines.get(line - 1)?.chars().take(column.checked_sub(1)?));
    let (mut found, mut depth) = (Vec::new(), 0);
    for &letter in before.iter().rev() {
        match letter {
            ')' | ']' => depth += 1,
            '(' | '[' if depth == 0 => break,
            '(' | '[' => depth -= 1,
            _ if depth > 0 => {}
            blank if blank.is_whitespace() => {
                if found.last().is_some_and(|&last: &char| last != '.') {
                    break;
                }
                continue;
            }
            '.' | '_' | ':' => {}
            letter if letter.is_alphanumeric() => {}
            _ => break,
        }
        found.push(letter);
    }
    let text: String = found.into_iter().rev().collect();
    let text = text.trim_matches(|letter| letter == '.' || letter == ':');
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{receiver, structure};

    #[test]
    fn the_structure_of_a_field_is_that_of_its_block() {
        let of = |header: &str| structure(&[header.to_owned(), "    x".to_owned()], 2);
        assert_eq!(of("impl<T: A<B>> Queue<T> {").as_deref(), Some("Queue"));
        assert_eq!(of("impl Drop for a::Guard<'_> {").as_deref(), Some("Guard"));
        assert_eq!(of("fn main() {"), None);
    }

    #[test]
    fn the_expression_before_a_call_is_found() {
        let at = |text: &str, method: &str| {
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            let (number, line) = lines
                .iter()
                .enumerate()
                .find(|(_, line)| line.contains(method))
                .expect("it is there");
            receiver(&lines, number + 1, line.find(method).expect("it is there") + 1)
        };
        let named = |text| at(text, "load(");
        assert_eq!(named("let x = self.head.load(o);").as_deref(), Some("self.head"));
        assert_eq!(
            named("if self.places[w + 1].state.load(o) {").as_deref(),
            Some("self.places[w + 1].state")
        );
        assert_eq!(
            named("let x = self\n    .inner()\n    .tail\n    .load(o);").as_deref(),
            Some("self.inner().tail")
        );
        assert_eq!(named("return word.load(o)").as_deref(), Some("word"));
        assert_eq!(named("f(!a.b.load(o))").as_deref(), Some("a.b"));
    }
}
