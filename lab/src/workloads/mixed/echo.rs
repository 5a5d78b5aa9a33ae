//! Echoes at a set rate beside sorts that saturate the workers; see the folder.

use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::idioms::mixed::MixedPool;
use crate::kit::check::check;
use crate::kit::task_recorder::{Recorded, TaskRecorder, record};
use harness::LabError;
use harness::Outcome;
use harness::Usage;

use super::clients::{Sent, ask, broken, client, connect, hang_up, listen};
use super::server::{Between, Chain, Input, Load, answer};

/// Echoes while it warms up, beside sorts, and alone.
const PHASES: usize = 3;
const WARM_UP: u64 = 0;
const BESIDE: u64 = 1;
const ALONE: u64 = 2;

/// The form, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(super) connections: usize,
    pub(super) input: Input,
    pub(super) rate: u64,
    pub(super) chains: u64,
    pub(super) phase: Duration,
}

/// For each phase, what tasks of the server and what clients note.
struct Noted {
    wakes: &'static [&'static TaskRecorder],
    trips: &'static [&'static TaskRecorder],
}

/// The figures of the sorts in a phase.
struct Sorted {
    sorts: u64,
    elapsed: Duration,
}

impl Sorted {
    fn per_second(&self) -> f64 {
        self.sorts as f64 / self.elapsed.as_secs_f64()
    }
}

/// Counts the sorts while something else happens.
fn meanwhile<T>(load: &Load, something: impl FnOnce() -> T) -> (T, Sorted) {
    let (before, start) = (load.sorted(), Instant::now());
    let result = something();
    let elapsed = start.elapsed();
    let sorts = load.sorted() - before;
    (result, Sorted { sorts, elapsed })
}

/// The share of the machine that this process has had since then.
fn share(earlier: Option<Usage>) -> Option<f64> {
    Usage::now()?.own_since(&earlier?)
}

impl Plan {
    /// Runs it.
    pub(super) fn run<P: MixedPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let zero = Instant::now();
        let recorders = || -> &'static [&'static TaskRecorder] {
            Box::leak((0..PHASES).map(|_| TaskRecorder::leaked(zero, 0)).collect())
        };
        let noted = Noted {
            wakes: recorders(),
            trips: recorders(),
        };
        let (api, load) = (pool.api(), Load::leaked(self.input));
        let mut streams: Vec<Arc<TcpStream>> = Vec::new();
        let mut listeners = Vec::new();
        for (server, ours) in connect(self.connections)? {
            pool.serve(answer(api, server, Between::Record(noted.wakes)));
            let ours = Arc::new(ours);
            streams.push(Arc::clone(&ours));
            listeners.push(client(move || listen(&ours, noted.trips))?);
        }
        let ends: Vec<&TcpStream> = streams.iter().map(Arc::as_ref).collect();
        let echoes = |phase: u64, length| -> Result<Sent, LabError> {
            ask(&ends, noted.trips[phase as usize], phase, self.rate, length)
        };

        for _ in 0..self.chains {
            pool.compute(Chain { api, load });
        }
        let warmed = echoes(WARM_UP, self.phase / 4)?;
        self.recorded(&noted, WARM_UP, warmed)?;
        let usage = Usage::now();
        let ((), alone) = meanwhile(load, || thread::sleep(self.phase));
        let sorts_share = share(usage);
        let (sent, beside) = meanwhile(load, || echoes(BESIDE, self.phase));
        let (wakes, trips) = self.recorded(&noted, BESIDE, sent?)?;
        load.stop();
        while load.ended() < self.chains {
            thread::sleep(Duration::from_millis(1));
        }
        check("sorts that went wrong", &load.wrong(), &0)?;
        let usage = Usage::now();
        let sent = echoes(ALONE, self.phase)?;
        let io_share = share(usage);
        let (wakes_alone, trips_alone) = self.recorded(&noted, ALONE, sent)?;

        for end in &ends {
            hang_up(end);
        }
        for listener in listeners {
            listener.join().map_err(|_| broken("a client panicked"))?;
        }
        let echoed: Vec<u64> = noted.trips.iter().map(|recorder| recorder.done()).collect();
        check(
            "echoes",
            &echoed,
            &noted.wakes.iter().map(|recorder| recorder.done()).collect(),
        )?;
        if alone.sorts == 0 {
            return Err(broken(
                "not one sort ended in its phase: ask for more millis or fewer numbers",
            ));
        }
        let micros = |recorded: &Recorded, share| recorded.histogram.value_at_quantile(share) as f64 / 1e3;
        let mut outcome = Outcome::new(beside.sorts, beside.elapsed)
            .with_latency(&wakes.histogram)
            .with_measure("cpu_kept", beside.per_second() / alone.per_second())
            .with_measure("sorts_per_s_alone", alone.per_second());
        for (name, recorded) in [
            ("wake_alone", &wakes_alone),
            ("trip", &trips),
            ("trip_alone", &trips_alone),
        ] {
            outcome = outcome
                .with_measure(&format!("{name}_p99_us"), micros(recorded, 0.99))
                .with_measure(&format!("{name}_max_us"), micros(recorded, 1.0));
        }
        for (name, share) in [("io_cpu_share", io_share), ("sorts_cpu_share", sorts_share)] {
            if let Some(share) = share {
                outcome = outcome.with_measure(name, share);
            }
        }
        Ok(outcome)
    }

    /// Waits until all messages of a phase were read and answered, and gives what was noted of either. Both
    /// must be what was sent.
    fn recorded(&self, noted: &Noted, phase: u64, sent: Sent) -> Result<(Recorded, Recorded), LabError> {
        let recorder = phase as usize;
        let trips = record(&[noted.trips[recorder]], sent.count);
        let wakes = record(&[noted.wakes[recorder]], sent.count);
        check("sums of what was read", &wakes.counts, &sent.counts)?;
        check("sums of the answers", &trips.counts, &sent.counts)?;
        Ok((wakes, trips))
    }
}
