//! The state that both ends of a channel share.
//!
//! # Invariants
//!
//! When the lock is free:
//! - If a receiver waits, the queue is empty and no sender waits.
//! - If a sender waits, the queue is full, and its value is in its entry.
//! - If the channel is closed, no sender waits, and a receiver waits only while a value is `in_hand`: it may
//!   be given back.
//!
//! A waiter that was granted finds the result in its entry. A sender finds nothing, or its value back. A
//! receiver finds a value, or nothing if there will be none.

use crate::execution::current_task::current_task;
use crate::observe::listed::Listed;
use crate::observe::raw::{RawWait, RawWhat, Watched};
use crate::sync::error::{Closed, SendError, TryRecvError, TrySendError};
use crate::sync::suspend::WaitOp;
use crate::sync::wait_list::WaitList;
use crate::sync::wakers::Wakers;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::panic::Location;
use warpweft_platform::atomic::{AtomicBool, Ordering};
use warpweft_platform::sync::Mutex;
use warpweft_task::frame::Who;

pub(crate) struct Channel<T> {
    /// First, so that it is dropped first.
    listed: Listed,
    made_at: &'static Location<'static>,
    state: Mutex<ChannelState<T>>,
    /// True if receiving would wait. It is a hint, written under the lock and read without it: it saves
    /// receivers a futile first look, and the second look decides.
    empty: AtomicBool,
    /// The same for senders.
    full: AtomicBool,
}

pub(crate) struct ChannelState<T> {
    queue: VecDeque<T>,
    capacity: usize,
    closed: bool,
    /// The number of values that receivers were given and have not taken yet.
    in_hand: usize,
    senders: usize,
    receivers: usize,
    sending: WaitList<Option<T>>,
    receiving: WaitList<Option<T>>,
    /// The last tasks that used the sender and the receiver, while there is one of each: unknown before.
    last: [Who; 2],
}

impl<T> Watched for Channel<T> {
    fn look(&self, see: &mut dyn FnMut(RawWait)) {
        // In a forked child the lock may be lost. No value is touched.
        let Some(state) = self.state.lock_unless_lost() else {
            return;
        };
        let object = std::ptr::from_ref(self).addr();
        let receive = |_: &Option<T>| RawWhat::Receive {
            capacity: state.capacity,
            senders: state.senders,
            last: state.last[0],
            made_at: self.made_at,
        };
        state.receiving.each(object, receive, see);
        let send = |_: &Option<T>| RawWhat::Send {
            queued: state.queue.len(),
            capacity: state.capacity,
            receivers: state.receivers,
            last: state.last[1],
            made_at: self.made_at,
        };
        state.sending.each(object, send, see);
    }
}

impl<T> Channel<T> {
    #[track_caller]
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            listed: Listed::default(),
            made_at: Location::caller(),
            state: Mutex::new(ChannelState {
                queue: VecDeque::new(),
                capacity,
                closed: false,
                in_hand: 0,
                senders: 1,
                receivers: 1,
                sending: WaitList::new(),
                receiving: WaitList::new(),
                last: [Who::NOBODY; 2],
            }),
            empty: AtomicBool::new(true),
            full: AtomicBool::new(false),
        }
    }

    /// Changes the state, and wakes the waiters concerned after the lock is released.
    #[inline]
    fn change<R>(&self, change: impl FnOnce(&mut ChannelState<T>, &mut Wakers) -> R) -> R {
        let mut wakers = Wakers::new();
        let mut state = self.state.lock();
        let result = change(&mut state, &mut wakers);
        let empty = state.queue.is_empty() && state.sending.is_empty() && !state.closed;
        let full = state.queue.len() >= state.capacity && state.receiving.is_empty() && !state.closed;
        self.empty.store(empty, Ordering::Relaxed);
        self.full.store(full, Ordering::Relaxed);
        drop(state);
        wakers.wake();
        result
    }

    /// As [`change`](Self::change), for destructors. Does nothing in a forked child whose parent's thread has
    /// the lock: that thread has a share of the channel, too, so that its state is never dropped here.
    fn change_unless_lost<R>(
        &self,
        change: impl FnOnce(&mut ChannelState<T>, &mut Wakers) -> R,
    ) -> Option<R> {
        // What can be had once is not lost.
        drop(self.state.lock_unless_lost()?);
        Some(self.change(change))
    }

    #[inline]
    pub(super) fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.change(|state, wakers| state.send(value, wakers))
    }

    #[inline]
    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        self.change(ChannelState::receive)
    }

    pub(super) fn close(&self) -> bool {
        self.change(ChannelState::close)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    pub(super) fn len(&self) -> usize {
        self.state.lock().queue.len()
    }

    pub(super) fn add_sender(&self) {
        let mut state = self.state.lock();
        state.senders += 1;
        // From here on it is not known which task has which.
        state.last[0] = Who::NOBODY;
    }

    pub(super) fn add_receiver(&self) {
        let mut state = self.state.lock();
        state.receivers += 1;
        state.last[1] = Who::NOBODY;
    }

    pub(super) fn drop_sender(&self) {
        self.change_unless_lost(|state, wakers| {
            state.senders -= 1;
            // The task that used one of them last may have dropped it.
            state.last[0] = Who::NOBODY;
            if state.senders == 0 {
                state.close(wakers);
            }
        });
    }

    pub(super) fn drop_receiver(&self) {
        let unreceived = self.change_unless_lost(|state, wakers| {
            state.receivers -= 1;
            state.last[1] = Who::NOBODY;
            if state.receivers > 0 {
                return VecDeque::new();
            }
            state.close(wakers);
            std::mem::take(&mut state.queue)
        });
        // The destructors of values are foreign code, so they run outside of the lock.
        drop(unreceived);
    }
}

impl<T> fmt::Debug for Channel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Channel")
            .field("len", &state.queue.len())
            .field("closed", &state.closed)
            .finish_non_exhaustive()
    }
}

impl<T> ChannelState<T> {
    fn send(&mut self, value: T, wakers: &mut Wakers) -> Result<(), TrySendError<T>> {
        if self.closed {
            return Err(TrySendError::Closed(value));
        }
        self.last[0] = current_task();
        let Some(value) = self.give(value, wakers) else {
            return Ok(());
        };
        if self.queue.len() < self.capacity {
            self.queue.push_back(value);
            Ok(())
        } else {
            Err(TrySendError::Full(value))
        }
    }

    /// Gives a value to the first receiver that waits, or returns it if there is none.
    fn give(&mut self, value: T, wakers: &mut Wakers) -> Option<T> {
        let Some((place, waker)) = self.receiving.grant_front() else {
            return Some(value);
        };
        *place = Some(value);
        wakers.push(waker);
        self.in_hand += 1;
        None
    }

    fn receive(&mut self, wakers: &mut Wakers) -> Result<T, TryRecvError> {
        self.last[1] = current_task();
        let first = self.queue.pop_front();
        // The first sender that waits has room now; without a buffer its value is the first. (There is no
        // room if a value had been given back, so that there was one too many.)
        let room = first.is_none() || self.queue.len() < self.capacity;
        let sender = room.then(|| self.sending.grant_front()).flatten();
        let sent = sender.and_then(|(place, waker)| {
            wakers.push(waker);
            place.take()
        });
        match (first, sent) {
            (Some(first), sent) => {
                self.queue.extend(sent);
                Ok(first)
            }
            (None, Some(sent)) => Ok(sent),
            (None, None) if self.is_over() => Err(TryRecvError::Closed),
            (None, None) => Err(TryRecvError::Empty),
        }
    }

    /// Returns true if nothing will ever be received.
    fn is_over(&self) -> bool {
        self.closed && self.in_hand == 0 && self.queue.is_empty()
    }

    /// Ends the waits of senders, and of receivers unless a value may still come back. Returns true if it was
    /// open.
    fn close(&mut self, wakers: &mut Wakers) -> bool {
        let was_open = !std::mem::replace(&mut self.closed, true);
        // Senders that wait keep their values.
        wakers.reserve(self.sending.at_most());
        while let Some((_, waker)) = self.sending.grant_front() {
            wakers.push(waker);
        }
        self.end_if_over(wakers);
        was_open
    }

    /// If nothing more will come, ends the waits of receivers without a value.
    fn end_if_over(&mut self, wakers: &mut Wakers) {
        if self.is_over() {
            wakers.reserve(self.receiving.at_most());
            while let Some((_, waker)) = self.receiving.grant_front() {
                wakers.push(waker);
            }
        }
    }
}

/// Sends, from an item that holds the value.
pub(crate) struct Sending<'a, T>(pub(super) &'a Channel<T>);

impl<T> WaitOp for Sending<'_, T> {
    type State = ChannelState<T>;
    type Item = Option<T>;
    type Output = Result<(), SendError<T>>;
    const HAS_BUDGET: bool = true;

    fn state(&self) -> &Mutex<ChannelState<T>> {
        &self.0.state
    }

    fn list(state: &mut ChannelState<T>) -> &mut WaitList<Option<T>> {
        &mut state.sending
    }

    fn register(&self) {
        // SAFETY: both ends have a share of the memory, which stays until the entry is dropped with it.
        unsafe { self.0.listed.register(self.0) };
    }

    #[inline]
    fn try_now(&self, value: Option<T>) -> Result<Self::Output, Option<T>> {
        if self.0.full.load(Ordering::Relaxed) {
            return Err(value);
        }
        self.0.change(|state, wakers| self.recheck(state, value, wakers))
    }

    #[inline]
    fn recheck(
        &self,
        state: &mut ChannelState<T>,
        value: Option<T>,
        wakers: &mut Wakers,
    ) -> Result<Self::Output, Option<T>> {
        let Some(value) = value else {
            unreachable!("a value is sent once")
        };
        match state.send(value, wakers) {
            Ok(()) => Ok(Ok(())),
            Err(TrySendError::Closed(value)) => Ok(Err(SendError(value))),
            Err(TrySendError::Full(value)) => Err(Some(value)),
        }
    }

    fn granted(&self, value: Option<T>) -> Self::Output {
        value.map_or(Ok(()), |value| Err(SendError(value)))
    }

    fn left(
        &self,
        _: &mut ChannelState<T>,
        value: Option<T>,
        _granted: bool,
        _: &mut Wakers,
    ) -> Option<Option<T>> {
        // A value that is still here was not sent: it is dropped with its sender. No other waiter wants the
        // slot.
        Some(value)
    }
}

/// Receives, into an item that is empty.
pub(crate) struct Receiving<S>(pub(super) S);

impl<T, S: Deref<Target = Channel<T>>> WaitOp for Receiving<S> {
    type State = ChannelState<T>;
    type Item = Option<T>;
    type Output = Result<T, Closed>;
    const HAS_BUDGET: bool = true;

    fn state(&self) -> &Mutex<ChannelState<T>> {
        &self.0.state
    }

    fn list(state: &mut ChannelState<T>) -> &mut WaitList<Option<T>> {
        &mut state.receiving
    }

    fn register(&self) {
        // SAFETY: as for the sender.
        unsafe { self.0.listed.register(&*self.0) };
    }

    #[inline]
    fn try_now(&self, nothing: Option<T>) -> Result<Self::Output, Option<T>> {
        if self.0.empty.load(Ordering::Relaxed) {
            return Err(nothing);
        }
        self.0
            .change(|state, wakers| self.recheck(state, nothing, wakers))
    }

    #[inline]
    fn recheck(
        &self,
        state: &mut ChannelState<T>,
        nothing: Option<T>,
        wakers: &mut Wakers,
    ) -> Result<Self::Output, Option<T>> {
        match state.receive(wakers) {
            Ok(value) => Ok(Ok(value)),
            Err(TryRecvError::Closed) => Ok(Err(Closed)),
            Err(TryRecvError::Empty) => Err(nothing),
        }
    }

    fn taken(&self, state: &mut ChannelState<T>, value: &Option<T>, wakers: &mut Wakers) {
        if value.is_some() {
            state.in_hand -= 1;
            state.end_if_over(wakers);
        }
    }

    fn granted(&self, value: Option<T>) -> Self::Output {
        value.ok_or(Closed)
    }

    fn left(
        &self,
        state: &mut ChannelState<T>,
        value: Option<T>,
        _granted: bool,
        wakers: &mut Wakers,
    ) -> Option<Option<T>> {
        let value = value?;
        state.in_hand -= 1;
        if let Some(value) = state.give(value, wakers) {
            // The value was the first, and is again; therefore the queue may exceed its capacity.
            state.queue.push_front(value);
        }
        None
    }
}
