//! Captures: the frames of a pcap or pcapng file, or of the one that is built in.
//!
//! A file that is not what it should be is refused with its name, the place, and what would be right: a
//! replay of half a capture would be a different workload.

use std::fs;
use std::path::Path;

use pcap_file::pcap::PcapParser;
use pcap_file::pcapng::PcapNgParser;
use pcap_file::pcapng::blocks::Block;
use pcap_file::{DataLink, PcapError};

use harness::LabError;

/// The bundled capture: HTTP between a client and a server on one machine; see `captures/README.md`.
static BUNDLED: &[u8] = include_bytes!("../../captures/http.pcap");
/// Its name in messages.
pub(crate) const BUNDLED_NAME: &str = "captures/http.pcap (bundled)";

/// No capture program writes longer frames; a longer one means that the file is damaged.
const LONGEST: u32 = 1 << 18;
/// The first bytes of a pcapng file.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The first bytes of a gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The Ethernet frames of a capture, in order.
pub(crate) struct Capture {
    /// At least one.
    pub(crate) frames: Vec<Vec<u8>>,
}

impl Capture {
    /// Reads the capture, the bundled one if there is no path.
    pub(crate) fn load(path: Option<&Path>) -> Result<Self, LabError> {
        let Some(path) = path else {
            return Self::parse(BUNDLED).map_err(|reason| refused(Path::new(BUNDLED_NAME), &reason));
        };
        let bytes = fs::read(path).map_err(|error| refused(path, &error))?;
        Self::parse(&bytes).map_err(|reason| refused(path, &reason))
    }

    /// The frames in the bytes of a file, or why there are none.
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let frames = if bytes.starts_with(&PCAPNG_MAGIC) {
            pcapng(bytes)?
        } else {
            pcap(bytes)?
        };
        if frames.is_empty() {
            return Err(String::from(
                "it holds no packets; capture some with `tcpdump -w FILE`",
            ));
        }
        Ok(Self { frames })
    }
}

fn refused(path: &Path, reason: &(impl ToString + ?Sized)) -> LabError {
    LabError::file("use the capture", path, reason)
}

/// Only Ethernet frames can be parsed.
fn must_be_ethernet(link: DataLink) -> Result<(), String> {
    if link == DataLink::ETHERNET {
        return Ok(());
    }
    Err(format!(
        "its link type is {} ({link:?}), and only Ethernet (1) can be parsed; \
         capture on one Ethernet or loopback interface (`tcpdump -i eth0`), not on `any`",
        u32::from(link)
    ))
}

/// The frames of a classic capture.
fn pcap(bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let (mut rest, parser) = PcapParser::new(bytes).map_err(|error| not_a_capture(bytes, &error))?;
    must_be_ethernet(parser.header().datalink)?;
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let (number, offset) = (frames.len() + 1, bytes.len() - rest.len());
        let (after, packet) = parser.next_raw_packet(rest).map_err(|error| match error {
            // The length of a damaged packet is as likely to be absurd as to be too long for the file.
            PcapError::IncompleteBuffer
                if claimed_length(rest, parser.header().endianness) > Some(LONGEST) =>
            {
                damaged(number, offset, "the packet claims to be longer than any frame")
            }
            PcapError::IncompleteBuffer => format!(
                "it ends in the middle of packet {number}, which begins at byte {offset} of {}; \
                 it was cut off: capture or copy it again",
                bytes.len()
            ),
            other => damaged(number, offset, &other),
        })?;
        frames.push(packet.data.into_owned());
        rest = after;
    }
    Ok(frames)
}

/// The length field of the packet header at the start of `bytes`.
fn claimed_length(bytes: &[u8], endianness: pcap_file::Endianness) -> Option<u32> {
    let field = bytes.get(8..12)?.try_into().ok()?;
    Some(match endianness {
        pcap_file::Endianness::Big => u32::from_be_bytes(field),
        pcap_file::Endianness::Little => u32::from_le_bytes(field),
    })
}

/// The frames of a pcapng capture.
fn pcapng(bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let (mut rest, mut parser) = PcapNgParser::new(bytes).map_err(|error| not_a_capture(bytes, &error))?;
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let (number, offset) = (frames.len() + 1, bytes.len() - rest.len());
        let (after, block) = parser.next_block(rest).map_err(|error| match error {
            PcapError::IncompleteBuffer => format!(
                "it ends in the middle of the block at byte {offset} of {}, after {} packets; \
                 it was cut off: capture or copy it again",
                bytes.len(),
                frames.len()
            ),
            other => damaged(number, offset, &other),
        })?;
        let link = |interface: usize| {
            parser
                .interfaces()
                .get(interface)
                .map(|interface| interface.linktype)
                .ok_or_else(|| damaged(number, offset, &format!("there is no interface {interface}")))
        };
        match block {
            Block::EnhancedPacket(packet) => {
                must_be_ethernet(link(packet.interface_id as usize)?)?;
                frames.push(packet.data.into_owned());
            }
            Block::Packet(packet) => {
                must_be_ethernet(link(usize::from(packet.interface_id))?)?;
                frames.push(packet.data.into_owned());
            }
            Block::SimplePacket(packet) => {
                must_be_ethernet(link(0)?)?;
                // The block is padded to four bytes; the frame is not.
                let length = packet.data.len().min(packet.original_len as usize);
                frames.push(packet.data[..length].to_vec());
            }
            _ => {}
        }
        rest = after;
    }
    Ok(frames)
}

/// Somewhere behind the header, the file is not what the format says.
fn damaged(number: usize, offset: usize, what: &(impl ToString + ?Sized)) -> String {
    format!(
        "packet {number}, at byte {offset}, is damaged ({}): capture or copy it again",
        what.to_string()
    )
}

/// The header is not that of a capture.
fn not_a_capture(bytes: &[u8], error: &PcapError) -> String {
    const RIGHT: &str = "a pcap or pcapng file is expected, as `tcpdump -w FILE` writes it";
    if bytes.is_empty() {
        return format!("the file is empty; {RIGHT}");
    }
    if bytes.starts_with(&GZIP_MAGIC) {
        return format!("the file is compressed (gzip): decompress it first; {RIGHT}");
    }
    let known = [[0xa1, 0xb2], [0xd4, 0xc3], [0x4d, 0x3c], [0x0a, 0x0d]];
    if matches!(error, PcapError::IncompleteBuffer) && known.iter().any(|magic| bytes.starts_with(magic)) {
        return format!(
            "it ends within its header, at byte {}: it was cut off; {RIGHT}",
            bytes.len()
        );
    }
    let start: Vec<String> = bytes.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!(
        "at byte 0: it begins with {} and so is no capture; {RIGHT}",
        start.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(bytes: &[u8]) -> String {
        Capture::parse(bytes).err().expect("the bytes are refused")
    }

    /// The offset of each packet of the bundled capture, and the end.
    fn boundaries() -> Vec<usize> {
        let mut at = 24;
        let mut all = vec![at];
        for frame in &Capture::parse(BUNDLED).unwrap().frames {
            at += 16 + frame.len();
            all.push(at);
        }
        all
    }

    #[test]
    fn the_bundled_capture_is_whole_and_small() {
        let frames = Capture::load(None).unwrap().frames;
        assert!(frames.len() >= 200, "{} packets", frames.len());
        assert!(BUNDLED.len() <= 1 << 20, "{} bytes", BUNDLED.len());
        assert_eq!(*boundaries().last().unwrap(), BUNDLED.len());
    }

    #[test]
    fn a_cut_capture_is_refused_wherever_it_is_cut() {
        let boundaries = boundaries();
        for cut in (1..BUNDLED.len())
            .step_by(97)
            .chain([1, 3, 23, 25, BUNDLED.len() - 1])
        {
            if cut >= 24 && boundaries.contains(&cut) {
                continue;
            }
            let text = error(&BUNDLED[..cut]);
            if cut < 24 {
                assert!(
                    text.contains("no capture") || text.contains("within its header"),
                    "{cut}: {text}"
                );
            } else {
                let number = boundaries.iter().filter(|begin| **begin <= cut).count();
                assert!(
                    text.contains(&format!("middle of packet {number},")),
                    "{cut}: {text}"
                );
                assert!(
                    text.contains(&format!("byte {}", boundaries[number - 1])),
                    "{cut}: {text}"
                );
            }
        }
    }

    #[test]
    fn foreign_files_are_told_what_would_be_right() {
        assert!(error(b"").contains("empty"));
        assert!(
            error(b"GET / HTTP/1.1\r\n\r\nand more text than a header has")
                .contains("begins with 47 45 54 20")
        );
        assert!(error(&[0x1f, 0x8b, 8, 0]).contains("decompress"));
        assert!(error(&BUNDLED[..24]).contains("no packets"));
    }

    #[test]
    fn another_link_type_is_refused_by_name() {
        let mut cooked = BUNDLED.to_vec();
        cooked[20] = 113;
        let text = error(&cooked);
        assert!(text.contains("113") && text.contains("Ethernet (1)"), "{text}");
    }

    #[test]
    fn an_absurd_length_is_damage_not_truncation() {
        let mut bytes = BUNDLED.to_vec();
        bytes[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(
            error(&bytes).contains("packet 1, at byte 24, is damaged"),
            "{}",
            error(&bytes)
        );
    }

    /// A pcapng file with one interface and these frames.
    fn pcapng_of(frames: &[&[u8]], link: u16) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut block = |kind: u32, body: &[u8]| {
            let length = (12 + body.len().next_multiple_of(4)) as u32;
            bytes.extend_from_slice(&kind.to_le_bytes());
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(body);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes.extend_from_slice(&length.to_le_bytes());
        };
        block(
            0x0a0d_0d0a,
            &[
                0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255,
            ],
        );
        block(
            1,
            &[&link.to_le_bytes()[..], &[0, 0], &65_535_u32.to_le_bytes()].concat(),
        );
        for frame in frames {
            let length = (frame.len() as u32).to_le_bytes();
            block(6, &[&[0; 12][..], &length, &length, frame].concat());
        }
        bytes
    }

    #[test]
    fn pcapng_is_read_too() {
        let frames: [&[u8]; 2] = [&[1, 2, 3, 4, 5], &[6, 7]];
        assert_eq!(Capture::parse(&pcapng_of(&frames, 1)).unwrap().frames, frames);
        assert!(error(&pcapng_of(&frames, 101)).contains("101"));
        assert!(error(&pcapng_of(&[], 1)).contains("no packets"));
        let whole = pcapng_of(&frames, 1);
        let text = error(&whole[..whole.len() - 5]);
        assert!(
            text.contains("middle of the block") && text.contains("after 1 packets"),
            "{text}"
        );
    }

    #[test]
    fn damaged_files_are_refused_or_read_but_never_panic() {
        let mut random = fastrand::Rng::with_seed(3);
        let frames = Capture::parse(BUNDLED).unwrap().frames;
        let some: Vec<&[u8]> = frames.iter().take(20).map(Vec::as_slice).collect();
        for whole in [BUNDLED[..4000].to_vec(), pcapng_of(&some, 1)] {
            for _ in 0..3000 {
                let mut bytes = whole.clone();
                for _ in 0..random.usize(1..8) {
                    let at = random.usize(..bytes.len());
                    bytes[at] = if random.bool() { random.u8(..) } else { 255 };
                }
                bytes.truncate(random.usize(1..=bytes.len()));
                drop(Capture::parse(&bytes));
            }
        }
    }
}
