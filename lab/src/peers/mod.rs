//! The contestants: the runtimes on which a workload can run, a file or a folder each.
//!
//! A contestant says what the [idioms](crate::idioms) are called there, and which it lacks. The build script
//! finds it and lists it.

use harness::{Caveat, LabError, Outcome, Request};

use crate::idioms::Idiom;
use crate::program::{Parts, Program};

include!(concat!(env!("OUT_DIR"), "/peers.rs"));

/// A runtime that workloads run on.
pub trait Contestant: harness::Peer {
    /// Returns the reason if it runs no program of this idiom.
    fn lacks(&self, idiom: Idiom) -> Option<&'static str>;

    /// Returns the reason if it cannot run this request, for any idiom.
    ///
    /// # Errors
    ///
    /// The text of the policy is wrong.
    fn refusal(&self, _request: &Request, _idiom: Idiom, _parts: Parts) -> Result<Option<String>, LabError> {
        Ok(None)
    }

    /// Returns what a reader of its figures must know in all programs of this idiom.
    fn caveat(&self, _idiom: Idiom) -> Option<Caveat> {
        None
    }

    /// Changes a request to what it can do.
    fn fit(&self, _request: &mut Request, _idiom: Idiom) {}

    /// Runs a program in this process.
    ///
    /// # Errors
    ///
    /// The runtime cannot be built, or the run has no right result.
    fn play<P: Program>(&self, request: &Request, program: &P) -> Result<Outcome, LabError>
    where
        Self: Sized;
}

/// The reason that a contestant whose tasks are closures has no part in a workload of futures.
const NO_FUTURES: &str = "its tasks are closures without handles, and the workload is written for futures";

macro_rules! list {
    ($($module:ident :: $peer:ident),*) => { &[$(&$module::$peer),*] };
}

/// All of them, this project's first.
static ALL: &[&dyn Contestant] = contestants!(list);

/// All contestants, as the harness sees them.
pub(crate) fn all() -> Vec<&'static dyn harness::Peer> {
    ALL.iter().map(|peer| *peer as &dyn harness::Peer).collect()
}

/// The contestant of that name.
pub(crate) fn named(name: &str) -> Option<&'static dyn Contestant> {
    ALL.iter().find(|peer| peer.info().name == name).copied()
}

/// Runs a program on the contestant that the request names.
pub(crate) fn play<P: Program>(request: &Request, program: &P) -> Result<Outcome, LabError> {
    macro_rules! play {
        ($($module:ident :: $peer:ident),*) => {
            $(if harness::Peer::info(&$module::$peer).name == request.runtime {
                return $module::$peer.play(request, program);
            })*
        };
    }
    contestants!(play);
    Err(LabError::Usage(format!(
        "there is no runtime `{}`",
        request.runtime
    )))
}
