//! The models of the stealable queues for loom and shuttle. Both queues use them, since they promise the same
//! except for the owner's order.
//!
//! Each model gives numbered elements to a queue of two or four slots, which owner and thieves use. At the
//! end every number must have come out exactly once, to thieves in ascending order. Loom checks that no ring
//! is freed while a thief reads it, and that nothing leaks. Shuttle has no weak memory, but draws its
//! schedules at random and without a bound on preemptions.

use std::num::NonZeroUsize;
#[cfg(warpweft_loom)]
use std::sync::Arc;
#[cfg(warpweft_loom)]
use std::sync::atomic::AtomicU64;

use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::sync::Arc as Shared;
use warpweft_platform::thread::{JoinHandle, spawn};
use warpweft_queue::{Amount, Full, Owner, Steal, Thief};

pub(crate) type Element = NonZeroUsize;

/// Which queue.
pub(crate) trait Kind: 'static {
    type Queue: Owner<Element, Thief: 'static> + 'static;

    /// The order of what is left, from `oldest` to `youngest`, when the owner pops it.
    const YOUNGEST_FIRST: bool;

    fn make(capacity: usize, start: u64) -> Self::Queue;
}

/// The tests of a file, each a model of this one with the file's `Kind`.
macro_rules! tests {
    ($($name:ident = $model:ident($($argument:expr),*);)*) => {$(
        #[test]
        fn $name() {
            models::$model::<Kind>($($argument),*);
        }
    )*};
}
pub(crate) use tests;

/// Explores every weak-memory outcome of every schedule with at most three preemptions (a switch away from a
/// thread that could have continued). With `--nocapture` it prints the number of executions.
/// `LOOM_MAX_PREEMPTIONS` sets the bound.
#[cfg(warpweft_loom)]
pub(crate) fn explore(model: impl Fn() + Copy + Send + Sync + 'static) {
    explore_with(3, model);
}

/// Does the same with at most that many preemptions, for models of many steps.
#[cfg(warpweft_loom)]
fn explore_with(preemptions: usize, model: impl Fn() + Copy + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    // Not an atomic of loom's: it counts across executions.
    let executions = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&executions);
    builder.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let executions = executions.load(Ordering::Relaxed);
    println!("{executions} executions");
    assert!(executions > 10, "{executions} executions: nothing was explored");
}

/// Draws schedules: uniformly, and by PCT, which finds a bug that takes few preemptions with a known
/// probability.
#[cfg(warpweft_shuttle)]
pub(crate) fn explore(model: impl Fn() + Copy + Send + Sync + 'static) {
    shuttle::check_random(model, 2000);
    shuttle::check_pct(model, 2000, 3);
}

#[cfg(warpweft_shuttle)]
fn explore_with(_: usize, model: impl Fn() + Copy + Send + Sync + 'static) {
    explore(model);
}

fn element(id: usize) -> Element {
    Element::new(id).expect("numbers start at 1")
}

pub(crate) fn push_all<Q: Owner<Element>>(queue: &mut Q, ids: impl IntoIterator<Item = usize>) {
    for id in ids {
        queue.push(element(id)).expect("there is room");
    }
}

/// Pushes and grows if there is no room.
pub(crate) fn push_or_grow<Q: Owner<Element>>(queue: &mut Q, id: usize) {
    if let Err(Full(back)) = queue.push(element(id)) {
        queue.grow().expect("there is memory");
        queue.push(back).expect("a larger ring has room");
    }
}

/// Steals into its own queue, `times` times, and returns what it got, in order.
fn thief<K: Kind>(victim: &K::Queue, tries: usize, amount: Amount) -> JoinHandle<Vec<usize>> {
    let victim = victim.thief();
    spawn(move || {
        let mut own = K::make(2, 0);
        let mut got = Vec::new();
        for _ in 0..tries {
            if let Steal::Taken { first, moved } = victim.steal_into(&mut own, amount) {
                got.push(first.get());
                let mut rest: Vec<_> = std::iter::from_fn(|| own.pop()).map(Element::get).collect();
                assert_eq!(rest.len(), moved);
                if K::YOUNGEST_FIRST {
                    rest.reverse();
                }
                got.append(&mut rest);
            }
        }
        got
    })
}

/// Steals one by one, without its own queue.
pub(crate) fn picker<K: Kind>(victim: &K::Queue, tries: usize) -> JoinHandle<Vec<usize>> {
    let victim = victim.thief();
    spawn(move || {
        (0..tries)
            .filter_map(|_| victim.steal_one().taken())
            .map(Element::get)
            .collect()
    })
}

/// Waits for the thieves, empties the queue, and compares all that came out with `1..=count`.
pub(crate) fn account<K: Kind>(
    mut queue: K::Queue,
    mut got: Vec<usize>,
    thieves: impl IntoIterator<Item = JoinHandle<Vec<usize>>>,
    count: usize,
) {
    for thief in thieves {
        let mut stolen = thief.join().expect("a thief panicked");
        assert!(stolen.is_sorted(), "thieves take the oldest first: {stolen:?}");
        got.append(&mut stolen);
    }
    assert_eq!(
        queue.thief().glance().len,
        queue.len(),
        "thieves see what the owner sees"
    );
    let left: Vec<_> = std::iter::from_fn(|| queue.pop()).map(Element::get).collect();
    if K::YOUNGEST_FIRST {
        assert!(
            left.is_sorted_by(|a, b| a > b),
            "what is left comes youngest first: {left:?}"
        );
    } else {
        assert!(left.is_sorted(), "what is left comes oldest first: {left:?}");
    }
    got.extend(left);
    got.sort_unstable();
    assert_eq!(
        got,
        (1..=count).collect::<Vec<_>>(),
        "each element comes out once"
    );
}

pub(crate) fn pop_into<Q: Owner<Element>>(queue: &mut Q, got: &mut Vec<usize>) {
    got.extend(queue.pop().map(Element::get));
}

/// A thief takes half of four elements while the owner pops some of them; from index `start` on.
pub(crate) fn steal_against_pop<K: Kind>(start: u64, pops: usize) {
    explore(move || {
        let mut queue = K::make(4, start);
        push_all(&mut queue, 1..=4);
        let thief = thief::<K>(&queue, 1, Amount::Half);
        let mut got = Vec::new();
        for _ in 0..pops {
            pop_into(&mut queue, &mut got);
        }
        account::<K>(queue, got, [thief], 4);
    });
}

/// The owner pushes while a thief steals: what the thief sees is there.
pub(crate) fn steal_against_push<K: Kind>() {
    explore(|| {
        let mut queue = K::make(2, 0);
        let thief = thief::<K>(&queue, 2, Amount::Half);
        push_all(&mut queue, 1..=2);
        account::<K>(queue, Vec::new(), [thief], 2);
    });
}

/// The owner's pop comes too late, puts the index back, and the queue works on.
pub(crate) fn overshoot_and_rollback<K: Kind>() {
    explore(|| {
        let mut queue = K::make(4, 0);
        push_all(&mut queue, [1]);
        let thief = thief::<K>(&queue, 2, Amount::One);
        let mut got = Vec::new();
        pop_into(&mut queue, &mut got);
        push_all(&mut queue, 2..=3);
        pop_into(&mut queue, &mut got);
        account::<K>(queue, got, [thief], 3);
    });
}

/// Two thieves at once, one for half and one for one, and the owner.
pub(crate) fn two_thieves_and_owner<K: Kind>() {
    explore(|| {
        let mut queue = K::make(4, 0);
        push_all(&mut queue, 1..=4);
        let thieves = [thief::<K>(&queue, 1, Amount::Half), picker::<K>(&queue, 1)];
        let mut got = Vec::new();
        pop_into(&mut queue, &mut got);
        pop_into(&mut queue, &mut got);
        account::<K>(queue, got, thieves, 4);
    });
}

/// The owner refills slots that a thief has claimed and not emptied: it must not, until they are empty.
pub(crate) fn push_behind_a_slow_thief<K: Kind>(start: u64) {
    explore(move || {
        let mut queue = K::make(2, start);
        push_all(&mut queue, 1..=2);
        let two = Amount::AtLeast(element(2));
        let thief = thief::<K>(&queue, 1, two);
        let mut got = Vec::new();
        for id in 3..=4 {
            if let Err(Full(back)) = queue.push(element(id)) {
                got.push(back.get());
            }
        }
        account::<K>(queue, got, [thief], 4);
    });
}

/// The owner grows the ring while a thief reads, claims or empties.
pub(crate) fn steal_during_growth<K: Kind>(start: u64) {
    explore(move || {
        let mut queue = K::make(2, start);
        push_all(&mut queue, 1..=2);
        let thief = thief::<K>(&queue, 2, Amount::Half);
        queue.grow().expect("there is memory");
        push_all(&mut queue, [3]);
        let mut got = Vec::new();
        pop_into(&mut queue, &mut got);
        account::<K>(queue, got, [thief], 3);
    });
}

/// A thief that sees the queue reopened after a growth sees the new ring.
pub(crate) fn growth_publishes_the_ring<K: Kind>() {
    explore(|| {
        let mut queue = K::make(4, 0);
        push_all(&mut queue, 1..=3);
        let thief = picker::<K>(&queue, 1);
        queue.grow().expect("there is memory");
        account::<K>(queue, Vec::new(), [thief], 3);
    });
}

/// Two growths while a thief empties the first ring: it is freed when that is done, not before.
pub(crate) fn retired_ring_waits_for_thief<K: Kind>() {
    explore(|| {
        let mut queue = K::make(1, 0);
        push_all(&mut queue, [1]);
        let thief = picker::<K>(&queue, 1);
        push_or_grow(&mut queue, 2);
        queue.grow().expect("there is memory");
        queue.grow().expect("there is memory");
        account::<K>(queue, Vec::new(), [thief], 2);
    });
}

/// The owner refills its only slot behind a thief, up to twice, and then grows: it copies no slot twice.
pub(crate) fn growth_after_refills<K: Kind>() {
    explore(|| {
        let mut queue = K::make(1, 0);
        push_all(&mut queue, [1]);
        let thief = picker::<K>(&queue, 2);
        let mut count = 1;
        for _ in 0..2 {
            count += usize::from(queue.push(element(count + 1)).is_ok());
        }
        queue.grow().expect("there is memory");
        account::<K>(queue, Vec::new(), [thief], count);
    });
}

/// Two thieves, a growth between their steps, and the owner continues in the new ring.
pub(crate) fn two_thieves_and_growth<K: Kind>() {
    explore(|| {
        let mut queue = K::make(2, 0);
        push_all(&mut queue, 1..=2);
        let thieves = [picker::<K>(&queue, 1), thief::<K>(&queue, 1, Amount::Half)];
        let mut got = Vec::new();
        push_or_grow(&mut queue, 3);
        pop_into(&mut queue, &mut got);
        account::<K>(queue, got, thieves, 3);
    });
}

/// What a thread that peeks sees, and how many elements were out of the queue before it began. It begins when
/// `out` says so, or earlier.
fn peeker<K: Kind>(victim: &K::Queue, out: &Shared<AtomicUsize>) -> JoinHandle<(usize, Vec<usize>)> {
    let (victim, out) = (victim.thief(), Shared::clone(out));
    spawn(move || {
        let out = out.load(Ordering::Acquire);
        let mut seen = Vec::new();
        victim.peek(usize::MAX, &mut |peek| seen.push(peek.word().get()));
        (out, seen)
    })
}

/// A thread peeks while a thief takes the oldest element and the owner grows the ring: it sees what is there,
/// in its order, and nothing that was taken before. The ring is not freed meanwhile, which loom checks.
pub(crate) fn peek_during_growth<K: Kind>(start: u64) {
    explore_with(2, move || {
        let mut queue = K::make(2, start);
        push_all(&mut queue, 1..=2);
        let out = Shared::new(AtomicUsize::new(0));
        let peeker = peeker::<K>(&queue, &out);
        let thief = {
            let (victim, out) = (queue.thief(), Shared::clone(&out));
            spawn(move || {
                let taken: Vec<_> = victim.steal_one().taken().map(Element::get).into_iter().collect();
                out.store(taken.len(), Ordering::Release);
                taken
            })
        };
        queue.grow().expect("there is memory");
        let (out, seen) = peeker.join().expect("the peek panicked");
        assert!(
            seen.is_sorted_by(|a, b| a < b),
            "the oldest first, each once: {seen:?}"
        );
        assert!(
            seen.iter().all(|id| (1 + out..=2).contains(id)),
            "{out} were out: {seen:?}"
        );
        account::<K>(queue, Vec::new(), [thief], 2);
    });
}

/// A thread peeks while the owner pops, and fills the slot again: it sees nothing that was popped before.
pub(crate) fn peek_against_pop<K: Kind>(start: u64) {
    explore(move || {
        let mut queue = K::make(2, start);
        push_all(&mut queue, 1..=2);
        let out = Shared::new(AtomicUsize::new(0));
        let peeker = peeker::<K>(&queue, &out);
        let mut got = Vec::new();
        pop_into(&mut queue, &mut got);
        out.store(got[0], Ordering::Release);
        push_all(&mut queue, [3]);
        let (out, seen) = peeker.join().expect("the peek panicked");
        assert!(
            seen.is_sorted_by(|a, b| a < b),
            "the oldest first, each once: {seen:?}"
        );
        assert!(!seen.contains(&out), "{out} was out: {seen:?}");
        account::<K>(queue, got, [], 3);
    });
}

/// A thread peeks while the oldest element is stolen, and the owner fills its slot again: the new element is
/// not seen in the place of the old one.
pub(crate) fn peek_against_steal<K: Kind>(start: u64) {
    explore(move || {
        let mut queue = K::make(2, start);
        push_all(&mut queue, 1..=2);
        let out = Shared::new(AtomicUsize::new(0));
        let peeker = peeker::<K>(&queue, &out);
        let stolen = queue.thief().steal_one().taken().map(Element::get);
        let got: Vec<_> = stolen.into_iter().collect();
        out.store(got.len(), Ordering::Release);
        push_all(&mut queue, [3]);
        let (out, seen) = peeker.join().expect("the peek panicked");
        assert!(
            seen.is_sorted_by(|a, b| a < b),
            "the oldest first, each once: {seen:?}"
        );
        assert!(seen.iter().all(|&id| id > out), "{out} were out: {seen:?}");
        account::<K>(queue, got, [], 3);
    });
}

/// Two workers steal from each other: each is owner of one queue and thief of the other.
pub(crate) fn mutual_steal<K: Kind>() {
    explore(|| {
        let (mut left, mut right) = (K::make(2, 0), K::make(2, 0));
        push_all(&mut left, 1..=2);
        push_all(&mut right, 3..=4);
        let (of_left, of_right) = (left.thief(), right.thief());
        let other = spawn(move || {
            let mut got = Vec::new();
            pop_into(&mut right, &mut got);
            got.extend(
                of_left
                    .steal_into(&mut right, Amount::Half)
                    .taken()
                    .map(Element::get),
            );
            (right, got)
        });
        let mut got = Vec::new();
        pop_into(&mut left, &mut got);
        got.extend(
            of_right
                .steal_into(&mut left, Amount::Half)
                .taken()
                .map(Element::get),
        );
        let (mut right, more) = other.join().expect("the other worker panicked");
        got.extend(more);
        for queue in [&mut left, &mut right] {
            got.extend(std::iter::from_fn(|| queue.pop()).map(Element::get));
        }
        got.sort_unstable();
        assert_eq!(got, [1, 2, 3, 4], "each element comes out once");
    });
}

/// A thief remembers the word that a pop showed for a moment when it came too late, then sees elements, then
/// sleeps through a growth: its claim must fail.
pub(crate) fn growth_after_overshoot<K: Kind>() {
    explore(|| {
        let mut queue = K::make(4, 0);
        push_all(&mut queue, [1]);
        let thief = picker::<K>(&queue, 2);
        let mut got = Vec::new();
        pop_into(&mut queue, &mut got);
        push_all(&mut queue, 2..=3);
        queue.grow().expect("there is memory");
        account::<K>(queue, got, [thief], 3);
    });
}

/// The owner is dropped first: the thief still gets what is left, and the last handle drops the rest.
pub(crate) fn owner_leaves_first<K: Kind>() {
    explore(|| {
        let mut queue = K::make(2, 0);
        push_all(&mut queue, 1..=2);
        let thief = picker::<K>(&queue, 1);
        let mut got = Vec::new();
        pop_into(&mut queue, &mut got);
        drop(queue);
        got.extend(thief.join().expect("the thief panicked"));
        got.sort_unstable();
        got.dedup();
        // The thief may have lost its race; whatever came out is different elements.
        assert!(!got.is_empty() && got.len() <= 2 && got.iter().all(|id| (1..=2).contains(id)));
    });
}
