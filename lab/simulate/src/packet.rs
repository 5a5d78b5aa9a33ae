//! *packet*: the laboratory's workload of the same name, with declared times in place of what is calculated.
//!
//! A listener copies one of 100 packets and spawns a handler, which scans the copy. Copies and scans are
//! real, and their lines go from core to core in the model. The time of the instructions is declared.

use crate::figures::Figures;
use fastrand::Rng;
use std::sync::{Arc, Mutex, PoisonError};
use warpweft::sim::{AtomicU64, Ordering, compute, now_ns, sleep, touch, touch_to_write};
use warpweft::{Runtime, current_worker, spawn_detached, yield_now};

/// To allocate a copy and a task, and to choose a packet: assumed, as mimalloc takes on the usual machines.
const ALLOCATE_NS: u64 = 60;
/// To free both: assumed, since another core has allocated them.
const FREE_NS: u64 = 40;
/// To scan 2.5 KiB for some 30 newlines: assumed, at 30 bytes a nanosecond and 2 ns for each.
const SCAN_NS: u64 = 145;
/// Of packets.
const POOL: usize = 100;
/// Newlines lie among so many first bytes.
const SCATTERED: usize = 300;

/// How the workload runs.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    pub(crate) n: u64,
    pub(crate) window: u64,
    pub(crate) spawners: u64,
    pub(crate) spin: u64,
}

/// A worker's own count, alone on its lines.
#[repr(align(128))]
#[derive(Default)]
struct Shard {
    ended: AtomicU64,
    /// The host's lock: it is never contended, and not a part of the workload.
    found: Mutex<Found>,
}

/// What the handlers of a worker found.
#[derive(Default)]
struct Found {
    latencies: Vec<u64>,
    newlines: u64,
}

struct Recorder {
    shards: Vec<Shard>,
}

impl Recorder {
    fn new(workers: usize) -> Self {
        Self {
            // Threads without a worker share the last one.
            shards: (0..=workers).map(|_| Shard::default()).collect(),
        }
    }

    fn ended(&self) -> u64 {
        self.shards
            .iter()
            .map(|shard| shard.ended.load(Ordering::Relaxed))
            .sum()
    }

    fn finish(&self, started: u64, newlines: u64) {
        let last = self.shards.len() - 1;
        let shard = &self.shards[current_worker().map_or(last, |worker| worker.min(last))];
        let latency = now_ns() - started;
        {
            let mut found = shard.found.lock().unwrap_or_else(PoisonError::into_inner);
            found.latencies.push(latency);
            found.newlines += newlines;
        }
        shard.ended.fetch_add(1, Ordering::Release);
    }
}

/// The packets, always the same ones.
fn packets() -> Vec<Vec<u8>> {
    let mut random = Rng::with_seed(0x5eed);
    let byte = |random: &mut Rng, at: usize| {
        if at < SCATTERED && random.u8(..10) == 0 {
            b'\n'
        } else {
            random.u8(b' '..b'~')
        }
    };
    (0..POOL)
        .map(|_| {
            let length = random.usize(2048..=3072);
            (0..length).map(|at| byte(&mut random, at)).collect()
        })
        .collect()
}

fn newlines_of(packet: &[u8]) -> u64 {
    packet.iter().filter(|&&byte| byte == b'\n').count() as u64
}

impl Packet {
    /// Runs the workload, after a tenth of it to warm up, and checks its result.
    pub(crate) fn run(&self, runtime: &Runtime) -> Result<Figures, String> {
        let packets = Arc::new(packets());
        let warm_up = Self {
            n: (self.n / 10).max(self.spawners),
            ..self.clone()
        };
        warm_up.measured(runtime, &packets)?;
        self.measured(runtime, &packets)
    }

    fn measured(&self, runtime: &Runtime, packets: &Arc<Vec<Vec<u8>>>) -> Result<Figures, String> {
        let recorder = Arc::new(Recorder::new(runtime.workers()));
        let share = (self.n / self.spawners).max(1);
        let window = (self.window / self.spawners).max(1) * self.spawners;
        let start = now_ns();
        let spawners: Vec<_> = (0..self.spawners)
            .map(|spawner| {
                let (packets, recorder) = (Arc::clone(packets), Arc::clone(&recorder));
                runtime.spawn(listen(
                    spawner,
                    share,
                    window,
                    self.spawners,
                    self.spin,
                    packets,
                    recorder,
                ))
            })
            .collect();
        let mut expected = 0;
        for spawner in spawners {
            expected += spawner.wait().map_err(|error| error.to_string())?;
        }
        while recorder.ended() < share * self.spawners {
            sleep(2_000);
        }
        let elapsed_ns = now_ns() - start;
        let (mut newlines, mut latencies_ns) = (0, Vec::new());
        for shard in &recorder.shards {
            let mut found = shard.found.lock().unwrap_or_else(PoisonError::into_inner);
            newlines += found.newlines;
            latencies_ns.append(&mut found.latencies);
        }
        if newlines != expected {
            return Err(format!("{newlines} newlines were found, and not {expected}"));
        }
        latencies_ns.sort_unstable();
        Ok(Figures {
            items: latencies_ns.len() as u64,
            elapsed_ns,
            latencies_ns,
        })
    }
}

/// A spawner: sends its share out as fast as the window allows. Returns the newlines of all its packets.
async fn listen(
    spawner: u64,
    share: u64,
    window: u64,
    spawners: u64,
    spin: u64,
    packets: Arc<Vec<Vec<u8>>>,
    recorder: Arc<Recorder>,
) -> u64 {
    let mut random = Rng::with_seed(spawner + 1);
    let (mut ended, mut newlines) = (0, 0);
    for number in 0..share {
        // All spawners are about equally far.
        while number * spawners >= ended + window {
            ended = recorder.ended();
            if number * spawners >= ended + window {
                yield_now().await;
            }
        }
        let packet = &packets[random.usize(..packets.len())];
        newlines += newlines_of(packet);
        compute(ALLOCATE_NS);
        touch(packet);
        let copy = packet.clone();
        touch_to_write(&copy);
        let (recorder, started) = (Arc::clone(&recorder), now_ns());
        spawn_detached(move || {
            touch(&copy);
            compute(SCAN_NS + spin + FREE_NS);
            let found = newlines_of(&copy);
            drop(copy);
            recorder.finish(started, found);
        });
    }
    newlines
}
