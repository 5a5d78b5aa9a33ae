//! Lines of text from a reader.

use futures_core::Stream;
use futures_io::AsyncRead;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::mem::take;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use warpweft_task::budget::poll_budget;

/// How many bytes one read may return.
const ROOM: usize = 8 << 10;

/// The lines that a reader returns, without their ends (`\n` or `\r\n`). A stream, too.
///
/// **Cancellation.** A [`next`](Self::next) that is dropped loses nothing: what was read of a line stays here
/// for the next call.
///
/// ```
/// use warpweft::io::Lines;
/// use warpweft::net::UnixStream;
///
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let (one, other) = UnixStream::pair()?;
///     one.write_all(b"first\r\nsecond").await?;
///     drop(one);
///     let mut lines = Lines::new(other);
///     assert_eq!(lines.next().await?.as_deref(), Some("first"));
///     assert_eq!(lines.next().await?.as_deref(), Some("second"));
///     assert_eq!(lines.next().await?, None);
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    /// What was read.
    bytes: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// How far no end of that line was found.
    searched: usize,
    longest: usize,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Returns the lines of `reader`.
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            bytes: Vec::new(),
            start: 0,
            searched: 0,
            longest: usize::MAX,
            ended: false,
        }
    }

    /// Makes a line of more than `bytes` bytes an error, so that a peer cannot fill the memory. Without this
    /// there is no limit.
    #[must_use]
    pub fn longest(mut self, bytes: usize) -> Self {
        self.longest = bytes;
        self
    }

    /// Waits for the next line. Returns `None` after the last one, which may lack its end.
    ///
    /// # Errors
    ///
    /// Those of the reader. [`InvalidData`](ErrorKind::InvalidData) if a line is not UTF-8, which is then
    /// skipped, or longer than [`longest`](Self::longest), which ends the lines.
    pub async fn next(&mut self) -> io::Result<Option<String>> {
        poll_fn(|cx| self.poll_line(cx)).await
    }

    /// The poll form of [`next`](Self::next).
    ///
    /// # Errors
    ///
    /// As `next`.
    pub fn poll_line(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<String>>> {
        ready!(poll_budget(cx));
        loop {
            let found = self.bytes[self.searched..].iter().position(|&byte| byte == b'\n');
            if let Some(place) = found.map(|place| self.searched + place) {
                let place = place + 1;
                let line = self.bytes[self.start..place].to_vec();
                (self.start, self.searched) = (place, place);
                return Poll::Ready(self.text(line).map(Some));
            }
            // Not for each line: what lies behind is moved once for each reading.
            self.bytes.drain(..take(&mut self.start));
            self.searched = self.bytes.len();
            if self.ended && self.bytes.is_empty() {
                return Poll::Ready(Ok(None));
            }
            if self.ended {
                let mut line = take(&mut self.bytes);
                line.shrink_to_fit();
                self.searched = 0;
                return Poll::Ready(self.text(line).map(Some));
            }
            // One byte more may be the line's end, and one before it a carriage return.
            if self.bytes.len() > self.longest.saturating_add(2) {
                return Poll::Ready(Err(self.too_long()));
            }
            if ready!(self.poll_fill(cx))? == 0 {
                self.ended = true;
            }
        }
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let start = self.bytes.len();
        self.bytes.resize(start + ROOM, 0);
        let read = Pin::new(&mut self.reader).poll_read(cx, &mut self.bytes[start..]);
        let filled = match &read {
            Poll::Ready(Ok(read)) => *read,
            _ => 0,
        };
        self.bytes.truncate(start + filled);
        read
    }

    fn text(&mut self, mut line: Vec<u8>) -> io::Result<String> {
        if line.last() == Some(&b'\n') {
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
        }
        if line.len() > self.longest {
            return Err(self.too_long());
        }
        String::from_utf8(line).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }

    /// Ends the lines. It does so wherever the end of this line is, because how much of it has been read
    /// depends on how the bytes came.
    fn too_long(&mut self) -> io::Error {
        self.ended = true;
        self.bytes = Vec::new();
        (self.start, self.searched) = (0, 0);
        let text = format!("a line has more than the {} bytes that are allowed", self.longest);
        io::Error::new(ErrorKind::InvalidData, text)
    }

    /// Returns the reader.
    pub fn get_ref(&self) -> &R {
        &self.reader
    }

    /// Returns the reader, and the bytes that were read from it and are in no line yet.
    #[must_use]
    pub fn into_inner(mut self) -> (R, Vec<u8>) {
        self.bytes.drain(..self.start);
        (self.reader, self.bytes)
    }
}

impl<R: AsyncRead + Unpin> Stream for Lines<R> {
    type Item = io::Result<String>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_line(cx).map(Result::transpose)
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;
    use futures_io::AsyncRead;
    use std::io::{self, ErrorKind};
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    /// Returns its pieces one by one, and waits before each.
    struct Pieces(Vec<&'static [u8]>, bool);

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            room: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            self.1 = !self.1;
            if self.1 {
                return Poll::Pending;
            }
            if self.0.is_empty() {
                return Poll::Ready(Ok(0));
            }
            let piece = self.0.remove(0);
            room[..piece.len()].copy_from_slice(piece);
            Poll::Ready(Ok(piece.len()))
        }
    }

    fn all(mut lines: Lines<Pieces>) -> Vec<Result<String, ErrorKind>> {
        let mut cx = Context::from_waker(Waker::noop());
        let mut found = Vec::new();
        loop {
            match lines.poll_line(&mut cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(None)) => return found,
                Poll::Ready(line) => found.push(line.map(Option::unwrap_or_default).map_err(|e| e.kind())),
            }
        }
    }

    fn of(pieces: &[&'static [u8]]) -> Lines<Pieces> {
        Lines::new(Pieces(pieces.to_vec(), false))
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let whole: [&'static [u8]; 1] = [b"one\ntwo\r\n\nlast"];
        let torn: [&'static [u8]; 6] = [b"o", b"ne\nt", b"wo\r", b"\n", b"\nla", b"st"];
        let expected = ["one", "two", "", "last"].map(|line| Ok(line.to_owned()));
        assert_eq!(all(of(&whole)), expected);
        assert_eq!(all(of(&torn)), expected);
        assert_eq!(all(of(&[])), []);
        assert_eq!(all(of(&[b"a\n"])), [Ok(String::from("a"))]);
    }

    #[test]
    fn what_is_no_text_is_skipped() {
        let found = all(of(&[b"a\n\xff\nb\n"]));
        assert_eq!(
            found,
            [Ok("a".into()), Err(ErrorKind::InvalidData), Ok("b".into())]
        );
    }

    #[test]
    fn a_line_may_have_a_longest_length() {
        // However the bytes come, a line that is too long is the last one.
        let cuts: [&[&[u8]]; 3] = [
            &[b"abc\r\nabcd\nab"],
            &[b"abc\r\nabcd", b"\nab"],
            &[b"abc\r", b"\nabcdef", b"gh\nab"],
        ];
        for cut in cuts {
            let found = all(of(cut).longest(3));
            assert_eq!(found, [Ok("abc".into()), Err(ErrorKind::InvalidData)], "{cut:?}");
        }
        let endless = all(of(&[b"abcd", b"efgh", b"ij"]).longest(3));
        assert_eq!(endless, [Err(ErrorKind::InvalidData)]);
    }

    /// A program may keep all lines of a long input, and a peer may send very short ones.
    #[test]
    fn a_line_takes_the_memory_of_its_bytes() {
        let text = "ab\n".repeat(10_000) + "end";
        let mut lines = Lines::new(text.as_bytes());
        let mut cx = Context::from_waker(Waker::noop());
        let mut count = 0;
        loop {
            match lines.poll_line(&mut cx) {
                Poll::Ready(Ok(Some(line))) => {
                    assert!(line.capacity() <= 16, "{} for {line:?}", line.capacity());
                    count += 1;
                }
                // It lets others go, after some number of lines.
                Poll::Pending => {}
                Poll::Ready(end) => break assert!(matches!(end, Ok(None)), "{end:?}"),
            }
        }
        assert_eq!(count, 10_001);
    }

    #[test]
    fn what_is_in_no_line_yet_is_given_back() {
        let mut lines = Lines::new(&b"one\ntwo\nthree"[..]);
        let first = lines.poll_line(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(first, Poll::Ready(Ok(Some(line))) if line == "one"));
        assert_eq!(lines.into_inner().1, b"two\nthree");
    }
}
