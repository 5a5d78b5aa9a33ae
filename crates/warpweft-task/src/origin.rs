//! A task's kind, spawn site and optional name, in one word.
//!
//! A report may have the word of a task that has ended meanwhile. Spawn sites are static. The boxes of names
//! are registered while they live, and none is freed while a thread reads it under the register's lock. Tasks
//! without a name do not use the register.

use crate::task_panic::TaskKind;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::panic::Location;
use warpweft_platform::process::generation;
use warpweft_platform::sync::StaticMutex;

/// A kind and a spawn site, with an optional name.
///
/// For unnamed tasks, nearly all, the word is the compiler's `&'static Location`; it costs no allocation. A
/// named task's word points at a box. The lowest bit distinguishes the two, and the next ones are the kind.
pub(crate) struct Origin(*const ());

struct Named {
    name: Cow<'static, str>,
    location: &'static Location<'static>,
    /// True if it is in the register.
    registered: bool,
}

/// The addresses of the live boxes, in several parts, so that threads seldom contend.
static REGISTER: [StaticMutex<BTreeSet<usize>>; 16] = [const { StaticMutex::new(BTreeSet::new()) }; 16];

/// The part of the register for a box.
fn part(address: usize) -> &'static StaticMutex<BTreeSet<usize>> {
    // The lowest bits of boxes are alike.
    &REGISTER[address / 64 % REGISTER.len()]
}

/// Returns true if the register can be used. In a forked child, threads that stayed in the parent may hold
/// its locks.
fn has_register() -> bool {
    generation() == 0
}

const NAMED: usize = 1;
/// All bits that are not of the address: the lowest says whether there is a name, the next two the kind.
const BITS: usize = 7;

// The lowest three bits of either pointer are free.
const _: () = assert!(align_of::<Location<'static>>() > BITS && align_of::<Named>() > BITS);

/// Returns the bits of a kind. A fork is no task of its own.
#[inline]
const fn kind_bits(kind: TaskKind) -> usize {
    (match kind {
        TaskKind::Future => 0,
        TaskKind::Job | TaskKind::Fork => 1,
        TaskKind::Fiber => 2,
        TaskKind::Blocking => 3,
    }) << 1
}

/// Returns the kind of the task with that [`origin_word`](crate::TaskRef::origin_word).
#[must_use]
pub fn kind_of(word: *const ()) -> TaskKind {
    match word.addr() >> 1 & 3 {
        0 => TaskKind::Future,
        1 => TaskKind::Job,
        2 => TaskKind::Fiber,
        _ => TaskKind::Blocking,
    }
}

// SAFETY: the word points at immutable `Send + Sync` data: a location, or a name and a location.
unsafe impl Send for Origin {}
// SAFETY: as above.
unsafe impl Sync for Origin {}

impl Origin {
    #[inline]
    pub(crate) fn new(
        kind: TaskKind,
        location: &'static Location<'static>,
        name: Option<Cow<'static, str>>,
    ) -> Self {
        match name {
            None => {
                let location = std::ptr::from_ref(location).cast::<()>();
                // The bits are clear, so this is an `or`.
                Self(location.wrapping_byte_add(kind_bits(kind)))
            }
            Some(name) => Self::with_name(kind, location, name),
        }
    }

    #[cold]
    fn with_name(kind: TaskKind, location: &'static Location<'static>, name: Cow<'static, str>) -> Self {
        let registered = has_register();
        let named = Box::into_raw(Box::new(Named {
            name,
            location,
            registered,
        }));
        if registered {
            part(named.addr()).with(|part| part.insert(named.addr()));
        }
        Self(
            named
                .cast_const()
                .cast::<()>()
                .map_addr(|address| address | NAMED | kind_bits(kind)),
        )
    }

    #[cold]
    fn drop_named(&mut self) {
        let named = self
            .0
            .map_addr(|address| address & !BITS)
            .cast_mut()
            .cast::<Named>();
        // SAFETY: the caller has seen the bit, which says that `new` made the word from a box; it is there.
        if unsafe { &*named }.registered && has_register() {
            part(named.addr()).with(|part| part.remove(&named.addr()));
        }
        // SAFETY: as above. It is dropped here, once, and a thread that read it through the register is done.
        drop(unsafe { Box::from_raw(named) });
    }

    fn named(&self) -> Option<&Named> {
        (self.0.addr() & NAMED != 0).then(|| {
            let named = self.0.map_addr(|address| address & !BITS).cast::<Named>();
            // SAFETY: the bit says that `new` made the word from a box, which lives as long as `self`.
            unsafe { &*named }
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
            None => unsafe {
                &*self
                    .0
                    .map_addr(|address| address & !BITS)
                    .cast::<Location<'static>>()
            },
        }
    }
}

/// Returns the name, if there is one, and the spawn site of the task whose
/// [`TaskRef::origin_word`](crate::TaskRef::origin_word) is `word`. The task may have ended.
///
/// Returns `None` if the task had a name and has ended, or if the word is null. If another named task was
/// made in the memory of an ended one, the answer is about that one. In a child made by `fork()` it is `None`
/// for named tasks. For named tasks it takes a lock and copies the name.
///
/// # Safety
///
/// The word is one that `origin_word` gave, or null.
#[must_use]
pub unsafe fn told_of(word: *const ()) -> Option<(Option<String>, &'static Location<'static>)> {
    if word.addr() & NAMED == 0 {
        let location = word
            .map_addr(|address| address & !BITS)
            .cast::<Location<'static>>();
        // SAFETY: null, or without the bit the word is the `&'static Location` that `new` was given, and the
        // kind.
        return unsafe { location.as_ref() }.map(|location| (None, location));
    }
    let named = word.map_addr(|address| address & !BITS).cast::<Named>();
    if !has_register() {
        return None;
    }
    part(named.addr()).with(|part| {
        part.contains(&named.addr()).then(|| {
            // SAFETY: a box at this address is alive. It is not freed before it has left the register, which
            // needs the lock that is held here. It does not change.
            let named = unsafe { &*named };
            (Some(named.name.clone().into_owned()), named.location)
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
        let plain = Origin::new(TaskKind::Job, here, None);
        assert_eq!((plain.name(), plain.location()), (None, here));
        // SAFETY: it is the word of an origin.
        assert_eq!(unsafe { told_of(plain.word()) }, Some((None, here)));
        // SAFETY: null is a word, too.
        assert_eq!(unsafe { told_of(std::ptr::null()) }, None);
        for name in [Cow::Borrowed("reader"), Cow::Owned(String::from("writer 7"))] {
            let named = Origin::new(TaskKind::Blocking, here, Some(name.clone()));
            assert_eq!((named.name(), named.location()), (Some(&*name), here));
            assert!(format!("{named:?}").starts_with(&*name));
            let word = named.word();
            assert_eq!(
                (kind_of(word), kind_of(plain.word())),
                (TaskKind::Blocking, TaskKind::Job)
            );
            // SAFETY: as above.
            assert_eq!(unsafe { told_of(word) }, Some((Some(name.into_owned()), here)));
            drop(named);
            // SAFETY: as above. The register says that the box is gone, unless a concurrent test has one
            // there now.
            if let Some((name, _)) = unsafe { told_of(word) } {
                assert!(name.is_some_and(|name| name.starts_with("brief")));
            }
        }
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
                            let named = Origin::new(
                                TaskKind::Fiber,
                                Location::caller(),
                                Some(Cow::Owned(format!("brief {at}"))),
                            );
                            words[at].store(named.word().cast_mut(), Ordering::Relaxed);
                            continue;
                        }
                        for word in &*words {
                            // SAFETY: each was the word of an origin, or is null.
                            let told = unsafe { told_of(word.load(Ordering::Relaxed)) };
                            if let Some((name, _)) = told {
                                heard += 1;
                                assert!(name.is_some_and(|name| name.starts_with("brief")));
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
