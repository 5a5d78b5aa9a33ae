//! G.711: speech at 64 kbit/s, a byte per sample, by the A-law and by the µ-law.
//!
//! ```text
//!   byte   s eee mmmm     sign, segment, step within it;
//!                         transmitted with every second bit inverted (A) or with all (µ)
//!   value  segments that double: fine steps near silence, coarse ones where it is loud
//! ```
//!
//! Linear samples have 16 bits here, of which the A-law uses the upper 13 and the µ-law the upper 14. A byte
//! is read from a table; a sample becomes a byte by counting leading zeros. A sample that is on a decision
//! goes outwards if it is positive and inwards if it is negative, as in the ITU's reference code.

use serde::{Deserialize, Serialize};

/// One of the two laws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Law {
    /// That of Europe.
    A,
    /// That of North America and Japan.
    Mu,
}

/// The µ-law adds this to a magnitude, so that all its segments begin at powers of two, in units of 14 bits.
const BIAS: u16 = 33;
/// The largest magnitude with the bias.
const CLIP: u16 = (1 << 13) - 1;

/// Bits that the A-law inverts.
const EVEN: u8 = 0x55;
/// The sign: set for what is positive.
const SIGN: u8 = 0x80;

static A: [i16; 256] = table(Law::A);
static MU: [i16; 256] = table(Law::Mu);

const fn table(law: Law) -> [i16; 256] {
    let mut values = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        values[byte] = match law {
            Law::A => a_value(byte as u8),
            Law::Mu => mu_value(byte as u8),
        };
        byte += 1;
    }
    values
}

const fn a_value(byte: u8) -> i16 {
    let code = byte ^ EVEN;
    let (segment, step) = ((code >> 4) & 7, (code & 15) as i16);
    // The middle of the step.
    let magnitude = match segment {
        0 => (step << 4) + 8,
        _ => ((step << 4) + 0x108) << (segment - 1),
    };
    if code & SIGN == 0 { -magnitude } else { magnitude }
}

const fn mu_value(byte: u8) -> i16 {
    let code = !byte;
    let (segment, step) = ((code >> 4) & 7, (code & 15) as i16);
    let bias = (BIAS << 2) as i16;
    let magnitude = (((step << 3) + bias) << segment) - bias;
    if code & SIGN == 0 { magnitude } else { -magnitude }
}

/// The sign bit and the magnitude of a sample; -1 has that of 0.
#[inline]
fn split(sample: i16) -> (u8, u16) {
    if sample < 0 {
        (0, !sample as u16)
    } else {
        (SIGN, sample as u16)
    }
}

#[inline]
fn a_byte(sample: i16) -> u8 {
    let (sign, magnitude) = split(sample);
    let magnitude = magnitude >> 4;
    let code = match (u16::BITS - magnitude.leading_zeros()).checked_sub(4) {
        None | Some(0) => magnitude as u8,
        Some(segment) => (segment << 4) as u8 | ((magnitude >> (segment - 1)) & 15) as u8,
    };
    (sign | code) ^ EVEN
}

#[inline]
fn mu_byte(sample: i16) -> u8 {
    let (sign, magnitude) = split(sample);
    let biased = ((magnitude >> 2) + BIAS).min(CLIP);
    // At least 6 bits, as the bias has.
    let segment = u16::BITS - biased.leading_zeros() - 6;
    let code = (segment << 4) as u8 | ((biased >> (segment + 1)) & 15) as u8;
    // The sign is not inverted: it is that of the byte as transmitted.
    sign | (!code & !SIGN)
}

impl Law {
    /// The sample of each byte.
    #[inline]
    fn values(self) -> &'static [i16; 256] {
        match self {
            Self::A => &A,
            Self::Mu => &MU,
        }
    }

    /// The byte for a sample.
    #[inline]
    pub(super) fn byte(self, sample: i16) -> u8 {
        match self {
            Self::A => a_byte(sample),
            Self::Mu => mu_byte(sample),
        }
    }

    /// Decodes as many samples as there are bytes.
    #[inline]
    pub(super) fn decode(self, bytes: &[u8], samples: &mut [i16]) {
        debug_assert_eq!(bytes.len(), samples.len());
        let values = self.values();
        for (sample, byte) in samples.iter_mut().zip(bytes) {
            *sample = values[*byte as usize];
        }
    }

    /// Encodes as many bytes as there are samples.
    #[inline]
    pub(super) fn encode(self, samples: &[i16], bytes: &mut [u8]) {
        debug_assert_eq!(bytes.len(), samples.len());
        // The law is chosen once, not for every sample.
        match self {
            Self::A => samples
                .iter()
                .zip(bytes)
                .for_each(|(sample, byte)| *byte = a_byte(*sample)),
            Self::Mu => samples
                .iter()
                .zip(bytes)
                .for_each(|(sample, byte)| *byte = mu_byte(*sample)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(law: Law, byte: u8) -> i16 {
        law.values()[byte as usize]
    }

    const LAWS: [Law; 2] = [Law::A, Law::Mu];

    /// Rows of the recommendation's tables for positive values: the character signal before any inversion is
    /// that of the table (1a for the A-law, 2a for the µ-law), the value is in units of 13 and 14 bits. First
    /// and last step of each segment.
    const TABLE_1A: [(u8, i16); 16] = [
        (0b1111_1111, 4032),
        (0b1111_0000, 2112),
        (0b1110_1111, 2016),
        (0b1110_0000, 1056),
        (0b1101_1111, 1008),
        (0b1101_0000, 528),
        (0b1100_1111, 504),
        (0b1100_0000, 264),
        (0b1011_1111, 252),
        (0b1011_0000, 132),
        (0b1010_1111, 126),
        (0b1010_0000, 66),
        (0b1001_1111, 63),
        (0b1001_0000, 33),
        (0b1000_1111, 31),
        (0b1000_0000, 1),
    ];
    const TABLE_2A: [(u8, i16); 17] = [
        (0b1000_0000, 8031),
        (0b1000_1111, 4191),
        (0b1001_0000, 3999),
        (0b1001_1111, 2079),
        (0b1010_0000, 1983),
        (0b1010_1111, 1023),
        (0b1011_0000, 975),
        (0b1011_1111, 495),
        (0b1100_0000, 471),
        (0b1100_1111, 231),
        (0b1101_0000, 219),
        (0b1101_1111, 99),
        (0b1110_0000, 93),
        (0b1110_1111, 33),
        (0b1111_0000, 30),
        (0b1111_1110, 2),
        (0b1111_1111, 0),
    ];

    #[test]
    fn bytes_have_the_values_of_the_recommendation() {
        for (code, value) in TABLE_1A {
            // 13 bits of 16; the even bits are inverted for transmission.
            assert_eq!(read(Law::A, code ^ 0x55), value << 3, "{code:08b}");
            assert_eq!(read(Law::A, code ^ 0x55 ^ 0x80), -(value << 3), "-{code:08b}");
        }
        for (code, value) in TABLE_2A {
            // 14 bits of 16; the table shows what is transmitted.
            assert_eq!(read(Law::Mu, code), value << 2, "{code:08b}");
            assert_eq!(read(Law::Mu, code ^ 0x80), -(value << 2), "-{code:08b}");
        }
    }

    #[test]
    fn samples_get_the_bytes_of_the_recommendation() {
        // Silence and the loudest of either law.
        assert_eq!(
            [0, i16::MAX, i16::MIN, -1].map(|it| Law::A.byte(it)),
            [0xd5, 0xaa, 0x2a, 0x55]
        );
        assert_eq!(
            [0, i16::MAX, i16::MIN, -1].map(|it| Law::Mu.byte(it)),
            [0xff, 0x80, 0x00, 0x7f]
        );
        // Decision values of table 1a, ends of its segments, in units of 13 bits: on one of them begins the
        // segment above it.
        for (decision, above) in [
            (32, 0b1001_0000),
            (64, 0b1010_0000),
            (128, 0b1011_0000),
            (256, 0b1100_0000),
            (512, 0b1101_0000),
            (1024, 0b1110_0000),
            (2048, 0b1111_0000),
        ] {
            let sample: i16 = decision << 3;
            assert_eq!(Law::A.byte(sample) ^ 0x55, above, "{decision}");
            assert_eq!(Law::A.byte(sample - 1) ^ 0x55, above - 1, "below {decision}");
            assert_eq!(Law::A.byte(-sample) ^ 0x55, (above - 1) ^ 0x80, "-{decision}");
        }
        // Those of table 2a, in units of 14 bits.
        for (decision, above) in [
            (31, 0b1110_1111),
            (95, 0b1101_1111),
            (223, 0b1100_1111),
            (479, 0b1011_1111),
            (991, 0b1010_1111),
            (2015, 0b1001_1111),
            (4063, 0b1000_1111),
        ] {
            let sample: i16 = decision << 2;
            assert_eq!(Law::Mu.byte(sample), above, "{decision}");
            assert_eq!(Law::Mu.byte(sample - 1), above + 1, "below {decision}");
            assert_eq!(Law::Mu.byte(-sample), (above + 1) ^ 0x80, "-{decision}");
        }
    }

    #[test]
    fn a_byte_survives_being_decoded_and_encoded() {
        for law in LAWS {
            for byte in 0..=u8::MAX {
                let back = law.byte(read(law, byte));
                // The µ-law has two zeros; the positive one comes back.
                let expected = if (law, byte) == (Law::Mu, 0x7f) {
                    0xff
                } else {
                    byte
                };
                assert_eq!(back, expected, "{law:?} {byte:#x}");
            }
        }
    }

    #[test]
    fn no_sample_is_off_by_more_than_half_a_step_and_louder_stays_louder() {
        for law in LAWS {
            let mut last = i16::MIN;
            for sample in i16::MIN..=i16::MAX {
                let byte = law.byte(sample);
                let value = read(law, byte);
                let half_step = match (law, byte ^ if law == Law::A { EVEN } else { 0xff }) {
                    (Law::A, code) => 8 << ((code >> 4) & 7).saturating_sub(1),
                    (Law::Mu, code) => 4 << ((code >> 4) & 7),
                };
                // Above its loudest value the µ-law clips.
                let clipped = i32::from(sample).abs() - 32_124 - half_step;
                let off = (i32::from(value) - i32::from(sample)).abs();
                assert!(off <= half_step + clipped.max(0), "{law:?} {sample}: {value}");
                assert!(value >= last, "{law:?} {sample}: {value} after {last}");
                last = value;
            }
        }
    }

    #[test]
    fn frames_are_coded_sample_by_sample() {
        let mut random = fastrand::Rng::with_seed(711);
        let samples: Vec<i16> = (0..160).map(|_| random.i16(..)).collect();
        for law in LAWS {
            let (mut bytes, mut decoded) = ([0; 160], [0; 160]);
            law.encode(&samples, &mut bytes);
            law.decode(&bytes, &mut decoded);
            for ((sample, byte), value) in samples.iter().zip(bytes).zip(decoded) {
                assert_eq!((byte, value), (law.byte(*sample), read(law, byte)));
            }
        }
    }
}
