//! *ping-pong*: 8 bytes go to the other rank and back, again and again.

use crate::idioms::{Calls, Futures};
use crate::workload::{Figure, Setting, Workload};
use std::time::{Duration, Instant};

#[derive(Debug, Clone)]
pub(crate) struct PingPong {
    trips: usize,
}

const TAG: i32 = 1;

impl Workload for PingPong {
    const SETTINGS: &'static [Setting] = &[Setting {
        name: "ping-pong",
        about: "8 bytes go to the other rank and back; the amount is the number of round trips",
        amount: 20_000,
        smoke: 50,
        jobs: &[(2, 1)],
    }];

    fn new(_: &'static Setting, amount: usize) -> Self {
        Self { trips: amount }
    }

    fn lacks(&self, _: &str, _: usize, _: usize) -> Option<&'static str> {
        None
    }

    async fn futures<F: Futures>(self, on: F) -> Vec<Figure> {
        let run = async |trips: usize| {
            on.barrier().await;
            let begin = Instant::now();
            if on.rank() < 2 {
                let own = on.clone();
                // In a task, as programs have it.
                let player = on.spawn(async move {
                    let (rank, other) = (own.rank(), 1 - own.rank());
                    let (mut out, mut room) = (vec![0; 8], vec![0; 8]);
                    for trip in 0..trips {
                        if rank == 0 {
                            out.copy_from_slice(&trip.to_le_bytes());
                            out = own.send(other, TAG, out).await;
                            room = own.recv(other, TAG, room).await;
                            assert_eq!(room, out, "the same comes back");
                        } else {
                            room = own.recv(other, TAG, room).await;
                            out.copy_from_slice(&room);
                            out = own.send(other, TAG, out).await;
                        }
                    }
                });
                player.await;
            }
            begin.elapsed()
        };
        run(self.warm_up()).await;
        let took = run(self.trips).await;
        on.barrier().await;
        self.figures(took)
    }

    fn calls<C: Calls>(self, on: &C) -> Vec<Figure> {
        let run = |trips: usize| {
            on.barrier();
            let begin = Instant::now();
            if on.rank() < 2 {
                let (rank, other) = (on.rank(), 1 - on.rank());
                let (mut out, mut room) = (vec![0; 8], vec![0; 8]);
                for trip in 0..trips {
                    if rank == 0 {
                        out.copy_from_slice(&trip.to_le_bytes());
                        out = on.send(other, TAG, out);
                        room = on.recv(other, TAG, room);
                        assert_eq!(room, out, "the same comes back");
                    } else {
                        room = on.recv(other, TAG, room);
                        out.copy_from_slice(&room);
                        out = on.send(other, TAG, out);
                    }
                }
            }
            begin.elapsed()
        };
        run(self.warm_up());
        let took = run(self.trips);
        on.barrier();
        self.figures(took)
    }
}

impl PingPong {
    fn warm_up(&self) -> usize {
        self.trips.div_ceil(20)
    }

    fn figures(&self, took: Duration) -> Vec<Figure> {
        let us = took.as_secs_f64() * 1e6 / self.trips as f64;
        vec![Figure::less("round trip", us, "µs")]
    }
}
