//! The files of mutants: what they say, and where that is in the sources.

use super::Options;
use crate::anchors::{self, Package, Place};
use crate::models::Checker;
use crate::repo::{self, Repo};
use crate::text;
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

const ALL: Options = Options {
    name: None,
    structure: None,
    checker: None,
    limit: 0,
    sample: None,
};

/// A file of mutants.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct MutantFile {
    mutant: Vec<Mutant>,
}

#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mutant {
    pub(super) name: String,
    pub(super) why: String,
    /// The package of the source.
    package: String,
    /// The item that the bug is in: see `HELP`.
    item: Option<String>,
    /// Instead of an item: the file, relative to the root.
    file: Option<PathBuf>,
    find: String,
    pub(super) replace: String,
    pub(super) checker: Checker,
    /// The package of the test, if it is not that of the source.
    test_package: Option<String>,
    pub(super) target: String,
    pub(super) test: String,
    #[serde(skip)]
    pub(super) structure: String,
}

/// What `cargo xtask mutants --help` says of the format.
pub(crate) const HELP: &str = r#"A mutant is an entry of a file in `mutants/`:

[[mutant]]
name = "latch-set-without-release"
why = "what the reader of the latch sees may be older than the latch"
package = "warpweft-task"
item = "Latch::set"
find = '''self.word.store(SET, Release)'''
replace = '''self.word.store(SET, Relaxed)'''
checker = "loom"
target = "loom_latch"
test = "waiter_sees_what_was_done"

`item` names the innermost item around the bug, without generic parameters:
  function, NAME, Type       an item of a module
  Type::method               an item of an inherent impl, or of a trait
  Trait for Type::method     an item of an impl of a trait
  impl Type, Trait for Type  a whole impl, if the bug is in no single item of it
  macro!                     a `macro_rules!`
If several items of the package have the name, their modules come in front, as few as tell them apart:
`latch::Latch::set`, `crate::run`. Items of one module that differ by their `cfg` share a name.

`find` must be once in the item. It is compared token by token: comments, line breaks and a comma before a
closing bracket make no difference. `replace` takes the place of everything from its first token to its last.

`file = "path"` replaces `item` where code has no name: in the call of a macro, such as `thread_local! { .. }`,
in an import, or outside of `src`. Then `find` must be once in the file.

Most mutants of a checker are in one build, in `target/mutants`: a function stands there with each of its
bugs, and WARPWEFT_MUTANT=NAME chooses one. The log of each test is in `target/mutants/logs`.

`checker` is loom, shuttle, sim or std. `target` is an integration test, or `lib` for the unit tests; `test_package`
is its package if that is not `package`."#;

impl Mutant {
    pub(super) fn test_package(&self) -> &str {
        self.test_package.as_deref().unwrap_or(&self.package)
    }

    fn place(&self, repo: &Repo, package: &Package) -> Result<Place> {
        match (&self.item, &self.file) {
            (Some(item), None) => package.place(item, &self.find),
            (None, Some(file)) => {
                let text = fs::read_to_string(repo.root.join(file));
                let text = text.with_context(|| format!("cannot read {}", file.display()))?;
                anchors::in_file(file, &text, &self.find)
            }
            _ => bail!("it needs either `item` or `file`"),
        }
    }

    /// The source with the bug in it.
    pub(super) fn mutate(&self, sound: &str, place: &Place) -> String {
        let mut bad = sound.to_owned();
        bad.replace_range(place.range.clone(), self.replace.trim());
        bad
    }
}

/// The place of each mutant, in their order; an error if it has none, or if there is no such test.
pub(super) fn places(repo: &Repo, mutants: &[Mutant]) -> Result<Vec<Result<Place>>> {
    let names = mutants
        .iter()
        .flat_map(|mutant| [mutant.package.as_str(), mutant.test_package()]);
    let names: BTreeSet<_> = names.collect();
    let packages = names
        .into_iter()
        .map(|name| anyhow::Ok((name, Package::read(repo, name)?)))
        .collect::<Result<BTreeMap<_, _>>>()?;
    let place = |mutant: &Mutant| {
        let place = mutant.place(repo, &packages[mutant.package.as_str()])?;
        let (package, target, test) = (mutant.test_package(), &mutant.target, &mutant.test);
        let is_there = if target == "lib" {
            packages[package].has_test(test)
        } else {
            let mut all = repo.packages().filter(|p| p.name.as_str() == package);
            all.any(|package| repo::integration_tests(package).any(|name| name == target))
        };
        ensure!(is_there, "{package} has no test {target} {test}");
        Ok(place)
    };
    let places = mutants
        .iter()
        .map(|mutant| place(mutant).with_context(|| format!("mutant {}", mutant.name)));
    Ok(places.collect())
}

/// Every mutant still has its place in the sources, and its test: what can be said without compiling it.
pub(crate) fn fit(repo: &Repo) -> Result<Vec<String>> {
    let places = places(repo, &load(repo, &ALL)?)?.into_iter();
    Ok(places
        .filter_map(|place| place.err().map(|e| format!("{e:#}")))
        .collect())
}

/// The test of a mutant.
pub(crate) struct Tested {
    /// The name of the mutant's file, without `.toml`.
    pub(crate) structure: String,
    pub(crate) package: String,
    pub(crate) target: String,
    pub(crate) test: String,
}

/// The test of each mutant.
pub(crate) fn tested(repo: &Repo) -> Result<Vec<Tested>> {
    let mutants = load(repo, &ALL)?.into_iter();
    let tested = mutants.map(|mutant| Tested {
        package: mutant.test_package().to_owned(),
        structure: mutant.structure,
        target: mutant.target,
        test: mutant.test,
    });
    Ok(tested.collect())
}

pub(super) fn load(repo: &Repo, options: &Options) -> Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    let mut names = BTreeSet::new();
    for path in repo.files(&repo.root.join("mutants"), "toml")? {
        let text = fs::read_to_string(&path)?;
        let file: MutantFile = toml::from_str(&text).with_context(|| format!("in {}", repo.show(&path)))?;
        let structure = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        for mutant in file.mutant {
            ensure!(
                names.insert(mutant.name.clone()),
                "two mutants are called {}",
                mutant.name
            );
            mutants.push(Mutant {
                structure: structure.clone(),
                ..mutant
            });
        }
    }
    let is = |wanted: Option<&str>, text: &str| wanted.is_none_or(|wanted| wanted == text);
    mutants.retain(|mutant| {
        text::is_named(&mutant.name, options.name.as_deref().unwrap_or(""))
            && is(options.structure.as_deref(), &mutant.structure)
            && options.checker.is_none_or(|checker| checker == mutant.checker)
    });
    ensure!(!mutants.is_empty(), "no mutant matches");
    Ok(mutants)
}

#[cfg(test)]
mod tests {
    use super::{HELP, MutantFile};
    use crate::anchors::Place;
    use crate::models::Checker;

    #[test]
    fn the_format() {
        let text = "[[mutant]]\nname='a'\nwhy='w'\nfile='f'\nfind=\'\'\'x\'\'\'\nreplace=''\nchecker='loom'\n\
                    package='p'\ntarget='t'\ntest='u'\n";
        let file: MutantFile = toml::from_str(text).unwrap();
        assert_eq!(file.mutant.len(), 1);
        assert_eq!(
            (file.mutant[0].checker, file.mutant[0].find.as_str()),
            (Checker::Loom, "x")
        );
        assert_eq!(file.mutant[0].test_package(), "p");
        let file: MutantFile = toml::from_str(&format!("{text}test_package='q'\n")).unwrap();
        assert_eq!(file.mutant[0].test_package(), "q");
        assert!(
            toml::from_str::<MutantFile>(&text.replace("why", "reason")).is_err(),
            "a slip of the pen is an error"
        );
    }

    #[test]
    fn the_example_in_the_help_is_a_mutant() {
        let (_, example) = HELP.split_once("\n\n").unwrap();
        let (example, _) = example.split_once("\n\n").unwrap();
        let file: MutantFile = toml::from_str(example).unwrap();
        let place = Place {
            file: "f".into(),
            range: 4..33,
        };
        assert_eq!(
            file.mutant[0].mutate("{ a self.word.store(SET, Release); }", &place),
            "{ a self.word.store(SET, Relaxed); }"
        );
    }
}
