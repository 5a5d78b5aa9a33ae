//! A file or folder that a document names exists: in the documents of `docs/` but the records, in
//! CONTRIBUTING, in the guide, and in the documents beside the code. So do the documents and the source files
//! that comments name.
//!
//! A name is a code span that looks like a path, `pool/mod.rs` or `crates/`, or such a word in a block of
//! plain text. It is relative to the root, to `crates/warpweft/src`, or to the folder of the document or one
//! above it. A library crate may be written in short: `task/header.rs` for
//! `crates/warpweft-task/src/header.rs`. A star is any letters. In a comment the end of a source's path is
//! enough: `header.rs`, `warpweft-task/src/header.rs`.

use crate::repo::{self, Repo};
use crate::text::{self, Kind};
use anyhow::Result;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::fs;
use std::path::{Path, PathBuf};

/// The documents outside of `crates/` that are read: files and folders.
const READ: [&str; 2] = ["docs", "CONTRIBUTING.md"];
/// The records, which name files of their time.
const RECORDS: &str = "docs/decisions";
/// The crate that most names mean.
const MAIN: &str = "crates/warpweft";
/// In the guide, these are files of the reader's own package.
const OF_READERS: [&str; 4] = ["src/", "tests/", "benches/", "build.rs"];

pub(super) fn check(repo: &Repo) -> Result<Vec<String>> {
    let crates: Vec<(String, PathBuf)> = repo
        .library()
        .filter_map(|package| {
            let short = package.name.strip_prefix("warpweft-")?;
            Some((short.to_owned(), repo::folder(package).join("src")))
        })
        .collect();
    let sources: Vec<PathBuf> = repo.sources(&["rs"])?.into_iter().map(|(path, _)| path).collect();
    let mut broken = Vec::new();
    for (path, _) in repo.sources(&["md", "rs", "toml"])? {
        let text = fs::read_to_string(repo.root.join(&path))?;
        let names = Names {
            root: &repo.root,
            document: &path,
            crates: &crates,
            sources: &sources,
        };
        let is_read = path.starts_with("crates") || READ.iter().any(|read| path.starts_with(read));
        if path.extension().is_none_or(|extension| extension != "md") {
            broken.extend(names.missing_in_comments(&text));
        } else if is_read && !path.starts_with(RECORDS) {
            broken.extend(names.missing(&text));
        }
    }
    Ok(broken)
}

/// A document, and the folders that its names are relative to.
struct Names<'a> {
    root: &'a Path,
    /// The document, relative to the root.
    document: &'a Path,
    /// The short names of crates, and where their sources are.
    crates: &'a [(String, PathBuf)],
    /// All files of Rust, relative to the root.
    sources: &'a [PathBuf],
}

impl Names<'_> {
    /// The names in a document that are of nothing.
    fn missing(&self, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        for (line, name) in named(text) {
            let of_reader = self.document.starts_with("docs/guide")
                && OF_READERS.iter().any(|start| name.starts_with(start));
            if !of_reader && self.looks_like_a_path(&name) && !self.exists(&name) {
                let document = self.document.display();
                found.push(format!("{document}:{line}: there is no `{name}`"));
            }
        }
        found
    }

    /// The documents and source files that comments name and that are not there.
    fn missing_in_comments(&self, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        for (line, name) in named_in_comments(self.document, text) {
            let is_there = self.exists(&name) || self.sources.iter().any(|path| path.ends_with(&name));
            if self.looks_like_a_path(&name) && !is_there {
                found.push(format!(
                    "{}:{line}: there is no `{name}`",
                    self.document.display()
                ));
            }
        }
        found
    }

    fn looks_like_a_path(&self, name: &str) -> bool {
        let is_sign = |c: char| c.is_ascii_alphanumeric() || "_-./*".contains(c);
        let plain = name.chars().all(is_sign) && name.chars().any(char::is_alphabetic);
        let rooted = || {
            let (first, _) = name.split_once('/').unwrap_or(("", ""));
            !first.is_empty()
                && (self.root.join(first).is_dir() || self.root.join("crates").join(first).is_dir())
        };
        let has_file = [".rs", ".md", ".toml"].iter().any(|end| name.ends_with(end));
        plain && !name.starts_with('.') && (has_file || name.ends_with('/') || rooted())
    }

    fn exists(&self, name: &str) -> bool {
        let mut bases = vec![
            self.root.to_owned(),
            self.root.join("crates"),
            self.root.join(MAIN),
            self.root.join(MAIN).join("src"),
        ];
        let above = self.document.ancestors().skip(1);
        bases.extend(above.map(|folder| self.root.join(folder)));
        let (first, rest) = name.split_once('/').unwrap_or((name, ""));
        let short = self.crates.iter().filter(|(short, _)| short == first);
        let short = short.map(|(_, sources)| (sources, rest));
        let mut places = bases.iter().map(|base| (base, name)).chain(short);
        places.any(|(base, name)| fits(base, name))
    }
}

/// True if there is a file or folder of this name below `base`.
fn fits(base: &Path, name: &str) -> bool {
    let Some((part, rest)) = name.split_once('/') else {
        return name.is_empty() || children(base, name).iter().any(|path| path.exists());
    };
    children(base, part)
        .iter()
        .any(|path| path.is_dir() && fits(path, rest))
}

/// The entries of a folder that have this name, which may hold stars.
fn children(folder: &Path, name: &str) -> Vec<PathBuf> {
    if !name.contains('*') {
        return vec![folder.join(name)];
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| matches(name, &entry.file_name().to_string_lossy()))
        .map(|entry| entry.path())
        .collect()
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            let ends = name.char_indices().map(|(end, _)| end);
            ends.chain([name.len()]).any(|end| matches(rest, &name[end..]))
        }),
    }
}

/// The code spans of a document and the words of its blocks of plain text, with their lines.
fn named(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut plain = false;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        let line = 1 + text[..range.start].matches('\n').count();
        match event {
            Event::Code(code) => found.push((line, code.into_string())),
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => plain = &*language == "text",
            Event::End(TagEnd::CodeBlock) => plain = false,
            Event::Text(block) if plain => {
                for (number, row) in block.lines().enumerate() {
                    // A word with a slash is a folder or a file.
                    let words = row.split_whitespace().filter(|word| word.contains('/'));
                    found.extend(words.map(|word| (line + number, word.to_owned())));
                }
            }
            _ => {}
        }
    }
    found
}

/// The files that the comments of a file name: code spans that end in `.md` or `.rs`, and documents that
/// begin with `docs/` outside of code spans.
fn named_in_comments(path: &Path, text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for piece in text::pieces(path, text) {
        let words = match piece.kind {
            Kind::Quoted => vec![piece.text],
            Kind::Prose => {
                let is_in_name = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
                let words = piece.text.split(|c| !is_in_name(c));
                let words = words.map(|word| word.trim_end_matches('.'));
                let is_document = |word: &&str| word.starts_with("docs/") && word.ends_with(".md");
                words.filter(is_document).collect()
            }
            Kind::Code | Kind::String => Vec::new(),
        };
        let files = words
            .into_iter()
            .filter(|word| word.ends_with(".md") || word.ends_with(".rs"));
        found.extend(files.map(|word| (piece.line, word.to_owned())));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Names, matches};
    use std::path::{Path, PathBuf};

    /// Lists the missing names in a document of this project's own tree, or in the comments of a source.
    fn missing(document: &str, text: &str) -> Vec<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let crates = [("queue".to_owned(), root.join("crates/warpweft-queue/src"))];
        let names = Names {
            root,
            document: Path::new(document),
            crates: &crates,
            sources: &[PathBuf::from("crates/warpweft/src/fork/list/checked.rs")],
        };
        if document.ends_with(".md") {
            names.missing(text)
        } else {
            names.missing_in_comments(text)
        }
    }

    #[test]
    fn documents_that_comments_name_are_found() {
        let text = "//! See `docs/GONE.md`, `README.md`, `docs/ARCHITECTURE.md` and docs/lost.md.\n\
                    let x = \"docs/no.md\"; // `x y.md`\n";
        let file = "crates/warpweft/src/fork/mod.rs";
        let found = missing(file, text);
        assert_eq!(
            found,
            [
                format!("{file}:1: there is no `docs/GONE.md`"),
                format!("{file}:1: there is no `docs/lost.md`")
            ]
        );
        assert_eq!(missing("mutants/x.toml", "# See docs/lost.md.\n").len(), 1);
    }

    #[test]
    fn source_files_that_comments_name_are_found() {
        let text =
            "// `checked.rs` `list/checked.rs` `src/lib.rs` `ecked.rs` `is.rs()`\nlet x = \"gone.rs\";\n";
        let file = "crates/warpweft/src/fork/mod.rs";
        assert_eq!(missing(file, text), [format!("{file}:1: there is no `ecked.rs`")]);
    }

    #[test]
    fn what_exists_is_found_from_each_base() {
        let text = "`xtask/src/main.rs` `warpweft/src` `src/lib.rs` `lib.rs` `queue/lib.rs` `xtask/` `crates/*/src/lib.*`\n\n\
                    ```text\n src/   the sources / more\n```\n";
        assert_eq!(missing("docs/ARCHITECTURE.md", text), Vec::<String>::new());
        let beside = missing("crates/warpweft-queue/src/README.md", "`ring.rs` `src/ring.rs`");
        assert_eq!(beside, Vec::<String>::new());
    }

    #[test]
    fn names_of_nothing_are_found() {
        let text = "`xtask/src/gone.rs`\n\n| a |\n|---|\n| `queue/gone/` |\n\n```text\nsrc/gone/  x\n```\n`crates/*/gone_*`\n";
        let found = missing("docs/ARCHITECTURE.md", text);
        assert_eq!(
            found,
            [
                "docs/ARCHITECTURE.md:1: there is no `xtask/src/gone.rs`",
                "docs/ARCHITECTURE.md:5: there is no `queue/gone/`",
                "docs/ARCHITECTURE.md:8: there is no `src/gone/`",
                "docs/ARCHITECTURE.md:10: there is no `crates/*/gone_*`"
            ]
        );
    }

    #[test]
    fn other_code_is_no_path() {
        let text =
            "`a / b` `fn()` `// SAFETY:` `text/plain` `x.y` `std::fs` `.rs` `1/2` `cargo doc src/x.rs`";
        assert_eq!(missing("docs/ARCHITECTURE.md", text), Vec::<String>::new());
        assert_eq!(
            missing("docs/guide/src/x.md", "`src/gone.rs` `build.rs`"),
            Vec::<String>::new()
        );
        assert_eq!(missing("docs/guide/src/x.md", "`xtask/gone.rs`").len(), 1);
    }

    #[test]
    fn stars_are_any_letters() {
        assert!(matches("loom_*", "loom_x.rs"));
        assert!(matches("*_*.rs", "loom_x.rs"));
        assert!(matches("*", ""));
        assert!(!matches("loom_*.rs", "shuttle_x.rs"));
    }
}
