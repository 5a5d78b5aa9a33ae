//! *producer*: pairs of a producer and a consumer share one buffer.
//!
//! ```text
//!   producer 1 ─┐  put                    take ┌─▶ consumer 1
//!       …       ├──────▶ [ room for 10 ] ──────┤       …
//!   producer n ─┘                              └─▶ consumer n
//! ```
//!
//! The units are shared out evenly among the pairs. The task that takes a unit need not be the
//! partner of the one that put it in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::kit::actors::{ActorProgram, GO_CHANNELS, per_step};
use crate::prelude::*;

/// The program, sized.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    units: u64,
    pairs: u64,
    room: usize,
}

impl Plan {
    /// The units of one pair: every `pairs`-th, beginning with its number.
    fn share(&self, pair: u64) -> impl Iterator<Item = u64> + use<> {
        (pair..self.units).step_by(self.pairs as usize)
    }
}
impl ActorProgram for Plan {
    const ABOUT: About = About {
        name: "producer",
        about: "pairs of a producer and a consumer share one small buffer",
        unit: "units",
        params: params! {
            count("10k", "units through the buffer, of all pairs together", 1_000_000_000);
            Param::number("pairs", "1", 1, 4096, "producers, and as many consumers");
            Param::number("room", "10", 1, 1 << 20, "units that the buffer has room for");
            STYLE;
        },
        variants: variants! {
            Variant::new("pairs64", &[("pairs", "64")], "64 pairs");
            Variant::new("long", &[("n", "1m")], "one pair, a million units");
            Variant::new("long64", &[("n", "1m"), ("pairs", "64")], "64 pairs, a million units");
            FIBERS;
        },
        smoke: &[("n", "500")],
        ..About::NEW
    };

    const CAVEATS: &[(&str, Caveat)] = &[
        ("go", Caveat::same(GO_CHANNELS)),
        ("java", Caveat::same("a blocking queue is its buffer")),
    ];

    /// The number of units that were consumed, and their sum.
    type Counted = (u64, u64);

    fn load(request: &Request) -> Self {
        let params = &request.params;
        Self {
            units: params.number("n"),
            pairs: params.number("pairs"),
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
        let buffer = Arc::new(W::Buffer::with_room(self.room));
        let (mut producers, mut consumers) = (Vec::new(), Vec::new());
        let start = Instant::now();
        for pair in 0..self.pairs {
            let (full, empty) = (Arc::clone(&buffer), Arc::clone(&buffer));
            producers.push(tasks.spawn(async move {
                for unit in self.share(pair) {
                    full.put(unit).await;
                }
            }));
            consumers.push(tasks.spawn(async move {
                let (mut count, mut sum) = (0, 0);
                for _ in self.share(pair) {
                    sum += empty.take().await;
                    count += 1;
                }
                (count, sum)
            }));
        }
        for producer in producers {
            producer.await;
        }
        let mut all = (0, 0);
        for consumer in consumers {
            let (count, sum) = consumer.await;
            all = (all.0 + count, all.1 + sum);
        }
        (start.elapsed(), all)
    }

    fn outcome(&self, elapsed: Duration, consumed: (u64, u64)) -> Result<Outcome, LabError> {
        let expected = (self.units, self.units * (self.units - 1) / 2);
        check("units consumed, and their sum", &consumed, &expected)?;
        Ok(per_step(self.units, elapsed, "ns_per_unit"))
    }
}
