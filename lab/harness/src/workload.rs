//! What a workload, a contestant and a laboratory are to the harness: data, and a way to run it.
//!
//! ```text
//!  Lab ── workloads ──▶ dyn Workload ── about() ──▶ About: names, parameters, variants, files
//!   │                        └── run(&Request) ──▶ Outcome
//!   └──── peers ─────▶ dyn Peer      ── policies() ──▶ dyn Policies, for a runtime that has some
//!
//!  words of a command line ──▶ Chosen ──▶ Request: one run, as data ──▶ a process that runs it
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::compare::plan::Line;
use crate::error::{LabError, choose};
use crate::params::{Param, Params, Variant};
use crate::record::Outcome;
use crate::results::Measurement;

/// What users read about a workload, and what they can set.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Its name on the command line and in the records.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// What an operation is: "packets".
    pub unit: &'static str,
    /// What a latency is, if there are any.
    pub latency: Option<&'static str>,
    /// Its parameters.
    pub params: &'static [Param],
    /// Its variants.
    pub variants: &'static [Variant],
    /// Parameters for a run of a few milliseconds that still shows that everything works.
    pub smoke: &'static [(&'static str, &'static str)],
    /// Flags that name files for it.
    pub files: &'static [FileFlag],
    /// The contestants that `explore` measures if none are named.
    pub explored: &'static [&'static str],
    /// A parameter in milliseconds, over which a report draws the speed-up if it has several values.
    pub speed_up_over: Option<&'static str>,
}

impl About {
    /// A workload about which nothing is said yet: `About { name: "sum", ..About::NEW }`.
    pub const NEW: Self = Self {
        name: "",
        about: "",
        unit: "tasks",
        latency: None,
        params: &[],
        variants: &[],
        smoke: &[],
        files: &[],
        explored: &[],
        speed_up_over: None,
    };
}

/// A flag of the command line that names a file of one workload: `--pcap FILE`.
#[derive(Clone, Copy, Debug)]
pub struct FileFlag {
    /// Its name, without the dashes.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// Whether it may be given several times.
    pub many: bool,
    /// Whether the records name the file, as `capture`.
    pub recorded: bool,
}

/// The files that were named, flag by flag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Files(BTreeMap<String, Vec<PathBuf>>);

impl Files {
    /// All files of a flag, in the order of the command line.
    pub fn all(&self, flag: &str) -> &[PathBuf] {
        self.0.get(flag).map_or(&[], Vec::as_slice)
    }

    /// The file of a flag that is given at most once.
    pub fn one(&self, flag: &str) -> Option<&Path> {
        self.all(flag).first().map(PathBuf::as_path)
    }

    /// Whether no file was named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the files of a flag, if there are any.
    pub(crate) fn insert(&mut self, flag: &str, paths: Vec<PathBuf>) {
        if !paths.is_empty() {
            self.0.insert(flag.to_owned(), paths);
        }
    }

    /// The names of the flags.
    fn flags(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// One run, as data: what a fresh process needs to make it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The workload with its variant, for messages.
    pub workload: String,
    /// The workload without its variant, as programs in other languages know it.
    pub kind: String,
    /// All its parameters.
    pub params: Params,
    /// The files that it reads or writes.
    #[serde(default)]
    pub files: Files,
    /// The runtime's name.
    pub runtime: String,
    /// The policy, for a runtime that has policies.
    pub policy: Option<String>,
    /// Worker threads.
    pub workers: usize,
}

impl Request {
    /// Runtime, policy and workers, for messages.
    pub fn contestant(&self) -> String {
        let policy = self.policy.as_ref();
        let policy = policy.map(|policy| format!(" {policy}")).unwrap_or_default();
        let plural = if self.workers == 1 { "" } else { "s" };
        format!("{}{policy}, {} worker{plural}", self.runtime, self.workers)
    }

    /// Lowers a number to at most this.
    pub fn bound(&mut self, param: &str, most: u64) {
        let number = self.params.number(param).min(most);
        self.params = self.params.with_number(param, number);
    }

    /// The error that this run did not come to a result.
    pub fn failed(&self, reason: impl ToString) -> LabError {
        LabError::Run {
            contestant: self.contestant(),
            workload: self.workload.clone(),
            reason: reason.to_string(),
        }
    }
}

/// What a reader of a contestant's figures must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caveat {
    /// The words.
    pub text: &'static str,
    /// Whether the contestant did not do the same as the others: then no other one is compared with it.
    pub differs: bool,
}

impl Caveat {
    /// The contestant did the same as the others.
    pub const fn same(text: &'static str) -> Self {
        Self { text, differs: false }
    }

    /// The contestant did something else.
    pub const fn other(text: &'static str) -> Self {
        Self { text, differs: true }
    }
}

/// What a workload checks, and fills in, before anything is run.
pub struct Asked<'a> {
    /// All parameters.
    pub params: &'a mut Params,
    /// What an operation is.
    pub unit: &'a mut &'static str,
    /// The files.
    pub files: &'a Files,
    /// The parameters that the command line, or a smoke run, sets.
    pub said: BTreeSet<&'a str>,
    /// Whether everything is to be tiny.
    pub smoke: bool,
    /// A run that takes longer is ended.
    pub limit: Duration,
}

/// A program that contestants are measured with.
pub trait Workload: Sync {
    /// What users read about it.
    fn about(&self) -> &About;

    /// Runs a request in this process and checks the result.
    ///
    /// # Errors
    ///
    /// The run came to no result, or to a wrong one.
    fn run(&self, request: &Request) -> Result<Outcome, LabError>;

    /// Fills in what follows from other parameters; refuses sizes and files that do not fit.
    ///
    /// # Errors
    ///
    /// They do not fit; the message says what would.
    fn settle(&self, _asked: &mut Asked<'_>) -> Result<(), LabError> {
        Ok(())
    }

    /// Changes a request to what its contestant can do: a thread per task bounds how many there are.
    fn fit(&self, _request: &mut Request) {}

    /// Why this contestant cannot run it, if so.
    ///
    /// # Errors
    ///
    /// No contestant can: the parameters contradict each other.
    fn refusal(&self, _request: &Request) -> Result<Option<String>, LabError> {
        Ok(None)
    }

    /// What a reader of this contestant's figures must know.
    fn caveat(&self, _request: &Request) -> Option<Caveat> {
        None
    }

    /// What a report says beside the parameters: a name, and a value.
    fn facts(&self, _request: &Request) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// What users read about a contestant.
#[derive(Clone, Copy, Debug)]
pub struct PeerInfo {
    /// Its name on the command line and in the records.
    pub name: &'static str,
    /// One line for the list.
    pub about: &'static str,
    /// The packages whose versions are in the records.
    pub packages: &'static [&'static str],
}

/// A contestant: a runtime.
pub trait Peer: Sync {
    /// What users read about it.
    fn info(&self) -> PeerInfo;

    /// Why it cannot run here at all, if so.
    fn missing(&self) -> Option<String> {
        None
    }

    /// Makes ready what must not be timed: builds a program in another language.
    ///
    /// # Errors
    ///
    /// It cannot be built.
    fn prepare(&self) -> Result<(), LabError> {
        Ok(())
    }

    /// Its scheduling policies, if it has any. One contestant at most has.
    fn policies(&self) -> Option<&dyn Policies> {
        None
    }
}

/// The scheduling policies of a contestant.
pub trait Policies {
    /// The policy that is taken when none is named.
    fn usual(&self) -> &'static str;

    /// Those that are explored if none are named.
    fn explored(&self) -> &'static [&'static str];

    /// Those that are compared if none are named.
    fn compared(&self, quick: bool) -> &'static [&'static str];

    /// Those that have names: a name, and what it is.
    fn named(&self) -> Vec<(&'static str, String)>;

    /// How policies are written.
    fn grammar(&self) -> &'static str;

    /// Checks the text of a policy.
    ///
    /// # Errors
    ///
    /// It is none; the message says where it is wrong and which words are right.
    fn check(&self, text: &str) -> Result<(), LabError>;
}

/// Pools have at most this many workers, whatever the runtime: above it nothing but the kernel's limits is measured.
pub const MOST_WORKERS: usize = 4096;

/// Workloads and contestants under one command.
pub struct Lab {
    /// The name of the command.
    pub name: &'static str,
    /// The workloads; lists have them in the order of their names.
    pub workloads: Vec<&'static dyn Workload>,
    /// The contestants; lists have the one with policies first, then the others in this order.
    pub peers: Vec<&'static dyn Peer>,
    /// The workload that is explored when none is named.
    pub usual: &'static str,
    /// What `compare` compares.
    pub comparisons: &'static [Line],
    /// What `results` measures.
    pub results: &'static [Measurement],
    /// The package of the allocator of all contestants; none if it is the system's.
    pub allocator: Option<&'static str>,
    /// The lock file of the build, for the versions of packages in the records.
    pub lock: &'static str,
}

impl Lab {
    /// A laboratory of that name without workloads: `Lab { workloads, peers, ..Lab::named("mine") }`.
    pub fn named(name: &'static str) -> Self {
        Self {
            name,
            workloads: Vec::new(),
            peers: Vec::new(),
            usual: "",
            comparisons: &[],
            results: &[],
            allocator: None,
            lock: "",
        }
    }

    /// Brings the lists into their order: all commands rely on it.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.workloads.sort_by_key(|workload| workload.about().name);
        self.peers.sort_by_key(|peer| peer.policies().is_none());
        self
    }

    /// The workload of that name.
    ///
    /// # Errors
    ///
    /// There is none; the message lists all.
    pub fn workload(&self, name: &str) -> Result<&'static dyn Workload, LabError> {
        let names: Vec<&str> = self.workloads.iter().map(|one| one.about().name).collect();
        Ok(self.workloads[choose("workloads", name, &names)?])
    }

    /// The workload of a request.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn workload_of(&self, request: &Request) -> Result<&'static dyn Workload, LabError> {
        self.workload(request.workload.split('/').next().unwrap_or_default())
    }

    /// The contestant of that name.
    ///
    /// # Errors
    ///
    /// There is none; the message lists all.
    pub fn peer(&self, name: &str) -> Result<&'static dyn Peer, LabError> {
        let names: Vec<&str> = self.peers.iter().map(|peer| peer.info().name).collect();
        Ok(self.peers[choose("runtimes", name, &names)?])
    }

    /// The version of a package as it was built.
    pub(crate) fn version(&self, package: &str) -> &'static str {
        let name = format!("name = \"{package}\"");
        let mut lines = self.lock.lines().skip_while(|line| *line != name).skip(1);
        let version = lines
            .next()
            .and_then(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
        version.unwrap_or("unknown")
    }

    /// The contestant that has policies, with them.
    pub(crate) fn home(&self) -> Option<(&'static str, &'static dyn Policies)> {
        self.peers
            .iter()
            .find_map(|peer| Some((peer.info().name, peer.policies()?)))
    }

    /// Checks the text of a policy.
    pub(crate) fn check_policy(&self, text: &str) -> Result<(), LabError> {
        match self.home() {
            Some((_, policies)) => policies.check(text),
            None => Err(LabError::Usage(format!("`{text}`: no runtime here has policies"))),
        }
    }

    /// Runs a request in this process.
    ///
    /// # Errors
    ///
    /// The run came to no result, or to a wrong one.
    pub fn run(&self, request: &Request) -> Result<Outcome, LabError> {
        check_workers(request.workers)?;
        self.peer(&request.runtime)?;
        self.workload_of(request)?.run(request)
    }

    /// Reads `packet`, `packet/heavier`, and the settings behind it; later settings win.
    ///
    /// # Errors
    ///
    /// There is no such workload, variant or parameter, or a value or a file does not fit.
    pub fn choose(
        &self,
        text: &str,
        smoke: bool,
        settings: &[String],
        files: &Files,
        limit: Duration,
    ) -> Result<Chosen, LabError> {
        let (name, variant) = match text.split_once('/') {
            Some((name, variant)) => (name, Some(variant)),
            None => (text, None),
        };
        let workload = self.workload(name)?;
        let about = workload.about();
        let mut params = Params::defaults(about.params);
        if let Some(variant) = variant {
            let names: Vec<&str> = about.variants.iter().map(|variant| variant.name).collect();
            if names.is_empty() {
                return Err(LabError::Usage(format!("`{text}`: {name} has no variants")));
            }
            let variant = &about.variants[choose(&format!("variants of {name}"), variant, &names)?];
            for (param, value) in variant.set {
                params.set(about.params, param, value)?;
            }
        }
        let mut said = BTreeSet::new();
        if smoke {
            for (param, value) in about.smoke {
                params.set(about.params, param, value)?;
                said.insert(*param);
            }
        }
        for setting in settings {
            params.assign(about.params, setting)?;
            said.extend(setting.split_once('=').map(|(name, _)| name));
        }
        for flag in files.flags() {
            if about.files.iter().all(|own| own.name != flag) {
                let owns = |one: &&&dyn Workload| one.about().files.iter().any(|own| own.name == flag);
                let owner = self
                    .workloads
                    .iter()
                    .find(owns)
                    .map_or("", |one| one.about().name);
                return Err(LabError::Usage(format!(
                    "--{flag} is for the workload {owner}, not for {text}"
                )));
            }
        }
        let mut unit = about.unit;
        workload.settle(&mut Asked {
            params: &mut params,
            unit: &mut unit,
            files,
            said,
            smoke,
            limit,
        })?;
        Ok(Chosen {
            workload,
            name: text.to_owned(),
            params,
            unit,
        })
    }
}

/// Checks a number of workers before any pool is built.
pub(crate) fn check_workers(workers: usize) -> Result<(), LabError> {
    if (1..=MOST_WORKERS).contains(&workers) {
        return Ok(());
    }
    Err(LabError::Usage(format!(
        "{workers} workers: a pool has from 1 to {MOST_WORKERS} of them"
    )))
}

/// A workload that was asked for, with all its parameters.
pub struct Chosen {
    /// The workload.
    pub workload: &'static dyn Workload,
    /// Its name with the variant.
    pub name: String,
    /// All parameters.
    pub params: Params,
    /// What an operation is, with these parameters.
    pub unit: &'static str,
}

impl Chosen {
    /// A request to which runtime, policy and workers are still to be filled in.
    pub fn request(&self, files: Files) -> Request {
        Request {
            workload: self.name.clone(),
            kind: self.workload.about().name.to_owned(),
            params: self.params.clone(),
            files,
            ..Request::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{chosen, lab};

    #[test]
    fn a_variant_sets_and_a_setting_overrides_it() {
        let chosen = chosen("packet/heavier", false, &["spin=700"]).unwrap();
        assert_eq!(chosen.params.number("spin"), 700);
        assert_eq!(chosen.params.number("n"), 50_000);
        let smoke = self::chosen("packet/10m", true, &[]).unwrap();
        assert_eq!(
            smoke.params.number("n"),
            2000,
            "a smoke run is small whatever the variant"
        );
    }

    #[test]
    fn wrong_names_list_the_right_ones() {
        let error = |text: &str| {
            let error = chosen(text, false, &[]).err();
            error.map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(error("packets").contains("workloads: churn, packet, spawn, wait"));
        assert!(error("packet/heavy").contains("did you mean `heavier`?"));
        assert!(error("wait/x").contains("has no variants"));
    }

    #[test]
    fn a_file_is_for_the_workload_whose_flag_names_it() {
        let mut files = Files::default();
        files.insert("list", vec![PathBuf::from("x.csv")]);
        let choose = |name| lab().choose(name, false, &[], &files, Duration::MAX);
        assert!(choose("packet").is_ok());
        let text = choose("spawn")
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(
            text.contains("--list is for the workload packet, not for spawn"),
            "{text}"
        );
    }

    #[test]
    fn every_runtime_is_found_by_its_name() {
        for peer in &lab().peers {
            assert_eq!(
                lab().peer(peer.info().name).unwrap().info().name,
                peer.info().name
            );
        }
        let text = lab()
            .peer("tokyo")
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(
            text.contains("did you mean `tokio`?") && text.contains("rayon"),
            "{text}"
        );
    }

    #[test]
    fn no_workers_and_too_many_are_refused() {
        assert!(check_workers(1).is_ok() && check_workers(MOST_WORKERS).is_ok());
        for workers in [0, MOST_WORKERS + 1, 1_000_000] {
            let text = check_workers(workers).unwrap_err().to_string();
            assert!(
                text.contains(&workers.to_string()) && text.contains("from 1 to"),
                "{text}"
            );
        }
    }
}
