//! Mutants: each entry of `mutants/*.toml` is put into a copy of the tree, and its test must find it.
//!
//! One scratch copy under the target folder serves all: only files that differ are written, so that cargo
//! compiles what a mutant touches and nothing else. While the test of one mutant runs, the next is compiled.

use crate::anchors::{self, Package, Place};
use crate::models::{self, Binary, Checker, Workshop};
use crate::repo::{self, Repo};
use crate::run::{self, End};
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Only mutants with this text in their name.
    pub(crate) name: Option<String>,
    /// Only the mutants of this structure: the name of a file in `mutants/`, without `.toml`.
    #[arg(long)]
    pub(crate) structure: Option<String>,
    /// Seconds after which a test is stopped; a test that gives no verdict has not found the bug.
    #[arg(long, default_value_t = 300)]
    pub(crate) limit: u64,
    /// Only this number of them, evenly spread over all files.
    #[arg(long)]
    pub(crate) sample: Option<usize>,
}

const ALL: Options = Options {
    name: None,
    structure: None,
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
struct Mutant {
    name: String,
    why: String,
    /// The package of the source.
    package: String,
    /// The item that the bug is in: see `HELP`.
    item: Option<String>,
    /// Instead of an item: the file, relative to the root.
    file: Option<PathBuf>,
    find: String,
    replace: String,
    checker: Checker,
    /// The package of the test, if it is not that of the source.
    test_package: Option<String>,
    target: String,
    test: String,
    #[serde(skip)]
    structure: String,
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

`checker` is loom, shuttle, sim or std. `target` is an integration test, or `lib` for the unit tests; `test_package`
is its package if that is not `package`."#;

impl Mutant {
    fn test_package(&self) -> &str {
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
    fn mutate(&self, sound: &str, place: &Place) -> String {
        let mut bad = sound.to_owned();
        bad.replace_range(place.range.clone(), self.replace.trim());
        bad
    }
}

/// The place of each mutant, in their order; an error if it has none, or if there is no such test.
fn places(repo: &Repo, mutants: &[Mutant]) -> Result<Vec<Result<Place>>> {
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

/// How many bugs were found, and which were not.
#[derive(Debug, Default)]
pub(crate) struct MutantTally {
    pub(crate) found: usize,
    pub(crate) survivors: Vec<String>,
}

impl MutantTally {
    pub(crate) fn verdict(&self) -> Result<()> {
        ensure!(
            self.survivors.is_empty(),
            "{} of {} mutants survive: {}",
            self.survivors.len(),
            self.found + self.survivors.len(),
            self.survivors.join(", ")
        );
        Ok(())
    }
}

struct Verdict {
    index: usize,
    found: bool,
    note: String,
    time: Duration,
}

/// Mutants every bug that matches and prints a table of what found it.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<MutantTally> {
    let mutants = spread(load(repo, options)?, options.sample);
    let places = places(repo, &mutants)?;
    let places = places.into_iter().collect::<Result<Vec<_>>>()?;
    let scratch = Scratch {
        tree: repo.target.join("mutants").join("tree"),
        folder: repo.target.join("mutants"),
    };
    scratch.sync(repo)?;
    let limit = Duration::from_secs(options.limit);
    healthy(&scratch, &mutants, limit)?;

    let (builds, ready) = mpsc::channel();
    let verdicts = thread::scope(|scope| {
        let (scratch, mutants) = (&scratch, &mutants);
        let tester = scope.spawn(move || {
            ready
                .into_iter()
                .map(|(index, binary)| try_test(scratch, mutants, index, &binary, limit))
                .collect()
        });
        let built = mutants.iter().enumerate().try_for_each(|(index, mutant)| {
            let binary = scratch
                .grow(mutant, &places[index])
                .with_context(|| format!("mutant {}", mutant.name))?;
            // If no thread receives, the tester has failed and says why.
            drop(builds.send((index, binary)));
            anyhow::Ok(())
        });
        drop(builds);
        let verdicts: Result<Vec<Verdict>> = tester
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        built.and(verdicts)
    })?;
    Ok(table(&mutants, &verdicts))
}

/// `sample` of the mutants, evenly spread; all of them if there are not more.
fn spread<T>(mutants: Vec<T>, sample: Option<usize>) -> Vec<T> {
    let count = mutants.len();
    let sample = sample.unwrap_or(count).clamp(1, count.max(1));
    let chosen = |index: usize| (index + 1) * sample / count != index * sample / count;
    let mutants = mutants.into_iter().enumerate();
    mutants
        .filter(|(index, _)| chosen(*index))
        .map(|(_, mutant)| mutant)
        .collect()
}

fn table(mutants: &[Mutant], verdicts: &[Verdict]) -> MutantTally {
    let width = mutants
        .iter()
        .map(|mutant| mutant.structure.len() + mutant.name.len() + 2)
        .max()
        .unwrap_or(0);
    println!("\n{:width$}  {:>9}  found by", "mutant", "seconds");
    for verdict in verdicts {
        let mutant = &mutants[verdict.index];
        let name = format!("{}: {}", mutant.structure, mutant.name);
        let by = if verdict.found {
            format!("{} {}::{}", mutant.checker.name(), mutant.target, mutant.test)
        } else {
            format!("NOBODY: {}\n    {}", verdict.note, mutant.why)
        };
        println!("{name:width$}  {:>9.2}  {by}", verdict.time.as_secs_f64());
    }
    let survivors: Vec<_> = verdicts
        .iter()
        .filter(|verdict| !verdict.found)
        .map(|verdict| mutants[verdict.index].name.clone())
        .collect();
    let tally = MutantTally {
        found: verdicts.len() - survivors.len(),
        survivors,
    };
    println!(
        "mutants: {} bugs found, {} survived",
        tally.found,
        tally.survivors.len()
    );
    tally
}

fn load(repo: &Repo, options: &Options) -> Result<Vec<Mutant>> {
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
    mutants.retain(|mutant| {
        options
            .name
            .as_ref()
            .is_none_or(|name| mutant.name.contains(name.as_str()))
            && options
                .structure
                .as_ref()
                .is_none_or(|structure| *structure == mutant.structure)
    });
    ensure!(!mutants.is_empty(), "no mutant matches");
    Ok(mutants)
}

/// Every test that is to find a bug exists and passes on the sources as they are.
fn healthy(scratch: &Scratch, mutants: &[Mutant], limit: Duration) -> Result<()> {
    let start = Instant::now();
    let mut groups: BTreeMap<Checker, BTreeSet<(&str, &str)>> = BTreeMap::new();
    for mutant in mutants {
        groups
            .entry(mutant.checker)
            .or_default()
            .insert((mutant.test_package(), &mutant.target));
    }
    let mut tests = Vec::new();
    for (checker, wanted) in groups {
        let wanted: Vec<_> = wanted.into_iter().collect();
        let binaries = models::build(&scratch.workshop(checker), &wanted)?;
        for (package, target) in wanted {
            let binary = binaries
                .iter()
                .find(|binary| (binary.package.as_str(), binary.target.as_str()) == (package, target))
                .with_context(|| format!("{package} has no test target {target}"))?;
            let listed = models::list(binary)?;
            let here = mutants.iter().filter(|mutant| {
                (mutant.checker, mutant.test_package(), mutant.target.as_str()) == (checker, package, target)
            });
            for test in here.map(|mutant| mutant.test.as_str()).collect::<BTreeSet<_>>() {
                ensure!(
                    listed.iter().any(|name| name == test),
                    "{package}: {target} has no test {test}"
                );
                tests.push((binary.clone(), test));
            }
        }
    }
    let count = tests.len();
    run::parallel(tests, run::jobs(None), |(binary, test)| {
        let log = scratch.log(&format!("healthy.{}.{}", binary.target, test.replace("::", ".")));
        let (end, _) = run::limited(&mut test_of(&binary, test), &log, limit)?;
        if end != End::Success {
            print!("{}", run::tail(&log, 40));
            bail!("{}::{test} does not pass without a mutant", binary.target);
        }
        Ok(())
    })?;
    println!(
        "{count} tests pass without a mutant ({})",
        run::seconds(start.elapsed())
    );
    Ok(())
}

fn try_test(
    scratch: &Scratch,
    mutants: &[Mutant],
    index: usize,
    binary: &Binary,
    limit: Duration,
) -> Result<Verdict> {
    let mutant = &mutants[index];
    let log = scratch.log(&mutant.name);
    let (end, time) = run::limited(&mut test_of(binary, &mutant.test), &log, limit)?;
    // A test that is not there passes; `--exact` then runs none.
    let ran = fs::read_to_string(&log)?.contains("running 1 test");
    let (found, note) = match end {
        End::Failure if ran => (true, ""),
        End::Failure => (false, "the test did not run"),
        End::Success => (false, "the test passes"),
        End::Limit => (false, "no verdict within the limit"),
    };
    println!("{:>9}  {}", if found { "found" } else { "SURVIVED" }, mutant.name);
    fs::remove_file(&binary.path)?;
    Ok(Verdict {
        index,
        found,
        note: note.to_owned(),
        time,
    })
}

/// A test as `xtask shuttle` runs it, but with enough schedules that chance does not decide whether a bug is
/// found.
fn test_of(binary: &Binary, test: &str) -> Command {
    let mut command = models::one(binary, test);
    if std::env::var_os(ITERATIONS).is_none() {
        command.env(ITERATIONS, "5000");
    }
    command
}

const ITERATIONS: &str = "WARPWEFT_SHUTTLE_ITERATIONS";

/// The copy of the tree, and what is built of it.
struct Scratch {
    folder: PathBuf,
    tree: PathBuf,
}

impl Scratch {
    fn workshop(&self, checker: Checker) -> Workshop {
        let products = self.folder.join("build").join(checker.name());
        Workshop {
            sources: self.tree.clone(),
            products,
            checker,
            broken: true,
        }
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join("logs").join(format!("{name}.log"))
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

    /// Builds the test of one mutant, keeps the executable under the mutant's name, and restores the source.
    fn grow(&self, mutant: &Mutant, place: &Place) -> Result<Binary> {
        let file = self.tree.join(&place.file);
        let sound = fs::read_to_string(&file)?;
        put(&file, mutant.mutate(&sound, place).as_bytes())?;
        let wanted = [(mutant.test_package(), mutant.target.as_str())];
        let built = models::build(&self.workshop(mutant.checker), &wanted);
        put(&file, sound.as_bytes())?;
        let binary = built?.pop().context("the test was not built")?;
        let kept = self.folder.join("bin").join(&mutant.name);
        fs::create_dir_all(self.folder.join("bin"))?;
        fs::copy(&binary.path, &kept)?;
        Ok(Binary { path: kept, ..binary })
    }
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
    use super::{HELP, MutantFile, put, spread};
    use crate::anchors::Place;
    use crate::models::Checker;
    use std::fs;

    #[test]
    fn a_sample_is_spread_evenly() {
        assert_eq!(spread((0..10).collect(), Some(3)), [3, 6, 9]);
        assert_eq!(spread((0..3).collect(), Some(10)), [0, 1, 2]);
        assert_eq!(spread((0..3).collect(), None), [0, 1, 2]);
        assert_eq!(spread(Vec::<u8>::new(), Some(3)), [0_u8; 0]);
    }

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
