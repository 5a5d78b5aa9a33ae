//! The reports of a pool that are being made: they wait for a stack, and then go to the program or to the
//! standard error stream.
//!
//! The monitor looks after them at each of its ticks, and waits for none. A stack comes from a thread that
//! may have no CPU, and its symbols from a file. Nor does the monitor write to the standard error stream: the
//! code that is stuck may hold its lock.
//!
//! A report on the standard error stream does not wait for long until the symbols of a large program are
//! read. It is written with the addresses of its stack, and the functions follow.
//!
//! # Invariants
//!
//! - Each report that was begun is given out once, at the latest when the pool ends. Functions that follow
//!   are written after their report.
//! - Those that go to the standard error stream are limited. A pair of spawn site and name that was reported
//!   before takes part in one report a second of the process, and has a pause that doubles. New pairs have
//!   their own limit, one a second and [`BURST`] at once, so those that repeat do not hide them.
//! - A new pair that is not admitted is asked for again at each tick while it is stuck.

use super::stall::Stall;
use crate::coroutine::overflow::{NOTED_FIBER, describe};
use crate::observe::stack::{NO_NAMES, NoStack, Stack};
use crate::observe::stacks::Reading;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::panic::Location;
use std::sync::Arc;
use warpweft_platform::clock;
use warpweft_platform::rate::Rate;
use warpweft_platform::stack_copy::StackDescription;
use warpweft_platform::thread::{pause, spawn_named};
use warpweft_task::TaskKind;

/// The pause between two reports of the process, and the first one between two of a spawn site and name.
const PAUSE_NS: u64 = 1_000_000_000;
/// The longest pause between two reports of a spawn site and name.
const LONGEST_NS: u64 = 64 * PAUSE_NS;
/// The most pairs of a spawn site and a name that are remembered.
const MOST_KEYS: usize = 1024;
/// How many first reports may come at once.
const BURST: u64 = 8;
/// How often the end of a pool looks whether reports are done.
const LOOK_NS: u64 = 200_000;
/// How long the end of a pool waits for reports that are nearly done.
pub(crate) const LAST_WAIT_NS: u64 = 1_000_000_000;

/// The reports on the standard error stream of this process. It counts what is left out of all kinds.
static RATE: Rate = Rate::new();
/// The first report of each spawn site and name.
static FIRST: Rate = Rate::new();

/// What reports are told apart by: the address of the spawn site, and a hash of the name.
type SiteKey = (usize, u64);

/// Says if a report may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportAdmission {
    Admitted,
    /// Not now. It was not reported before, so the caller asks again while the worker is stuck.
    Postponed,
    LeftOut,
}

/// A report that was begun.
#[derive(Debug)]
struct Pending {
    stall: Stall,
    /// The steps that the worker had made.
    steps: u64,
    reading: Reading,
    /// Until when the report waits for names; `None` if it waits as long as it takes.
    names_until_ns: Option<u64>,
    /// The report was given out without names.
    is_out: bool,
}

/// A report that is ready to be given out.
#[derive(Debug)]
pub(crate) struct ReadyReport {
    pub(crate) stall: Stall,
    part: Part,
}

/// What a text has of its report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    /// All but the names of functions, which follow.
    WithoutNames,
    /// The functions.
    Names,
}

impl From<Stall> for ReadyReport {
    fn from(stall: Stall) -> Self {
        Self {
            stall,
            part: Part::Whole,
        }
    }
}

/// The reports of a pool. The monitor's thread has them.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    pending: Vec<Pending>,
    /// At most [`MOST_KEYS`].
    pauses: Vec<Pause>,
    /// The thread that writes the last report has a share of it.
    writing: Arc<()>,
}

/// The pause of a spawn site and name.
#[derive(Debug, Clone, Copy)]
struct Pause {
    key: SiteKey,
    until_ns: u64,
    ns: u64,
}

/// What a report needs beside what it says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whose {
    pub(crate) thread: Option<u32>,
    pub(crate) steps: u64,
    /// The number of the signal; `None` for the usual one.
    pub(crate) signal: Option<i32>,
    /// False if no signal is to be sent.
    pub(crate) wants_stack: bool,
    /// For how long the report waits for the names of functions, in nanoseconds. `None` if it is never given
    /// out without them while they may come.
    pub(crate) names_within_ns: Option<u64>,
}

impl Reports {
    /// Returns whether a report of that spawn site and name may be written to the standard error stream now.
    pub(crate) fn admit(
        &mut self,
        site: Option<&'static Location<'static>>,
        name: Option<&str>,
    ) -> ReportAdmission {
        let now = clock::now_ns();
        let key = key(site, name);
        // A report that cannot be written holds the next one up.
        let is_free = Arc::strong_count(&self.writing) == 1;
        let is_full = self.pauses.len() >= MOST_KEYS;
        let is_admitted = match self.pauses.iter().find(|pause| pause.key == key) {
            None if !is_full => {
                if !(is_free && FIRST.admit_burst(now, PAUSE_NS, BURST)) {
                    return ReportAdmission::Postponed;
                }
                true
            }
            pause => {
                let is_due = pause.is_none_or(|pause| now >= pause.until_ns);
                is_due && is_free && RATE.admit(now, PAUSE_NS)
            }
        };
        if !is_admitted {
            RATE.leave_out();
            return ReportAdmission::LeftOut;
        }
        if is_full {
            self.pauses.retain(|pause| now < pause.until_ns);
        }
        let known = self.pauses.iter().position(|pause| pause.key == key);
        let place = known.unwrap_or(self.pauses.len());
        if known.is_none() && place < MOST_KEYS {
            self.pauses.push(Pause {
                key,
                until_ns: 0,
                ns: PAUSE_NS / 2,
            });
        }
        if let Some(pause) = self.pauses.get_mut(place) {
            // What has been quiet for long begins anew.
            let is_quiet = now.saturating_sub(pause.until_ns) > LONGEST_NS;
            pause.ns = if is_quiet {
                PAUSE_NS
            } else {
                (2 * pause.ns).min(LONGEST_NS)
            };
            pause.until_ns = now.saturating_add(pause.ns);
        }
        ReportAdmission::Admitted
    }

    /// Counts a report that was postponed until its worker continued.
    pub(crate) fn leave_out() {
        RATE.leave_out();
    }

    /// Begins a report: asks for the stack. Returns the stall if it has all that it will have.
    pub(crate) fn begin(&mut self, mut stall: Stall, whose: Whose) -> Option<Stall> {
        let reading = match whose.thread {
            _ if !whose.wants_stack => Err(NoStack::Off),
            None => Err(NoStack::NoThread),
            Some(thread) => Reading::new(thread, whose.signal, describe),
        };
        match reading {
            Err(why) => {
                stall.stack = Err(why);
                Some(stall)
            }
            Ok(reading) => {
                self.pending.push(Pending {
                    stall,
                    steps: whose.steps,
                    reading,
                    names_until_ns: whose.names_within_ns.map(|ns| clock::now_ns().saturating_add(ns)),
                    is_out: false,
                });
                None
            }
        }
    }

    /// Returns true if a report waits for its stack.
    pub(crate) fn are_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns the reports that are done. `steps` returns how many steps a worker has made.
    pub(crate) fn take_done(&mut self, steps: impl Fn(usize) -> u64) -> Vec<ReadyReport> {
        let mut done = Vec::new();
        let mut at = 0;
        let is_writing = Arc::strong_count(&self.writing) > 1;
        while let Some(pending) = self.pending.get_mut(at) {
            let Pending {
                stall,
                steps: before,
                reading,
                names_until_ns,
                is_out,
            } = pending;
            if *is_out && is_writing {
                // What follows a report is written after it.
                at += 1;
                continue;
            }
            let stack = reading.poll(|copy| {
                let is_same = steps(stall.worker) == *before;
                if is_same {
                    take_note(stall, &copy.note);
                }
                is_same
            });
            match stack {
                None => {
                    let is_late = !*is_out && names_until_ns.is_some_and(|until| clock::now_ns() >= until);
                    if is_late && let Some(stack) = reading.early() {
                        *is_out = true;
                        let mut stall = stall.clone();
                        stall.stack = Ok(stack);
                        let part = Part::WithoutNames;
                        done.push(ReadyReport { stall, part });
                    }
                    at += 1;
                }
                Some(stack) => {
                    let Pending { stall, is_out, .. } = self.pending.remove(at);
                    done.push(ReadyReport::new(stall, stack, is_out));
                }
            }
        }
        done
    }

    /// Returns all reports, because the pool ends. It waits until `end` for their stacks.
    pub(crate) fn take_all(&mut self, end: u64, steps: impl Fn(usize) -> u64) -> Vec<ReadyReport> {
        let mut done = Vec::new();
        while self.are_pending() && clock::now_ns() < end {
            done.extend(self.take_done(&steps));
            pause(LOOK_NS);
        }
        done.extend(self.pending.drain(..).map(Pending::give_up));
        done
    }

    /// Writes a report to the standard error stream, on a separate thread.
    pub(crate) fn write(&self, mut ready: ReadyReport) {
        if ready.part != Part::Names {
            ready.stall.left_out = RATE.take_left_out();
        }
        let writing = Arc::clone(&self.writing);
        let body = move || {
            let text = ready.text();
            // If no program reads it, nothing is lost.
            let _ = std::io::stderr().lock().write_all(text.as_bytes());
            drop(writing);
        };
        // Without a thread there is no report: the monitor does not wait for a stream.
        let _ = spawn_named("warpweft-report", None, body);
    }

    /// Waits until the last report is written, because the pool ends, or until `end`.
    pub(crate) fn finish(&self, end: u64) {
        while Arc::strong_count(&self.writing) > 1 && clock::now_ns() < end {
            pause(LOOK_NS);
        }
    }
}

fn key(site: Option<&'static Location<'static>>, name: Option<&str>) -> SiteKey {
    let mut hash = DefaultHasher::new();
    name.hash(&mut hash);
    (
        site.map_or(0, |site| std::ptr::from_ref(site).addr()),
        hash.finish(),
    )
}

impl Pending {
    fn give_up(self) -> ReadyReport {
        let Self {
            stall,
            reading,
            is_out,
            ..
        } = self;
        ReadyReport::new(stall, reading.give_up(), is_out)
    }
}

impl ReadyReport {
    /// A report with its stack, or the rest of one that is out.
    fn new(mut stall: Stall, stack: Result<Stack, NoStack>, is_out: bool) -> Self {
        stall.stack = stack;
        let part = if is_out { Part::Names } else { Part::Whole };
        Self { stall, part }
    }

    /// Returns what the standard error stream gets.
    fn text(&self) -> String {
        let stall = &self.stall;
        if self.part == Part::Names {
            let (worker, pool) = (stall.worker, stall.pool.escape_debug());
            let which = format!("warpweft: the stack of worker {worker} of `{pool}`, reported before");
            return match &stall.stack {
                Ok(stack) if stack.has_names() => format!("{which}:\n{stack}\n"),
                // The addresses are out.
                Ok(_) => format!("{which}:{}\n", NO_NAMES.replace("\n     ", "")),
                Err(why) => format!("{which}: {why}\n"),
            };
        }
        let mut text = format!("warpweft: {stall}\n");
        if self.part == Part::WithoutNames {
            text = text.replace(NO_NAMES, "");
            text.push_str("  the names follow when the symbols of the program are read\n");
        }
        if stall.stack == Err(NoStack::NotBuilt) {
            text.push_str("  for the stack: build with warpweft = { features = [\"stacks\"] }\n");
        }
        text.push_str("  if it is meant: warpweft::expect_long; if it blocks: warpweft::spawn_blocking\n");
        text
    }
}

/// Notes which fiber the copied stack belongs to.
fn take_note(stall: &mut Stall, note: &StackDescription) {
    if note.kind != NOTED_FIBER {
        return;
    }
    let site = std::ptr::with_exposed_provenance::<Location<'static>>(note.word);
    // SAFETY: null, or what the label of a fiber has: the address of a location, which is static.
    stall.spawned_at = unsafe { site.as_ref() };
    stall.kind = Some(TaskKind::Fiber);
    let name = &note.text[..note.length.min(note.text.len())];
    let name = name.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    // The name of a task that is told otherwise may be longer.
    let is_known = stall.name.as_deref().is_some_and(|known| known.starts_with(name));
    if !is_known || name.is_empty() {
        stall.name = (!name.is_empty()).then(|| name.to_owned());
    }
}
