//! A thread with some connections, a request under way on each.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Measured, Requests, Script};
use harness::LabError;
use harness::{add_bucket, bucket_of};

/// A server that sends nothing for so long hangs.
const PATIENCE: Timespec = Timespec {
    tv_sec: 20,
    tv_nsec: 0,
};

/// The connections of one thread.
pub(super) struct Client<'a> {
    streams: Vec<TcpStream>,
    /// The request under way on each.
    exchanges: Vec<Exchange>,
    script: &'a Script,
}

struct Exchange {
    start: Instant,
    computes: bool,
    received: Vec<u8>,
}

impl<'a> Client<'a> {
    /// Connects this number of times.
    pub(super) fn connect(
        address: SocketAddr,
        connections: usize,
        script: &'a Script,
    ) -> Result<Self, LabError> {
        let streams = (0..connections)
            .map(|_| {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                Ok(stream)
            })
            .collect::<io::Result<Vec<_>>>()
            .map_err(wrong)?;
        Ok(Self {
            streams,
            exchanges: Vec::new(),
            script,
        })
    }

    /// Sends requests until there are no more, and checks the answers.
    pub(super) fn run(&mut self, requests: &Requests<'_>) -> Result<Measured, LabError> {
        let mut measured = Measured::new();
        let mut open = Vec::new();
        self.exchanges.clear();
        for stream in &self.streams {
            let computes = requests.take();
            let start = Instant::now();
            if let Some(computes) = computes {
                self.send(stream, computes).map_err(wrong)?;
            }
            open.push(computes.is_some());
            self.exchanges.push(Exchange {
                start,
                computes: computes.unwrap_or_default(),
                received: Vec::with_capacity(256),
            });
        }
        let mut buffer = [0; 4096];
        while open.contains(&true) {
            let at: Vec<usize> = (0..open.len()).filter(|at| open[*at]).collect();
            let mut fds: Vec<_> = at
                .iter()
                .map(|at| PollFd::new(&self.streams[*at], PollFlags::IN))
                .collect();
            if poll(&mut fds, Some(&PATIENCE)).map_err(|error| wrong(error.into()))? == 0 {
                return Err(LabError::Wrong(String::from(
                    "the server has sent nothing for 20 seconds",
                )));
            }
            let ready: Vec<usize> = at
                .iter()
                .zip(&fds)
                .filter(|(_, fd)| !fd.revents().is_empty())
                .map(|(at, _)| *at)
                .collect();
            for at in ready {
                let mut stream = &self.streams[at];
                let exchange = &mut self.exchanges[at];
                let read = stream.read(&mut buffer).map_err(wrong)?;
                if read == 0 {
                    return Err(wrong(ErrorKind::UnexpectedEof.into()));
                }
                exchange.received.extend_from_slice(&buffer[..read]);
                let expected = &self.script.line(exchange.computes).answer;
                if !is_complete(&exchange.received, expected)? {
                    continue;
                }
                let nanos = u64::try_from(exchange.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
                let histogram = match exchange.computes {
                    true => &mut measured.heavy,
                    false => &mut measured.light,
                };
                add_bucket(histogram, bucket_of(nanos), 1);
                exchange.received.clear();
                match requests.take() {
                    Some(computes) => {
                        exchange.computes = computes;
                        exchange.start = Instant::now();
                        self.send(stream, computes).map_err(wrong)?;
                    }
                    None => open[at] = false,
                }
            }
        }
        Ok(measured)
    }

    fn send(&self, mut stream: &TcpStream, computes: bool) -> io::Result<()> {
        stream.write_all(self.script.line(computes).request.as_bytes())
    }
}

/// Returns true if the whole answer is there; an error if it is another one than expected.
fn is_complete(received: &[u8], expected: &str) -> Result<bool, LabError> {
    let mut headers = [httparse::EMPTY_HEADER; 16];
    let mut head = httparse::Response::new(&mut headers);
    let other = || LabError::Wrong(format!("the answer `{}`", String::from_utf8_lossy(received)));
    let httparse::Status::Complete(length) = head.parse(received).map_err(|_| other())? else {
        return Ok(false);
    };
    if head.code != Some(200) {
        return Err(other());
    }
    let body = &received[length..];
    if body == expected.as_bytes() {
        return Ok(true);
    }
    // So far, so good?
    if expected.as_bytes().starts_with(body) {
        Ok(false)
    } else {
        Err(other())
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it is what `map_err` calls")]
fn wrong(error: io::Error) -> LabError {
    LabError::Wrong(format!("a client: {error}"))
}

#[cfg(test)]
mod tests {
    use super::is_complete;

    #[test]
    fn an_answer_is_complete_or_not_yet_or_wrong() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab";
        for end in 0..answer.len() {
            assert!(!is_complete(&answer[..end], "ab").unwrap(), "{end} bytes");
        }
        assert!(is_complete(answer, "ab").unwrap());
        assert!(is_complete(answer, "ac").is_err());
        assert!(is_complete(b"HTTP/1.1 500 No\r\n\r\n", "ab").is_err());
        assert!(is_complete(b"SMTP", "ab").is_err());
    }
}
