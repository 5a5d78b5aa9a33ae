//! *mixer*: conference calls. A participant decodes the frames that come in and encodes those that go out;
//! the mixer of its conference collects a frame of each participant, adds them up and hands the mix back. All
//! of them are tasks that yield whenever they cannot go on.
//!
//! | | |
//! |---|---|
//! | `conference.rs` | who does what, a step at a time |
//! | `slot.rs` | how a frame is handed over |
//! | `voices.rs` | what comes in: made up, or from files |
//! | `g711.rs`, `wav.rs` | how speech is coded, and kept |
//!
//! The program is that of the thesis on scheduling in OCaml by which the policies here are judged: a
//! softswitch with a thread for each call leg and one for each conference. The figure is the share of
//! breaches: frames that were older than the deadline when they were mixed. With a pace of 0 there is no
//! clock, and throughput is the figure. What was mixed and sent must be what a sequential pass mixes and
//! sends, bit by bit.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::check;
use super::lane::{Landed, land};
use super::params::{Domain, Param, Params, Variant};
use super::spec::{Kind, Workload};
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::output::Pending;
use crate::peers::{JobPool, Jobs, Part, TaskPool, Tasks};

mod conference;
mod g711;
mod slot;
mod voices;
mod wav;

use conference::{BREACHES, Hall, MIXED, SENT, Size, expected};
use voices::Voices;

/// Samples per second.
const RATE: u32 = 8000;
/// Samples of a frame: 20 ms.
const SAMPLES: usize = 160;
/// The most participants of a conference.
const MOST_SEATS: u64 = 64;

/// The workload as users see it.
pub(super) const WORKLOAD: Workload = Workload {
    name: "mixer",
    kind: Kind::Mixer,
    about: "conference calls, decoded, mixed and encoded (G.711) by tasks that yield when they cannot go on: frames that \
            come too late (--wav FILE)",
    unit: "frames",
    latency: Some("from when a frame arrives to when it is mixed"),
    params: &[
        super::spec::count(
            "100",
            "frames of each participant; with --wav those of the longest file",
            1_000_000,
        ),
        Param {
            name: "conferences",
            about: "conferences, each with a task that mixes",
            domain: Domain::Number {
                least: 1,
                most: 50_000,
            },
            default: "400",
        },
        Param {
            name: "participants",
            about: "participants of each conference, a task each; with --wav as many as files",
            domain: Domain::Number {
                least: 1,
                most: MOST_SEATS,
            },
            default: "4",
        },
        Param {
            name: "pace",
            about: "milliseconds from one frame to the next; 0: as fast as they are taken",
            domain: Domain::Number { least: 0, most: 1000 },
            default: "20",
        },
        Param {
            name: "deadline",
            about: "milliseconds after which a frame is too old to be mixed: a breach, counted",
            domain: Domain::Number {
                least: 1,
                most: 10_000,
            },
            default: "10",
        },
        super::STYLE,
    ],
    variants: &[
        Variant {
            name: "flat-out",
            about: "frames come as fast as they are taken",
            set: &[("pace", "0")],
        },
        super::FIBERS,
    ],
    smoke: &[("n", "5"), ("conferences", "3"), ("pace", "2")],
};

/// Files that are read and written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Audio {
    /// What the participants say, a file each; none: voices are made up.
    pub(crate) wavs: Vec<PathBuf>,
    /// Where the mix of the first conference goes.
    pub(crate) mix: Option<PathBuf>,
}

impl Audio {
    /// Whether no file is read or written.
    pub(crate) fn is_none(&self) -> bool {
        self.wavs.is_empty() && self.mix.is_none()
    }

    /// Checks the files before anything is run, and sets what follows from them. `said` are the parameters
    /// that were asked for.
    pub(crate) fn settle(&self, params: &mut Params, said: impl Fn(&str) -> bool) -> Result<(), LabError> {
        let seats = self.wavs.len() as u64;
        if seats > 0 {
            let longest = Voices::load(&self.wavs)?.longest();
            if said("participants") || seats > MOST_SEATS {
                return Err(LabError::Usage(format!(
                    "--wav, {seats} times: each file is a participant, {MOST_SEATS} at most; leave `participants` out"
                )));
            }
            *params = params.with_number("participants", seats);
            if !said("n") {
                *params = params.with_number("n", longest);
            }
        }
        if let Some(mix) = &self.mix {
            if self.wavs.contains(mix) {
                return Err(LabError::Usage(format!(
                    "--mix {}: that is one of the files that are mixed; name another",
                    mix.display()
                )));
            }
            Pending::open(WRITE, mix)?;
        }
        Ok(())
    }
}

/// What is tried with the file of the mix.
const WRITE: &str = "write the mix";

/// Checks that the frames come within the time that a run may take, whatever the runtime.
pub(crate) fn check_length(params: &Params, limit: Duration) -> Result<(), LabError> {
    let (n, pace) = (params.number("n"), params.number("pace"));
    let lasts = Duration::from_millis(n * pace);
    if lasts < limit {
        return Ok(());
    }
    Err(LabError::Usage(format!(
        "{n} frames, one in {pace} ms, take {} s, and a run is ended after {} s: take fewer (n=), raise --limit, or do not wait for \
         the clock (pace=0)",
        lasts.as_secs(),
        limit.as_secs()
    )))
}

/// The workload, ready to run.
#[derive(Clone)]
pub(crate) struct Plan {
    size: Size,
    voices: &'static Voices,
    mix: Option<PathBuf>,
}

impl Plan {
    /// Reads the parameters and the files.
    pub(super) fn new(params: &Params, audio: &Audio) -> Result<Self, LabError> {
        let nanos = |name| params.number(name) * 1_000_000;
        Ok(Self {
            size: Size {
                n: params.number("n"),
                conferences: params.number("conferences"),
                seats: params.number("participants"),
                pace: nanos("pace"),
                deadline: nanos("deadline"),
            },
            voices: Box::leak(Box::new(Voices::load(&audio.wavs)?)),
            mix: audio.mix.clone(),
        })
    }

    /// The part that is not measured.
    pub(super) fn warm_up(&self) -> Self {
        Self {
            size: Size {
                n: (self.size.n / 10).clamp(1, 5),
                ..self.size
            },
            mix: None,
            ..*self
        }
    }

    fn hall(&self) -> Arc<Hall> {
        Arc::new(Hall::new(self.size, self.voices, self.mix.is_some()))
    }

    /// Runs with tasks that are futures.
    pub(super) fn tasks<P: TaskPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let hall = self.hall();
        // Of each conference, those in which its participants and its mixer live.
        let homes: Vec<[P::Tasks; 2]> = (0..self.size.conferences)
            .map(|number| [Part::Steps, Part::Last].map(|part| pool.at(part, number)))
            .collect();
        pool.start({
            let hall = Arc::clone(&hall);
            async move {
                for person in Arc::clone(&hall).people() {
                    let [participants, mixers] = homes[person.conference() as usize];
                    let tasks = if person.mixes() { mixers } else { participants };
                    tasks.launch(person.live(tasks));
                }
                hall.open();
            }
        });
        self.outcome(&hall)
    }

    /// Runs with tasks that are closures.
    pub(super) fn jobs<P: JobPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let (hall, jobs) = (self.hall(), pool.jobs());
        pool.start({
            let hall = Arc::clone(&hall);
            move || {
                for person in Arc::clone(&hall).people() {
                    jobs.launch(move || person.work(jobs));
                }
                hall.open();
            }
        });
        self.outcome(&hall)
    }

    fn outcome(&self, hall: &Hall) -> Result<Outcome, LabError> {
        let frames = self.size.frames();
        let Landed {
            elapsed,
            tally,
            histogram,
            ..
        } = land(&[hall.mixed, hall.sent], frames);
        let expected = expected(&self.size, self.voices);
        check(
            "the sum of what was mixed, and sent",
            &(tally[MIXED], tally[SENT]),
            &expected,
        )?;
        if let (Some(path), Some(tape)) = (&self.mix, &hall.tape) {
            let tape = tape.lock().unwrap_or_else(PoisonError::into_inner);
            Pending::open(WRITE, path)?.finish(wav::write(&tape))?;
        }
        let breaches = tally[BREACHES] as f64 / frames as f64;
        Ok(Outcome::new(frames, elapsed)
            .with_latency(&histogram)
            .with_measure("breaches_percent", 100.0 * breaches))
    }
}
