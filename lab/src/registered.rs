//! A program as the harness sees it: a workload, whose runs go to the contestant that a request names.

use std::marker::PhantomData;

use harness::{About, Asked, Caveat, LabError, Outcome, Request, Workload};

use crate::idioms::Idiom;
use crate::peers;
use crate::program::{Program, of};

/// The workloads that can be simulated; a test compares.
const SIMULATED: [&str; 14] = [
    "call",
    "churn",
    "cycle",
    "fork-join",
    "lines",
    "locality",
    "mapreducefib",
    "packet",
    "packet-bimodal",
    "packet-cache",
    "pingpong",
    "spawn",
    "transfer",
    "yield",
];

/// A program as the harness sees it.
struct Registered<P>(PhantomData<fn() -> P>);

/// The program as the harness sees it: what [`crate::lab`] takes.
pub const fn registered<P: Program>() -> &'static dyn Workload {
    &Registered::<P>(PhantomData)
}

impl<P: Program> Workload for Registered<P> {
    fn about(&self) -> &About {
        &const { explored(P::ABOUT) }
    }

    fn run(&self, request: &Request) -> Result<Outcome, LabError> {
        #[cfg(warpweft_sim)]
        return crate::simulator::simulated(request, {
            let request = request.clone();
            move || peers::play(&request, &P::load(&request)?)
        });
        #[cfg(not(warpweft_sim))]
        peers::play(request, &P::load(request)?)
    }

    fn settle(&self, asked: &mut Asked<'_>) -> Result<(), LabError> {
        P::settle(asked)
    }

    fn fit(&self, request: &mut Request) {
        P::fit(request);
        if let Some(peer) = peers::named(&request.runtime) {
            peer.fit(request, P::idiom(&request.params));
        }
    }

    fn refusal(&self, request: &Request) -> Result<Option<String>, LabError> {
        if request.simulation.is_some() && !P::SIMULATES {
            return Err(LabError::Usage(format!(
                "{} is not simulated: it takes time, threads or memory from the system. These are: {}",
                P::ABOUT.name,
                SIMULATED.join(", ")
            )));
        }
        if let Some(reason) = P::refusal(request)?.or_else(|| of(P::REFUSALS, &request.runtime)) {
            return Ok(Some(reason.to_owned()));
        }
        let Some(peer) = peers::named(&request.runtime) else {
            return Ok(None);
        };
        if let Some(reason) = peer.refusal(request, P::idiom(&request.params), P::PARTS)? {
            return Ok(Some(reason));
        }
        let lacks = || peer.lacks(P::idiom(&request.params)).map(str::to_owned);
        let plays = P::ALSO.contains(&peer.info().name) && P::idiom(&request.params) != Idiom::Scope;
        Ok(if plays { None } else { lacks() }.or_else(|| peer.missing()))
    }

    fn caveat(&self, request: &Request) -> Option<Caveat> {
        let of_peer = || peers::named(&request.runtime)?.caveat(P::idiom(&request.params));
        P::caveat(request).or_else(of_peer)
    }

    fn facts(&self, request: &Request) -> Vec<(&'static str, String)> {
        P::facts(request)
    }
}

/// Fills in the contestants of `explore` unless the workload names some: this runtime, and usual
/// alternatives.
const fn explored(about: About) -> About {
    if about.explored.is_empty() {
        About {
            explored: &["warpweft", "rayon", "tokio"],
            ..about
        }
    } else {
        about
    }
}

#[cfg(test)]
mod tests {
    use super::SIMULATED;
    use harness::{Request, Simulation};

    #[test]
    fn the_list_of_simulated_workloads_is_complete() {
        let lab = crate::lab([]);
        let simulates = |workload: &&&dyn harness::Workload| {
            let about = workload.about();
            let request = crate::kit::request(about.name, &[]);
            let simulated = Request {
                runtime: String::from("warpweft"),
                policy: Some(String::from("fifo")),
                workers: 2,
                simulation: Some(Simulation::default()),
                ..request
            };
            workload.refusal(&simulated).is_ok()
        };
        let names: Vec<&str> = lab
            .workloads
            .iter()
            .filter(simulates)
            .map(|one| one.about().name)
            .collect();
        assert_eq!(names, SIMULATED);
    }
}
