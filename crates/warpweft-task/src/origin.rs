//! Where a task was spawned, and its name if it has one: one word.

use std::borrow::Cow;
use std::fmt;
use std::panic::Location;

/// A spawn site with an optional name.
///
/// Unnamed tasks, nearly all, cost no allocation: the word is the compiler's `&'static Location`. A named task's
/// word points at a box; the lowest bit tells the two apart.
pub(crate) struct Origin(*const ());

struct Named {
    name: Cow<'static, str>,
    location: &'static Location<'static>,
}

const NAMED: usize = 1;

// The lowest bit of either pointer is free.
const _: () = assert!(align_of::<Location<'static>>() > 1 && align_of::<Named>() > 1);

// SAFETY: what the word points at is immutable and `Send + Sync` (a location; a name and a location).
unsafe impl Send for Origin {}
// SAFETY: as above.
unsafe impl Sync for Origin {}

impl Origin {
    pub(crate) fn new(location: &'static Location<'static>, name: Option<Cow<'static, str>>) -> Self {
        match name {
            None => Self(std::ptr::from_ref(location).cast()),
            Some(name) => {
                let named = Box::into_raw(Box::new(Named { name, location }));
                Self(
                    named
                        .cast_const()
                        .cast::<()>()
                        .map_addr(|address| address | NAMED),
                )
            }
        }
    }

    fn named(&self) -> Option<&Named> {
        (self.0.addr() & NAMED != 0).then(|| {
            let named = self.0.map_addr(|address| address & !NAMED).cast::<Named>();
            // SAFETY: the bit says that `new` made the word from a box, which lives as long as `self`.
            unsafe { &*named }
        })
    }

    /// The word, for who wants to know the spawn site perhaps, and later.
    #[inline]
    pub(crate) fn word(&self) -> *const () {
        self.0
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.named().map(|named| &*named.name)
    }

    pub(crate) fn location(&self) -> &'static Location<'static> {
        match self.named() {
            Some(named) => named.location,
            // SAFETY: without the bit the word is the `&'static Location` that `new` was given.
            None => unsafe { &*self.0.cast::<Location<'static>>() },
        }
    }
}

/// The spawn site that [`TaskRef::origin_word`](crate::TaskRef::origin_word) stands for, whether or not its task has ended. `None`: the task
/// has a name, and the word is good for nothing without it; or the word is null.
///
/// # Safety
///
/// The word is one that `origin_word` gave, or null.
#[must_use]
pub unsafe fn spawn_site(word: *const ()) -> Option<&'static Location<'static>> {
    if word.addr() & NAMED != 0 {
        return None;
    }
    // SAFETY: null, or without the bit the word is the `&'static Location` that `new` was given.
    unsafe { word.cast::<Location<'static>>().as_ref() }
}

impl Drop for Origin {
    fn drop(&mut self) {
        if self.0.addr() & NAMED != 0 {
            let named = self
                .0
                .map_addr(|address| address & !NAMED)
                .cast_mut()
                .cast::<Named>();
            // SAFETY: the bit says that `new` made the word from a box; it is dropped here, once.
            drop(unsafe { Box::from_raw(named) });
        }
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.location()),
            None => write!(f, "{}", self.location()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_give_back_what_they_were_made_of() {
        let here = Location::caller();
        let plain = Origin::new(here, None);
        assert_eq!((plain.name(), plain.location()), (None, here));
        // SAFETY: it is the word of an origin.
        assert_eq!(unsafe { spawn_site(plain.word()) }, Some(here));
        for name in [Cow::Borrowed("reader"), Cow::Owned(String::from("writer 7"))] {
            let named = Origin::new(here, Some(name.clone()));
            assert_eq!((named.name(), named.location()), (Some(&*name), here));
            assert!(format!("{named:?}").starts_with(&*name));
            // SAFETY: as above.
            assert_eq!(unsafe { spawn_site(named.word()) }, None);
        }
    }
}
