//! Conferences and their members: tasks that take a step at a time, and yield when there is none to take.
//!
//! ```text
//!  participant: a frame arrives ─▶ decode ─▶ slot ─┐                        ┌─▶ slot ─▶ encode, send
//!  participant: a frame arrives ─▶ decode ─▶ slot ─┼─▶ mixer: adds them up ─┼─▶ slot ─▶ encode, send
//!  participant: a frame arrives ─▶ decode ─▶ slot ─┘   and saturates        └─▶ slot ─▶ encode, send
//! ```
//!
//! The frames of a conference arrive all at the same moment, every `pace`; conferences do not keep time with
//! each other. A frame that is not taken when the next arrives waits, and its age counts from when it
//! arrived: a task that falls behind cannot hide it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::SAMPLES;
use super::slot::Slot;
use super::voices::Voices;
use crate::idioms::{JobApi, SpawnApi};
use crate::kit::task_recorder::{COUNTS, TaskRecorder};
use crate::workloads::packet_cache::scramble;

/// A frame of linear samples.
pub(super) type Linear = [i16; SAMPLES];

/// The counts: frames that were too old when they were mixed, and what the mixes and the frames sent
/// came to.
pub(super) const BREACHES: usize = 0;
pub(super) const MIXED: usize = 1;
pub(super) const SENT: usize = 2;

/// The value of the start while no task is to begin.
const NOT_YET: u64 = u64::MAX;

/// The numbers of conferences and participants, and their speed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Frames of each participant.
    pub(super) n: u64,
    pub(super) conferences: u64,
    /// Participants of each.
    pub(super) participants: u64,
    /// Nanoseconds from one frame to the next; 0: as fast as they are taken.
    pub(super) pace: u64,
    /// Nanoseconds after which a frame is too old.
    pub(super) deadline: u64,
}

impl Size {
    /// Frames of all.
    pub(super) fn frames(&self) -> u64 {
        self.n * self.conferences * self.participants
    }
}

/// The state that all conferences of a run share.
pub(super) struct Calls {
    pub(super) size: Size,
    voices: &'static Voices,
    /// The recorder in which mixers note how old frames are.
    pub(super) mixed: &'static TaskRecorder,
    /// The recorder in which participants note what they sent.
    pub(super) sent: &'static TaskRecorder,
    start: AtomicU64,
    /// The mix of the first conference, if it is wanted.
    pub(super) tape: Option<Mutex<Vec<i16>>>,
}

impl Calls {
    /// Calls that have not begun.
    pub(super) fn new(size: Size, voices: &'static Voices, tape: bool) -> Self {
        let base = crate::kit::check::base();
        Self {
            size,
            voices,
            mixed: TaskRecorder::leaked(base, 0),
            sent: TaskRecorder::leaked(base, 0),
            start: AtomicU64::new(NOT_YET),
            tape: tape.then(Mutex::default),
        }
    }

    /// All members, in the order in which they are started.
    pub(super) fn people(self: Arc<Self>) -> impl Iterator<Item = Person> + Send + 'static {
        let calls = Arc::clone(&self);
        (0..calls.size.conferences).flat_map(move |number| {
            let room = Arc::new(Room::new(Arc::clone(&calls), number));
            let participants = (0..calls.size.participants).map({
                let room = Arc::clone(&room);
                move |place| Person::Participant(Participant::new(Arc::clone(&room), place))
            });
            std::iter::once(Person::Mixer(Mixer::new(room))).chain(participants)
        })
    }

    /// From now on frames arrive.
    pub(super) fn open(&self) {
        self.sent.begin();
        let now = self.mixed.begin();
        // Relaxed, as its readers: it is a time, and says nothing of anything else.
        self.start.store(now, Ordering::Relaxed);
    }

    /// When this frame of a conference arrived; nothing if that is yet to come.
    #[inline]
    fn arrived(&self, phase: u64, number: u64) -> Option<u64> {
        let start = self.start.load(Ordering::Relaxed);
        if start == NOT_YET {
            return None;
        }
        let now = self.mixed.now();
        if self.size.pace == 0 {
            return Some(now);
        }
        let arrives = start + phase + number * self.size.pace;
        (arrives <= now).then_some(arrives)
    }
}

/// A frame on its way to the mixer.
struct Heard {
    arrived: u64,
    samples: Linear,
}

/// A conference.
struct Room {
    calls: Arc<Calls>,
    number: u64,
    /// When its first frames arrive, after the start.
    phase: u64,
    /// From the participants to the mixer.
    heard: Vec<Slot<Heard>>,
    /// From the mixer to the participants.
    back: Vec<Slot<Linear>>,
}

impl Room {
    fn new(calls: Arc<Calls>, number: u64) -> Self {
        let heard = || Heard {
            arrived: 0,
            samples: [0; SAMPLES],
        };
        let participants = calls.size.participants;
        Self {
            number,
            phase: scramble(number) % calls.size.pace.max(1),
            heard: (0..participants).map(|_| Slot::around(heard())).collect(),
            back: (0..participants).map(|_| Slot::around([0; SAMPLES])).collect(),
            calls,
        }
    }
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Something was done, and there may be more.
    Moved,
    /// Nothing can be done until another task has done something.
    Stuck,
    /// All is done.
    Done,
}

/// A task.
pub(super) enum Person {
    Mixer(Mixer),
    Participant(Participant),
}

impl Person {
    /// The number of its conference.
    pub(super) fn conference(&self) -> u64 {
        match self {
            Self::Mixer(mixer) => mixer.room.number,
            Self::Participant(participant) => participant.room.number,
        }
    }

    /// Returns true if it mixes.
    pub(super) fn mixes(&self) -> bool {
        matches!(self, Self::Mixer(_))
    }

    /// The next thing to do.
    #[inline]
    fn step(&mut self) -> Step {
        match self {
            Self::Mixer(mixer) => mixer.step(),
            Self::Participant(participant) => participant.step(),
        }
    }

    /// Its life as a future.
    pub(super) async fn live<T: SpawnApi>(mut self, tasks: T) {
        loop {
            match self.step() {
                Step::Moved => {}
                Step::Stuck => tasks.yield_now().await,
                Step::Done => return,
            }
        }
    }

    /// Its life as a closure.
    pub(super) fn work<J: JobApi>(mut self, jobs: J) {
        loop {
            match self.step() {
                Step::Moved => {}
                Step::Stuck => jobs.yield_now(),
                Step::Done => return,
            }
        }
    }
}

/// The task that collects a frame of each, mixes them and hands the result back.
pub(super) struct Mixer {
    room: Arc<Room>,
    mixed: u64,
    /// The number of participants, from the first, that are known to have a frame for it and to have
    /// fetched the last mix.
    ready: usize,
    /// When the frames at hand arrived.
    arrivals: Vec<u64>,
    /// Its mix, if that is wanted.
    tape: Option<Vec<i16>>,
}

impl Mixer {
    fn new(room: Arc<Room>) -> Self {
        let wanted = room.number == 0 && room.calls.tape.is_some();
        let samples = room.calls.size.n as usize * SAMPLES;
        Self {
            mixed: 0,
            ready: 0,
            arrivals: vec![0; room.heard.len()],
            tape: wanted.then(|| Vec::with_capacity(samples)),
            room,
        }
    }

    fn step(&mut self) -> Step {
        let Room {
            calls, heard, back, ..
        } = &*self.room;
        while let Some(slot) = heard.get(self.ready) {
            if !slot.is_full() || back[self.ready].is_full() {
                return Step::Stuck;
            }
            self.ready += 1;
        }
        self.ready = 0;
        let mut sum = Sum::default();
        for (slot, arrival) in heard.iter().zip(&mut self.arrivals) {
            *arrival = slot.take(|frame| {
                sum.add(&frame.samples);
                frame.arrived
            });
        }
        let mix = sum.saturated();
        let now = calls.mixed.now();
        let mut counts = [0; COUNTS];
        counts[MIXED] = stamp(self.room.number, self.mixed, digest(&mix));
        for arrival in &self.arrivals {
            counts[BREACHES] = u64::from(now.saturating_sub(*arrival) > calls.size.deadline);
            calls.mixed.finish_at(now, *arrival, counts);
            counts[MIXED] = 0;
        }
        self.mixed += 1;
        if let Some(tape) = &mut self.tape {
            tape.extend_from_slice(&mix);
        }
        let done = self.mixed == calls.size.n;
        if let (true, Some(shelf), Some(tape)) = (done, &calls.tape, self.tape.take_if(|_| done)) {
            *shelf.lock().unwrap_or_else(PoisonError::into_inner) = tape;
        }
        // Handed back last: when all that was sent is counted, all of the above is seen.
        for slot in back {
            slot.put(|place| *place = mix);
        }
        if done { Step::Done } else { Step::Moved }
    }
}

/// The task that decodes what comes in, and encodes what goes out.
pub(super) struct Participant {
    room: Arc<Room>,
    place: usize,
    /// The frame at which its voice begins.
    from: u64,
    heard: u64,
    sent: u64,
    /// The checksum of the frames sent.
    sum: u64,
}

impl Participant {
    fn new(room: Arc<Room>, place: u64) -> Self {
        let (_, from) = room
            .calls
            .voices
            .of(room.number, place, room.calls.size.participants);
        Self {
            room,
            place: place as usize,
            from,
            heard: 0,
            sent: 0,
            sum: 0,
        }
    }

    fn step(&mut self) -> Step {
        let Room {
            calls, heard, back, ..
        } = &*self.room;
        let place = self.place as u64;
        let (voice, _) = calls.voices.of(self.room.number, place, calls.size.participants);
        let mut step = Step::Stuck;
        let slot = &back[self.place];
        if slot.is_full() {
            let coded = slot.take(|mix| voice.encode(mix));
            self.sum = self.sum.wrapping_add(stamp(
                self.room.number ^ (place + 1) << 32,
                self.sent,
                digest(&coded),
            ));
            self.sent += 1;
            if self.sent == calls.size.n {
                let mut counts = [0; COUNTS];
                counts[SENT] = self.sum;
                calls.sent.finish_untimed(counts, self.sent);
                return Step::Done;
            }
            step = Step::Moved;
        }
        let slot = &heard[self.place];
        if self.heard < calls.size.n
            && !slot.is_full()
            && let Some(arrived) = calls.arrived(self.room.phase, self.heard)
        {
            slot.put(|frame| {
                frame.arrived = arrived;
                voice.decode(self.from + self.heard, &mut frame.samples);
            });
            self.heard += 1;
            step = Step::Moved;
        }
        step
    }
}

/// The sum of some frames.
struct Sum([i32; SAMPLES]);

impl Default for Sum {
    fn default() -> Self {
        Self([0; SAMPLES])
    }
}

impl Sum {
    /// Adds a frame.
    #[inline]
    fn add(&mut self, samples: &Linear) {
        for (sum, sample) in self.0.iter_mut().zip(samples) {
            *sum += i32::from(*sample);
        }
    }

    /// The sum as it can be played: what is too loud is cut.
    #[inline]
    fn saturated(&self) -> Linear {
        self.0
            .map(|sum| sum.clamp(i16::MIN.into(), i16::MAX.into()) as i16)
    }
}

/// The checksum of the samples, or bytes, of a frame; each counts by its place.
#[inline]
fn digest<T: Copy + Into<i64>>(frame: &[T; SAMPLES]) -> u64 {
    let sum: i64 = frame
        .iter()
        .zip(0..)
        .map(|(value, at)| (*value).into() * (2 * at + 1))
        .sum();
    sum as u64
}

/// A digest as that of this frame, of this conference or place, and no other.
#[inline]
fn stamp(whose: u64, number: u64, digest: u64) -> u64 {
    scramble(scramble(scramble(whose) ^ number) ^ digest)
}

/// The checksums of all mixes, and of all that is sent, by a pass over all frames, one after the other.
pub(super) fn expected(size: &Size, voices: &Voices) -> (u64, u64) {
    let (mut mixed, mut sent) = (0_u64, 0_u64);
    let mut samples = [0; SAMPLES];
    for conference in 0..size.conferences {
        for number in 0..size.n {
            let mut sum = Sum::default();
            for place in 0..size.participants {
                let (voice, from) = voices.of(conference, place, size.participants);
                voice.decode(from + number, &mut samples);
                sum.add(&samples);
            }
            let mix = sum.saturated();
            mixed = mixed.wrapping_add(stamp(conference, number, digest(&mix)));
            for place in 0..size.participants {
                let (voice, _) = voices.of(conference, place, size.participants);
                let coded = digest(&voice.encode(&mix));
                sent = sent.wrapping_add(stamp(conference ^ (place + 1) << 32, number, coded));
            }
        }
    }
    (mixed, sent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_the_sum_as_far_as_it_can_be_played() {
        let mut random = fastrand::Rng::with_seed(3);
        let frames: Vec<Linear> = (0..4).map(|_| std::array::from_fn(|_| random.i16(..))).collect();
        let mut sum = Sum::default();
        for frame in &frames {
            sum.add(frame);
        }
        let mut cut = 0;
        for (at, mixed) in sum.saturated().into_iter().enumerate() {
            let exact: i64 = frames.iter().map(|frame| i64::from(frame[at])).sum();
            assert_eq!(i64::from(mixed), exact.clamp(-32_768, 32_767));
            cut += u32::from(i64::from(mixed) != exact);
        }
        assert!(cut > 10, "{cut} samples were too loud");
    }

    #[test]
    fn a_digest_knows_the_places_and_a_stamp_the_frame() {
        let mut frame = [0_i16; SAMPLES];
        frame[3] = 5;
        let before = digest(&frame);
        frame.swap(3, 4);
        assert_ne!(before, digest(&frame));
        assert_ne!(stamp(1, 2, before), stamp(2, 1, before));
    }

    #[test]
    fn a_conference_lives_step_by_step_without_any_runtime() {
        let size = Size {
            n: 7,
            conferences: 2,
            participants: 3,
            pace: 0,
            deadline: u64::MAX,
        };
        let voices: &'static Voices = Box::leak(Box::new(Voices::load(&[]).unwrap()));
        let calls = Arc::new(Calls::new(size, voices, true));
        let mut people: Vec<_> = Arc::clone(&calls).people().collect();
        assert_eq!(people.len(), 2 * (1 + 3));
        assert!(
            people.iter_mut().all(|person| person.step() == Step::Stuck),
            "nothing has arrived"
        );
        calls.open();
        while !people.is_empty() {
            people.retain_mut(|person| person.step() != Step::Done);
        }
        let recorded = crate::kit::task_recorder::record(&[calls.mixed, calls.sent], size.frames());
        assert_eq!(
            (recorded.counts[MIXED], recorded.counts[SENT]),
            expected(&size, voices)
        );
        assert_eq!(recorded.histogram.len(), size.frames());
        let tape = calls.tape.as_ref().unwrap().lock().unwrap();
        assert_eq!(tape.len(), 7 * SAMPLES);
        let first: Linear = tape[..SAMPLES].try_into().unwrap();
        let mut sum = Sum::default();
        for place in 0..3 {
            let (voice, from) = voices.of(0, place, 3);
            let mut samples = [0; SAMPLES];
            voice.decode(from, &mut samples);
            sum.add(&samples);
        }
        assert_eq!(first, sum.saturated());
    }
}
