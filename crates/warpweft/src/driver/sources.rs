//! All sources of a driver, by their keys.
//!
//! A key is `generation << 32 | index`. The generation changes when a place is given up. So an event that was
//! on its way for an old source finds none, even if the place or the descriptor's number is in use again.

use super::source::{Direction, Source};
use crate::observe::raw::RawWait;
use std::io;
use std::sync::Arc;
use std::task::Waker;
use warpweft_platform::sync::Mutex;

/// An event: a source has become ready.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ready {
    pub(crate) key: usize,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The stream has ended or broken, or urgent data have arrived.
    pub(crate) marked: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Sources(Mutex<SourceSlab>);

#[derive(Debug, Default)]
struct SourceSlab {
    places: Vec<SourceSlot>,
    /// The first vacant place, plus one.
    vacant: u32,
    closed: bool,
}

#[derive(Debug)]
struct SourceSlot {
    generation: u32,
    /// The next vacant place, plus one.
    next: u32,
    source: Option<Arc<Source>>,
}

impl Sources {
    /// Adds a new source. Returns it with its key.
    ///
    /// # Errors
    ///
    /// The driver is closed, or has 2³² - 1 sources.
    pub(crate) fn insert(&self) -> io::Result<(usize, Arc<Source>)> {
        let source = Arc::new(Source::new());
        let mut slab = self.0.lock();
        if slab.closed {
            return Err(super::shut_down());
        }
        if slab.vacant == 0 {
            // The last key of all belongs to the poller.
            let fits = u32::try_from(slab.places.len()).is_ok_and(|count| count < u32::MAX - 1);
            if !fits {
                return Err(io::Error::new(
                    io::ErrorKind::QuotaExceeded,
                    "a driver has 4294967294 sources at most",
                ));
            }
            slab.places.push(SourceSlot {
                generation: 0,
                next: 0,
                source: None,
            });
            slab.vacant = slab.places.len() as u32;
        }
        let index = slab.vacant - 1;
        let place = &mut slab.places[index as usize];
        let next = place.next;
        place.source = Some(Arc::clone(&source));
        let key = (place.generation as usize) << 32 | index as usize;
        slab.vacant = next;
        Ok((key, source))
    }

    /// Returns the number of sources; 0 in a forked child where the lock is lost. Takes the lock, and looks
    /// at each place.
    pub(crate) fn len(&self) -> usize {
        let slab = self.0.lock_unless_lost();
        slab.map_or(0, |slab| {
            slab.places.iter().filter(|place| place.source.is_some()).count()
        })
    }

    pub(crate) fn remove(&self, key: usize) {
        let (index, generation) = split(key);
        let mut slab = self.0.lock();
        let next = slab.vacant;
        let place = &mut slab.places[index as usize];
        debug_assert_eq!(place.generation, generation);
        let source = place.source.take();
        place.generation = place.generation.wrapping_add(1);
        place.next = next;
        slab.vacant = index + 1;
        drop(slab);
        drop(source);
    }

    /// Passes events to their sources. The waiters are added to `wakers`.
    pub(crate) fn happened(&self, events: impl Iterator<Item = Ready>, wakers: &mut Vec<Waker>) {
        let slab = self.0.lock();
        for event in events {
            let (index, generation) = split(event.key);
            let place = slab.places.get(index as usize);
            // Stale: the source was removed while the event was on its way.
            let Some(source) = place
                .filter(|place| place.generation == generation)
                .and_then(|place| place.source.as_ref())
            else {
                continue;
            };
            if event.readable {
                source.happened(Direction::In, event.marked, wakers);
            }
            if event.writable {
                source.happened(Direction::Out, event.marked, wakers);
            }
        }
    }

    /// Closes the table: there will be no events and no new sources.
    pub(crate) fn close(&self, wakers: &mut Vec<Waker>) {
        let mut slab = self.0.lock();
        slab.closed = true;
        for source in slab.places.iter().filter_map(|place| place.source.as_ref()) {
            source.close(wakers);
        }
    }

    /// Calls `see` for each task that waits for a source.
    pub(crate) fn each(&self, see: &mut dyn FnMut(RawWait)) {
        // Not under the lock of all: the poller needs it.
        let sources: Vec<_> = match self.0.lock_unless_lost() {
            Some(slab) => slab
                .places
                .iter()
                .filter_map(|place| place.source.clone())
                .collect(),
            None => return,
        };
        sources.iter().for_each(|source| source.each(see));
    }
}

fn split(key: usize) -> (u32, u32) {
    // Both halves of a 64-bit word.
    (key as u32, (key >> 32) as u32)
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{Direction, Ready, Sources};
    use std::io::ErrorKind;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn blocks() -> std::io::Result<()> {
        Err(ErrorKind::WouldBlock.into())
    }

    fn never((): &()) -> bool {
        false
    }

    fn ready(key: usize) -> std::iter::Once<Ready> {
        std::iter::once(Ready {
            key,
            readable: true,
            writable: false,
            marked: false,
        })
    }

    #[test]
    fn an_event_of_an_old_source_finds_nobody() {
        let sources = Sources::default();
        let (old, source) = sources.insert().expect("open");
        sources.remove(old);
        drop(source);
        let (new, source) = sources.insert().expect("open");
        assert_eq!(old as u32, new as u32, "the place is used again");
        let cx = Context::from_waker(Waker::noop());
        let mut waiter_id = source.waiter_id(Direction::In);
        assert!(waiter_id.poll(&cx, || Ok(()), blocks, never).is_pending());
        let mut wakers = Vec::new();
        sources.happened(ready(old), &mut wakers);
        assert!(wakers.is_empty());
        sources.happened(ready(usize::MAX >> 1), &mut wakers);
        assert!(wakers.is_empty(), "nor one of a place that never was");
        sources.happened(ready(new), &mut wakers);
        assert_eq!(wakers.len(), 1);
    }

    #[test]
    fn an_event_during_an_attempt_that_blocks_is_not_forgotten() {
        let sources = Sources::default();
        let (key, source) = sources.insert().expect("open");
        let cx = Context::from_waker(Waker::noop());
        let mut attempts = 0;
        let polled = source.waiter_id(Direction::In).poll(
            &cx,
            || Ok(()),
            || {
                attempts += 1;
                if attempts == 2 {
                    return Ok(());
                }
                sources.happened(ready(key), &mut Vec::new());
                blocks()
            },
            never,
        );
        assert!(polled.is_ready());
    }

    /// Reads less than a buffer from the source with that key. Returns the number of attempts of the next
    /// read.
    fn attempts_after_a_short_read(sources: &Sources, source: &super::Source, during: impl Fn()) -> usize {
        let cx = Context::from_waker(Waker::noop());
        let mut waiter_id = source.waiter_id(Direction::In);
        let read = || {
            during();
            Ok(1)
        };
        assert!(waiter_id.poll(&cx, || Ok(()), read, |read| *read < 2).is_ready());
        let mut attempts = 0;
        let next = || {
            attempts += 1;
            blocks()
        };
        assert!(waiter_id.poll(&cx, || Ok(()), next, never).is_pending());
        assert!(!sources.0.lock().closed);
        attempts
    }

    #[test]
    fn after_a_short_read_nobody_asks_the_system_in_vain() {
        let sources = Sources::default();
        let (_, source) = sources.insert().expect("open");
        assert_eq!(attempts_after_a_short_read(&sources, &source, || ()), 0);
    }

    #[test]
    fn a_short_read_does_not_hide_what_came_meanwhile() {
        let sources = Sources::default();
        let (key, source) = sources.insert().expect("open");
        let during = || sources.happened(ready(key), &mut Vec::new());
        assert_eq!(attempts_after_a_short_read(&sources, &source, during), 1);
    }

    #[test]
    fn a_short_read_does_not_hide_an_end_that_was_told_before() {
        let sources = Sources::default();
        let (key, source) = sources.insert().expect("open");
        let end = ready(key).map(|ready| Ready {
            marked: true,
            ..ready
        });
        sources.happened(end, &mut Vec::new());
        assert_eq!(attempts_after_a_short_read(&sources, &source, || ()), 1);
    }

    #[test]
    fn generations_wrap() {
        let sources = Sources::default();
        let (key, _) = sources.insert().expect("open");
        sources.0.lock().places[0].generation = u32::MAX;
        sources.remove(key | (u32::MAX as usize) << 32);
        let (key, _) = sources.insert().expect("open");
        assert_eq!(key, 0);
    }

    #[test]
    fn a_waiter_with_an_id_leaves_with_it() {
        let sources = Sources::default();
        let (_, source) = sources.insert().expect("open");
        let cx = Context::from_waker(Waker::noop());
        let mut ids: Vec<_> = (0..100).map(|_| source.waiter_id(Direction::Out)).collect();
        for _ in 0..3 {
            for waiter_id in &mut ids {
                assert!(waiter_id.poll(&cx, || Ok(()), blocks, never).is_pending());
            }
        }
        assert_eq!(
            (source.waiting(Direction::Out), source.waiting(Direction::In)),
            (100, 0)
        );
        drop(ids);
        assert_eq!(source.waiting(Direction::Out), 0);
    }

    /// An event has taken the first waiter, and another one has got its place since.
    #[test]
    fn a_late_leave_takes_no_other_waiter_with_it() {
        let sources = Sources::default();
        let (key, source) = sources.insert().expect("open");
        let cx = Context::from_waker(Waker::noop());
        let mut first = source.waiter_id(Direction::In);
        assert!(first.poll(&cx, || Ok(()), blocks, never).is_pending());
        let mut wakers = Vec::new();
        sources.happened(ready(key), &mut wakers);
        let mut second = source.waiter_id(Direction::In);
        assert!(second.poll(&cx, || Ok(()), blocks, never).is_pending());
        drop(first);
        assert_eq!(source.waiting(Direction::In), 1);
        sources.happened(ready(key), &mut wakers);
        assert_eq!(wakers.len(), 2);
    }

    #[test]
    fn waiters_without_an_id_are_few() {
        let sources = Sources::default();
        let (_, source) = sources.insert().expect("open");
        let counts: Vec<_> = (0..20).map(|_| std::sync::Arc::new(Count::default())).collect();
        for count in counts.iter().flat_map(|count| [count, count]) {
            let waker = Waker::from(std::sync::Arc::clone(count));
            let polled = source.poll_anonymous(
                Direction::In,
                &Context::from_waker(&waker),
                || Ok(()),
                blocks,
                never,
            );
            assert!(polled.is_pending());
        }
        let waiting = source.waiting(Direction::In);
        assert!(waiting <= 8, "{waiting}");
        let woken: Vec<_> = counts
            .iter()
            .map(|count| count.0.load(Ordering::Relaxed))
            .collect();
        let looked = counts.len() - waiting;
        assert!(
            woken.iter().take(looked).all(|woken| *woken == 1),
            "the others look again: {woken:?}"
        );
        assert!(woken.iter().skip(looked).all(|woken| *woken == 0), "{woken:?}");
    }

    /// Tasks that look again whenever they are woken, as one acceptor for each of many workers.
    #[test]
    fn many_live_waiters_without_an_id_come_to_rest() {
        for tasks in [9, 17, 100] {
            let sources = Sources::default();
            let (_, source) = sources.insert().expect("open");
            let counts: Vec<_> = (0..tasks)
                .map(|_| std::sync::Arc::new(Count::default()))
                .collect();
            let mut looked = vec![0; tasks];
            let mut rounds = 0;
            loop {
                let due = |task: &usize| looked[*task] <= counts[*task].0.load(Ordering::Relaxed);
                let due: Vec<_> = (0..tasks).filter(due).collect();
                if due.is_empty() {
                    break;
                }
                for task in due {
                    looked[task] = counts[task].0.load(Ordering::Relaxed) + 1;
                    let waker = Waker::from(std::sync::Arc::clone(&counts[task]));
                    let cx = Context::from_waker(&waker);
                    let polled = source.poll_anonymous(Direction::In, &cx, || Ok(()), blocks, never);
                    assert!(polled.is_pending());
                }
                rounds += 1;
                assert!(rounds < 50, "{tasks} tasks wake each other without end");
            }
            assert_eq!(source.waiting(Direction::In), tasks);
        }
    }

    #[test]
    fn a_closed_driver_is_an_error_for_old_and_new() {
        let sources = Sources::default();
        let (_, source) = sources.insert().expect("open");
        let cx = Context::from_waker(Waker::noop());
        let mut waiter_id = source.waiter_id(Direction::In);
        assert!(waiter_id.poll(&cx, || Ok(()), blocks, never).is_pending());
        let mut wakers = Vec::new();
        sources.close(&mut wakers);
        assert_eq!(wakers.len(), 1);
        let Poll::Ready(Err(error)) = waiter_id.poll(&cx, || Ok(()), blocks, never) else {
            panic!("it is closed")
        };
        assert_eq!(error.kind(), ErrorKind::NotConnected);
        assert!(sources.insert().is_err());
    }
}
