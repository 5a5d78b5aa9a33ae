//! *ring*: tasks in a ring that wait, and wake each other. Each spawner starts one token, and each task that
//! has a token works and passes it on.

use crate::figures::Figures;
use std::sync::Arc;
use warpweft::sim::{AtomicU64, Ordering, compute, now_ns};
use warpweft::sync::Semaphore;
use warpweft::{Runtime, spawn};

/// A member's work besides `--spin`: assumed, some fifty instructions.
const MEMBER_NS: u64 = 15;

/// How the workload runs.
#[derive(Debug, Clone)]
pub(crate) struct Ring {
    /// Passes over all tokens.
    pub(crate) n: u64,
    /// Tasks in the ring.
    pub(crate) window: u64,
    /// Tokens.
    pub(crate) spawners: u64,
    pub(crate) spin: u64,
}

impl Ring {
    /// Runs the workload, after a tenth of it to warm up, and checks its result.
    pub(crate) fn run(&self, runtime: &Runtime) -> Result<Figures, String> {
        self.measured(runtime, self.n / 10)?;
        self.measured(runtime, self.n)
    }

    fn measured(&self, runtime: &Runtime, n: u64) -> Result<Figures, String> {
        let members = usize::try_from(self.window.max(2)).map_err(|error| error.to_string())?;
        // Whole rounds, so that each member knows how often a token comes.
        let rounds = (n / (self.spawners * members as u64)).max(1);
        let passes = rounds * self.spawners;
        let spin = self.spin;
        let doors: Arc<Vec<Semaphore>> = Arc::new((0..members).map(|_| Semaphore::new(0)).collect());
        let passed = Arc::new(AtomicU64::new(0));
        let tokens = usize::try_from(self.spawners).map_err(|error| error.to_string())?;
        let all = runtime.spawn(async move {
            let start = now_ns();
            let tasks: Vec<_> = (0..members)
                .map(|member| {
                    let (doors, passed) = (Arc::clone(&doors), Arc::clone(&passed));
                    spawn(async move {
                        let next = &doors[(member + 1) % members];
                        let (mut came, mut latencies) = (0, Vec::new());
                        let mut last = now_ns();
                        while came < passes {
                            let Ok(token) = doors[member].acquire(1).await else {
                                break;
                            };
                            token.forget();
                            came += 1;
                            let now = now_ns();
                            latencies.push(now - last);
                            last = now;
                            compute(MEMBER_NS + spin);
                            next.add(1);
                        }
                        passed.fetch_add(came, Ordering::Relaxed);
                        latencies
                    })
                })
                .collect();
            for token in 0..tokens {
                doors[token * members / tokens].add(1);
            }
            let mut latencies_ns = Vec::new();
            for task in tasks {
                latencies_ns.append(&mut task.await.map_err(|error| error.to_string())?);
            }
            let elapsed_ns = now_ns() - start;
            latencies_ns.sort_unstable();
            Ok::<_, String>((passed.load(Ordering::Relaxed), elapsed_ns, latencies_ns))
        });
        let (items, elapsed_ns, latencies_ns) = all.wait().map_err(|error| error.to_string())??;
        let expected = passes * members as u64;
        if items != expected {
            return Err(format!("{items} tokens were passed on, and not {expected}"));
        }
        Ok(Figures {
            items,
            elapsed_ns,
            latencies_ns,
        })
    }
}
