//! *mixer*: conference calls. A participant decodes the frames that come in and encodes those that go out;
//! the mixer of its conference collects a frame of each participant, adds them up and hands the mix back. All
//! of them are tasks that yield whenever they cannot continue.
//!
//! | | |
//! |---|---|
//! | `conference.rs` | what each task does, a step at a time |
//! | `slot.rs` | how a frame is handed over |
//! | `voices.rs` | what comes in: made up, or from files |
//! | `g711.rs`, `wav.rs` | how speech is coded, and kept |
//!
//! The program is that of the thesis on scheduling in OCaml by which the policies here are judged: a
//! softswitch with a thread for each call leg and one for each conference. The figure is the share of
//! breaches: frames that were older than the deadline when they were mixed. With a pace of 0 there is no
//! clock, and throughput is the figure. What was mixed and sent must be what a sequential pass mixes and
//! sends, bit by bit.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use harness::Pending;

use crate::kit::MOST_THREADS;
use crate::kit::task_recorder::{Recorded, record};
use crate::prelude::*;

mod conference;
mod g711;
mod slot;
mod voices;
mod wav;

use conference::{BREACHES, Calls, MIXED, SENT, Size, expected};
use voices::Voices;

/// Samples per second.
const RATE: u32 = 8000;
/// Samples of a frame: 20 ms.
const SAMPLES: usize = 160;
/// The most participants of a conference.
const MOST_PARTICIPANTS: u64 = 64;

/// The attempt that a message about the file of the mix names.
const WRITE: &str = "write the mix";

/// Checks the files before anything is run, and sets what follows from them.
fn settle_files(asked: &mut Asked<'_>) -> Result<(), LabError> {
    let wavs = asked.files.all("wav");
    let participants = wavs.len() as u64;
    if participants > 0 {
        let longest = Voices::load(wavs)?.longest();
        if asked.said.contains("participants") || participants > MOST_PARTICIPANTS {
            return Err(LabError::Usage(format!(
                "--wav, {participants} times: each file is a participant, {MOST_PARTICIPANTS} at most; leave `participants` out"
            )));
        }
        *asked.params = asked.params.with_number("participants", participants);
        if !asked.said.contains("n") {
            *asked.params = asked.params.with_number("n", longest);
        }
    }
    if let Some(mix) = asked.files.one("mix") {
        if wavs.iter().any(|wav| wav == mix) {
            return Err(LabError::Usage(format!(
                "--mix {}: that is one of the files that are mixed; name another",
                mix.display()
            )));
        }
        Pending::open(WRITE, mix)?;
    }
    Ok(())
}

/// Checks that the frames come within the time that a run may take, whatever the runtime.
fn check_length(params: &Params, limit: Duration) -> Result<(), LabError> {
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

impl Program for Plan {
    const ABOUT: About = About {
        name: "mixer",
        about: "conference calls, decoded, mixed and encoded (G.711) by tasks that yield when they cannot go on: frames that \
                come too late (--wav FILE)",
        unit: "frames",
        latency: Some("from when a frame arrives to when it is mixed"),
        params: params! {
            count("100", "frames of each participant; with --wav those of the longest file", 1_000_000);
            Param::number("conferences", "400", 1, 50_000, "conferences, each with a task that mixes");
            Param::number("participants", "4", 1, MOST_PARTICIPANTS,
                "participants of each conference, a task each; with --wav as many as files");
            Param::number("pace", "20", 0, 1000,
                "milliseconds from one frame to the next; 0: as fast as they are taken");
            Param::number("deadline", "10", 1, 10_000,
                "milliseconds after which a frame is too old to be mixed: a breach, counted");
            STYLE;
        },
        variants: variants! {
            Variant::new("flat-out", &[("pace", "0")], "frames come as fast as they are taken");
            FIBERS;
        },
        smoke: &[("n", "5"), ("conferences", "3"), ("pace", "2")],
        files: &[
            FileFlag {
                name: "wav",
                about: "What a participant of the workload `mixer` says: 8000 samples per second, mono, 16-bit or G.711; \
                        once per participant",
                many: true,
                recorded: false,
            },
            FileFlag {
                name: "mix",
                about: "Where the workload `mixer` writes the mix of its first conference, as a WAV file",
                many: false,
                recorded: false,
            },
        ],
        explored: &["warpweft", "tokio", "smol", "go"],
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Jobs;
    const ALSO: &[&str] = &["go", "may"];
    const CAVEATS: &[(&str, Caveat)] = &[
        (
            "threads",
            Caveat::other("a thread per task; conferences are bounded"),
        ),
        (
            "may",
            Caveat::same("tasks behind one that waits for them may starve; conferences are bounded"),
        ),
    ];

    const PARTS: Parts = Parts::StagesAndSilos;

    fn settle(asked: &mut Asked<'_>) -> Result<(), LabError> {
        settle_files(asked)?;
        check_length(asked.params, asked.limit)
    }

    fn fit(request: &mut Request) {
        if ["threads", "may"].contains(&request.runtime.as_str()) {
            let each = request.params.number("participants") + 1;
            request.bound("conferences", MOST_THREADS / each);
        }
    }

    fn refusal(request: &Request) -> Result<Option<&'static str>, LabError> {
        Ok(match request.runtime.as_str() {
            "rayon" | "rayon-fifo" => Some("its jobs cannot yield and come back later"),
            "go" if !request.files.is_empty() => Some("its program neither reads nor writes WAV files"),
            _ => None,
        })
    }

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        let nanos = |name| params.number(name) * 1_000_000;
        Ok(Self {
            size: Size {
                n: params.number("n"),
                conferences: params.number("conferences"),
                participants: params.number("participants"),
                pace: nanos("pace"),
                deadline: nanos("deadline"),
            },
            voices: Box::leak(Box::new(Voices::load(request.files.all("wav"))?)),
            mix: request.files.one("mix").map(Path::to_path_buf),
        })
    }

    fn warm_up(&self) -> Option<Self> {
        Some(Self {
            size: Size {
                n: (self.size.n / 10).clamp(1, 5),
                ..self.size
            },
            mix: None,
            ..*self
        })
    }

    fn tasks<P: TaskPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let calls = self.calls();
        // Of each conference, those in which its participants and its mixer live.
        let homes: Vec<[P::Tasks; 2]> = (0..self.size.conferences)
            .map(|number| [Part::Steps, Part::Last].map(|part| pool.at(part, number)))
            .collect();
        pool.start({
            let calls = Arc::clone(&calls);
            async move {
                for person in Arc::clone(&calls).people() {
                    let [participants, mixers] = homes[person.conference() as usize];
                    let tasks = if person.mixes() { mixers } else { participants };
                    tasks.launch(person.live(tasks));
                }
                calls.open();
            }
        });
        self.outcome(&calls)
    }

    fn jobs<P: JobPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let (calls, jobs) = (self.calls(), pool.jobs());
        pool.start({
            let calls = Arc::clone(&calls);
            move || {
                for person in Arc::clone(&calls).people() {
                    jobs.launch(move || person.work(jobs));
                }
                calls.open();
            }
        });
        self.outcome(&calls)
    }
}

impl Plan {
    fn calls(&self) -> Arc<Calls> {
        Arc::new(Calls::new(self.size, self.voices, self.mix.is_some()))
    }

    fn outcome(&self, calls: &Calls) -> Result<Outcome, LabError> {
        let frames = self.size.frames();
        let Recorded {
            elapsed,
            counts,
            histogram,
            ..
        } = record(&[calls.mixed, calls.sent], frames);
        let expected = expected(&self.size, self.voices);
        check(
            "the sum of what was mixed, and sent",
            &(counts[MIXED], counts[SENT]),
            &expected,
        )?;
        if let (Some(path), Some(tape)) = (&self.mix, &calls.tape) {
            let tape = tape.lock().unwrap_or_else(PoisonError::into_inner);
            Pending::open(WRITE, path)?.finish(wav::write(&tape))?;
        }
        let breaches = counts[BREACHES] as f64 / frames as f64;
        Ok(Outcome::new(frames, elapsed)
            .with_latency(&histogram)
            .with_measure("breaches_percent", 100.0 * breaches))
    }
}
