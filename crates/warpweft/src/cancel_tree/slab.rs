//! Values in numbered places. A place that is free again is used for the next value.

/// The number of places that an empty set keeps.
const KEPT: usize = 64;
/// No place is free.
const NONE: usize = usize::MAX;

#[derive(Debug)]
enum SlabEntry<T> {
    /// The next free place.
    Free(usize),
    Full(T),
}

/// Values in numbered places.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<SlabEntry<T>>,
    free: usize,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: NONE,
            len: 0,
        }
    }
}

impl<T> Slab<T> {
    /// Puts a value into a free place, and returns the number of the place.
    pub(crate) fn insert(&mut self, value: T) -> usize {
        self.len += 1;
        let Some(slot) = self.slots.get_mut(self.free) else {
            self.slots.push(SlabEntry::Full(value));
            return self.slots.len() - 1;
        };
        if let SlabEntry::Free(next) = std::mem::replace(slot, SlabEntry::Full(value)) {
            return std::mem::replace(&mut self.free, next);
        }
        unreachable!("a place in the list of free ones is free")
    }

    /// Takes the value out of that place, if there is one. The last value also gives the memory back.
    pub(crate) fn remove(&mut self, place: usize) -> Option<T> {
        let slot = self.slots.get_mut(place)?;
        if matches!(slot, SlabEntry::Free(_)) {
            return None;
        }
        let SlabEntry::Full(value) = std::mem::replace(slot, SlabEntry::Free(self.free)) else {
            unreachable!("looked at above")
        };
        self.free = place;
        self.len -= 1;
        if self.len == 0 {
            self.slots.clear();
            self.slots.shrink_to(KEPT);
            self.free = NONE;
        }
        Some(value)
    }

    /// Returns the value in that place.
    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        match self.slots.get_mut(place)? {
            SlabEntry::Full(value) => Some(value),
            SlabEntry::Free(_) => None,
        }
    }

    /// Returns the values, in no particular order.
    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        self.slots.into_iter().filter_map(|slot| match slot {
            SlabEntry::Full(value) => Some(value),
            SlabEntry::Free(_) => None,
        })
    }

    #[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
    pub(crate) fn places(&self) -> usize {
        self.slots.capacity()
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{KEPT, Slab};

    #[test]
    fn a_free_place_is_used_again_and_an_empty_set_is_small() {
        let mut slab = Slab::default();
        let places: Vec<_> = (0..1000).map(|n| slab.insert(n)).collect();
        assert_eq!(slab.remove(places[3]), Some(3));
        assert_eq!(slab.remove(places[3]), None, "it is gone");
        assert_eq!(slab.remove(places[7]), Some(7));
        assert_eq!(slab.insert(70), places[7]);
        assert_eq!(slab.insert(30), places[3]);
        assert_eq!(slab.insert(1000), 1000, "no place was free");
        assert_eq!(slab.get_mut(places[3]), Some(&mut 30));
        for place in 0..=1000 {
            assert!(slab.remove(place).is_some());
        }
        assert!(slab.places() <= KEPT);
        assert_eq!(slab.remove(0), None);
        assert_eq!(slab.insert(5), 0);
        assert_eq!(slab.into_values().collect::<Vec<_>>(), [5]);
    }
}
