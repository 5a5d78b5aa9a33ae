//! *pcap*: a real capture, replayed. The handler of each packet really parses it: Ethernet, IP, TCP, and the
//! HTTP head if the segment begins with one.
//!
//! Each handler sees one packet, as a network function would: streams are not put together again, so a head
//! that spreads over two segments, or begins inside one, is not counted. The counts of a run must be those of
//! a sequential pass over the same packets.

use std::path::Path;

use etherparse::{SlicedPacket, TransportSlice};

use crate::kit::capture::{BUNDLED_NAME, Capture};
use crate::kit::chain::{Feed, Listening, sends};
use crate::kit::task_recorder::{COUNTS, Counts, Recorded};
use crate::prelude::*;

/// Headers that a head may have; one with more is not counted.
const HEADERS: usize = 64;

/// The findings of a handler, as indices of its counts.
const TCP: usize = 0;
const REQUEST: usize = 1;
const RESPONSE: usize = 2;
const BODY: usize = 3;

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    listening: Listening,
    replay: Replay,
}

/// The capture, round after round.
#[derive(Clone, Copy)]
struct Replay {
    frames: &'static [Vec<u8>],
}

impl Feed for Replay {
    fn packets(self, spawner: u64) -> impl Iterator<Item = &'static [u8]> + Send + 'static {
        self.laps(spawner)
    }

    #[inline]
    fn handle(self, packet: &[u8]) -> Counts {
        parse(packet)
    }
}

impl Replay {
    fn laps(self, spawner: u64) -> Laps {
        // Spawners start at different places, so that they do not send the same packet at the same time.
        Laps {
            frames: self.frames,
            at: (spawner as usize * 7919) % self.frames.len(),
        }
    }
}

/// The frames in order, then again from the first.
struct Laps {
    frames: &'static [Vec<u8>],
    at: usize,
}

impl Iterator for Laps {
    type Item = &'static [u8];

    #[inline]
    fn next(&mut self) -> Option<&'static [u8]> {
        let frame = &self.frames[self.at];
        self.at += 1;
        if self.at == self.frames.len() {
            self.at = 0;
        }
        Some(frame)
    }
}

/// Parses a frame: whether it is TCP, begins an HTTP request or response, and how many bytes follow the head.
fn parse(frame: &[u8]) -> Counts {
    let mut counts = [0; COUNTS];
    let Ok(sliced) = SlicedPacket::from_ethernet(frame) else {
        return counts;
    };
    let Some(TransportSlice::Tcp(segment)) = sliced.transport else {
        return counts;
    };
    counts[TCP] = 1;
    let payload = segment.payload();
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    if payload.starts_with(b"HTTP/") {
        let mut response = httparse::Response::new(&mut headers);
        if let Ok(httparse::Status::Complete(head)) = response.parse(payload) {
            counts[RESPONSE] = 1;
            counts[BODY] = (payload.len() - head) as u64;
        }
    } else if !payload.is_empty() {
        let mut request = httparse::Request::new(&mut headers);
        if let Ok(httparse::Status::Complete(head)) = request.parse(payload) {
            counts[REQUEST] = 1;
            counts[BODY] = (payload.len() - head) as u64;
        }
    }
    counts
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "pcap",
        about: "a capture is replayed; the handler of each packet parses Ethernet, IP, TCP and HTTP (--pcap FILE)",
        unit: "packets",
        latency: Some("from spawn to the end of the handler"),
        params: params! {
            count("300k", "packets, the capture repeated as often as needed", 1 << 32);
            WINDOW;
            spawners("1");
            HANDLERS;
        },
        variants: variants! {
            NULL;
        },
        smoke: &[("n", "2000")],
        files: &[FileFlag {
            name: "pcap",
            about: "The capture that the workload `pcap` replays, pcap or pcapng with Ethernet frames [default: the bundled one]",
            many: false,
            recorded: true,
        }],
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Jobs;
    const REFUSALS: &[(&str, &str)] = &[("go", "the handler's parsers are Rust libraries")];

    fn settle(asked: &mut Asked<'_>) -> Result<(), LabError> {
        // A file that is no capture is refused now, not by every run.
        asked
            .files
            .one("pcap")
            .map_or(Ok(()), |path| Capture::load(Some(path)).map(drop))
    }

    fn facts(request: &Request) -> Vec<(&'static str, String)> {
        let path = request
            .files
            .one("pcap")
            .map_or(BUNDLED_NAME.into(), Path::to_string_lossy);
        vec![("capture", path.into_owned())]
    }

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        let capture = request.files.one("pcap");
        let frames = Capture::load(capture)?.frames.leak();
        Ok(Self {
            listening: Listening::new(params),
            replay: Replay { frames },
        })
    }

    sends!(|plan| plan.replay);
}

impl Plan {
    /// The findings of a sequential pass over the same packets.
    fn expected(&self) -> Counts {
        if !self.listening.handlers {
            return [0; COUNTS];
        }
        let of_frame: Vec<Counts> = self.replay.frames.iter().map(|frame| parse(frame)).collect();
        let frames = of_frame.len() as u64;
        let mut sum = [0; COUNTS];
        for spawner in 0..self.listening.spawners {
            let first = self.replay.laps(spawner).at;
            for (at, counts) in of_frame.iter().enumerate() {
                // How often this frame comes among the packets of the spawner.
                let place = (at + of_frame.len() - first) as u64 % frames;
                let times =
                    self.listening.share() / frames + u64::from(place < self.listening.share() % frames);
                for (sum, found) in sum.iter_mut().zip(counts) {
                    *sum += found * times;
                }
            }
        }
        sum
    }

    fn outcome(&self, recorded: &Recorded) -> Result<Outcome, LabError> {
        check(
            "TCP segments, requests, responses, body bytes",
            &recorded.counts,
            &self.expected(),
        )?;
        Ok(Outcome::new(self.listening.total(), recorded.elapsed)
            .with_latency(&recorded.histogram)
            .with_measure("window_full", recorded.waits as f64)
            .with_measure("tcp_segments", recorded.counts[TCP] as f64)
            .with_measure("http_requests", recorded.counts[REQUEST] as f64)
            .with_measure("http_responses", recorded.counts[RESPONSE] as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_capture_has_requests_responses_and_what_lies_between() {
        let frames = Capture::load(None).unwrap().frames;
        let sum = frames
            .iter()
            .map(|frame| parse(frame))
            .fold([0; COUNTS], |mut sum, counts| {
                sum.iter_mut().zip(counts).for_each(|(sum, found)| *sum += found);
                sum
            });
        assert!(sum[TCP] > sum[REQUEST] + sum[RESPONSE], "{sum:?}");
        assert!(
            sum[REQUEST] >= 50 && sum[RESPONSE] >= 50 && sum[BODY] > 0,
            "{sum:?}"
        );
    }

    #[test]
    fn the_expected_counts_are_those_of_a_replay() {
        for (n, spawners) in [("1", "1"), ("777", "1"), ("5000", "3")] {
            let settings = [format!("n={n}"), format!("spawners={spawners}")];
            let request = crate::kit::request("pcap", &settings.each_ref().map(String::as_str));
            let plan = Plan::load(&request).unwrap();
            let mut replayed = [0; COUNTS];
            for spawner in 0..plan.listening.spawners {
                for frame in plan.replay.packets(spawner).take(plan.listening.share() as usize) {
                    replayed
                        .iter_mut()
                        .zip(parse(frame))
                        .for_each(|(sum, found)| *sum += found);
                }
            }
            assert_eq!(plan.expected(), replayed);
        }
    }

    #[test]
    fn garbage_is_parsed_without_a_panic() {
        let mut random = fastrand::Rng::with_seed(5);
        let frames = Capture::load(None).unwrap().frames;
        for _ in 0..20_000 {
            let mut frame = frames[random.usize(..frames.len())].clone();
            let at = random.usize(..frame.len());
            frame[at] = random.u8(..);
            frame.truncate(random.usize(..=frame.len()));
            parse(&frame);
        }
        assert_eq!(parse(b""), [0; COUNTS]);
    }
}
