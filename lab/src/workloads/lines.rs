//! *lines*: two tasks on two workers want one cache line, and nothing else. It says what the line's way
//! between two cores takes, and how near the simulator comes to it.
//!
//! ```text
//!  store   A stores 1 ──▶ B sees it, stores 2 ──▶ A sees it, stores 3 …      an operation is a round trip
//!  cas     the same, and each one tries by compare-and-swap until it succeeds
//!  faa     both add to the word, over and over                              an operation is an addition
//!  poll    A stores over and over, and B looks                              an operation is a store
//! ```

use std::sync::Arc;
use std::time::Duration;

use crate::kit::check::each;
use crate::kit::host::{self, AtomicU64, Ordering, spin_loop};
use crate::kit::task_bench::Apart;
use crate::prelude::*;

/// Looks after which a task gives way: the other one may be behind it.
const LOOKS: u32 = 10_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Store,
    Cas,
    Faa,
    Poll,
}

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    n: u64,
    form: Form,
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "lines",
        about: "two tasks on two workers that want one cache line",
        unit: "operations",
        params: params! {
            count("200k", "operations of each task", 1_000_000_000);
            Param::word("form", "store", &["store", "cas", "faa", "poll"],
                "store: to and fro by loads and stores; cas: by compare-and-swap; faa: both add; poll: one \
                 stores, and one looks");
        },
        variants: variants! {
            Variant::new("store", &[], "to and fro by loads and stores (the default)");
            Variant::new("cas", &[("form", "cas")], "to and fro by compare-and-swap");
            Variant::new("faa", &[("form", "faa")], "both add to it");
            Variant::new("poll", &[("form", "poll")], "one stores, and one looks");
        },
        smoke: &[("n", "500")],
        ..About::NEW
    };

    const SIMULATES: bool = true;

    fn refusal(request: &Request) -> Result<Option<&'static str>, LabError> {
        if request.workers < 2 {
            return Err(LabError::Usage(String::from(
                "one worker: the line would go nowhere; at least --workers 2",
            )));
        }
        Ok(None)
    }

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        Ok(Self {
            n: params.number("n"),
            form: match params.word("form") {
                "cas" => Form::Cas,
                "faa" => Form::Faa,
                "poll" => Form::Poll,
                _ => Form::Store,
            },
        })
    }

    fn warm_up(&self) -> Option<Self> {
        Some(Self {
            n: (self.n / 10).max(1),
            ..*self
        })
    }

    fn tasks<P: TaskPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let (tasks, plan) = (pool.tasks(), *self);
        let (elapsed, last) = inside(pool, async move {
            let word = Arc::new(Apart(AtomicU64::new(0)));
            let other = tasks.spawn(plan.side(Arc::clone(&word), 1, tasks));
            // Not before the other one runs: it says so by the first value.
            wait(&word.0, |value| value != 0, tasks).await;
            let start = host::now();
            plan.side(Arc::clone(&word), 0, tasks).await;
            let elapsed = host::since(start);
            other.await;
            (elapsed, word.0.load(Ordering::Relaxed))
        })?;
        check("the last value of the line", &last, &self.last())?;
        Ok(self.outcome(elapsed))
    }
}

impl Plan {
    /// The value that the line has in the end. The other task begins with 1.
    fn last(&self) -> u64 {
        match self.form {
            Form::Store | Form::Cas | Form::Faa => 2 * self.n + 1,
            Form::Poll => self.n + 1,
        }
    }

    /// A task's side. The second one stores 1 first, and then waits for its turn.
    async fn side<T: SpawnApi>(self, word: Arc<Apart<AtomicU64>>, second: u64, tasks: T) {
        let word = &word.0;
        if second == 1 {
            word.store(1, Ordering::Release);
        }
        // The first one makes 2 of 1, the second one 3 of 2.
        let mine = (0..self.n).map(|turn| 2 * turn + 1 + second);
        match self.form {
            Form::Store => {
                for value in mine {
                    wait(word, |now| now == value, tasks).await;
                    word.store(value + 1, Ordering::Release);
                }
            }
            Form::Cas => {
                for value in mine {
                    let (acquire, release) = (Ordering::Acquire, Ordering::AcqRel);
                    let mut looks = 0_u32;
                    while word.compare_exchange(value, value + 1, release, acquire).is_err() {
                        looks = looks.wrapping_add(1);
                        if looks.is_multiple_of(LOOKS) {
                            tasks.yield_now().await;
                        }
                    }
                }
            }
            Form::Faa => {
                for _ in 0..self.n {
                    word.fetch_add(1, Ordering::Relaxed);
                }
            }
            Form::Poll if second == 0 => {
                for value in 0..self.n {
                    word.store(value + 2, Ordering::Release);
                }
            }
            Form::Poll => wait(word, |now| now == self.n + 1, tasks).await,
        }
    }

    fn outcome(&self, elapsed: Duration) -> Outcome {
        let operations = match self.form {
            Form::Faa => 2 * self.n,
            Form::Store | Form::Cas | Form::Poll => self.n,
        };
        each(operations, elapsed, "ns_each")
    }
}

/// Looks until the word is as it should be.
async fn wait<T: SpawnApi>(word: &AtomicU64, so: impl Fn(u64) -> bool, tasks: T) {
    let mut looks = 0_u32;
    // Ordering: Acquire pairs with the store of the other task.
    while !so(word.load(Ordering::Acquire)) {
        spin_loop();
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(LOOKS) {
            tasks.yield_now().await;
        }
    }
}
