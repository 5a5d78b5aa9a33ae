//! The pool of pre-made packets: 2 to 3 KiB each, newlines scattered over the first 300 bytes.

use fastrand::Rng;

/// The number of packets.
pub(crate) const POOL: usize = 100;
/// Newlines lie among this many first bytes.
const SCATTERED: usize = 300;

/// Packets that live as long as the process, and the newlines of each. Always the same ones.
#[derive(Clone, Copy)]
pub(crate) struct Packets {
    /// The packets.
    pub(crate) packets: &'static [Vec<u8>],
    /// The number of newlines in each.
    pub(crate) newlines: &'static [u64],
}

impl Packets {
    /// Makes the pool.
    pub(crate) fn new() -> Self {
        let mut random = Rng::with_seed(0x5eed);
        let packets: Vec<Vec<u8>> = (0..POOL).map(|_| packet(&mut random)).collect();
        let newlines = packets
            .iter()
            .map(|packet| newlines_of(packet))
            .collect::<Vec<u64>>();
        Self {
            packets: packets.leak(),
            newlines: newlines.leak(),
        }
    }
}

/// The newlines of a packet, counted as the handler counts them.
#[inline]
pub(crate) fn newlines_of(packet: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', packet).count() as u64
}

/// One packet: printable bytes, every tenth of the first 300 a newline.
fn packet(random: &mut Rng) -> Vec<u8> {
    let length = random.usize(2048..=3072);
    (0..length)
        .map(|at| {
            if at < SCATTERED && random.u8(..10) == 0 {
                b'\n'
            } else {
                random.u8(b' '..b'~')
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_as_described_and_always_the_same() {
        let first = Packets::new();
        assert_eq!(first.packets.len(), POOL);
        for (packet, newlines) in first.packets.iter().zip(first.newlines) {
            assert!((2048..=3072).contains(&packet.len()));
            assert_eq!(
                packet.iter().filter(|byte| **byte == b'\n').count() as u64,
                *newlines
            );
            assert!(!packet[SCATTERED..].contains(&b'\n') && *newlines > 0);
        }
        assert_eq!(first.packets, Packets::new().packets);
    }
}
