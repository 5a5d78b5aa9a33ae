//! *city*: houses use power and water, and a plant turns water into power.
//!
//! ```text
//!   river ──▶ plant ──▶ [ room for 100 units of power ] ──▶ house 1 … house n
//!     └───────────────────── water ───────────────────────▶
//! ```
//!
//! The river always has water, but one at a time draws it: a number under a lock. The power in store is a
//! buffer of units that have no value. A house takes a unit of power and then one of water, again and again;
//! the plant makes as much as all of them need.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::kit::actors::{ActorProgram, GO_CHANNELS, MOST_ACTORS, per_step};
use crate::prelude::*;

/// The program, sized.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    houses: u64,
    units: u64,
    room: usize,
}

/// The water that was drawn, under the lock that the contestant's documentation advises.
enum Water<W: Actors> {
    Own(W::Lock<u64>),
    Std(Mutex<u64>),
}

impl<W: Actors> Water<W> {
    fn new() -> Self {
        match W::ADVISES_STD {
            true => Self::Std(Mutex::new(0)),
            false => Self::Own(W::lock(0)),
        }
    }

    /// Draws so many units, and says how many were drawn in all.
    #[inline]
    async fn draw(&self, units: u64) -> u64 {
        let change = move |drawn: &mut u64| {
            *drawn += units;
            *drawn
        };
        match self {
            Self::Own(lock) => W::with(lock, change).await,
            Self::Std(lock) => change(&mut lock.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

/// The parts of the water system, with their places.
struct Works<W: Actors> {
    water: Water<W>,
    power: W::Buffer<()>,
}

impl<W: Actors> Works<W> {
    /// Draws a unit of water.
    #[inline]
    async fn draw(&self) {
        self.water.draw(1).await;
    }

    /// Makes a unit of power, once there is room for it.
    #[inline]
    async fn make(&self) {
        self.draw().await;
        self.power.put(()).await;
    }

    /// Uses a unit of power, once there is one, and a unit of water.
    #[inline]
    async fn consume(&self) {
        self.power.take().await;
        self.draw().await;
    }
}

impl ActorProgram for Plan {
    const ABOUT: About = About {
        name: "city",
        about: "houses use water and power, and a plant makes the one from the other",
        unit: "units of power",
        params: params! {
            count("1000", "houses", MOST_ACTORS);
            Param::number("units", "10", 1, 1_000_000, "units of power, and as many of water, that a house uses");
            Param::number("room", "100", 1, 1 << 20, "units of power that the plant can store");
            STYLE;
        },
        variants: variants! {
            FIBERS;
        },
        smoke: &[("n", "20")],
        ..About::NEW
    };

    const CAVEATS: &[(&str, Caveat)] = &[("go", Caveat::same(GO_CHANNELS))];

    /// Units of power that were used, and of water.
    type Counted = (u64, u64);

    fn load(request: &Request) -> Self {
        let params = &request.params;
        Self {
            houses: params.number("n"),
            units: params.number("units"),
            room: params.number("room") as usize,
        }
    }

    fn warm_up(&self) -> Self {
        Self {
            units: (self.units / 10).max(1),
            ..*self
        }
    }

    async fn play<W: Actors>(self, tasks: W) -> (Duration, (u64, u64)) {
        let works = Arc::new(Works::<W> {
            water: Water::new(),
            power: Store::with_room(self.room),
        });
        let start = Instant::now();
        let at_plant = Arc::clone(&works);
        let plant = tasks.spawn(async move {
            for _ in 0..self.houses * self.units {
                at_plant.make().await;
            }
        });
        let houses: Vec<_> = (0..self.houses)
            .map(|_| {
                let works = Arc::clone(&works);
                tasks.spawn(async move {
                    let mut used = 0;
                    for _ in 0..self.units {
                        works.consume().await;
                        used += 1;
                    }
                    used
                })
            })
            .collect();
        let mut power = 0;
        for house in houses {
            power += house.await;
        }
        plant.await;
        let elapsed = start.elapsed();
        let water = works.water.draw(0).await;
        (elapsed, (power, water))
    }

    fn outcome(&self, elapsed: Duration, used: (u64, u64)) -> Result<Outcome, LabError> {
        let units = self.houses * self.units;
        check("units of power and of water", &used, &(units, 2 * units))?;
        Ok(per_step(units, elapsed, "ns_per_unit"))
    }
}
