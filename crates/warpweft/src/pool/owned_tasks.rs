//! The tasks of a pool that were once suspended.
//!
//! A runnable task is in a queue, where shutdown finds it. Only its wakers know a sleeping one. So a task is
//! entered here before its first sleep, and removed at its end. Tasks that never sleep never come here.
//!
//! There is one shard per worker, so that its lock is uncontended while tasks end where they first slept. A
//! shard is a list of fixed segments: entries never move, and cost one word each.
//!
//! # Invariants
//!
//! - An entry points at an unfinished task. It is removed before the task completes, and only by the end of
//!   that task.
//! - A shard that still has entries when its pool ends is *orphaned*: the thread that removes the last one is
//!   told so.
//! - A place is `shard << 48 | index`, and the uppermost bit for a task that was [admitted](super::info) to a
//!   bounded pool. It is never `usize::MAX`.

use std::ptr::NonNull;
use warpweft_platform::CachePadded;
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::sync::Mutex;
use warpweft_task::task_view::{self, TaskView};
use warpweft_task::{Header, Pending, Runnable, reclaim};

const SEGMENT: usize = 1024;
/// How many places a dump looks at under one lock. It divides a segment.
const BATCH: usize = 128;
const SHARD_BITS: u32 = 48;
/// The usual distance between two small tasks in memory, in bytes.
const LINE: usize = 64;
const ADMITTED: usize = 1 << (usize::BITS - 1);
/// The bit of a slot's word that says that its task was admitted. Addresses of headers do not have it.
const HAS_PLACE: usize = 2;
const _: () = assert!(align_of::<Header>() > HAS_PLACE);

#[derive(Debug)]
pub(crate) struct OwnedTasks {
    shards: Box<[CachePadded<TaskShard>]>,
}

#[derive(Debug, Default)]
struct TaskShard {
    slots: Mutex<Slots>,
    /// The number of entries, readable without the lock.
    live: AtomicUsize,
}

#[derive(Debug, Clone, Copy)]
enum TaskSlot {
    /// The next vacant slot, plus one; 0 ends the list.
    Vacant(usize),
    Task(NonNull<Header>),
}

#[derive(Debug, Default)]
struct Slots {
    segments: Vec<Box<[usize; SEGMENT]>>,
    used: usize,
    /// The first vacant slot, plus one.
    vacant: usize,
    /// The pool has ended, and the removal of the last entry must report it.
    orphaned: bool,
    /// Where the next `reclaim` begins; at most `used`.
    reclaimed: usize,
}

impl TaskSlot {
    /// A header's address is even; a vacant slot's word is odd. [`HAS_PLACE`] is added later.
    fn encode(self) -> usize {
        match self {
            Self::Vacant(next) => next << 1 | 1,
            Self::Task(task) => task.as_ptr().expose_provenance(),
        }
    }

    fn decode(word: usize) -> Self {
        match NonNull::new(std::ptr::with_exposed_provenance_mut::<Header>(word & !HAS_PLACE)) {
            Some(task) if word & 1 == 0 => Self::Task(task),
            _ => Self::Vacant(word >> 1),
        }
    }
}

impl Slots {
    fn place(&mut self, index: usize) -> &mut usize {
        &mut self.segments[index / SEGMENT][index % SEGMENT]
    }

    fn insert(&mut self, task: NonNull<Header>, place: usize) -> usize {
        let index = if self.vacant != 0 {
            let index = self.vacant - 1;
            let TaskSlot::Vacant(next) = TaskSlot::decode(*self.place(index)) else {
                unreachable!("the list of vacant slots led to a task")
            };
            self.vacant = next;
            index
        } else {
            if self.used == self.segments.len() * SEGMENT {
                self.segments.push(Box::new([0; SEGMENT]));
            }
            self.used += 1;
            self.used - 1
        };
        *self.place(index) = TaskSlot::Task(task).encode() | place;
        index
    }

    fn remove(&mut self, index: usize, task: NonNull<Header>) {
        let next = TaskSlot::Vacant(self.vacant).encode();
        let slot = self.place(index);
        let found = TaskSlot::decode(*slot);
        assert!(
            matches!(found, TaskSlot::Task(found) if found == task),
            "a task is struck off where it was not entered"
        );
        *slot = next;
        self.vacant = index + 1;
    }

    /// Returns the tasks in the next places from `from` on, and whether they were admitted.
    fn batch(&self, from: usize) -> impl Iterator<Item = (NonNull<Header>, bool)> + '_ {
        let segment = self.segments.get(from / SEGMENT).into_iter();
        let place = from % SEGMENT;
        segment
            .flat_map(move |segment| &segment[place..place + BATCH])
            .take(self.used.saturating_sub(from))
            .filter_map(|&word| match TaskSlot::decode(word) {
                TaskSlot::Task(task) => Some((task, word & HAS_PLACE != 0)),
                TaskSlot::Vacant(_) => None,
            })
    }

    /// Returns the tasks and their places: those from `from` on, and then those before.
    fn tasks(&self, from: usize) -> impl Iterator<Item = (usize, NonNull<Header>)> + '_ {
        let places = (from..self.used).chain(0..from);
        places.filter_map(
            |place| match TaskSlot::decode(self.segments[place / SEGMENT][place % SEGMENT]) {
                TaskSlot::Task(task) => Some((place, task)),
                TaskSlot::Vacant(_) => None,
            },
        )
    }

    /// Takes the runnable of a sleeping task, and goes on where the last call ended: a shard with many
    /// entries is looked through once, and not for each call.
    ///
    /// # Safety
    ///
    /// The tasks cannot be removed meanwhile: the caller has the lock.
    unsafe fn reclaim(&mut self) -> Option<Runnable> {
        let (place, runnable) = self.tasks(self.reclaimed).find_map(|(place, task)| {
            // SAFETY: the task is in the shard, and by contract it stays there.
            Some((place, unsafe { reclaim(task) }?))
        })?;
        self.reclaimed = place + 1;
        Some(runnable)
    }
}

impl OwnedTasks {
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            shards: (0..shards).map(|_| CachePadded::default()).collect(),
        }
    }

    /// Enters a task before its first sleep.
    pub(crate) fn enter(&self, shard: usize, task: &mut Pending) {
        let place = self.insert(shard, task, 0);
        // SAFETY: it was entered there just now, and is removed there when it ends.
        unsafe { task.register(place) };
    }

    /// Enters a task that has a place in its pool. The task gives the place back when it is removed.
    pub(crate) fn enter_admitted(&self, task: &mut Pending) {
        let shard = self.shard_of_admitted(task.register_entry().addr().get());
        let place = self.insert(shard, task, HAS_PLACE);
        // SAFETY: as above; the bit is masked when the task is removed.
        unsafe { task.register(place | ADMITTED) };
    }

    /// Returns true if the task there has a place to give back.
    pub(crate) fn is_admitted(place: usize) -> bool {
        place & ADMITTED != 0
    }

    /// Returns true if the task at that address has a place in its pool, or if that is not known. The caller
    /// runs in the task, so it neither comes nor goes meanwhile.
    ///
    /// Costs a look at the entries of one shard, a batch at a time. To keep the entry where the task finds it
    /// would cost each task something, and few ask.
    pub(crate) fn has_place(&self, task: usize) -> bool {
        let shard = &self.shards[self.shard_of_admitted(task)];
        let mut from = 0;
        loop {
            // In a forked child the lock may be lost.
            let Some(slots) = shard.slots.lock_unless_lost() else {
                return true;
            };
            let mut batch = slots.batch(from);
            if batch.any(|(other, has_place)| has_place && other.addr().get() == task) {
                return true;
            }
            from += BATCH;
            if from >= slots.used {
                return false;
            }
        }
    }

    /// Returns the shard in which a task at that address is entered if it has a place.
    fn shard_of_admitted(&self, task: usize) -> usize {
        task / LINE % self.shards.len()
    }

    fn insert(&self, shard: usize, task: &Pending, place: usize) -> usize {
        let mut slots = self.shards[shard].slots.lock();
        self.shards[shard].count(1);
        shard << SHARD_BITS | slots.insert(task.register_entry(), place)
    }

    /// Removes a task at its end. Returns true if it was the last one of an orphaned shard.
    pub(crate) fn strike(&self, place: usize, task: NonNull<Header>) -> bool {
        let shard = &self.shards[(place & !ADMITTED) >> SHARD_BITS];
        // In a forked child the lock may be lost, and no thread reads the entries.
        let Some(mut slots) = shard.slots.lock_unless_lost() else {
            return false;
        };
        slots.remove(place & ((1 << SHARD_BITS) - 1), task);
        shard.count(-1);
        slots.orphaned && shard.live.load(Ordering::Relaxed) == 0
    }

    /// Marks the shards that still have entries as orphaned, because the pool has ended. Returns their
    /// number.
    pub(crate) fn orphan(&self) -> usize {
        let is_left = |shard: &&CachePadded<TaskShard>| {
            let mut slots = shard.slots.lock();
            slots.orphaned = shard.live.load(Ordering::Relaxed) != 0;
            slots.orphaned
        };
        self.shards.iter().filter(is_left).count()
    }

    pub(crate) fn len(&self) -> usize {
        // Ordering: Acquire pairs with the Release in `count`: a thread that sees none left also sees what
        // their ends did.
        self.shards
            .iter()
            .map(|shard| shard.live.load(Ordering::Acquire))
            .sum()
    }

    /// Calls `see` for each task, and says whether it was admitted, until it returns `false`. It does so a
    /// batch at a time, so that no task waits long for its shard's lock.
    pub(crate) fn for_each(&self, mut see: impl FnMut(TaskView, bool) -> bool) {
        for shard in &self.shards {
            let mut from = 0;
            loop {
                // In a forked child the lock may be lost.
                let Some(slots) = shard.slots.lock_unless_lost() else {
                    break;
                };
                for (task, has_place) in slots.batch(from) {
                    // SAFETY: the task is in a shard, and cannot be removed while that shard is locked. It
                    // ends after its removal.
                    if let Some(task) = unsafe { task_view::look(task) }
                        && !see(task, has_place)
                    {
                        return;
                    }
                }
                from += BATCH;
                if from >= slots.used {
                    break;
                }
            }
        }
    }

    /// Takes the runnable of a sleeping task: one whose runnable is in no other place. It looks for it from
    /// that shard on, and notes where the next call goes on.
    ///
    /// It takes one at a time: the task's destructor may cancel others, and wait for their end. What this had
    /// taken would not end.
    pub(crate) fn reclaim(&self, from: &mut usize) -> Option<Runnable> {
        while let Some(shard) = self.shards.get(*from) {
            // SAFETY: the shard is locked.
            let runnable = unsafe { shard.slots.lock().reclaim() };
            if runnable.is_some() {
                return runnable;
            }
            *from += 1;
        }
        None
    }
}

impl TaskShard {
    /// Changes the count, under the shard's lock.
    fn count(&self, change: isize) {
        // Ordering: Relaxed load, because the lock is held; Release pairs with `len`.
        let live = self.live.load(Ordering::Relaxed).wrapping_add_signed(change);
        self.live.store(live, Ordering::Release);
    }
}

// SAFETY: the entries are addresses; only `reclaim` turns them into runnables, which are `Send`.
unsafe impl Send for Slots {}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::*;

    fn fake(number: usize) -> NonNull<Header> {
        NonNull::new(std::ptr::without_provenance_mut(number * 64)).unwrap_or_else(|| unreachable!())
    }

    #[test]
    #[should_panic(expected = "struck off where it was not entered")]
    fn only_the_task_itself_is_struck_off() {
        let mut slots = Slots::default();
        let place = slots.insert(fake(1), 0);
        slots.insert(fake(2), 0);
        slots.remove(place, fake(2));
    }

    #[test]
    fn the_last_entry_of_an_orphaned_shard_says_so() {
        let owned_tasks = OwnedTasks::new(2);
        let enter = |number| {
            let mut slots = owned_tasks.shards[1].slots.lock();
            owned_tasks.shards[1].count(1);
            1 << SHARD_BITS | slots.insert(fake(number), 0)
        };
        let places = [1, 2, 3].map(enter);
        assert!(!owned_tasks.strike(places[0], fake(1)));
        assert_eq!(owned_tasks.orphan(), 1);
        assert!(!owned_tasks.strike(places[1], fake(2)));
        assert!(owned_tasks.strike(places[2], fake(3)));
        assert_eq!((owned_tasks.len(), owned_tasks.orphan()), (0, 0));
    }

    #[test]
    fn slots_are_reused_and_never_move() {
        let mut slots = Slots::default();
        let places: Vec<usize> = (1..=3000).map(|number| slots.insert(fake(number), 0)).collect();
        assert_eq!(slots.segments.len(), 3);
        for (number, &place) in (1..=3000).zip(&places) {
            if number % 3 != 0 {
                slots.remove(place, fake(number));
            }
        }
        for from in [0, 1, 1500, 3000] {
            let tasks: Vec<_> = slots.tasks(from).collect();
            assert_eq!(tasks.len(), 1000, "each once, wherever one begins");
            assert!(tasks.iter().all(|(_, task)| task.addr().get() % 192 == 0));
            assert_eq!(
                tasks[0].0,
                slots
                    .tasks(0)
                    .map(|(place, _)| place)
                    .find(|&place| place >= from)
                    .unwrap_or(2)
            );
        }
        for number in 1..=2000 {
            slots.insert(fake(number), 0);
        }
        assert_eq!((slots.segments.len(), slots.tasks(0).count()), (3, 3000));
    }
}
