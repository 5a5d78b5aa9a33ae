//! Copies of the tree with bugs in them, and what is built of those.
//!
//! Only files that differ are written, so that cargo compiles what a bug touches and nothing else.

use super::format::Mutant;
use super::switch::{self, Bug, Switched};
use crate::anchors::Place;
use crate::models::{self, Binary, Checker, CompileError, Workshop};
use crate::repo::Repo;
use anyhow::{Context as _, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

/// A mutant and its place in the sources.
#[derive(Clone, Copy)]
pub(super) struct Placed<'a> {
    pub(super) mutant: &'a Mutant,
    pub(super) place: &'a Place,
}

/// A copy of the tree, and what is built of it for one checker.
pub(super) struct Scratch {
    tree: PathBuf,
    folder: PathBuf,
    sound: Workshop,
}

impl Scratch {
    /// A copy of the sources as they are, for many mutants.
    pub(super) fn of_many(repo: &Repo, checker: Checker) -> Result<Self> {
        Self::new(repo, "many", Workshop::new(repo, checker))
    }

    /// The same for one mutant at a time.
    pub(super) fn of_one(repo: &Repo, checker: Checker) -> Result<Self> {
        let optimised = Workshop {
            optimised: true,
            ..Workshop::new(repo, checker)
        };
        Self::new(repo, "one", optimised)
    }

    fn new(repo: &Repo, name: &str, sound: Workshop) -> Result<Self> {
        let folder = repo.target.join("mutants");
        let scratch = Self {
            tree: folder
                .join("trees")
                .join(format!("{}-{name}", sound.checker.name())),
            folder,
            sound,
        };
        scratch.sync(repo)?;
        Ok(scratch)
    }

    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.folder.join("logs").join(format!("{name}.log"))
    }

    fn workshop(&self) -> Workshop {
        Workshop {
            sources: self.tree.clone(),
            products: self.folder.join("build").join(self.sound.checker.name()),
            // Not those of the sources: cargo would take what is built of a copy for what is built of them.
            intermediates: self.folder.join("parts").join(self.sound.checker.name()),
            broken: true,
            ..self.sound.clone()
        }
    }

    /// Makes the copy equal to the sources. What is equal already keeps its time stamp.
    fn sync(&self, repo: &Repo) -> Result<()> {
        let mut sources = BTreeSet::new();
        repo.walk(&repo.root, &mut |path| {
            if let Ok(path) = path.strip_prefix(&repo.root) {
                sources.insert(path.to_owned());
            }
        })?;
        for path in &sources {
            put(&self.tree.join(path), &fs::read(repo.root.join(path))?)?;
        }
        let mut extra = Vec::new();
        repo.walk(&self.tree, &mut |path| {
            if path
                .strip_prefix(&self.tree)
                .is_ok_and(|path| !sources.contains(path))
            {
                extra.push(path.to_owned());
            }
        })?;
        for path in extra {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// Builds these tests of the tree as it is.
    pub(super) fn build(&self, wanted: &[(&str, &str)]) -> Result<Vec<Binary>> {
        models::build(&self.workshop(), wanted)
    }

    /// Builds the tests of many mutants at once, each with a switch. What has no place for one, or does not
    /// compile beside sound code, is the second part of the result: those are to be grown one by one.
    pub(super) fn grow_all<'a>(&self, placed: &[Placed<'a>]) -> Result<(Vec<Binary>, Vec<Placed<'a>>)> {
        let (mut side_by_side, mut alone) = (Vec::new(), Vec::new());
        let mut sources: BTreeMap<&Path, (String, Vec<Range<usize>>)> = BTreeMap::new();
        for &one in placed {
            let path = one.place.file.as_path();
            if !sources.contains_key(path) {
                let text = fs::read_to_string(self.tree.join(path))?;
                let bodies = switch::bodies(&text).with_context(|| path.display().to_string())?;
                sources.insert(path, (text, bodies));
            }
            let fits = switch::body(&sources[path].1, &one.place.range).is_some();
            if fits { &mut side_by_side } else { &mut alone }.push(one);
        }
        while !side_by_side.is_empty() {
            let switched = self.switch_on(&sources, &side_by_side)?;
            let wanted: BTreeSet<_> = side_by_side
                .iter()
                .map(|one| (one.mutant.test_package(), one.mutant.target.as_str()))
                .collect();
            let wanted: Vec<_> = wanted.into_iter().collect();
            match models::try_build(&self.workshop(), &wanted)? {
                Ok(binaries) => return Ok((binaries, alone)),
                Err(errors) => {
                    let culprits: BTreeSet<_> = errors
                        .iter()
                        .filter_map(|error| culprit(&switched, error))
                        .collect();
                    ensure!(
                        !culprits.is_empty(),
                        "the tree with switches does not compile, and no mutant is to blame:\n{}",
                        errors.into_iter().map(|error| error.text).collect::<String>()
                    );
                    for name in &culprits {
                        println!("does not compile beside sound code: {name}");
                    }
                    let (apart, rest) = side_by_side
                        .into_iter()
                        .partition(|one| culprits.contains(one.mutant.name.as_str()));
                    side_by_side = rest;
                    alone.extend::<Vec<_>>(apart);
                }
            }
        }
        Ok((Vec::new(), alone))
    }

    /// Writes the sources with these mutants in them.
    fn switch_on<'a>(
        &self,
        sources: &BTreeMap<&'a Path, (String, Vec<Range<usize>>)>,
        placed: &[Placed<'_>],
    ) -> Result<BTreeMap<&'a Path, Switched>> {
        let mut all = BTreeMap::new();
        for (&path, (text, bodies)) in sources {
            let here = placed.iter().filter(|one| one.place.file == path);
            let bugs: Vec<_> = here
                .map(|one| Bug {
                    name: &one.mutant.name,
                    range: one.place.range.clone(),
                    text: one.mutant.replace.trim(),
                })
                .collect();
            let switched = switch::switch(text, bodies, &bugs);
            put(&self.tree.join(path), switched.text.as_bytes())?;
            all.insert(path, switched);
        }
        Ok(all)
    }

    /// Builds the test of one mutant, keeps the executable under the mutant's name, and restores the source.
    pub(super) fn grow(&self, one: Placed<'_>) -> Result<Binary> {
        let Placed { mutant, place } = one;
        let file = self.tree.join(&place.file);
        let sound = fs::read_to_string(&file)?;
        put(&file, mutant.mutate(&sound, place).as_bytes())?;
        let built = self.build(&[(mutant.test_package(), mutant.target.as_str())]);
        put(&file, sound.as_bytes())?;
        let binary = built?.pop().context("the test was not built")?;
        let kept = self.folder.join("bin").join(&mutant.name);
        fs::create_dir_all(self.folder.join("bin"))?;
        fs::copy(&binary.path, &kept)?;
        Ok(Binary { path: kept, ..binary })
    }
}

/// The mutant in whose lines the compiler found an error.
fn culprit<'a>(switched: &'a BTreeMap<&Path, Switched>, error: &CompileError) -> Option<&'a str> {
    // A model that compiles a source outside of its crate names it by way of its own folder.
    let mut path = PathBuf::new();
    for part in error.file.components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
    }
    switched.get(path.as_path())?.at(error.line)
}

/// Writes a file only if that changes it.
fn put(path: &Path, text: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::put;
    use std::fs;

    #[test]
    fn an_equal_file_is_not_written_again() {
        let folder = std::env::temp_dir().join(format!("xtask-put-{}", std::process::id()));
        let file = folder.join("a").join("b");
        put(&file, b"1").unwrap();
        let before = fs::metadata(&file).unwrap().modified().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        put(&file, b"1").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), before);
        put(&file, b"2").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"2");
        fs::remove_dir_all(folder).unwrap();
    }
}
