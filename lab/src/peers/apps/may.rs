//! may's `sync`, in direct style. Its channels have no bound: a semaphore counts the room that is left.

use std::sync::{Arc, PoisonError};

use ::may::sync::{Mutex, Semphore, mpmc, mpsc};

use super::{Apps, OPEN, Store, Unit};
use crate::peers::may::Verbs;

/// The sending end of a channel, and how many more values may be in it.
pub(crate) struct Sender<T> {
    values: mpsc::Sender<T>,
    room: Arc<Semphore>,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            values: self.values.clone(),
            room: Arc::clone(&self.room),
        }
    }
}

/// The receiving end; nobody drops it before the senders are gone.
pub(crate) struct Receiver<T> {
    values: mpsc::Receiver<T>,
    room: Arc<Semphore>,
}

/// A channel that several empty, and how many more units may be in it.
pub(crate) struct Buffer<T> {
    sender: mpmc::Sender<T>,
    receiver: mpmc::Receiver<T>,
    room: Semphore,
}

impl<T: Unit> Store<T> for Buffer<T> {
    fn with_room(room: usize) -> Self {
        let (sender, receiver) = mpmc::channel();
        let room = Semphore::new(room);
        Self {
            sender,
            receiver,
            room,
        }
    }

    #[inline]
    async fn put(&self, unit: T) {
        self.room.wait();
        self.sender.send(unit).expect(OPEN);
    }

    #[inline]
    async fn take(&self) -> T {
        let unit = self.receiver.recv().expect(OPEN);
        self.room.post();
        unit
    }
}

impl Apps for Verbs {
    type Sender<T: Send + 'static> = Sender<T>;
    type Receiver<T: Send + 'static> = Receiver<T>;
    type Semaphore = Semphore;
    type Lock<T: Send + 'static> = Mutex<T>;
    type Buffer<T: Unit> = Buffer<T>;

    fn mailbox<T: Send + 'static>(room: usize) -> (Sender<T>, Receiver<T>) {
        let (sender, receiver) = mpsc::channel();
        let room = Arc::new(Semphore::new(room));
        let sender = Sender {
            values: sender,
            room: Arc::clone(&room),
        };
        let receiver = Receiver {
            values: receiver,
            room,
        };
        (sender, receiver)
    }

    #[inline]
    async fn send<T: Send + 'static>(to: &Sender<T>, value: T) -> bool {
        to.room.wait();
        to.values.send(value).is_ok()
    }

    #[inline]
    async fn recv<T: Send + 'static>(from: &mut Receiver<T>) -> Option<T> {
        let value = from.values.recv().ok()?;
        from.room.post();
        Some(value)
    }

    fn semaphore(permits: usize) -> Semphore {
        Semphore::new(permits)
    }

    #[inline]
    async fn acquire(semaphore: &Semphore) {
        semaphore.wait();
    }

    #[inline]
    fn release(semaphore: &Semphore) {
        semaphore.post();
    }

    fn lock<T: Send + 'static>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }

    #[inline]
    async fn with<T: Send + 'static, R: Send>(lock: &Mutex<T>, change: impl FnOnce(&mut T) -> R + Send) -> R {
        change(&mut *lock.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
