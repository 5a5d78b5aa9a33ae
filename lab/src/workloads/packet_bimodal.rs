//! *packet-bimodal*: chains of three tasks; the last task of one packet in a thousand spawns two more that
//! take 20 ms each.
//!
//! ```text
//!  light   step ─▶ step ─▶ step ─▶ end
//!  heavy   step ─▶ step ─▶ step ─┬▶ 20 ms ─┐
//!                                └▶ 20 ms ─┴▶ end, when the second has ended
//! ```
//!
//! The 20 ms are time of a CPU, not of the clock. Suppose that two threads share one CPU, and each computes
//! until the clock shows 20 ms more. Both would end after 20 ms, with half of the work done. So the runtime
//! with the most threads would seem the fastest.
//!
//! The steps are those of `packet_cache`: locality speaks for newest first, the heavy packets speak against
//! it. Which packets are heavy is an exact, shuffled count. The two kinds are timed apart (Modelski, *Using
//! effect handlers for efficient parallel scheduling*, 2022, section 5.3.3).

use std::sync::Arc;
use std::time::Duration;

use super::packet_cache::{PacketItem, Reading};
use crate::kit::chain::{Item, Launch, Listening, OfJobs, OfTasks, Source, heavy_ones};
use crate::kit::host::{self, AtomicU32, Ordering};
use crate::kit::packets::Packets;
use crate::kit::task_recorder::{Recorded, TaskRecorder};
use crate::prelude::*;

/// Tasks of a packet, before the two.
const CHAIN: u64 = 3;

/// The kind of work that takes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// It spins.
    Compute,
    /// It waits asynchronously.
    Network,
    /// It sleeps and holds its thread.
    Blocking,
}

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    listening: Listening,
    reading: Reading,
    form: Form,
    take: Duration,
    /// True if each packet is heavy, spawner by spawner.
    heavy: &'static [bool],
}

/// The way in which the two are started: it depends on the idiom and on the form.
trait Start: Copy + Send + Sync + 'static {
    /// Starts one of them.
    fn start(self, children: Arc<Children>);
}

/// As a closure, which computes or blocks.
#[derive(Clone, Copy)]
struct Closure<L> {
    launch: L,
    spins: bool,
    take: Duration,
}

impl<L: Launch> Start for Closure<L> {
    fn start(self, children: Arc<Children>) {
        self.launch.launch(move || {
            let took = if self.spins {
                host::burn(self.take)
            } else {
                let start = host::now();
                host::sleep(self.take);
                host::since(start)
            };
            children.end(took < self.take);
        });
    }
}

/// As a future, which waits.
#[derive(Clone, Copy)]
struct Waiting<T> {
    tasks: T,
    take: Duration,
}

impl<T: Sleeps> Start for Waiting<T> {
    fn start(self, children: Arc<Children>) {
        self.tasks.launch(async move {
            let deadline = host::now() + self.take;
            T::sleep_until(deadline).await;
            children.end(host::now() < deadline);
        });
    }
}

/// The two of a heavy packet.
struct Children {
    recorder: &'static TaskRecorder,
    started: u64,
    state: u64,
    left: AtomicU32,
    short: AtomicU32,
}

impl Children {
    /// Their number.
    const COUNT: u32 = 2;

    /// One of them ends: with the last the packet ends.
    fn end(&self, too_short: bool) {
        self.short.fetch_add(u32::from(too_short), Ordering::Relaxed);
        // AcqRel: the last one sees what the other left.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let short = self.short.load(Ordering::Relaxed);
            let counts = [self.state, u64::from(Self::COUNT), u64::from(short), 0];
            self.recorder.finish_heavy(self.started, counts);
        }
    }
}

/// Packets set out, some of them heavy.
#[derive(Clone, Copy)]
struct Bimodal<S> {
    plan: Plan,
    start: S,
}

/// A packet on its way.
struct BimodalPacket<S> {
    item: PacketItem,
    heavy: Option<S>,
}

impl<S: Start> Source for Bimodal<S> {
    type Item = BimodalPacket<S>;

    fn items(self, spawner: u64) -> impl FnMut(&TaskRecorder, u64) -> BimodalPacket<S> + Send + 'static {
        let first = spawner * self.plan.listening.share();
        move |recorder, number| BimodalPacket {
            item: self.plan.reading.item(recorder, spawner, number),
            heavy: self.plan.heavy[(first + number) as usize].then_some(self.start),
        }
    }
}

impl<S: Start> Item for BimodalPacket<S> {
    #[inline]
    fn step(&mut self) -> bool {
        self.item.step()
    }

    #[inline]
    fn arrive(self, recorder: &'static TaskRecorder) {
        let Some(start) = self.heavy else {
            return self.item.arrive(recorder);
        };
        let children = Arc::new(Children {
            recorder,
            started: self.item.started,
            state: self.item.state,
            left: AtomicU32::new(Children::COUNT),
            short: AtomicU32::new(0),
        });
        drop(self.item);
        for _ in 1..Children::COUNT {
            start.start(Arc::clone(&children));
        }
        start.start(children);
    }
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "packet-bimodal",
        about: "chains of three tasks per packet; one packet in a thousand spawns two more that take 20 ms: do the others wait?",
        unit: "packets",
        latency: Some(
            "from spawn to the end of the chain; of a heavy packet, to the end of both that take long",
        ),
        params: params! {
            count("100k", "packets", 1 << 32);
            window("0");
            spawners("10");
            Param::word("form", "compute", &["compute", "network", "blocking"],
                "what takes long: compute spins for as much of a CPU's time, network waits asynchronously, \
                 blocking sleeps and holds its thread");
            Param::number("heavy", "1", 0, 1000,
                "heavy packets of a thousand; at least one packet is heavy unless it is 0");
            Param::number("take", "20", 1, 10_000, "milliseconds that each of the two takes");
            HANDLERS;
            WATCH;
        },
        variants: variants! {
            Variant::new("compute", &[], "what takes long spins (the default)");
            Variant::new("network", &[("form", "network")], "it waits asynchronously");
            Variant::new("blocking", &[("form", "blocking")], "it sleeps and holds its thread");
            Variant::new("spawners1", &[("spawners", "1")], "one spawner");
            Variant::new("bounded", &[("window", "1024")], "1024 packets under way at most");
            UNWATCHED;
            NULL;
        },
        smoke: &[("n", "2000"), ("take", "2")],
        explored: MANY_JOBS,
        ..About::NEW
    };

    const SIMULATES: bool = true;
    const ALSO: &[&str] = &["go", "steal-one", "threads"];
    const REFUSALS: &[(&str, &str)] = &[(
        "may",
        "measured where tasks wait for each other or sleep: see pingpong, lock and timers",
    )];

    const PARTS: Parts = Parts::Stages;

    fn idiom(params: &Params) -> Idiom {
        if params.is("form", "network") {
            Idiom::Sleeps
        } else {
            Idiom::Jobs
        }
    }

    fn refusal(request: &Request) -> Result<Option<&'static str>, LabError> {
        if request.simulation.is_some() && request.params.is("form", "network") {
            return Err(LabError::Usage(String::from(
                "the deadlines of form=network are the host's, and a simulated machine has its own time: \
                 form=compute or form=blocking",
            )));
        }
        let closures = ["rayon", "rayon-fifo", "steal-one"].contains(&request.runtime.as_str());
        let waits = Self::idiom(&request.params) == Idiom::Sleeps;
        Ok((waits && closures)
            .then_some("its jobs cannot wait without holding a worker: see packet-bimodal/blocking"))
    }

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        let listening = Listening::new(params);
        Ok(Self {
            listening,
            reading: Reading {
                chain: CHAIN,
                packets: Packets::new(),
            },
            form: match params.word("form") {
                "network" => Form::Network,
                "blocking" => Form::Blocking,
                _ => Form::Compute,
            },
            take: Duration::from_millis(params.number("take")),
            heavy: heavy_ones(listening.total(), params.number("heavy")).leak(),
        })
    }

    fn warm_up(&self) -> Option<Self> {
        let listening = self.listening.warm_up();
        let mut heavy = vec![false; listening.total() as usize];
        heavy[0] = self.heavy.contains(&true);
        Some(Self {
            listening,
            heavy: heavy.leak(),
            ..*self
        })
    }

    fn tasks<P: TaskPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let start = self.closure(OfTasks(pool.at(Part::Last, 0)));
        self.outcome(&self.listening.tasks(pool, Bimodal { plan: *self, start }))
    }

    fn sleeps<P: TaskPool<Tasks: Sleeps>>(&self, pool: &P) -> Result<Outcome, LabError> {
        let start = Waiting {
            tasks: pool.at(Part::Last, 0),
            take: self.take,
        };
        self.outcome(&self.listening.tasks(pool, Bimodal { plan: *self, start }))
    }

    fn jobs<P: JobPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let start = self.closure(OfJobs(pool.jobs()));
        self.outcome(&self.listening.jobs(pool, Bimodal { plan: *self, start }))
    }
}

impl Plan {
    fn closure<L>(&self, launch: L) -> Closure<L> {
        Closure {
            launch,
            spins: self.form == Form::Compute,
            take: self.take,
        }
    }

    fn outcome(&self, recorded: &Recorded) -> Result<Outcome, LabError> {
        let heavy = match self.listening.handlers {
            true => self.heavy.iter().filter(|heavy| **heavy).count() as u64,
            false => 0,
        };
        check(
            "sum over all chains",
            &recorded.counts[0],
            &self.reading.expected(self.listening),
        )?;
        check(
            "tasks that take long",
            &recorded.counts[1],
            &(heavy * u64::from(Children::COUNT)),
        )?;
        check(
            "tasks that did not take as long as they should",
            &recorded.counts[2],
            &0,
        )?;
        check("heavy packets", &recorded.heavy.len(), &heavy)?;
        Ok(Outcome::new(self.listening.total(), recorded.elapsed)
            .with_latencies_apart(&recorded.histogram, &recorded.heavy)
            .with_measure("heavy_packets", heavy as f64)
            .with_measure("window_full", recorded.waits as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heavy_packet_ends_with_its_second() {
        let recorder = TaskRecorder::leaked(host::now(), 0);
        let children = Children {
            recorder,
            started: 0,
            state: 7,
            left: AtomicU32::new(Children::COUNT),
            short: AtomicU32::new(0),
        };
        children.end(true);
        assert_eq!(recorder.done(), 0);
        children.end(false);
        let recorded = crate::kit::task_recorder::record(&[recorder], 1);
        assert_eq!(recorded.counts, [7, 2, 1, 0]);
        assert_eq!((recorded.histogram.len(), recorded.heavy.len()), (0, 1));
    }
}
