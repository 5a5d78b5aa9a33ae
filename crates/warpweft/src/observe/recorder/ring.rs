//! A ring of the latest records of one writer, which a reader never stops.
//!
//! ```text
//!   writer   slot ◀─ record (two words, Release) ── head += 1 (Release)          it never waits
//!   reader   head ── copy the slots ── fence ── head again: what was overrun meanwhile is discarded
//! ```
//!
//! A ring begins small and grows while its records come so fast that they would be overwritten too young.
//! Then the writer continues in a buffer of twice the size. The old buffers stay, so that a reader needs no
//! lock to use them, and their records are older than all later ones.
//!
//! # Invariants
//!
//! - One thread at a time writes. Threads that take turns at it synchronise by other means.
//! - A slot is stored with Release. So a reader whose copy has a part of record `n + length` sees the head at
//!   `n + length` or later when it looks again, and discards record `n`.
//! - The head is stored with Release, after its record. So a reader sees all of each record before the head.
//! - A buffer is published once, with Release, and is freed with the ring.

use std::ptr;
use warpweft_platform::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
use warpweft_platform::delay;

/// A record: two words that mean something to their writer and their reader. The first one is never 0.
pub(crate) type Record = [u64; 2];

/// The number of records of the first buffer.
pub(crate) const FIRST: usize = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    2
} else {
    256
};
/// The most buffers of a ring.
const BUFFERS: usize = if cfg!(warpweft_loom) { 2 } else { 24 };

#[derive(Debug)]
struct Buffer {
    /// The number of records that were ever written here.
    head: AtomicU64,
    slots: Box<[[AtomicU64; 2]]>,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Ring {
    /// The buffers in the order of their use; null where there is none yet.
    buffers: [AtomicPtr<Buffer>; BUFFERS],
    /// The buffer that is written to; null before the first record.
    current: AtomicPtr<Buffer>,
    /// The largest number of records, of all buffers together.
    most: usize,
}

/// The slot of a writer's next record.
#[derive(Debug)]
pub(crate) struct NextSlot<'ring> {
    buffer: &'ring Buffer,
    head: u64,
}

impl NextSlot<'_> {
    /// Writes the record and publishes it.
    #[inline]
    pub(crate) fn write(self, record: Record) {
        self.buffer.write(self.head, record);
    }
}

// SAFETY: it owns its buffers, whose parts are atomics.
unsafe impl Send for Ring {}
// SAFETY: as above; one thread at a time writes, by the contract of `write`.
unsafe impl Sync for Ring {}

impl Ring {
    /// Makes a ring that will have at most `bytes` bytes. Nothing is allocated before the first record.
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            buffers: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            current: AtomicPtr::new(ptr::null_mut()),
            most: bytes / size_of::<Record>(),
        }
    }

    /// Appends a record. `is_young` says of the record that is about to be overwritten whether it should be
    /// kept; the ring grows then, if it may. Costs a few nanoseconds, without a read-modify-write.
    ///
    /// # Safety
    ///
    /// No other thread writes meanwhile, and what earlier writers did happened before.
    #[inline]
    pub(crate) unsafe fn write(&self, record: Record, is_young: impl FnOnce(Record) -> bool) {
        // SAFETY: by contract.
        match unsafe { self.next_slot() } {
            Some(slot) => slot.write(record),
            None => self.write_at_lap(record, is_young),
        }
    }

    /// Returns the slot of the next record. Returns `None` if the record needs a decision: it is the first
    /// one of the ring or the last one of a lap, and [`write`](Self::write) appends it.
    /// Contract: as for [`write`](Self::write), until the slot was written or dropped.
    #[inline]
    pub(crate) unsafe fn next_slot(&self) -> Option<NextSlot<'_>> {
        let buffer = self.current()?;
        let head = buffer.head.load(Ordering::Relaxed);
        (!buffer.is_first(head + 1)).then_some(NextSlot { buffer, head })
    }

    /// Appends a record, where [`next_slot`](Self::next_slot) has none. Only [`write`](Self::write) calls
    /// it, whose caller keeps the contract.
    // Not inlined, so that what calls it where it is rare need not save registers.
    #[cold]
    #[inline(never)]
    fn write_at_lap(&self, record: Record, is_young: impl FnOnce(Record) -> bool) {
        let Some(buffer) = self.current() else {
            return self.write_first(record);
        };
        let head = buffer.head.load(Ordering::Relaxed);
        // Once in a lap, and before the last slot is used: so no slot of a buffer that is left was
        // overwritten while a reader was there.
        if is_young(buffer.get(head + 1)) && self.grow(buffer, record) {
            return;
        }
        buffer.write(head, record);
    }

    fn current(&self) -> Option<&Buffer> {
        // SAFETY: null, or a buffer, which is freed with the ring. The writer itself has published it, or an
        // earlier writer, before this one.
        unsafe { self.current.load(Ordering::Relaxed).as_ref() }
    }

    fn write_first(&self, record: Record) {
        if self.most > 0 {
            self.add(0, self.first(), record);
        }
    }

    /// Returns the number of records of the first buffer, if there is one.
    fn first(&self) -> usize {
        FIRST.min(largest_power(self.most))
    }

    /// Continues in a buffer of twice the size with `record`, if there is room for it.
    fn grow(&self, present: &Buffer, record: Record) -> bool {
        let is_free = |buffer: &AtomicPtr<Buffer>| buffer.load(Ordering::Relaxed).is_null();
        let Some(index) = self.buffers.iter().position(is_free) else {
            return false;
        };
        let length = present.slots.len() * 2;
        // All buffers until now have `length - first` records together, and with the new one
        // `2 * length - first`.
        let fits = length * 2 <= self.most + self.first();
        if fits {
            self.add(index, length, record);
        }
        fits
    }

    fn add(&self, index: usize, length: usize, record: Record) {
        let buffer = Box::new(Buffer {
            head: AtomicU64::new(0),
            slots: empty(length),
        });
        buffer.write(0, record);
        let buffer = Box::into_raw(buffer);
        self.current.store(buffer, Ordering::Relaxed);
        // Ordering: Release publishes the buffer and its first record.
        self.buffers[index].store(buffer, Ordering::Release);
    }

    /// Returns true if [`read`](Self::read) lacks records, because later ones took their places. From any
    /// thread, at any time.
    pub(crate) fn has_lost(&self) -> bool {
        // Ordering: Acquire pairs with `add`.
        // SAFETY: null, or a buffer, which is freed with the ring.
        let buffer = |at: &AtomicPtr<Buffer>| unsafe { at.load(Ordering::Acquire).as_ref() };
        let mut buffers = self.buffers.iter().map_while(buffer);
        buffers.any(|buffer| buffer.head.load(Ordering::Relaxed) >= buffer.slots.len() as u64)
    }

    /// Returns copies of the latest records, from old to new, without a gap. From any thread, at any time.
    pub(crate) fn read(&self) -> Vec<Record> {
        let mut records = Vec::new();
        // Ordering: Acquire pairs with `add`.
        // SAFETY: null, or a buffer, which is freed with the ring.
        let buffer = |at: usize| unsafe { self.buffers.get(at)?.load(Ordering::Acquire).as_ref() };
        let mut next = buffer(0);
        for at in 1.. {
            let Some(present) = next else {
                break;
            };
            next = buffer(at);
            present.read(&mut records);
        }
        records
    }
}

impl Buffer {
    #[inline]
    fn slot(&self, at: u64) -> &[AtomicU64; 2] {
        // The length is a power of two.
        &self.slots[at as usize & (self.slots.len() - 1)]
    }

    /// Returns true if record `at` has the first slot.
    #[inline]
    fn is_first(&self, at: u64) -> bool {
        at as usize & (self.slots.len() - 1) == 0
    }

    /// Returns what is in the slot of record `at`.
    #[inline]
    fn get(&self, at: u64) -> Record {
        let slot = self.slot(at);
        [slot[0].load(Ordering::Relaxed), slot[1].load(Ordering::Relaxed)]
    }

    #[inline]
    fn write(&self, head: u64, record: Record) {
        let slot = self.slot(head);
        // Ordering: Release, so that a reader that sees a part of this record sees the head from before it.
        slot[0].store(record[0], Ordering::Release);
        slot[1].store(record[1], Ordering::Release);
        // Ordering: Release publishes the record.
        self.head.store(head + 1, Ordering::Release);
    }

    /// Appends copies of the records. If some were overwritten, what was there before is discarded: it does
    /// not join up with the rest.
    fn read(&self, records: &mut Vec<Record>) {
        let length = self.slots.len() as u64;
        // Ordering: Acquire pairs with the store of the head: each record before it is there.
        let head = self.head.load(Ordering::Acquire);
        let first = head.saturating_sub(length);
        let base = records.len();
        records.extend((first..head).map(|at| self.get(at)));
        delay::point("ring.read: copied");
        // Ordering: the fence pairs with the stores of the slots. If the copy has a part of a later record,
        // the head is seen at that record or later.
        fence(Ordering::Acquire);
        let later = self.head.load(Ordering::Relaxed);
        // The record at `later` may be half written, in the place of `later - length`.
        let valid = (later + 1).saturating_sub(length).clamp(first, head);
        let kept = base + (valid - first) as usize;
        records.drain(if valid > 0 { 0 } else { base }..kept);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for buffer in &self.buffers {
            let buffer = buffer.load(Ordering::Relaxed);
            if !buffer.is_null() {
                // SAFETY: `add` made it of a box. With the ring exclusively owned, nothing refers to it.
                drop(unsafe { Box::from_raw(buffer) });
            }
        }
    }
}

/// Returns slots of zeros. Large ones take no memory before they are used.
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
fn empty(length: usize) -> Box<[[AtomicU64; 2]]> {
    let zeros = Box::into_raw(vec![[0_u64; 2]; length].into_boxed_slice());
    // SAFETY: it was a box just now. An atomic integer has the layout of the integer.
    unsafe { Box::from_raw(zeros as *mut [[AtomicU64; 2]]) }
}

#[cfg(any(warpweft_loom, warpweft_shuttle))]
fn empty(length: usize) -> Box<[[AtomicU64; 2]]> {
    (0..length)
        .map(|_| [AtomicU64::new(0), AtomicU64::new(0)])
        .collect()
}

fn largest_power(at_most: usize) -> usize {
    1 << at_most.ilog2()
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{FIRST, Ring};

    fn write(ring: &Ring, numbers: impl Iterator<Item = u64>, young: bool) {
        for number in numbers {
            // SAFETY: the test has one thread.
            unsafe { ring.write([number, !number], |_| young) };
        }
    }

    fn read(ring: &Ring) -> Vec<u64> {
        let records = ring.read();
        assert!(records.iter().all(|&[number, other]| other == !number));
        records.into_iter().map(|[number, _]| number).collect()
    }

    #[test]
    fn the_latest_records_are_there() {
        let ring = Ring::new(FIRST * 16);
        assert_eq!(read(&ring), []);
        write(&ring, 1..4, false);
        assert_eq!(read(&ring), [1, 2, 3]);
        assert!(!ring.has_lost());
        let end = FIRST as u64 * 3;
        write(&ring, 4..end, false);
        let all = read(&ring);
        // The next record's place is not read: it may be half written.
        assert_eq!(all, (end - FIRST as u64 + 1..end).collect::<Vec<_>>());
        assert!(ring.has_lost());
    }

    #[test]
    fn a_ring_grows_while_its_records_are_young_and_within_its_bytes() {
        let bytes = FIRST * 16 * 7;
        let ring = Ring::new(bytes);
        // Buffers of 1, 2 and 4 times the first one's size. One slot of each is not used before it
        // overwrites.
        let (full, end) = (FIRST as u64 * 7 - 2, FIRST as u64 * 100);
        for number in 1..full {
            write(&ring, number..number + 1, true);
            assert_eq!(read(&ring).len() as u64, number);
            assert!(!ring.has_lost(), "{number}");
        }
        write(&ring, full..end, true);
        // Only the last buffer has what joins up.
        assert_eq!(read(&ring), (end - FIRST as u64 * 4 + 1..end).collect::<Vec<_>>());
        let small = Ring::new(100);
        write(&small, 1..10, true);
        assert_eq!(read(&small), [7, 8, 9]);
        let none = Ring::new(15);
        write(&none, 1..10, true);
        assert_eq!(read(&none), []);
    }

    #[test]
    fn a_reader_beside_a_writer_sees_whole_records_in_order() {
        use warpweft_platform::atomic::{AtomicBool, Ordering};
        use warpweft_platform::sync::Arc;
        use warpweft_platform::thread::spawn;
        let ring = Arc::new(Ring::new(FIRST * 16));
        let over = Arc::new(AtomicBool::new(false));
        let reader = {
            let (ring, over) = (Arc::clone(&ring), Arc::clone(&over));
            spawn(move || {
                let mut last = 0;
                while !over.load(Ordering::Relaxed) {
                    let all = read(&ring);
                    assert!(all.windows(2).all(|pair| pair[1] == pair[0] + 1));
                    if let Some(&newest) = all.last() {
                        assert!(newest >= last);
                        last = newest;
                    }
                }
            })
        };
        write(&ring, 1..300_000, false);
        over.store(true, Ordering::Relaxed);
        reader.join().expect("no panic");
    }
}
