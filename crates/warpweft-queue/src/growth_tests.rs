//! Tests of a growth in place, stopped between its two parts: what thieves can do meanwhile. Both queues use
//! them.

use std::num::NonZeroUsize;

use crate::ring::Slots;
use crate::{Full, Owner, Steal, Thief};

type Element = NonZeroUsize;

/// The two parts of a growth.
pub(crate) trait Grows: Owner<Element> {
    /// The data that the first part passes to the second.
    type Bounds;

    /// The first part: copies.
    fn copy(&self, bigger: &Slots) -> Self::Bounds;

    /// The second part: locks thieves out, and lets them in again.
    fn switch(&mut self, bigger: Box<Slots>, seen: Self::Bounds);
}

fn element(id: usize) -> Element {
    Element::new(id).expect("numbers start at 1")
}

/// While eight elements are in both rings, thieves take `stolen` of them from the old one, at the first try:
/// only the second part of a growth, whose length does not depend on the elements, can make one lose.
/// Afterwards each element comes out once, and the new ring has the room that it says.
pub(crate) fn a_growth_stops_no_thief<Q: Grows>(make: impl Fn() -> Q) {
    // All of them first: a growth that stops thieves must fail at a steal, and not reach the second part,
    // which it would confuse.
    for stolen in (0..=8).rev() {
        let mut queue = make();
        let thief = queue.thief();
        for id in 1..=8 {
            queue.push(element(id)).expect("there is room");
        }
        assert_eq!(queue.push(element(9)), Err(Full(element(9))));

        let bigger = Slots::new(16).expect("a small capacity");
        let seen = queue.copy(&bigger);
        for id in 1..=stolen {
            let first = element(id);
            assert_eq!(thief.steal_one(), Steal::Taken { first, moved: 0 });
        }
        queue.switch(bigger, seen);

        assert_eq!((queue.len(), queue.capacity()), (8 - stolen, 16));
        for id in 9..=16 + stolen {
            assert_eq!(queue.push(element(id)), Ok(()), "{stolen} were stolen");
        }
        assert_eq!(queue.push(element(99)), Err(Full(element(99))));
        let first = element(stolen + 1);
        assert_eq!(thief.steal_one(), Steal::Taken { first, moved: 0 });
        let mut rest: Vec<_> = std::iter::from_fn(|| queue.pop()).map(Element::get).collect();
        rest.sort_unstable();
        assert_eq!(rest, (stolen + 2..=16 + stolen).collect::<Vec<_>>());
    }
}
