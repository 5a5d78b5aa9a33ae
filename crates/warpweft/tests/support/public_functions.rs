//! The public functions of a crate that take a closure, a future or a stream, as its sources have them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What a bound of such a parameter begins with.
const BOUNDS: [&str; 5] = ["FnOnce(", "FnMut(", "Fn(", ": Future", ": Stream"];

/// Returns `room::Type::name` for each public function of a type or trait below `sources`, and `room::name`
/// for the others. The room is the first part of the module's path. A name that is there twice ends in `'`.
///
/// The sources are formatted: an item begins at the left margin, and so does the brace that ends it.
pub(crate) fn that_take_code(sources: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    visit(sources, sources, &mut found);
    found
}

fn visit(sources: &Path, folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("the sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            visit(sources, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            of_text(&room(sources, &path), &text, found);
        }
    }
}

fn room(sources: &Path, path: &Path) -> String {
    let below = path
        .strip_prefix(sources)
        .expect("it is below")
        .with_extension("");
    let first = below.iter().next().expect("a file has a name");
    first.to_string_lossy().into_owned()
}

fn of_text(room: &str, text: &str, found: &mut BTreeSet<String>) {
    let (mut of, mut is_trait) = (None, false);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("pub trait ") {
            (of, is_trait) = (first_word(rest), true);
        } else if let Some(rest) = line.strip_prefix("impl").filter(|_| !line.ends_with('}')) {
            (of, is_trait) = (implemented(rest), false);
        } else if line.starts_with('}') {
            (of, is_trait) = (None, false);
        }
        let item = line.trim_start();
        let is_public = item.starts_with("pub ") || is_trait && line.starts_with("    ");
        let Some(at) = is_public.then(|| item.find("fn ")).flatten() else {
            continue;
        };
        let before = &item[..at];
        let qualifiers = ["pub", "const", "unsafe", "async"];
        if !before.split_whitespace().all(|word| qualifiers.contains(&word)) {
            continue;
        }
        let mut signature = item.to_owned();
        while !signature.ends_with(['{', ';', '}']) {
            signature += " ";
            signature += lines.next().expect("a function has an end").trim();
        }
        let Some(name) = first_word(&item[at + 3..]) else {
            continue;
        };
        if BOUNDS.iter().any(|bound| parameters(&signature).contains(bound)) {
            let of = of.map(|of| format!("{of}::")).unwrap_or_default();
            let mut full = format!("{room}::{of}{name}");
            while found.contains(&full) {
                full.push('\'');
            }
            found.insert(full);
        }
    }
}

/// A signature without its result: only the generics, the parameters and the bounds.
fn parameters(signature: &str) -> String {
    let (before, after) = signature.split_once(") -> ").unwrap_or((signature, ""));
    let bounds = after.split_once(" where ").map_or("", |(_, bounds)| bounds);
    format!("{before} {bounds}")
}

fn first_word(text: &str) -> Option<&str> {
    let end = text.find(|c: char| c != '_' && !c.is_alphanumeric());
    Some(&text[..end.unwrap_or(text.len())]).filter(|word| !word.is_empty())
}

/// The type of `impl<…> Type<…> {`; `None` for an implementation of a trait, whose functions the trait has.
fn implemented(rest: &str) -> Option<&str> {
    let mut depth = 0_usize;
    let mut last = ' ';
    let generics = rest.char_indices().find_map(|(at, c)| {
        match c {
            '<' => depth += 1,
            '>' if last != '-' => depth -= 1,
            _ => {}
        }
        last = c;
        (depth == 0).then_some(at + usize::from(c == '>'))
    })?;
    let name = rest[generics..].trim_start();
    (!name.contains(" for ")).then(|| first_word(name)).flatten()
}

#[test]
fn each_form_of_a_function_is_seen() {
    let text = "\
impl<'a, F: Fn(u8) -> u8> Builder<'a, F> {
    pub fn run(self, job: impl FnOnce()) {}
    pub fn name(&self) -> impl Future<Output = ()> {
    }
    pub(crate) fn hidden(&self, job: impl FnOnce()) {
    }
    pub fn long<F>(
        self,
        job: F,
    ) -> Result<(), ()>
    where
        F: Future<Output = ()>,
    {
    }
}

impl Other for Builder {
    fn none(job: impl FnOnce()) {
    }
}

pub trait Extends: Sized {
    fn each<F: FnMut(u8)>(self, f: F);
    fn plain(self) {}
}

pub async fn free<S: Stream>(stream: S) {
}

fn private(job: impl FnOnce()) {
}
";
    let mut found = BTreeSet::new();
    of_text("place", text, &mut found);
    let found: Vec<_> = found.iter().map(String::as_str).collect();
    assert_eq!(
        found,
        [
            "place::Builder::long",
            "place::Builder::run",
            "place::Extends::each",
            "place::free"
        ]
    );
}
