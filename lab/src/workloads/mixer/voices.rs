//! The input: for each participant frames of coded speech, made up or from files.
//!
//! Made-up voices are whole numbers all the way, so that they are the same everywhere: a sawtooth of the
//! voice's own pitch, with some noise, in spurts. Four of them at once are loud enough to saturate now and
//! then.

use std::path::PathBuf;

use super::g711::Law;
use super::wav::{self, Wav};
use super::{RATE, SAMPLES};
use crate::workloads::packet_cache::scramble;
use harness::LabError;

/// Made-up voices. A conference takes some of them.
const VOICES: u64 = 16;
/// Frames after which a made-up voice begins again: two seconds.
const FRAMES: u64 = 100;

/// A frame as it is transmitted.
pub(super) type Coded = [u8; SAMPLES];

/// One participant's incoming speech.
#[derive(Debug)]
pub(super) struct Voice {
    /// By which law it is coded, and what goes back to the participant, too.
    law: Law,
    frames: Vec<Coded>,
    /// After the last frame the first comes again; if not, silence.
    endless: bool,
}

impl Voice {
    /// Made-up voice number `number`. They take turns in law.
    fn made_up(number: u64) -> Self {
        let length = FRAMES * SAMPLES as u64;
        let samples: Vec<i16> = (0..length).map(|at| sample(number, at)).collect();
        Self::of(law_of(number), &samples, true)
    }

    /// A voice from samples that are coded here.
    fn of(law: Law, samples: &[i16], endless: bool) -> Self {
        let mut bytes = vec![0; samples.len()];
        law.encode(samples, &mut bytes);
        Self::coded(law, &bytes, endless)
    }

    /// A voice from bytes; a last frame that is not full ends in silence.
    fn coded(law: Law, bytes: &[u8], endless: bool) -> Self {
        let frames = bytes.chunks(SAMPLES).map(|chunk| {
            let mut frame = [law.byte(0); SAMPLES];
            frame[..chunk.len()].copy_from_slice(chunk);
            frame
        });
        Self {
            law,
            frames: frames.collect(),
            endless,
        }
    }

    /// Decodes frame number `number`.
    pub(super) fn decode(&self, number: u64, samples: &mut [i16; SAMPLES]) {
        let count = self.frames.len() as u64;
        if !self.endless && number >= count {
            // No samples come: none are decoded.
            samples.fill(0);
            return;
        }
        self.law.decode(&self.frames[(number % count) as usize], samples);
    }

    /// Encodes a frame for the participant with this voice.
    #[inline]
    pub(super) fn encode(&self, samples: &[i16; SAMPLES]) -> Coded {
        let mut coded = [0; SAMPLES];
        self.law.encode(samples, &mut coded);
        coded
    }
}

/// The law of a participant that may choose.
fn law_of(number: u64) -> Law {
    if number.is_multiple_of(2) { Law::A } else { Law::Mu }
}

/// Sample number `at` of a made-up voice.
fn sample(voice: u64, at: u64) -> i16 {
    let pitch = 40 + 7 * voice;
    let spurt = u64::from(RATE) / 4;
    let pauses = (at / spurt + voice).is_multiple_of(3);
    let noise = (scramble(voice << 32 | at) >> 52) as i64 - 2048;
    let saw = (at % pitch * 24_000 / pitch) as i64 - 12_000;
    // 14 048 at most.
    (if pauses { noise / 16 } else { saw + noise }) as i16
}

/// All voices, and the participants that have them.
#[derive(Debug)]
pub(super) struct Voices {
    all: Vec<Voice>,
    /// From files: place for place. Else the conferences take turns.
    from_files: bool,
}

impl Voices {
    /// Those from the files, a participant each; made-up ones if there are none.
    pub(super) fn load(files: &[PathBuf]) -> Result<Self, LabError> {
        let all = if files.is_empty() {
            (0..VOICES).map(Voice::made_up).collect()
        } else {
            let voices = (0..).zip(files).map(|(number, path)| {
                Ok(match wav::read(path)? {
                    Wav::Linear(samples) => Voice::of(law_of(number), &samples, false),
                    Wav::Coded(law, bytes) => Voice::coded(law, &bytes, false),
                })
            });
            voices.collect::<Result<_, LabError>>()?
        };
        Ok(Self {
            all,
            from_files: !files.is_empty(),
        })
    }

    /// Frames of the longest voice.
    pub(super) fn longest(&self) -> u64 {
        self.all.iter().map(|voice| voice.frames.len()).max().unwrap_or(0) as u64
    }

    /// The voice of a place of a conference of `participants`, and the frame at which it begins.
    pub(super) fn of(&self, conference: u64, place: u64, participants: u64) -> (&Voice, u64) {
        let count = self.all.len() as u64;
        if self.from_files {
            return (&self.all[(place % count) as usize], 0);
        }
        // Conferences that have the same voices are at different places of them.
        let voice = (conference * participants + place) % count;
        (&self.all[voice as usize], scramble(conference) % FRAMES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(voice: &Voice, number: u64) -> [i16; SAMPLES] {
        let mut samples = [1; SAMPLES];
        voice.decode(number, &mut samples);
        samples
    }

    #[test]
    fn made_up_voices_speak_in_spurts_and_begin_again() {
        let voices = Voices::load(&[]).unwrap();
        assert_eq!(voices.longest(), FRAMES);
        for voice in &voices.all {
            let loudest = |number| decoded(voice, number).iter().map(|it| it.abs()).max().unwrap();
            let loud = (0..FRAMES).filter(|number| loudest(*number) > 5000).count() as u64;
            assert!((FRAMES / 2..FRAMES * 4 / 5).contains(&loud), "{loud}");
            assert_eq!(decoded(voice, 3), decoded(voice, FRAMES + 3));
        }
        assert!(voices.all.iter().any(|voice| voice.law == Law::A));
        assert!(voices.all.iter().any(|voice| voice.law == Law::Mu));
    }

    #[test]
    fn what_is_shorter_ends_in_silence() {
        let voice = Voice::of(Law::Mu, &[1000; SAMPLES + 1], false);
        assert_eq!(voice.frames.len(), 2);
        assert!(decoded(&voice, 0).iter().all(|it| (*it - 1000).abs() < 40));
        let last = decoded(&voice, 1);
        assert!(last[0] > 900 && last[1..].iter().all(|it| *it == 0));
        assert_eq!(decoded(&voice, 2), [0; SAMPLES]);
    }
}
