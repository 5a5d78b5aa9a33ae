//! *lines*: two tasks on two workers want one cache line, or the two ends of a queue, and nothing else. It
//! says what a line's way between two cores takes, and how near the simulator comes to it.
//!
//! ```text
//!  store   A stores 1 ──▶ B sees it, stores 2 ──▶ A sees it, stores 3 …      an operation is a round trip
//!  cas     the same, and each one tries by compare-and-swap until it succeeds
//!  faa     both add to the word, over and over                              an operation is an addition
//!  poll    A stores over and over, and B looks                              an operation is a store
//!  ends    A pushes two numbers into a queue, and pops two                  an operation is a push and a pop
//!  steal   the same, and B steals one whenever there is one                 the same
//! ```

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use warpweft_queue::{Fifo, Owner, Thief};

use crate::kit::check::each;
use crate::kit::host::{self, AtomicBool, AtomicU64, Ordering, spin_loop};
use crate::kit::task_bench::Apart;
use crate::prelude::*;

/// Places of the queue.
const PLACES: usize = 64;
/// Looks after which a task gives way: the other one may be behind it.
const LOOKS: u32 = 10_000;

/// What two tasks do with a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Store,
    Cas,
    Faa,
    Poll,
}

/// What the two tasks want.
#[derive(Clone, Copy)]
enum Wanted {
    Word(Form),
    Queue { thief: bool },
}

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    n: u64,
    wanted: Wanted,
}

/// A line, and what two tasks do with it.
#[derive(Clone, Copy)]
struct SharedWord {
    n: u64,
    form: Form,
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "lines",
        about: "two tasks on two workers that want one cache line, or the ends of a queue",
        unit: "operations",
        params: params! {
            count("200k", "operations of each task", 1_000_000_000);
            Param::word("form", "store", &["store", "cas", "faa", "poll", "ends", "steal"],
                "store: to and fro by loads and stores; cas: by compare-and-swap; faa: both add; poll: one \
                 stores, and one looks; ends: one pushes into a queue and pops; steal: and one steals");
        },
        variants: variants! {
            Variant::new("store", &[], "to and fro by loads and stores (the default)");
            Variant::new("cas", &[("form", "cas")], "to and fro by compare-and-swap");
            Variant::new("faa", &[("form", "faa")], "both add to it");
            Variant::new("poll", &[("form", "poll")], "one stores, and one looks");
            Variant::new("ends", &[("form", "ends")], "one pushes into a queue and pops, alone");
            Variant::new("steal", &[("form", "steal")], "the same, and the other one steals");
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
            wanted: match params.word("form") {
                "cas" => Wanted::Word(Form::Cas),
                "faa" => Wanted::Word(Form::Faa),
                "poll" => Wanted::Word(Form::Poll),
                "ends" => Wanted::Queue { thief: false },
                "steal" => Wanted::Queue { thief: true },
                _ => Wanted::Word(Form::Store),
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
        let (tasks, n) = (pool.tasks(), self.n);
        let (elapsed, operations) = match self.wanted {
            Wanted::Word(form) => {
                let line = SharedWord { n, form };
                let (elapsed, last) = inside(pool, line.both(tasks))?;
                check("the last value of the line", &last, &line.last())?;
                (elapsed, line.operations())
            }
            Wanted::Queue { thief } => {
                let (elapsed, taken) = inside(pool, ends(tasks, n, thief))?;
                check("elements of the queue", &taken, &(2 * n.div_ceil(2)))?;
                (elapsed, taken)
            }
        };
        Ok(each(operations, elapsed, "ns_each"))
    }
}

impl SharedWord {
    /// The line's time with both tasks, and its last value.
    async fn both<T: SpawnApi>(self, tasks: T) -> (Duration, u64) {
        let word = Arc::new(Apart(AtomicU64::new(0)));
        let other = tasks.spawn(self.side(Arc::clone(&word), 1, tasks));
        // Not before the other one runs: it says so by the first value.
        wait(&word.0, |value| value != 0, tasks).await;
        let start = host::now();
        self.side(Arc::clone(&word), 0, tasks).await;
        let elapsed = host::since(start);
        other.await;
        (elapsed, word.0.load(Ordering::Relaxed))
    }

    /// The value that the line has in the end. The other task begins with 1.
    fn last(self) -> u64 {
        match self.form {
            Form::Store | Form::Cas | Form::Faa => 2 * self.n + 1,
            Form::Poll => self.n + 1,
        }
    }

    /// The operations of both tasks.
    fn operations(self) -> u64 {
        match self.form {
            Form::Faa => 2 * self.n,
            Form::Store | Form::Cas | Form::Poll => self.n,
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

/// Pushes elements into a queue and pops them, two by two, perhaps beside a thief. Returns how long it took,
/// and how many elements were popped or stolen.
async fn ends<T: SpawnApi>(tasks: T, n: u64, with_thief: bool) -> (Duration, u64) {
    let mut queue = Fifo::with_capacity(PLACES).expect("memory for a few words");
    let thief = queue.thief();
    let runs = Arc::new(Apart(AtomicBool::new(!with_thief)));
    let is_over = Arc::new(Apart(AtomicBool::new(false)));
    let other = with_thief.then(|| {
        let (runs, is_over) = (Arc::clone(&runs), Arc::clone(&is_over));
        tasks.spawn(async move {
            runs.0.store(true, Ordering::Release);
            steal(&thief, &is_over.0)
        })
    });
    while !runs.0.load(Ordering::Acquire) {
        tasks.yield_now().await;
    }
    let mut popped = 0;
    let start = host::now();
    for _ in 0..n.div_ceil(2) {
        for _ in 0..2 {
            // The thief may have claimed a place that it has not emptied yet.
            while queue.push(NonZeroUsize::MIN).is_err() {
                spin_loop();
            }
        }
        popped += (0..2).filter_map(|_| queue.pop()).count();
    }
    let elapsed = host::since(start);
    is_over.0.store(true, Ordering::Release);
    let stolen = match other {
        Some(other) => other.await,
        None => 0,
    };
    (elapsed, popped as u64 + stolen)
}

/// Steals until the owner is done, and returns how many elements. The owner leaves none behind.
fn steal(thief: &impl Thief<NonZeroUsize>, is_over: &AtomicBool) -> u64 {
    let mut stolen = 0;
    // Ordering: Acquire pairs with the owner's store, so that nothing is pushed after it.
    while !is_over.load(Ordering::Acquire) {
        match thief.steal_one().taken() {
            Some(_) => stolen += 1,
            None => spin_loop(),
        }
    }
    stolen
}
