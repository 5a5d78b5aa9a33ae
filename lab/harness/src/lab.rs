//! A laboratory: workloads and contestants under one command, and the choice that a command line makes.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::{LabError, choose};
use crate::machine::Versions;
use crate::params::Params;
use crate::plan::{Comparison, GuardSet, Measurement};
use crate::record::Outcome;
use crate::simulation::{SimulatedMachine, Simulation};
use crate::workload::{Asked, Files, Peer, PeerInfo, Policies, Request, Workload};

/// Pools have at most this many workers, whatever the runtime: above it nothing but the kernel's limits is
/// measured.
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
    /// The lines of `compare`.
    pub comparisons: &'static [Comparison],
    /// The rows of `compare --against`, the usual set first.
    pub guards: &'static [GuardSet],
    /// The tables of `results`.
    pub results: &'static [Measurement],
    /// The package of the allocator of all contestants; `None` if it is the system's.
    pub allocator: Option<&'static str>,
    /// The lock file of the build, for the versions of packages in the records.
    pub lock: &'static str,
    /// The simulator of `simulate`.
    pub simulator: Simulator,
}

/// The simulator of a laboratory, which is another build of the same program.
#[derive(Clone, Copy, Debug)]
pub enum Simulator {
    /// There is none.
    Missing,
    /// This program is built for it: its workloads run on simulated machines. The function reads a machine.
    Here(fn(&Simulation) -> Result<SimulatedMachine, LabError>),
    /// Another program is.
    Elsewhere {
        /// Finds that program, or makes it.
        program: fn() -> Result<PathBuf, LabError>,
        /// Measures this machine, and returns the text of its file.
        calibrate: fn() -> Result<String, LabError>,
    },
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
            guards: &[],
            results: &[],
            allocator: None,
            lock: "",
            simulator: Simulator::Missing,
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
    /// No entry has this name; the message lists all.
    pub fn workload(&self, name: &str) -> Result<&'static dyn Workload, LabError> {
        let names: Vec<&str> = self.workloads.iter().map(|one| one.about().name).collect();
        Ok(self.workloads[choose("workloads", name, &names)?])
    }

    /// The workload of a request.
    ///
    /// # Errors
    ///
    /// No workload has this name.
    pub fn workload_of(&self, request: &Request) -> Result<&'static dyn Workload, LabError> {
        self.workload(request.workload.split('/').next().unwrap_or_default())
    }

    /// The contestant of that name.
    ///
    /// # Errors
    ///
    /// No entry has this name; the message lists all.
    pub fn peer(&self, name: &str) -> Result<&'static dyn Peer, LabError> {
        let names: Vec<&str> = self.peers.iter().map(|peer| peer.info().name).collect();
        Ok(self.peers[choose("runtimes", name, &names)?])
    }

    /// Returns compiler, allocator and contestants of this program.
    pub(crate) fn versions(&self) -> Versions {
        let peers = self.peers.iter().map(|peer| peer.info());
        let peers = peers.filter(|peer| !peer.packages.is_empty());
        Versions {
            rustc: env!("LAB_RUSTC_VERSION").to_owned(),
            profile: env!("LAB_PROFILE").to_owned(),
            allocator: match self.allocator {
                Some(package) => format!("{package} {}", self.version(package)),
                None => String::from("system"),
            },
            peers: peers
                .map(|peer| (peer.name.replace('-', "_"), self.versions_of(peer)))
                .collect(),
        }
    }

    /// The version of a contestant; a package of another name is named.
    fn versions_of(&self, peer: PeerInfo) -> String {
        let packages = peer.packages.iter().map(|package| match self.version(package) {
            version if *package == peer.name => version.to_owned(),
            version => format!("{package} {version}"),
        });
        packages.collect::<Vec<_>>().join(", ")
    }

    /// The version of a package as it was built.
    fn version(&self, package: &str) -> &'static str {
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
    /// The run has no result, or a wrong one.
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
    /// The unit of operations with these parameters.
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
    use std::path::PathBuf;

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
    fn the_build_is_described() {
        let versions = lab().versions();
        assert!(versions.rustc.starts_with("rustc "), "{}", versions.rustc);
        assert_eq!(
            versions.peers["rayon"], "1.2.3, rayon-core unknown",
            "{versions:?}"
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
