//! What a reader must know of contestants that do not do quite what the others do.

use super::spec::Kind;
use super::{Request, apps, lock, micro, spawn};
use crate::error::LabError;
use crate::peers::Runtime;

/// What a reader of a contestant's figures must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remark {
    /// The words.
    pub(crate) text: &'static str,
    /// Whether it did not quite the same thing as the others: then it is nobody's yardstick.
    pub(crate) differs: bool,
}

/// What a reader of this contestant's figures on this workload must know, if anything.
pub(crate) fn remark(request: &Request) -> Result<Option<Remark>, LabError> {
    let runtime = request.runtime()?;
    let mut differs = true;
    let text = match (request.kind, runtime) {
        (Kind::App(name), _) => return Ok(apps::remark(name, runtime, request.workers)),
        (Kind::Spawn, Runtime::Rayon | Runtime::RayonFifo | Runtime::Threads)
            if spawn::has_handles(&request.params) =>
        {
            "no handles: a counter stands for them"
        }
        (Kind::FibPromise, Runtime::Rayon | Runtime::RayonFifo) => "no promises: join stands for them",
        (Kind::Mixer, Runtime::Threads) => "a thread per task; conferences are bounded",
        (Kind::Mixer, Runtime::May) => {
            differs = false;
            "tasks behind one that waits for them may starve; conferences are bounded"
        }
        (kind, Runtime::Threads) if micro::is_micro(kind) => {
            differs = false;
            "a thread per task: the system's scheduler"
        }
        (_, Runtime::Threads) => "a thread per task; n is bounded",
        (Kind::Timers, Runtime::May) => "two mappings per task; n is bounded",
        (Kind::Pingpong, Runtime::May) if request.params.word("form") == "oneshot" => {
            "no promises: a channel stands for them"
        }
        (Kind::Pingpong, Runtime::May) => {
            differs = false;
            "its channels have no bound"
        }
        (Kind::ForkJoin, Runtime::Chili) | (Kind::ForkJoin | Kind::Spawn, Runtime::Forte) => {
            differs = false;
            "the caller is one of the workers"
        }
        (Kind::Pingpong, Runtime::Smol) if request.params.word("form") == "oneshot" => {
            "no promises: a channel of one place stands for them"
        }
        (Kind::Timers, Runtime::Tokio) => {
            differs = false;
            "its timers tick in whole milliseconds"
        }
        (Kind::Http, Runtime::Go) => {
            differs = false;
            "net/http in a process of its own, for hyper in that of the clients"
        }
        (Kind::Mixed, Runtime::Go) => {
            differs = false;
            "in a process of its own; a goroutine and a wait group stand for a join"
        }
        (Kind::Mixed, Runtime::TokioRayon) => {
            differs = false;
            "two pools, each with as many threads as workers"
        }
        (Kind::Lock, Runtime::Tokio) if !lock::uses_std(&request.params) => {
            differs = false;
            "a task yields after 128 operations"
        }
        (Kind::Mapreducefib, Runtime::Rayon) if request.params.number("wait") > 0 => {
            "who waits holds a worker; n is bounded"
        }
        (Kind::Mapreducefib, Runtime::Tokio) => {
            differs = false;
            "it has no join: an item is computed in plain calls"
        }
        (Kind::Mapreducefib, Runtime::TokioRayon) => {
            differs = false;
            "two pools, each with as many threads as workers"
        }
        (Kind::Sweep, Runtime::Go) => "a goroutine that sleeps holds no worker: it spins",
        (Kind::Sweep, Runtime::Rayon) => {
            differs = false;
            "the classic: who waits holds a worker"
        }
        (_, Runtime::Sequential) => "plain calls: nothing is forked",
        _ => return Ok(None),
    };
    Ok(Some(Remark { text, differs }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::machine::cpus;
    use crate::workloads::apps::Name;

    #[test]
    fn a_compensating_is_more_than_one_worker() {
        let told = |workers| apps::remark(Name::Matrix, Runtime::Warpweft, workers);
        assert_eq!(told(cpus()), None);
        assert_eq!(told(1).is_some_and(|remark| remark.differs), cpus() > 1);
        assert_eq!(apps::remark(Name::News, Runtime::Warpweft, 1), None);
    }
}
