//! WAV files as a telephone has them: one channel, 8000 samples a second, as 16-bit numbers or in one of the
//! laws of G.711.
//!
//! ```text
//!   "RIFF" size "WAVE"   then chunks:   "fmt " size tag channels rate … bits      "data" size samples
//! ```
//!
//! Whatever else a file holds is refused, and the error says what it is and what would be right. Chunks that
//! are not known are skipped.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

use harness::LabError;
use hound::{SampleFormat, WavSpec, WavWriter};

use super::RATE;
use super::g711::Law;

/// The tags of the formats that are read.
const PCM: u16 = 1;
const A_LAW: u16 = 6;
const MU_LAW: u16 = 7;
/// "The tag is further on."
const EXTENSIBLE: u16 = 0xfffe;

/// A file of more than this is not read: half a gigabyte is nine hours of 16-bit samples.
const MOST_BYTES: u64 = 1 << 29;

/// The contents of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wav {
    /// Numbers.
    Linear(Vec<i16>),
    /// Bytes of G.711.
    Coded(Law, Vec<u8>),
}

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<Wav, LabError> {
    let failed = |reason: &str| LabError::file("read the WAV file", path, reason);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| failed(&error.to_string()))?;
    file.take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| failed(&error.to_string()))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(failed("it has more than 512 MiB: cut it"));
    }
    parse(&bytes).map_err(|reason| failed(&reason))
}

/// Reads the contents of a file; the error is the reason.
fn parse(bytes: &[u8]) -> Result<Wav, String> {
    let header = bytes
        .get(..12)
        .filter(|it| it.starts_with(b"RIFF") && it.ends_with(b"WAVE"));
    if header.is_none() {
        return Err(String::from(
            "it is no WAV file, which begins with `RIFF`, a size and `WAVE`",
        ));
    }
    let mut rest = &bytes[12..];
    let mut format = None;
    while let Some((head, body)) = rest.split_at_checked(8) {
        let size = number(head, 4, 4) as usize;
        match (&head[..4], format) {
            (b"fmt ", _) => {
                let chunk = body
                    .get(..size)
                    .filter(|chunk| chunk.len() >= 16)
                    .ok_or("its format chunk is cut off: at least 16 bytes are needed")?;
                format = Some(self::format(chunk)?);
            }
            (b"data", None) => return Err(String::from("its samples come before any `fmt ` chunk")),
            (b"data", Some(format)) => {
                let data = body.get(..size).ok_or_else(|| {
                    format!(
                        "it is cut off: its header says {size} bytes of samples, and there are {}",
                        body.len()
                    )
                })?;
                return samples(format, data);
            }
            _ => {}
        }
        // Chunks begin at even places.
        rest = body.get(size + size % 2..).unwrap_or_default();
    }
    Err(String::from(match format {
        None => "it has no `fmt ` chunk, which says what the samples are",
        Some(_) => "it has no `data` chunk, where the samples would be",
    }))
}

/// A number of some bytes, the least significant first.
fn number(bytes: &[u8], at: usize, length: usize) -> u32 {
    bytes[at..at + length]
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// Reads a format chunk of at least 16 bytes; gives the law, or `None` for plain numbers.
fn format(chunk: &[u8]) -> Result<Option<Law>, String> {
    let (channels, rate, bits) = (number(chunk, 2, 2), number(chunk, 4, 4), number(chunk, 14, 2));
    let tag = match number(chunk, 0, 2) as u16 {
        EXTENSIBLE if chunk.len() >= 26 => number(chunk, 24, 2) as u16,
        tag => tag,
    };
    let (law, wanted) = match tag {
        PCM => (None, 16),
        A_LAW => (Some(Law::A), 8),
        MU_LAW => (Some(Law::Mu), 8),
        other => {
            let name = match other {
                2 | 0x11 => " (ADPCM)",
                3 => " (floating point)",
                0x31 => " (GSM)",
                0x55 => " (MP3)",
                _ => "",
            };
            return Err(format!(
                "its samples have format {other}{name}; read are 16-bit PCM (1), A-law (6) and µ-law (7)"
            ));
        }
    };
    if channels != 1 {
        return Err(format!(
            "it has {channels} channels; a telephone has one: mix it down to mono"
        ));
    }
    if rate != RATE {
        return Err(format!(
            "it has {rate} samples per second; a telephone has {RATE}: resample it"
        ));
    }
    if bits != wanted {
        return Err(format!(
            "its samples have {bits} bits; format {tag} has {wanted} here"
        ));
    }
    Ok(law)
}

fn samples(law: Option<Law>, data: &[u8]) -> Result<Wav, String> {
    if data.is_empty() {
        return Err(String::from("it holds no samples: nothing can be mixed"));
    }
    match law {
        Some(law) => Ok(Wav::Coded(law, data.to_vec())),
        None if !data.len().is_multiple_of(2) => Err(format!(
            "it ends in the middle of a sample: {} bytes are no whole number of 16-bit samples",
            data.len()
        )),
        None => Ok(Wav::Linear(
            data.chunks_exact(2)
                .map(|pair| i16::from_le_bytes([pair[0], pair[1]]))
                .collect(),
        )),
    }
}

/// A file of 16-bit samples.
pub(super) fn write(samples: &[i16]) -> Vec<u8> {
    let spec = WavSpec {
        channels: 1,
        sample_rate: RATE,
        bits_per_sample: 16,
        sample_format: SampleFormat::Int,
    };
    let mut bytes = Cursor::new(Vec::new());
    let whole = WavWriter::new(&mut bytes, spec).and_then(|mut writer| {
        samples
            .iter()
            .try_for_each(|sample| writer.write_sample(*sample))?;
        writer.finalize()
    });
    whole.expect("memory takes all that is written");
    bytes.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with such a format and such samples.
    fn file(tag: u16, channels: u16, rate: u32, bits: u16, data: &[u8]) -> Vec<u8> {
        let mut bytes = write(&[]);
        bytes.truncate(40);
        bytes[20..22].copy_from_slice(&tag.to_le_bytes());
        bytes[22..24].copy_from_slice(&channels.to_le_bytes());
        bytes[24..28].copy_from_slice(&rate.to_le_bytes());
        bytes[34..36].copy_from_slice(&bits.to_le_bytes());
        bytes.extend((data.len() as u32).to_le_bytes());
        bytes.extend(data);
        bytes
    }

    fn reason(bytes: &[u8]) -> String {
        parse(bytes).unwrap_err()
    }

    #[test]
    fn what_is_written_is_read_by_us_and_by_others() {
        let samples = [0, 1, -1, i16::MAX, i16::MIN, 1234];
        let bytes = write(&samples);
        assert_eq!(parse(&bytes), Ok(Wav::Linear(samples.to_vec())));
        let mut reader = hound::WavReader::new(Cursor::new(&bytes)).unwrap();
        let read: Vec<i16> = reader.samples().map(Result::unwrap).collect();
        assert_eq!(read, samples);
    }

    #[test]
    fn what_others_write_is_read_or_refused_for_what_it_is() {
        let written = |channels, sample_rate, bits_per_sample, sample_format| {
            let mut bytes = Cursor::new(Vec::new());
            let spec = WavSpec {
                channels,
                sample_rate,
                bits_per_sample,
                sample_format,
            };
            let mut writer = WavWriter::new(&mut bytes, spec).unwrap();
            for _ in 0..12 {
                match sample_format {
                    SampleFormat::Int => writer.write_sample(-5_i16).unwrap(),
                    SampleFormat::Float => writer.write_sample(0.5_f32).unwrap(),
                }
            }
            writer.finalize().unwrap();
            bytes.into_inner()
        };
        let int = SampleFormat::Int;
        assert_eq!(parse(&written(1, RATE, 16, int)), Ok(Wav::Linear(vec![-5; 12])));
        assert!(reason(&written(2, RATE, 16, int)).contains("2 channels"));
        assert!(reason(&written(1, 44_100, 16, int)).contains("44100 samples per second"));
        assert!(reason(&written(1, RATE, 8, int)).contains("8 bits"));
        // 24 bits are written in the extensible form.
        assert!(reason(&written(1, RATE, 24, int)).contains("24 bits"));
        let float = written(1, RATE, 32, SampleFormat::Float);
        assert!(
            reason(&float).contains("format 3 (floating point)"),
            "{}",
            reason(&float)
        );
    }

    #[test]
    fn both_laws_are_read_also_where_other_chunks_stand_between() {
        assert_eq!(
            parse(&file(6, 1, RATE, 8, b"abc")),
            Ok(Wav::Coded(Law::A, b"abc".to_vec()))
        );
        let plain = file(7, 1, RATE, 8, b"\xff\x7f");
        let mut bytes = plain[..36].to_vec();
        // An odd size: a byte is filled in.
        bytes.extend(b"LIST\x03\0\0\0abc\0fact\x04\0\0\0\x02\0\0\0");
        bytes.extend(&plain[36..]);
        assert_eq!(parse(&bytes), Ok(Wav::Coded(Law::Mu, b"\xff\x7f".to_vec())));
    }

    #[test]
    fn what_is_no_file_of_a_telephone_is_told_what_would_be_right() {
        assert!(reason(b"").contains("begins with `RIFF`"));
        assert!(reason(b"OggS, and so on, and on").contains("no WAV file"));
        assert!(reason(&file(0x55, 1, RATE, 0, b"")).contains("format 85 (MP3)"));
        assert!(reason(&file(6, 1, RATE, 16, b"ab")).contains("16 bits; format 6 has 8"));
        assert!(reason(&file(1, 1, RATE, 16, b"")).contains("no samples"));
        assert!(reason(&file(1, 1, RATE, 16, b"abc")).contains("middle of a sample"));
        let whole = write(&[1, 2, 3]);
        assert!(reason(&whole[..whole.len() - 1]).contains("says 6 bytes of samples, and there are 5"));
        assert!(reason(&whole[..36]).contains("no `data` chunk"));
        assert!(reason(&whole[..30]).contains("cut off"));
        assert!(reason(&whole[..12]).contains("no `fmt ` chunk"));
        let mut swapped = whole[..12].to_vec();
        swapped.extend(&whole[36..]);
        assert!(reason(&swapped).contains("before any `fmt `"));
    }

    #[test]
    fn garbage_is_refused_without_a_panic() {
        let mut random = fastrand::Rng::with_seed(8000);
        let whole = file(7, 1, RATE, 8, &[0; 40]);
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            bytes.truncate(random.usize(..=bytes.len()));
            drop(parse(&bytes));
        }
    }
}
