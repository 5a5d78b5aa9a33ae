//! *churn*: tasks that push each other out of random places: the task that it wakes has nothing to do
//! with where it ran itself.
//!
//! ```text
//!  swap (the default)   own name into a random spot ──▶ unpark the one that was there ──▶ park
//!  sem                  V a random semaphore ──▶ P the same one
//! ```
//!
//! With semaphores, as it was published, a task may take its own permit back and never block. So the main
//! form hands over: the one that is found continues, and the one that finds it waits, always.
//!
//! At most as many tasks wait as there are spots, so the others keep the workers busy: there must be a
//! worker's worth of them.

use std::sync::Arc;

use crate::kit::host::{AtomicUsize, Ordering};
use crate::kit::task_bench::{Apart, Counted, ParkSlotOf, TaskBench, Window};
use crate::prelude::*;

/// The number of spots.
pub(super) const SPOTS: Param = Param::number(
    "spots",
    "0",
    0,
    1_000_000,
    "spots of all tasks together, at most tasks minus workers; 0: half as many as tasks",
);

/// The spots of that many tasks.
///
/// # Errors
///
/// Too many, so that all tasks could wait in them while a worker has nothing to do.
pub(super) fn spots(params: &Params, workers: usize) -> Result<usize, LabError> {
    let tasks = params.number("tasks") as usize * workers;
    let asked = params.number("spots") as usize;
    let spots = if asked == 0 { tasks / 2 } else { asked };
    if spots >= 1 && spots + workers <= tasks {
        return Ok(spots);
    }
    Err(LabError::Usage(format!(
        "{tasks} task{} and {spots} spots: all tasks could wait while {workers} worker{} nothing to do; \
         there must be at least as many tasks as spots and workers together, such as tasks=2 (for each worker) spots=0",
        if tasks == 1 { "" } else { "s" },
        if workers == 1 { " has" } else { "s have" },
    )))
}

/// The spots with names, one or none in each.
pub(super) struct Spots(Box<[Apart<AtomicUsize>]>);

impl Spots {
    pub(super) fn new(count: usize) -> Self {
        Self((0..count).map(|_| Apart::default()).collect())
    }

    /// Puts `slot` into a random spot and unparks the task that it finds there, with a gift.
    #[inline]
    pub(super) fn push_out<P: ParkSlot>(
        &self,
        random: &mut fastrand::Rng,
        slot: usize,
        bench: &TaskBench<P>,
        gift: usize,
    ) {
        let spot = &self.0[random.usize(..self.0.len())].0;
        // Ordering: AcqRel: a spot that was cleared after the end passes the end on; see `clear`. A slot sees
        // its gift since it is unparked after that.
        let found = spot.swap(slot + 1, Ordering::AcqRel);
        if found != 0 {
            let found = &bench.slots[found - 1];
            found.gift.store(gift, Ordering::Relaxed);
            found.place.unpark();
        }
    }

    /// The number of names.
    fn taken(&self) -> usize {
        let taken = self.0.iter().filter(|spot| spot.0.load(Ordering::Relaxed) != 0);
        taken.count()
    }

    /// Unparks all, once it is over. A task that puts its name into a spot after that has seen that it is
    /// over, and does the same.
    pub(super) fn clear<P: ParkSlot>(&self, bench: &TaskBench<P>) {
        for spot in &self.0 {
            let found = spot.0.swap(0, Ordering::AcqRel);
            if found != 0 {
                bench.slots[found - 1].place.unpark();
            }
        }
    }
}

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    tasks: usize,
    spots: usize,
    semaphores: bool,
    window: Window,
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "churn",
        about: "tasks that push each other out of random spots: each unparks whom it finds there, and parks",
        unit: "hand-overs",
        params: params! {
            per_worker("tasks", "tasks for each worker");
            SPOTS;
            Param::word("form", "swap", &["swap", "sem"],
                "swap: a task takes the spot of the one it wakes, and always parks; sem: V and P of a semaphore \
                 of the runtime's own");
            MS;
            CLOCK;
            STYLE;
        },
        variants: variants! {
            Variant::new("few", &[("tasks", "2")], "two tasks for each worker");
            Variant::new("sem", &[("form", "sem")], "V and P of semaphores: a task may take its own permit back");
            CLOCKED;
            FIBERS;
        },
        smoke: &[("tasks", "4"), ("ms", "20")],
        explored: WAITING,
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Parks;
    const SIMULATES: bool = true;
    const ALSO: &[&str] = &["go", "java"];

    fn refusal(request: &Request) -> Result<Option<&'static str>, LabError> {
        spots(&request.params, request.workers).map(|_| None)
    }

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        let workers = request.workers;
        Ok(Self {
            tasks: params.number("tasks") as usize * workers,
            spots: spots(params, workers)?,
            semaphores: params.word("form") == "sem",
            window: Window::new(params, workers),
        })
    }

    fn parks<P: TaskPool<Tasks: Parks>>(&self, pool: &P) -> Result<Outcome, LabError> {
        let counted = if self.semaphores {
            self.semaphores(pool)
        } else {
            self.swap(pool)
        }?;
        Ok(counted.outcome(1))
    }
}

impl Plan {
    fn swap<P: TaskPool<Tasks: Parks>>(&self, pool: &P) -> Result<Counted, LabError> {
        let spots = Arc::new(Spots::new(self.spots));
        let all = Arc::clone(&spots);
        let task = move |bench: Arc<TaskBench<ParkSlotOf<P>>>, slot| {
            let spots = Arc::clone(&spots);
            async move {
                let mut random = fastrand::Rng::with_seed(slot as u64);
                let own = bench.enter(slot).await;
                let mut turns = 0;
                while !bench.is_over() {
                    turns += 1;
                    own.turn(turns, &bench);
                    spots.push_out(&mut random, slot, &bench, 0);
                    if bench.is_over() {
                        spots.clear(&bench);
                    }
                    own.place.park().await;
                }
                spots.clear(&bench);
            }
        };
        let counted = self.window.count(pool, self.tasks, |_| true, task)?;
        check("names left in the spots", &all.taken(), &0)?;
        Ok(counted)
    }

    fn semaphores<P: TaskPool<Tasks: Parks>>(&self, pool: &P) -> Result<Counted, LabError> {
        let spots = (0..self.spots).map(|_| Apart(P::Tasks::semaphore(0)));
        let spots: Arc<[_]> = spots.collect();
        self.window.count(
            pool,
            self.tasks,
            |_| true,
            move |bench, slot| {
                let spots = Arc::clone(&spots);
                async move {
                    let mut random = fastrand::Rng::with_seed(slot as u64);
                    let own = bench.enter(slot).await;
                    let mut turns = 0;
                    while !bench.is_over() {
                        let spot = &spots[random.usize(..spots.len())].0;
                        P::Tasks::release(spot);
                        P::Tasks::acquire(spot).await;
                        turns += 1;
                        own.turn(turns, &bench);
                    }
                    // A task that ends leaves a permit everywhere: the one that gets it ends as well, and
                    // does the same.
                    for spot in spots.iter() {
                        P::Tasks::release(&spot.0);
                    }
                }
            },
        )
    }
}
