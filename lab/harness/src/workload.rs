//! The traits of a workload and of a contestant, and the data of one run.
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

use crate::error::LabError;
use crate::params::{Param, Params, Variant};
use crate::record::Outcome;
use crate::simulation::Simulation;

/// The description of a workload, with the parameters that can be set.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Its name on the command line and in the records.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// The unit of operations: "packets".
    pub unit: &'static str,
    /// The meaning of a latency, if there are any.
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
    /// True if arrivals keep their times however slow a contestant is: then its throughput says nothing, and
    /// latencies alone are compared.
    pub open_load: bool,
    /// A parameter in milliseconds, over which a report draws the speed-up if it has several values.
    pub speed_up_over: Option<&'static str>,
}

impl About {
    /// An empty description: `About { name: "sum", ..About::NEW }`.
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
        open_load: false,
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
    /// True if it may be given several times.
    pub many: bool,
    /// True if the records name the file, as `capture`.
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

    /// Returns true if no file was named.
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
    pub(crate) fn flags(&self) -> impl Iterator<Item = &str> {
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
    /// The simulated machine, if it is not this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulation: Option<Simulation>,
}

impl Request {
    /// Runtime, policy and workers, for messages.
    pub fn contestant(&self) -> String {
        let policy = self.policy.as_ref();
        let policy = policy.map(|policy| format!(" {policy}")).unwrap_or_default();
        let plural = if self.workers == 1 { "" } else { "s" };
        format!("{}{policy}, {} worker{plural}", self.runtime, self.workers)
    }

    /// Lowers a number to at most this. Does nothing for a workload that has no such number.
    pub fn bound(&mut self, param: &str, most: u64) {
        if let Some(number) = self.params.number_if_any(param) {
            self.params = self.params.with_number(param, number.min(most));
        }
    }

    /// The error of a run without a result.
    pub fn failed(&self, reason: &(impl ToString + ?Sized)) -> LabError {
        LabError::Run {
            contestant: self.contestant(),
            workload: self.workload.clone(),
            reason: reason.to_string(),
        }
    }
}

/// A remark that a reader of a contestant's figures must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caveat {
    /// The words.
    pub text: &'static str,
    /// True if the contestant did not do the same as the others: then no other one is compared with it.
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

/// A request that a workload checks and completes before anything is run.
pub struct Asked<'a> {
    /// All parameters.
    pub params: &'a mut Params,
    /// The unit of operations.
    pub unit: &'a mut &'static str,
    /// The files.
    pub files: &'a Files,
    /// The parameters that the command line, or a smoke run, sets.
    pub said: BTreeSet<&'a str>,
    /// True if everything is to be tiny.
    pub smoke: bool,
    /// A run that takes longer is ended.
    pub limit: Duration,
}

/// A program that contestants are measured with.
pub trait Workload: Sync {
    /// Returns its description.
    fn about(&self) -> &About;

    /// Runs a request in this process and checks the result.
    ///
    /// # Errors
    ///
    /// The run has no result, or a wrong one.
    fn run(&self, request: &Request) -> Result<Outcome, LabError>;

    /// Fills in what follows from other parameters; refuses sizes and files that do not fit.
    ///
    /// # Errors
    ///
    /// Sizes or files do not fit; the message says what would.
    fn settle(&self, _asked: &mut Asked<'_>) -> Result<(), LabError> {
        Ok(())
    }

    /// Changes a request to what its contestant can do: a thread per task bounds how many there are.
    fn fit(&self, _request: &mut Request) {}

    /// Returns the reason if this contestant cannot run it.
    ///
    /// # Errors
    ///
    /// No contestant can: the parameters contradict each other.
    fn refusal(&self, _request: &Request) -> Result<Option<String>, LabError> {
        Ok(None)
    }

    /// Returns what a reader of this contestant's figures must know, if anything.
    fn caveat(&self, _request: &Request) -> Option<Caveat> {
        None
    }

    /// Returns what a report shows beside the parameters: names and values.
    fn facts(&self, _request: &Request) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// The description of a contestant.
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
    /// Returns its description.
    fn info(&self) -> PeerInfo;

    /// Returns the reason if it cannot run here at all.
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

    /// The grammar of policies, for the list: a line for each kind of word.
    fn grammar(&self) -> Vec<&'static str>;

    /// Checks the text of a policy.
    ///
    /// # Errors
    ///
    /// The text is no policy; the message says where it is wrong and which words are right.
    fn check(&self, text: &str) -> Result<(), LabError>;

    /// The environment variables by which a program is told its policy and its workers, if there are any.
    fn variables(&self) -> Option<Variables> {
        None
    }

    /// Those that `try` runs a program with if none are named.
    fn tried(&self) -> &'static [&'static str] {
        self.explored()
    }

    /// The same policy as a pool names it.
    fn canonical(&self, text: &str) -> String {
        text.to_owned()
    }
}

/// Environment variables by which a program is told what to do.
#[derive(Clone, Copy, Debug)]
pub struct Variables {
    /// The policy of its pools.
    pub policy: &'static str,
    /// The number of their workers.
    pub workers: &'static str,
    /// The file to which each pool appends a line of figures.
    pub stats: &'static str,
    /// `1`: the lines have how long steps took and waited, too.
    pub measure: &'static str,
    /// Others that say the same, and are taken away.
    pub cleared: &'static [&'static str],
}
