//! The index of the tests: feature, test files with what they test, models, and the mutants that they find.
//!
//! `xtask/features.toml` sorts the files into features. `cargo xtask tests-index` writes `docs/TESTS.md`, and
//! the rules check that it is current.

use crate::mutants::{self, Tested};
use crate::repo::{self, Repo};
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/TESTS.md";
const FEATURES: &str = "xtask/features.toml";

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Features {
    feature: Vec<Feature>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Feature {
    name: String,
    /// Paths in which `*` is any text.
    files: Vec<String>,
}

/// A line of the index.
#[derive(Debug, Default, Clone)]
struct IndexRow {
    what: String,
    /// Files of mutants, each with the number of those that are found here.
    mutants: BTreeMap<String, usize>,
}

/// Writes the index.
pub(crate) fn write(repo: &Repo) -> Result<()> {
    fs::write(repo.root.join(PAGE), page(repo)?)?;
    println!("wrote {PAGE}");
    Ok(())
}

/// The index is what the sources say.
pub(crate) fn check(repo: &Repo) -> Result<Vec<String>> {
    let wanted = page(repo)?;
    let current = fs::read_to_string(repo.root.join(PAGE)).is_ok_and(|text| text == wanted);
    let stale = format!("{PAGE} is not current: run `cargo xtask tests-index`");
    Ok(if current { Vec::new() } else { vec![stale] })
}

fn page(repo: &Repo) -> Result<String> {
    let text = fs::read_to_string(repo.root.join(FEATURES))?;
    let Features { feature: features } = toml::from_str(&text).with_context(|| format!("in {FEATURES}"))?;
    let mut sorted: Vec<Vec<(String, IndexRow)>> = vec![Vec::new(); features.len()];
    for (path, row) in rows(repo)? {
        let fits = |feature: &Feature| feature.files.iter().any(|glob| matches(glob, &path));
        let index = features.iter().position(fits);
        let index = index.with_context(|| format!("{FEATURES} has no feature for {path}"))?;
        sorted[index].push((path, row));
    }
    let mut page = String::from(
        "# Tests\n\nThis page lists the tests by feature. `cargo xtask tests-index` writes it from the first \
         sentence of each\nfile, from `mutants/` and from `xtask/features.toml`. Models run under loom or \
         shuttle,\nsome tests on a simulated machine. The last column has the files of mutants, and how many of \
         each are\nfound there.\n",
    );
    for (feature, rows) in features.iter().zip(&sorted) {
        ensure!(!rows.is_empty(), "{FEATURES}: {} has no tests", feature.name);
        page.push_str(&format!(
            "\n## {}\n\n| tests | kind | what they test | mutants |\n|---|---|---|---|\n",
            feature.name
        ));
        for (path, row) in rows {
            let mutants = row.mutants.iter();
            let mutants: Vec<_> = mutants
                .map(|(name, count)| format!("[{name}](../mutants/{name}.toml) {count}"))
                .collect();
            let short = path.strip_prefix("crates/").unwrap_or(path);
            page.push_str(&format!(
                "| [{short}](../{path}) | {} | {} | {} |\n",
                kind(path),
                row.what,
                mutants.join(", ")
            ));
        }
    }
    Ok(page)
}

/// All test files, and the sources whose unit tests find mutants, by their paths.
fn rows(repo: &Repo) -> Result<BTreeMap<String, IndexRow>> {
    let mut rows: BTreeMap<String, IndexRow> = BTreeMap::new();
    let mut roots = BTreeMap::new();
    for package in repo.packages() {
        for target in package.targets.iter().filter(|target| target.is_test()) {
            let path = target.src_path.as_std_path();
            roots.insert((package.name.to_string(), target.name.clone()), path.to_owned());
            let files = match (path.file_name(), path.parent()) {
                (Some(name), Some(folder)) if name == "main.rs" => repo.files(folder, "rs")?,
                _ => vec![path.to_owned()],
            };
            for file in files
                .iter()
                .filter(|file| files.len() == 1 || !file.ends_with("main.rs"))
            {
                let what = first_sentence(&fs::read_to_string(file)?);
                let path = repo.show(file).to_string();
                rows.insert(
                    path,
                    IndexRow {
                        what,
                        ..IndexRow::default()
                    },
                );
            }
        }
    }
    for tested in mutants::tested(repo)? {
        let file = file_of(repo, &tested, &roots).with_context(|| format!("no file for {}", tested.test))?;
        let row = rows.entry(repo.show(&file).to_string()).or_default();
        if row.what.is_empty() {
            row.what = first_sentence(&fs::read_to_string(&file)?);
        }
        *row.mutants.entry(tested.structure).or_default() += 1;
    }
    Ok(rows)
}

/// The file of a test: the first of its modules that has one.
fn file_of(repo: &Repo, tested: &Tested, roots: &BTreeMap<(String, String), PathBuf>) -> Option<PathBuf> {
    let modules: Vec<_> = tested.test.split("::").collect();
    let modules = &modules[..modules.len() - 1];
    if tested.target == "lib" {
        let package = repo.packages().find(|p| p.name.as_str() == tested.package)?;
        let source = repo::folder(package).join("src");
        return file_in(&source, modules).or_else(|| Some(source.join("lib.rs")));
    }
    let root = roots.get(&(tested.package.clone(), tested.target.clone()))?;
    if root.ends_with("main.rs") {
        file_in(root.parent()?, &modules[..modules.len().min(1)])
    } else {
        Some(root.clone())
    }
}

/// The file of the innermost module that has one and is not `tests`.
fn file_in(folder: &Path, modules: &[&str]) -> Option<PathBuf> {
    (1..=modules.len()).rev().find_map(|count| {
        let path = folder.join(modules[..count].join("/"));
        let files = [path.with_extension("rs"), path.join("mod.rs")];
        files
            .into_iter()
            .find(|file| modules[count - 1] != "tests" && file.is_file())
    })
}

fn kind(path: &str) -> &'static str {
    match path.rsplit('/').next() {
        _ if path.contains("/src/") => "unit",
        Some(name) if name.starts_with("loom_") => "loom",
        Some(name) if name.starts_with("shuttle_") => "shuttle",
        Some(name) if name.starts_with("sim_") => "simulator",
        _ => "test",
    }
}

/// The first sentence of a file's documentation, on one line.
fn first_sentence(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let words: Vec<_> = lines.map(str::trim).take_while(|line| !line.is_empty()).collect();
    let words = words.join(" ").replace('|', "\\|").replace(['[', ']'], "");
    let end = words.find(". ").unwrap_or(words.len());
    words[..end].trim_end_matches('.').to_owned()
}

/// Returns true if a path fits a pattern in which `*` is any text.
fn matches(glob: &str, path: &str) -> bool {
    match glob.split_once('*') {
        None => glob == path,
        Some((start, rest)) => path.strip_prefix(start).is_some_and(|path| {
            let ends = path.char_indices().map(|(at, _)| at).chain([path.len()]);
            ends.into_iter().any(|at| matches(rest, &path[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::{first_sentence, matches};

    #[test]
    fn a_star_is_any_text() {
        assert!(matches("a/*_b/*.rs", "a/x/y_b/c.rs"));
        assert!(matches("a/*", "a/"));
        assert!(!matches("a/*.rs", "a/b.rst") && !matches("a", "ab"));
    }

    #[test]
    fn the_first_sentence() {
        let text = "//! Locks [`Lock`]\n//! and events. More.\n//!\n//! End.\nuse a;\n";
        assert_eq!(first_sentence(text), "Locks `Lock` and events");
        assert_eq!(first_sentence("//! All of it.\n"), "All of it");
    }
}
