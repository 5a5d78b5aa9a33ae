//! What other threads post to a thread, and what they must wake, under loom.
#![cfg(warpweft_loom)]

#[allow(dead_code, reason = "the models use a part of it")]
#[path = "../src/threads/mailbox.rs"]
mod mailbox;

use loom::thread;
use mailbox::{FiberKey, Link, Mailbox, MailboxClosed, MailboxEntry, RequiredWake};
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_platform::atomic::{AtomicBool, Ordering};
use warpweft_platform::cell::UnsafeCell;

/// What a poster posts: loom reports accesses that race.
#[repr(C)]
struct Waker {
    link: Link,
    said: UnsafeCell<u32>,
}

/// Posts a waker that says so, and gives it back if it was refused.
fn post(mailbox: &Mailbox, said: u32) -> Result<RequiredWake, MailboxClosed> {
    let waker = Box::new(Waker {
        link: Link::new(),
        said: UnsafeCell::new(0),
    });
    // SAFETY: no other thread has it yet.
    waker.said.with_mut(|place| unsafe { *place = said });
    let waker = NonNull::from(Box::leak(waker));
    // SAFETY: the waker is in no mailbox, and stays where it is until `said` frees it.
    let posted = unsafe { mailbox.post_waker(waker.cast::<Link>()) };
    if posted == Err(MailboxClosed) {
        // SAFETY: leaked above, and refused.
        drop(unsafe { Box::from_raw(waker.as_ptr()) });
    }
    posted
}

/// What an entry says.
#[allow(clippy::needless_pass_by_value, reason = "it frees what the entry is")]
fn said(entry: MailboxEntry) -> u32 {
    match entry {
        MailboxEntry::Key(key) => key.slot,
        MailboxEntry::Notified(link) => {
            // SAFETY: `post` leaked it, and the mailbox hands it out once.
            let waker = unsafe { Box::from_raw(link.as_ptr().cast::<Waker>()) };
            // SAFETY: loom checks that no other thread writes.
            waker.said.with(|said| unsafe { *said })
        }
    }
}

fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(body);
}

/// Lets two threads post while `own` does what the mailbox's thread does. Returns what that returned, and
/// what the posters had to wake.
fn with_posters<R>(mailbox: &Arc<Mailbox>, own: impl FnOnce(&Mailbox) -> R) -> (R, [RequiredWake; 2]) {
    let posters = [1, 2].map(|number| {
        let mailbox = Arc::clone(mailbox);
        thread::spawn(move || match number {
            1 => post(&mailbox, number).expect("it is open"),
            _ => mailbox.post_key(FiberKey {
                slot: number,
                turn: 0,
            }),
        })
    });
    let result = own(mailbox);
    (result, posters.map(|poster| poster.join().expect("no panic")))
}

#[test]
fn what_is_posted_is_taken_once() {
    model(|| {
        let mailbox = Arc::new(Mailbox::new());
        let (mut taken, _) = with_posters(&mailbox, |mailbox| {
            mailbox.take_all().map(said).collect::<Vec<_>>()
        });
        taken.extend(mailbox.take_all().map(said));
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
    });
}

#[test]
fn what_one_thread_posts_comes_in_its_order() {
    model(|| {
        let mailbox = Arc::new(Mailbox::new());
        let poster = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || (1..4).for_each(|number| _ = post(&mailbox, number)))
        };
        let mut taken: Vec<_> = mailbox.take_all().map(said).collect();
        poster.join().expect("no panic");
        taken.extend(mailbox.take_all().map(said));
        assert_eq!(taken, [1, 2, 3]);
    });
}

#[test]
fn a_worker_that_went_to_sleep_is_called() {
    model(|| {
        let mailbox = Arc::new(Mailbox::new());
        mailbox.carry(Some(3));
        let (sleeps, calls) = with_posters(&mailbox, |mailbox| {
            mailbox.set_rests(true);
            !mailbox.is_ready()
        });
        assert!(!sleeps || calls == [RequiredWake::Worker(3); 2], "{calls:?}");
        assert_eq!(mailbox.take_all().map(said).count(), 2);
        mailbox.set_rests(false);
        assert_eq!(mailbox.carried(), Some(3));
    });
}

/// A third thread gives back a worker for the thread, which meanwhile has taken another one and rests.
#[test]
fn who_notes_that_a_thread_waits_sees_that_it_does_not() {
    model(|| {
        let mailbox = Arc::new(Mailbox::new());
        let other = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || mailbox.wait(false))
        };
        mailbox.carry(Some(3));
        mailbox.set_rests(true);
        let sleeps = !mailbox.is_ready();
        other.join().expect("no panic");
        assert!(sleeps);
        assert_eq!(mailbox.carried(), Some(3));
        assert_eq!(post(&mailbox, 1), Ok(RequiredWake::Worker(3)));
        assert_eq!(mailbox.take_all().map(said).count(), 1);
    });
}

/// A poster that asks for a worker sees what the thread did before it noted that it waits.
#[test]
fn who_asks_sees_that_the_thread_may_be_given_a_worker() {
    model(|| {
        let mailbox = Arc::new(Mailbox::new());
        let is_open = Arc::new(AtomicBool::new(false));
        let poster = {
            let (mailbox, is_open) = (Arc::clone(&mailbox), Arc::clone(&is_open));
            thread::spawn(move || {
                if post(&mailbox, 1) == Ok(RequiredWake::NewWorker) {
                    assert!(is_open.load(Ordering::Relaxed));
                }
            })
        };
        is_open.store(true, Ordering::Relaxed);
        mailbox.wait(false);
        poster.join().expect("no panic");
        assert_eq!(mailbox.take_all().map(said).count(), 1);
    });
}

/// The thread notes that it waits, and so does another thread for it. The one that asks sees what the thread
/// did before its note.
#[test]
fn one_of_two_that_note_a_wait_asks() {
    model(|| {
        let mailbox = Arc::new(Mailbox::new());
        let is_open = Arc::new(AtomicBool::new(false));
        assert_eq!(post(&mailbox, 1), Ok(RequiredWake::None));
        let other = {
            let (mailbox, is_open) = (Arc::clone(&mailbox), Arc::clone(&is_open));
            thread::spawn(move || (mailbox.wait(false), is_open.load(Ordering::Relaxed)))
        };
        is_open.store(true, Ordering::Relaxed);
        let own = mailbox.wait(false);
        let (by_other, was_open) = other.join().expect("no panic");
        assert!(own == Some(true) || by_other == Some(true) && was_open);
        assert_eq!(mailbox.take_all().map(said).count(), 1);
    });
}

/// As a fiber's waker: two threads call it, and its thread takes it out and looks.
#[test]
fn a_waker_that_is_posted_again_is_taken_again() {
    struct Entered {
        link: UnsafeCell<Link>,
        flag: AtomicBool,
    }
    // SAFETY: the flag says which thread uses the link; loom checks it.
    unsafe impl Sync for Entered {}
    model(|| {
        let mailbox = Arc::new(Mailbox::new());
        let waker = Arc::new(Entered {
            link: UnsafeCell::new(Link::new()),
            flag: AtomicBool::new(false),
        });
        let callers = [(); 2].map(|()| {
            let (mailbox, waker) = (Arc::clone(&mailbox), Arc::clone(&waker));
            thread::spawn(move || {
                if waker.flag.swap(true, Ordering::AcqRel) {
                    return 0;
                }
                // The flag was clear: the link is this thread's. Loom sees that as a write.
                let link = waker.link.with_mut(|link| link);
                let link = NonNull::new(link).expect("not null");
                // SAFETY: the flag was clear, so it is in no mailbox; the thread outlives it.
                unsafe { mailbox.post_waker(link) }.expect("it is open");
                1
            })
        });
        let take = || {
            let entries: Vec<_> = mailbox.take_all().collect();
            for _ in &entries {
                waker.link.with(|_| ());
                assert!(waker.flag.swap(false, Ordering::AcqRel));
            }
            entries.len()
        };
        let first = take();
        let posted: usize = callers
            .map(|caller| caller.join().expect("no panic"))
            .iter()
            .sum();
        assert_eq!(first + take(), posted);
    });
}

#[test]
fn a_thread_without_worker_gets_one_asker() {
    model(|| {
        let mailbox = Arc::new(Mailbox::new());
        let (own, calls) = with_posters(&mailbox, |mailbox| mailbox.wait(false));
        let by_others = calls
            .iter()
            .filter(|call| **call == RequiredWake::NewWorker)
            .count();
        assert_eq!(
            by_others + usize::from(own == Some(true)),
            1,
            "{own:?}, {calls:?}"
        );
        assert_eq!(mailbox.take_all().map(said).count(), 2);
    });
}

#[test]
fn the_flag_is_set_while_an_entry_is_there() {
    model(|| {
        let mailbox = Arc::new(Mailbox::new());
        mailbox.carry(Some(0));
        let (_, calls) = with_posters(&mailbox, |mailbox| {
            mailbox.set_ready();
            mailbox.clear_ready();
        });
        assert_eq!(calls, [RequiredWake::None; 2]);
        assert!(mailbox.may_be_ready());
        assert_eq!(mailbox.take_all().map(said).count(), 2);
        mailbox.clear_ready();
        assert!(!mailbox.may_be_ready() && !mailbox.is_ready());
    });
}

#[test]
fn what_comes_after_the_end_is_refused() {
    model(|| {
        let mailbox = Arc::new(Mailbox::new());
        let poster = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || {
                mailbox.post_key(FiberKey { slot: 7, turn: 0 });
                post(&mailbox, 1)
            })
        };
        let taken: Vec<_> = mailbox.close().map(said).collect();
        let posted = poster.join().expect("no panic");
        assert_eq!(posted.is_ok(), taken.contains(&1), "{taken:?}");
        assert_eq!(post(&mailbox, 1), Err(MailboxClosed));
        assert!(!mailbox.has_entries() && mailbox.take_all().next().is_none());
        assert_eq!(post(&mailbox, 1), Err(MailboxClosed));
    });
}
