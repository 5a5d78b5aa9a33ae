//! All sources of a driver, by their keys.
//!
//! A key is `generation << 32 | index`. The generation changes when a place is given up, so an event that was on its way for an
//! old source finds nobody, even if the place, or the descriptor's number, is in use again.

use super::poller::Ready;
use super::source::{Source, Way};
use std::io;
use std::sync::Arc;
use std::task::Waker;
use warpweft_platform::sync::Mutex;

#[derive(Debug, Default)]
pub(super) struct Sources(Mutex<Slab>);

#[derive(Debug, Default)]
struct Slab {
    places: Vec<Place>,
    /// The first vacant place, plus one.
    vacant: u32,
    closed: bool,
}

#[derive(Debug)]
struct Place {
    generation: u32,
    /// The next vacant place, plus one.
    next: u32,
    source: Option<Arc<Source>>,
}

impl Sources {
    /// A new source and its key.
    ///
    /// # Errors
    ///
    /// The driver is closed, or has 2³² - 1 sources.
    pub(super) fn insert(&self) -> io::Result<(usize, Arc<Source>)> {
        let source = Arc::new(Source::new());
        let mut slab = self.0.lock();
        if slab.closed {
            return Err(super::shut_down());
        }
        if slab.vacant == 0 {
            // The last key of all is the poller's own.
            let fits = u32::try_from(slab.places.len()).is_ok_and(|count| count < u32::MAX - 1);
            if !fits {
                return Err(io::Error::new(
                    io::ErrorKind::QuotaExceeded,
                    "a driver has 4294967294 sources at most",
                ));
            }
            slab.places.push(Place {
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

    /// The source of that key is gone.
    pub(super) fn remove(&self, key: usize) {
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

    /// Tells the sources what happened to them; those who wait are added to `wakers`.
    pub(super) fn happened(&self, events: impl Iterator<Item = Ready>, wakers: &mut Vec<Waker>) {
        let slab = self.0.lock();
        for event in events {
            let (index, generation) = split(event.key);
            let place = slab.places.get(index as usize);
            // Stale: the source went while the event was on its way.
            let Some(source) = place
                .filter(|place| place.generation == generation)
                .and_then(|place| place.source.as_ref())
            else {
                continue;
            };
            if event.readable {
                source.happened(Way::In, wakers);
            }
            if event.writable {
                source.happened(Way::Out, wakers);
            }
        }
    }

    /// There will be no events any more, nor new sources.
    pub(super) fn close(&self, wakers: &mut Vec<Waker>) {
        let mut slab = self.0.lock();
        slab.closed = true;
        for source in slab.places.iter().filter_map(|place| place.source.as_ref()) {
            source.close(wakers);
        }
    }
}

fn split(key: usize) -> (u32, u32) {
    // Both halves of a 64-bit word.
    (key as u32, (key >> 32) as u32)
}
