//! A register of objects that a dump may look at, from any thread, while they live.
//!
//! # Invariants
//!
//! - An entry points at an object that is alive and stays in its place. Its owner removes the entry before
//!   either changes, and the removal waits for a dump that looks at the object.
//! - A dump holds the lock of one part at a time, and for a limited number of entries.
//!
//! A thread enters objects into a part of its own, as far as there are parts. So the lines of a part stay
//! with one core, or a few.

use std::fmt;
use std::ptr::NonNull;
use warpweft_platform::CachePadded;
use warpweft_platform::random::Rng;
use warpweft_platform::sync::Mutex;

/// The number of parts, so that threads seldom contend. One is enough for the checkers.
const PARTS: usize = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    1
} else {
    32
};
/// How many entries a dump looks at under one lock.
const BATCH: usize = 128;
/// The end of the list of vacant slots.
const NONE: usize = usize::MAX;

warpweft_platform::thread_word!(static PART: Option<usize> = None);

/// Returns the part of the calling thread: one at random, and always the same one.
fn own_part() -> usize {
    PART.with(|part| {
        let own = part.get().unwrap_or_else(|| Rng::thread_below(PARTS));
        part.set(Some(own));
        own
    })
}

/// Objects of one kind, of which some may come and go at any time.
///
/// Inserting and removing cost a lock that is mostly free, and a few stores. A register takes 4 KiB.
pub struct Registry<T: ?Sized> {
    parts: [CachePadded<Mutex<Slots<T>>>; PARTS],
}

struct Slots<T: ?Sized> {
    slots: Vec<Slot<T>>,
    vacant: usize,
}

enum Slot<T: ?Sized> {
    /// The next vacant slot.
    Vacant(usize),
    Object(NonNull<T>),
}

/// The place of an object in its register. Not `Clone`, so that it is removed once.
#[derive(Debug)]
#[must_use = "the object is in the register until it is removed"]
pub struct Entry {
    part: usize,
    slot: usize,
}

// SAFETY: the pointers are followed by `for_each` only, under the lock. By the contract of `insert` any
// thread may do so.
unsafe impl<T: ?Sized> Send for Slots<T> {}

impl<T: ?Sized> Default for Registry<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: ?Sized> Registry<T> {
    /// Returns an empty register.
    #[must_use]
    pub fn new() -> Self {
        let part = |_| {
            CachePadded::new(Mutex::new(Slots {
                slots: Vec::new(),
                vacant: NONE,
            }))
        };
        Self {
            parts: std::array::from_fn(part),
        }
    }

    /// Enters an object.
    ///
    /// # Safety
    ///
    /// The object is valid, and does not move, until [`remove`](Self::remove) has returned for this entry.
    /// The entry is removed from this register. The functions with which `for_each` looks at the object may
    /// be called on any thread.
    pub unsafe fn insert(&self, object: NonNull<T>) -> Entry {
        let part = own_part();
        // In a forked child the lock may be lost. Then the object is not seen.
        let Some(mut slots) = self.parts[part].lock_unless_lost() else {
            return Entry { part, slot: NONE };
        };
        let slot = slots.vacant;
        let slot = if slot == NONE {
            slots.slots.push(Slot::Object(object));
            slots.slots.len() - 1
        } else {
            if let Slot::Vacant(next) = std::mem::replace(&mut slots.slots[slot], Slot::Object(object)) {
                slots.vacant = next;
            }
            slot
        };
        Entry { part, slot }
    }

    /// Removes an object. A dump that looks at it has finished when this returns.
    #[allow(clippy::needless_pass_by_value, reason = "an entry is removed once")]
    pub fn remove(&self, entry: Entry) {
        // In a forked child the lock may be lost. Then no thread reads the entries.
        if entry.slot == NONE {
            return;
        }
        if let Some(mut slots) = self.parts[entry.part].lock_unless_lost() {
            slots.slots[entry.slot] = Slot::Vacant(slots.vacant);
            slots.vacant = entry.slot;
        }
    }

    /// Calls `look` for each object. Objects that come or go meanwhile may be left out.
    ///
    /// `look` runs under a lock: it is short, and neither enters nor removes objects.
    pub fn for_each(&self, mut look: impl FnMut(&T)) {
        self.each(&mut look);
    }

    /// The same, compiled once for all functions that look.
    fn each(&self, look: &mut dyn FnMut(&T)) {
        for part in &self.parts {
            let mut from = 0;
            loop {
                // In a forked child the lock may be lost, and with it the objects.
                let Some(slots) = part.lock_unless_lost() else {
                    break;
                };
                let batch = slots.slots.iter().skip(from).take(BATCH);
                for slot in batch {
                    if let Slot::Object(object) = slot {
                        // SAFETY: an entry is removed, under this lock, before its object goes.
                        look(unsafe { object.as_ref() });
                    }
                }
                from += BATCH;
                if from >= slots.slots.len() {
                    break;
                }
            }
        }
    }
}

impl<T: ?Sized> fmt::Debug for Registry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Register").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::Registry;
    use std::ptr::NonNull;
    use std::sync::Arc;
    use warpweft_platform::thread::spawn;

    #[test]
    fn what_was_removed_is_not_seen_and_its_slot_is_used_again() {
        let register = Registry::<usize>::new();
        let numbers: Vec<usize> = (0..1000).collect();
        // SAFETY: the numbers outlive the register's use of them.
        let enter = |number: &usize| unsafe { register.insert(NonNull::from(number)) };
        let mut entries: Vec<_> = numbers.iter().map(enter).collect();
        let sum = || {
            let mut sum = 0;
            register.for_each(|number| sum += number);
            sum
        };
        assert_eq!(sum(), 499_500);
        for entry in entries.drain(500..) {
            register.remove(entry);
        }
        assert_eq!(sum(), 124_750);
        entries.extend(numbers[500..].iter().map(enter));
        assert_eq!(sum(), 499_500);
        let slots: usize = register.parts.iter().map(|part| part.lock().slots.len()).sum();
        assert!(slots < 1100, "{slots} slots for 1000 objects");
        entries.into_iter().for_each(|entry| register.remove(entry));
        assert_eq!(sum(), 0);
    }

    /// So the lines of a part do not go from core to core.
    #[test]
    fn a_thread_enters_into_one_part_and_threads_into_several() {
        static NUMBER: usize = 7;
        let register = Arc::new(Registry::<usize>::new());
        let threads: Vec<_> = (0..20)
            .map(|_| {
                let register = Arc::clone(&register);
                spawn(move || {
                    // SAFETY: the number is a static.
                    let enter = || unsafe { register.insert(NonNull::from(&NUMBER)) };
                    let (first, second) = (enter(), enter());
                    let part = first.part;
                    assert_eq!(second.part, part);
                    register.remove(first);
                    register.remove(second);
                    part
                })
            })
            .collect();
        let parts: Vec<usize> = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect();
        // All are in one part by chance once in 32 to the power of 19.
        assert!(parts.iter().any(|&part| part != parts[0]), "{parts:?}");
    }
}
