//! Reads of streams, for [`net`](crate::net): a read that fills less than the buffer saves the next attempt.

use super::Async;
use crate::driver::pollable::AsPollable;
use crate::driver::poller::TELLS_ENDS;
use crate::driver::source::Direction;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

impl<T: AsPollable> Async<T> {
    /// As [`read_with`](Self::read_with), for a stream of which a read that fills less than `room` leaves
    /// nothing behind.
    pub(crate) async fn receive(
        &self,
        room: usize,
        mut operation: impl FnMut(&T) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut waiter_id = self.source.waiter_id(Direction::In);
        let check = || self.prepare_wait(Direction::In);
        poll_fn(|cx| {
            waiter_id.poll(
                cx,
                check,
                || operation(self.get_ref()),
                |read| emptied(*read, room),
            )
        })
        .await
    }

    /// As [`receive`](Self::receive), for code that polls.
    pub(crate) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        room: usize,
        mut operation: impl FnMut(&T) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let check = || self.prepare_wait(Direction::In);
        let operation = || operation(self.get_ref());
        self.source
            .poll_anonymous(Direction::In, cx, check, operation, |read| emptied(*read, room))
    }
}

/// Returns true if a read of a stream has taken all that was there. It returns false at the end of the
/// stream, which is ready for ever, and where the poller does not tell ends from bytes.
fn emptied(read: usize, room: usize) -> bool {
    TELLS_ENDS && 0 < read && read < room
}
