//! *transfer*: a leader spins, without giving way, until all others have seen that it leads; then it picks
//! the next one at random.
//!
//! ```text
//!  leader    spins ── all have seen term n ──▶ elects ──▶ term n + 1: unparks the others (park)
//!  others    see term n ──▶ park, or yield over and over
//! ```
//!
//! One worker is lost to the leader. So what is ready there must be taken by the others: when they have run
//! out of work (park), or although they never do (yield). A runtime that does not see to that lets a task
//! starve, and the leader waits for it: after five seconds the run *did not complete*.
//!
//! Invariants
//! - Term and leader are one word, which only the leader of the term writes.
//! - In the form `park` the electing task unparks all others once, and they have all parked, or are about to,
//!   since they saw its term: a place holds one unpark at most.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use harness::{Counters, empty_histogram};
use hdrhistogram::Histogram;

use crate::kit::check::dropped;
use crate::kit::host::{self, AtomicU64, AtomicUsize, Ordering};
use crate::kit::task_bench::{Apart, ParkSlotOf};
use crate::prelude::*;

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    tasks: usize,
    park: bool,
    itself: bool,
    longest: Duration,
    length: Duration,
}

/// The tasks.
///
/// # Errors
///
/// There is but one, so none could see the leader.
pub(super) fn tasks(params: &Params, workers: usize) -> Result<usize, LabError> {
    match params.number("tasks") as usize * workers {
        1 => Err(LabError::Usage(String::from(
            "one task: a leader needs others that see it; at least tasks=2 with one worker",
        ))),
        tasks => Ok(tasks),
    }
}

/// One task: where it parks, and which term it has seen.
#[repr(align(128))]
#[derive(Default)]
struct Member<P> {
    place: P,
    seen: AtomicU64,
}

/// Says that there is no further term.
const OVER: u64 = u64::MAX;

/// The word of a term.
const fn word(term: u64, leader: usize) -> u64 {
    term << 32 | leader as u64
}

/// The state that only leaders touch, one after the other.
struct Protocol {
    random: fastrand::Rng,
    /// When the first term began that counts, and how many there were before it.
    counts_from: Option<(Instant, u64)>,
    began: Instant,
    terms: u64,
    ended: Instant,
    histogram: Histogram<u64>,
    /// True if a leadership was given up.
    failed: bool,
}

/// The state that all share.
struct Stage<P> {
    plan: Plan,
    members: Box<[Member<P>]>,
    root: P,
    missing: AtomicUsize,
    word: Apart<AtomicU64>,
    protocol: Mutex<Protocol>,
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "transfer",
        about: "a leader spins until all others have seen it, then elects the next: who is ready behind it must be taken elsewhere",
        unit: "leaderships",
        latency: Some("of a leadership"),
        params: params! {
            per_worker("tasks", "tasks for each worker");
            Param::word("others", "park", &["park", "yield"],
                "park: who has seen the leader parks until there is another one; yield: it gives way, over and \
                 over");
            Param::word("elects", "any", &["any", "another"],
                "any: whom the leader elects may be itself; another: never itself");
            Param::number("longest", "5000", 1, 100_000,
                "milliseconds after which a leadership did not complete");
            MS;
            STYLE;
        },
        variants: variants! {
            Variant::new("park", &[], "who has seen the leader parks (the default)");
            Variant::new("yield", &[("others", "yield")],
                "who has seen the leader gives way, over and over: there is always work");
            Variant::new("park-another", &[("elects", "another")], "as park, and the leader never elects itself");
            FIBERS;
        },
        smoke: &[("tasks", "3"), ("ms", "20"), ("longest", "1000")],
        explored: WAITING,
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Parks;
    const SIMULATES: bool = true;
    const ALSO: &[&str] = &["go", "java"];

    fn refusal(request: &Request) -> Result<Option<&'static str>, LabError> {
        tasks(&request.params, request.workers).map(|_| None)
    }

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        let workers = request.workers;
        Ok(Self {
            tasks: tasks(params, workers)?,
            park: params.word("others") == "park",
            itself: params.word("elects") == "any",
            longest: Duration::from_millis(params.number("longest")),
            length: Duration::from_millis(params.number("ms")),
        })
    }

    fn parks<P: TaskPool<Tasks: Parks>>(&self, pool: &P) -> Result<Outcome, LabError> {
        let now = host::now();
        let stage = Arc::new(Stage::<ParkSlotOf<P>> {
            plan: *self,
            members: (0..self.tasks).map(|_| Member::default()).collect(),
            root: ParkSlotOf::<P>::default(),
            missing: AtomicUsize::new(self.tasks),
            word: Apart::default(),
            protocol: Mutex::new(Protocol {
                random: fastrand::Rng::with_seed(0x7a57),
                counts_from: None,
                began: now,
                terms: 0,
                ended: now,
                histogram: empty_histogram(),
                failed: false,
            }),
        });
        let before = pool.counters();
        let (ended, ends) = mpsc::channel();
        pool.start({
            let (tasks, stage) = (pool.tasks(), Arc::clone(&stage));
            async move {
                // The receiver is there: it waits for exactly this.
                ended.send(stage.root(tasks).await).ok();
            }
        });
        let acknowledged: u64 = host::receive(&ends).map_err(|_| dropped())?;
        let counters = pool
            .counters()
            .map(|after| after.since(&before.unwrap_or_default()));
        let protocol = stage.protocol.lock().unwrap_or_else(PoisonError::into_inner);
        if protocol.failed {
            return Err(LabError::TooLong(format!(
                "a leadership took more than {} ms, after {} that were completed",
                self.longest.as_millis(),
                protocol.terms
            )));
        }
        let expected = protocol.terms * (self.tasks as u64 - 1);
        check("times that a task saw a leader", &acknowledged, &expected)?;
        Ok(protocol.outcome(counters))
    }
}

impl Protocol {
    fn outcome(&self, counters: Option<Counters>) -> Outcome {
        // The last term ends the run and always counts.
        let (from, before) = self.counts_from.unwrap_or((self.ended, self.terms));
        let (terms, elapsed) = (self.terms - before, self.ended - from);
        let micros = elapsed.as_secs_f64() * 1e6 / terms.max(1) as f64;
        let mut outcome = Outcome::new(terms, elapsed)
            .with_latency(&self.histogram)
            .with_measure("us_per_leadership", micros);
        outcome.counters = counters;
        outcome
    }
}

impl<P: ParkSlot> Stage<P> {
    /// Starts the tasks, lets the first one lead, and waits for all. Returns how often a task saw a leader.
    async fn root<W: Parks<ParkSlot = P>>(self: &Arc<Self>, api: W) -> u64 {
        self.root.enter().await;
        let handles: Vec<_> = (0..self.members.len())
            .map(|own| {
                let stage = Arc::clone(self);
                api.spawn(async move { stage.take_part(own, api).await })
            })
            .collect();
        self.root.park().await;
        self.begin();
        let mut acknowledged = 0;
        for handle in handles {
            acknowledged += handle.await;
        }
        acknowledged
    }

    /// The first of them leads.
    fn begin(&self) {
        let mut protocol = self.protocol.lock().unwrap_or_else(PoisonError::into_inner);
        let now = host::now();
        (protocol.began, protocol.ended) = (now, now);
        drop(protocol);
        // Ordering: Release as in an election.
        self.word.0.store(word(1, 0), Ordering::Release);
        for member in &self.members {
            member.place.unpark();
        }
    }

    /// One task's life. How often it saw a leader that it was not itself.
    async fn take_part<W: SpawnApi>(&self, own: usize, api: W) -> u64 {
        let member = &self.members[own];
        member.place.enter().await;
        // Ordering: AcqRel: the root sees all others enter, by way of the last.
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.root.unpark();
        }
        member.place.park().await;
        let (mut seen, mut acknowledged) = (0, 0);
        loop {
            // Ordering: Acquire pairs with the election.
            let now = self.word.0.load(Ordering::Acquire);
            if now == OVER {
                return acknowledged;
            }
            let term = now >> 32;
            if now == word(term, own) {
                self.lead(own, term);
                continue;
            }
            if seen != term {
                seen = term;
                acknowledged += 1;
                // Ordering: Release pairs with the leader's look.
                member.seen.store(term, Ordering::Release);
            }
            if self.plan.park {
                member.place.park().await;
            } else {
                api.yield_now().await;
            }
        }
    }

    /// Waits until all others have seen the term, then begins the next, or says that it is over.
    fn lead(&self, own: usize, term: u64) {
        let complete = self.spin(own, term);
        let mut protocol = self.protocol.lock().unwrap_or_else(PoisonError::into_inner);
        let next = if complete { protocol.ends(&self.plan) } else { None };
        protocol.failed = !complete;
        let next = next.map(|random| {
            let count = self.members.len();
            // Where it does not elect itself, the one after it is used for 0.
            let next = if self.plan.itself {
                random % count
            } else {
                (own + 1 + random % (count - 1)) % count
            };
            word(term + 1, next)
        });
        drop(protocol);
        // Ordering: Release pairs with the looks of the others: the next leader finds what this one noted.
        self.word.0.store(next.unwrap_or(OVER), Ordering::Release);
        if self.plan.park {
            for (other, member) in self.members.iter().enumerate() {
                if other != own {
                    member.place.unpark();
                }
            }
        }
    }

    /// Returns true if all others have seen the term in time. Looks, and does nothing else.
    fn spin(&self, own: usize, term: u64) -> bool {
        let start = host::now();
        for (other, member) in self.members.iter().enumerate() {
            let mut looks = 0_u32;
            // Ordering: Acquire pairs with the member that has seen it.
            while other != own && member.seen.load(Ordering::Acquire) != term {
                host::spin_loop();
                looks = looks.wrapping_add(1);
                if looks.is_multiple_of(1024) && host::since(start) > self.plan.longest {
                    return false;
                }
            }
        }
        true
    }
}

impl Protocol {
    /// A leadership ends. A random number for the election of the next, unless it was the last.
    fn ends(&mut self, plan: &Plan) -> Option<usize> {
        let now = host::now();
        let took = now - self.ended;
        self.terms += 1;
        self.ended = now;
        match self.counts_from {
            None if now - self.began < plan.length / 8 => {}
            None => self.counts_from = Some((now, self.terms)),
            Some((from, _)) => {
                self.histogram.saturating_record(took.as_nanos() as u64);
                if now - from >= plan.length {
                    return None;
                }
            }
        }
        Some(self.random.usize(..))
    }
}
