//! *call*: callers that each spawn a task, and wait for its answer by a channel of one value.

use crate::figures::Figures;
use warpweft::sim::{compute, now_ns};
use warpweft::sync::oneshot;
use warpweft::{Runtime, spawn};

/// A task's work besides `--spin`: assumed, some fifty instructions.
const TASK_NS: u64 = 15;

/// How the workload runs.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Calls over all callers.
    pub(crate) n: u64,
    /// Callers.
    pub(crate) spawners: u64,
    pub(crate) spin: u64,
}

impl Call {
    /// Runs the workload, after a tenth of it to warm up, and checks its result.
    pub(crate) fn run(&self, runtime: &Runtime) -> Result<Figures, String> {
        self.measured(runtime, self.n / 10)?;
        self.measured(runtime, self.n)
    }

    fn measured(&self, runtime: &Runtime, n: u64) -> Result<Figures, String> {
        let share = (n / self.spawners).max(1);
        let work = TASK_NS + self.spin;
        let start = now_ns();
        let callers: Vec<_> = (0..self.spawners)
            .map(|_| {
                runtime.spawn(async move {
                    let (mut sum, mut latencies) = (0, Vec::new());
                    for number in 0..share {
                        let started = now_ns();
                        let (answer, answered) = oneshot::channel();
                        spawn(async move {
                            compute(work);
                            // The caller waits for it.
                            let _ = answer.send(number);
                        })
                        .detach();
                        sum += answered.await.map_err(|error| error.to_string())?;
                        latencies.push(now_ns() - started);
                    }
                    Ok::<_, String>((sum, latencies))
                })
            })
            .collect();
        let (mut sum, mut latencies_ns) = (0, Vec::new());
        for caller in callers {
            let (of_caller, mut latencies) = caller.wait().map_err(|error| error.to_string())??;
            sum += of_caller;
            latencies_ns.append(&mut latencies);
        }
        let elapsed_ns = now_ns() - start;
        let expected = self.spawners * (0..share).sum::<u64>();
        if sum != expected {
            return Err(format!("the answers sum up to {sum}, and not to {expected}"));
        }
        latencies_ns.sort_unstable();
        Ok(Figures {
            items: latencies_ns.len() as u64,
            elapsed_ns,
            latencies_ns,
        })
    }
}
