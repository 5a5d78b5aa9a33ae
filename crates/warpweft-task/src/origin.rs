//! A task's spawn site, kind and optional name, in one word.
//!
//! A report may have the word of a task that has ended meanwhile. Spawn sites are static. The boxes of names
//! are registered while they live, and none is freed while a thread reads it under the register's lock. Tasks
//! without a name do not use the register.
//!
//! ```text
//!   64        48                              3      1   0
//!   │ serial   │ address of a location or box │ kind │ 0 │   without a name: no serial
//!   │ number   │ of a name              │ 1   │ kind │ 1 │   the bit says that the serial number is there
//! ```
//!
//! A box may be made where another one was freed. So its word has the last bits of a serial number, by which
//! a word of the one that has gone is told apart.

use crate::task_panic::TaskKind;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;
use warpweft_platform::process::generation;
use warpweft_platform::sync::StaticMutex;

/// A spawn site with an optional name.
///
/// For unnamed tasks, nearly all, the word is the compiler's `&'static Location`; it costs no allocation. A
/// named task's word points at a box. The lowest bit distinguishes the two, and the next two are the kind.
pub(crate) struct Origin(*const ());

#[repr(align(16))]
struct Named {
    name: Cow<'static, str>,
    location: &'static Location<'static>,
    /// True if it is in the register.
    registered: bool,
}

/// A part of the register of live boxes.
struct Part {
    /// The serial number of the last box.
    last: u16,
    /// The boxes by their addresses, with the words that lead to them, without a kind.
    live: BTreeMap<usize, usize>,
}

/// Several parts, so that threads seldom contend.
static REGISTER: [StaticMutex<Part>; 16] = [const {
    StaticMutex::new(Part {
        last: 0,
        live: BTreeMap::new(),
    })
}; 16];

/// The part of the register for a box.
fn part(address: usize) -> &'static StaticMutex<Part> {
    // The lowest bits of boxes are alike.
    &REGISTER[address / 64 % REGISTER.len()]
}

/// Returns true if the register can be used. In a forked child, threads that stayed in the parent may hold
/// its locks.
fn has_register() -> bool {
    generation() == 0
}

const NAMED: usize = 1;
const KIND: usize = 0b110;
/// The upper bits are a serial number.
const NUMBERED: usize = 0b1000;
/// Where the serial number begins. Addresses of programs end below it, but for those that a system marks.
const SERIAL_SHIFT: u32 = 48;

// The lowest bits of either pointer are free.
const _: () = assert!(align_of::<Location<'static>>() >= 8 && align_of::<Named>() >= 16);

/// Adds a serial number to the word of a box, if it has room.
#[cfg(target_pointer_width = "64")]
fn numbered(word: usize, serial: u16) -> usize {
    match word >> SERIAL_SHIFT {
        0 => word | NUMBERED | (serial as usize) << SERIAL_SHIFT,
        _ => word,
    }
}

#[cfg(not(target_pointer_width = "64"))]
fn numbered(word: usize, _: u16) -> usize {
    word
}

/// The bits of a kind.
const fn bits_of(kind: TaskKind) -> usize {
    match kind {
        TaskKind::Future => 0,
        TaskKind::Job => 0b010,
        TaskKind::Fiber => 0b100,
        // Forks are no tasks, and have no origin.
        TaskKind::Blocking | TaskKind::Fork => 0b110,
    }
}

/// Returns the kind of the task with that [`origin_word`](crate::TaskRef::origin_word).
#[must_use]
pub fn kind_of(word: *const ()) -> TaskKind {
    match word.addr() & KIND {
        0 => TaskKind::Future,
        0b010 => TaskKind::Job,
        0b100 => TaskKind::Fiber,
        _ => TaskKind::Blocking,
    }
}

/// Returns the location in a word without a name.
fn location(word: *const ()) -> *const Location<'static> {
    word.map_addr(|address| address & !KIND).cast()
}

/// Returns the box in a word with a name.
fn named(word: *const ()) -> *const Named {
    let serial = match word.addr() & NUMBERED {
        0 => 0,
        _ => usize::MAX.checked_shl(SERIAL_SHIFT).unwrap_or(0),
    };
    word.map_addr(|address| address & !(serial | NUMBERED | NAMED | KIND))
        .cast()
}

// SAFETY: the word points at immutable `Send + Sync` data: a location, or a name and a location.
unsafe impl Send for Origin {}
// SAFETY: as above.
unsafe impl Sync for Origin {}

impl Origin {
    #[inline]
    pub(crate) fn new(
        location: &'static Location<'static>,
        name: Option<Cow<'static, str>>,
        kind: TaskKind,
    ) -> Self {
        let word = match name {
            None => std::ptr::from_ref(location).cast::<()>(),
            Some(name) => Self::with_name(location, name),
        };
        Self(word.map_addr(|address| address | bits_of(kind)))
    }

    #[cold]
    fn with_name(location: &'static Location<'static>, name: Cow<'static, str>) -> *const () {
        let registered = has_register();
        let named = Box::into_raw(Box::new(Named {
            name,
            location,
            registered,
        }));
        let word = named.addr() | NAMED;
        let word = if registered {
            part(named.addr()).with(|part| {
                part.last = part.last.wrapping_add(1);
                let word = numbered(word, part.last);
                part.live.insert(named.addr(), word);
                word
            })
        } else {
            word
        };
        named.cast_const().cast::<()>().with_addr(word)
    }

    #[cold]
    fn drop_named(&mut self) {
        let named = named(self.0).cast_mut();
        // SAFETY: the caller has seen the bit, which says that `new` made the word from a box; it is there.
        if unsafe { &*named }.registered && has_register() {
            part(named.addr()).with(|part| part.live.remove(&named.addr()));
        }
        // SAFETY: as above. It is dropped here, once, and a thread that read it through the register is done.
        drop(unsafe { Box::from_raw(named) });
    }

    fn named(&self) -> Option<&Named> {
        (self.0.addr() & NAMED != 0).then(|| {
            // SAFETY: the bit says that `new` made the word from a box, which lives as long as `self`.
            unsafe { &*named(self.0) }
        })
    }

    /// Returns the word, from which a reader may find the spawn site later.
    #[inline]
    pub(crate) fn word(&self) -> *const () {
        self.0
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.named().map(|named| &*named.name)
    }

    /// Returns a copy of the name.
    pub(crate) fn owned_name(&self) -> Option<Cow<'static, str>> {
        self.named().map(|named| named.name.clone())
    }

    pub(crate) fn location(&self) -> &'static Location<'static> {
        match self.named() {
            Some(named) => named.location,
            // SAFETY: without the bit the word is the `&'static Location` that `new` was given.
            None => unsafe { &*location(self.0) },
        }
    }
}

/// What [`told_of`] finds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Told {
    /// The name of the task, if it has one.
    pub name: Option<String>,
    /// Where it was spawned.
    pub location: &'static Location<'static>,
    /// What it is.
    pub kind: TaskKind,
}

/// Returns name, spawn site and kind of the task whose
/// [`TaskRef::origin_word`](crate::TaskRef::origin_word) is `word`. The task may have ended.
///
/// Returns `None` if the task had a name and has ended, or if the word is null. After 65,536 named tasks the
/// answer may be about another one, made where the ended one was; so it is without a serial number, on
/// systems that mark addresses or have 32 bits. In a child made by `fork()` it is `None` for named tasks. For
/// named tasks it takes a lock and copies the name.
///
/// # Safety
///
/// The word is one that `origin_word` gave, or null.
#[must_use]
pub unsafe fn told_of(word: *const ()) -> Option<Told> {
    let kind = kind_of(word);
    if word.addr() & NAMED == 0 {
        // SAFETY: null, or without the bit the word is the `&'static Location` that `new` was given.
        let location = unsafe { location(word).as_ref() }?;
        let name = None;
        return Some(Told { name, location, kind });
    }
    let named = named(word);
    if !has_register() {
        return None;
    }
    part(named.addr()).with(|part| {
        let is_it = |live: &&usize| **live == word.addr() & !KIND;
        part.live.get(&named.addr()).filter(is_it).map(|_| {
            // SAFETY: a box at this address is alive. It is not freed before it has left the register, which
            // needs the lock that is held here. It does not change.
            let named = unsafe { &*named };
            Told {
                name: Some(named.name.clone().into_owned()),
                location: named.location,
                kind,
            }
        })
    })
}

impl Drop for Origin {
    #[inline]
    fn drop(&mut self) {
        if self.0.addr() & NAMED != 0 {
            self.drop_named();
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

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
#[allow(clippy::disallowed_methods, reason = "outside the checkers a test may sleep")]
mod tests {
    use super::*;

    #[test]
    fn both_forms_give_back_what_they_were_made_of() {
        let here = Location::caller();
        let plain = Origin::new(here, None, TaskKind::Fiber);
        assert_eq!((plain.name(), plain.location()), (None, here));
        // SAFETY: it is the word of an origin.
        let told = unsafe { told_of(plain.word()) }.expect("it has no name");
        assert_eq!(
            (told.name, told.location, told.kind),
            (None, here, TaskKind::Fiber)
        );
        // SAFETY: null is a word, too.
        assert_eq!(unsafe { told_of(std::ptr::null()) }, None);
        let kinds = [
            TaskKind::Future,
            TaskKind::Job,
            TaskKind::Fiber,
            TaskKind::Blocking,
        ];
        for kind in kinds {
            let origin = Origin::new(here, None, kind);
            assert_eq!(origin.location(), here);
            // SAFETY: it is the word of an origin.
            let told = unsafe { told_of(origin.word()) };
            assert_eq!(told.map(|told| told.kind), Some(kind));
        }
        for name in [Cow::Borrowed("reader"), Cow::Owned(String::from("writer 7"))] {
            let named = Origin::new(here, Some(name.clone()), TaskKind::Job);
            assert_eq!((named.name(), named.location()), (Some(&*name), here));
            assert!(format!("{named:?}").starts_with(&*name));
            let word = named.word();
            // SAFETY: as above.
            let told = unsafe { told_of(word) }.expect("it is alive");
            let expected = (Some(name.into_owned()), here, TaskKind::Job);
            assert_eq!((told.name, told.location, told.kind), expected);
            drop(named);
            // SAFETY: as above. The register says that the box is gone.
            assert_eq!(unsafe { told_of(word) }, None);
        }
    }

    #[test]
    fn a_name_in_the_place_of_another_is_not_taken_for_it() {
        let make = || {
            let name = Some(Cow::Borrowed("one of many"));
            Origin::new(Location::caller(), name, TaskKind::Job)
        };
        let mut places = std::collections::HashSet::new();
        let mut reused = 0;
        for _ in 0..1000 {
            let first = make();
            let (word, place) = (first.word(), first.named().map(std::ptr::from_ref));
            drop(first);
            let second = make();
            // SAFETY: each was the word of an origin.
            assert_eq!(unsafe { told_of(word) }, None);
            // SAFETY: as above.
            assert!(unsafe { told_of(second.word()) }.is_some());
            assert!(places.insert(second.word()), "each word is another one");
            reused += usize::from(second.named().map(std::ptr::from_ref) == place);
        }
        assert!(reused > 0, "no box was made where another one had been");
    }

    #[test]
    fn names_are_read_while_they_come_and_go() {
        use warpweft_platform::atomic::{AtomicBool, AtomicPtr, Ordering};
        use warpweft_platform::sync::Arc;
        use warpweft_platform::thread::spawn;
        let words: Arc<[AtomicPtr<()>; 4]> = Arc::default();
        let over = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..3)
            .map(|at| {
                let (words, over) = (Arc::clone(&words), Arc::clone(&over));
                spawn(move || {
                    let mut heard = 0;
                    while !over.load(Ordering::Relaxed) {
                        if at > 0 {
                            let name = Some(Cow::Owned(format!("brief {at}")));
                            let named = Origin::new(Location::caller(), name, TaskKind::Job);
                            words[at].store(named.word().cast_mut(), Ordering::Relaxed);
                            continue;
                        }
                        for word in &*words {
                            // SAFETY: each was the word of an origin, or is null.
                            let told = unsafe { told_of(word.load(Ordering::Relaxed)) };
                            if let Some(told) = told {
                                heard += 1;
                                assert!(told.name.is_some_and(|name| name.starts_with("brief")));
                            }
                        }
                    }
                    heard
                })
            })
            .collect();
        std::thread::sleep(std::time::Duration::from_millis(50));
        over.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().expect("no name was damaged");
        }
    }
}
