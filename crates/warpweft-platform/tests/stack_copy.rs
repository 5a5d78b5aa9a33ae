//! Copies of the stacks of other threads, and the signal by which they are made. It has its own process,
//! because handlers of signals belong to the process.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(warpweft_loom, warpweft_shuttle))
))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use warpweft_platform::stack_copy::{
    MOST_BYTES, NoCopy, Registers, StackCopy, StackDescription, ask, copy_at,
};
use warpweft_platform::thread_state;

/// Counts what each thread allocates.
struct Counting;

thread_local!(static ALLOCATIONS: Cell<usize> = const { Cell::new(0) });

// SAFETY: it leaves all to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: by contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: by contract.
        unsafe { System.dealloc(place, layout) };
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

const PATIENCE: Duration = Duration::from_secs(60);

fn describe(note: &mut StackDescription) {
    note.word = 77;
    note.text[..2].copy_from_slice(b"it");
    note.length = 2;
}

/// Asks until the thread has answered, which takes longer where it has no CPU.
fn copy(thread: u32, signal: Option<i32>) -> Result<StackCopy, NoCopy> {
    let start = Instant::now();
    loop {
        let answer = match ask(thread, signal, describe) {
            Ok(mut asked) => loop {
                if let Some(answer) = asked.poll() {
                    break answer;
                }
                thread::yield_now();
            },
            Err(error) => Err(error),
        };
        match answer {
            Err(NoCopy::NoCpu | NoCopy::Busy) if start.elapsed() < PATIENCE => (),
            answer => return answer,
        }
    }
}

/// Runs `body` on a thread, and `observe` here with its number, until `observe` has returned.
fn beside(body: impl FnOnce(&AtomicBool) + Send, observe: impl FnOnce(u32)) {
    let over = AtomicBool::new(false);
    let (tell, told) = channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            tell.send(thread_state::thread().expect("Linux numbers threads"))
                .expect("it is awaited");
            body(&over);
        });
        let number = told.recv().expect("it starts");
        // Also if `observe` panics, so that the scope ends.
        let result = catch_unwind(std::panic::AssertUnwindSafe(|| observe(number)));
        over.store(true, Ordering::SeqCst);
        result.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

const MAGIC: u64 = 0x0123_4567_89ab_cdef;

#[test]
fn the_copy_has_the_frames_of_a_thread_that_computes() {
    let place = AtomicUsize::new(0);
    let body = |over: &AtomicBool| {
        let word = black_box(MAGIC);
        place.store((&raw const word).addr(), Ordering::SeqCst);
        while !over.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        assert_eq!(black_box(word), MAGIC);
    };
    beside(body, |thread| {
        while place.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        let copy = copy(thread, None).expect("it answers");
        assert_eq!(copy.word_at(place.load(Ordering::SeqCst) as u64), Some(MAGIC));
        assert_eq!((copy.note.word, &copy.note.text[..2]), (77, &b"it"[..]));
        assert!(copy.bytes.len() <= MOST_BYTES && copy.registers.sp >= copy.start);
        assert_eq!(copy.word_at(copy.start + copy.bytes.len() as u64 - 7), None);
        assert_eq!(copy.word_at(copy.start.wrapping_sub(8)), None);
        assert_eq!(copy.word_at(u64::MAX), None);
    });
}

#[test]
fn a_stack_that_does_not_run_is_copied() {
    // Pages of memory, and nothing behind them.
    let page = 4096;
    // SAFETY: it maps new memory.
    let place = unsafe {
        let (prot, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        libc::mmap(std::ptr::null_mut(), 3 * page, prot, flags, -1, 0)
    };
    assert_ne!(place, libc::MAP_FAILED);
    let last = place.map_addr(|address| address + 2 * page);
    // SAFETY: the last page is ours.
    assert_eq!(unsafe { libc::mprotect(last, page, libc::PROT_NONE) }, 0);
    let second = place.map_addr(|address| address + page).cast::<u64>();
    // SAFETY: the second page is readable and writable, and aligned.
    unsafe { second.write(MAGIC) };
    let registers = |at| Registers {
        sp: (place.addr() + at) as u64,
        ..Registers::default()
    };
    let copy = copy_at(registers(page - 64)).expect("it is there");
    assert_eq!(copy.bytes.len(), page + 64, "it ends where the memory does");
    assert_eq!(copy.word_at(registers(page).sp), Some(MAGIC));
    assert_eq!(
        copy_at(registers(2 * page)),
        Err(NoCopy::Unreadable(libc::EFAULT))
    );
    // SAFETY: nothing refers to it any more.
    unsafe { libc::munmap(place, 3 * page) };
    assert!(
        copy_at(Registers {
            sp: 8,
            ..Registers::default()
        })
        .is_err()
    );
    assert!(
        copy_at(Registers {
            sp: u64::MAX,
            ..Registers::default()
        })
        .is_err()
    );
}

#[test]
fn a_deep_stack_is_cut_off() {
    let there = AtomicBool::new(false);
    let body = |over: &AtomicBool| {
        let deep = black_box([1_u8; 3 * MOST_BYTES]);
        there.store(true, Ordering::SeqCst);
        while !over.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        assert_eq!(black_box(deep)[MOST_BYTES], 1);
    };
    beside(body, |thread| {
        while !there.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        assert_eq!(copy(thread, None).expect("it answers").bytes.len(), MOST_BYTES);
    });
}

#[test]
fn the_handler_allocates_nothing_and_keeps_errno() {
    let ready = AtomicBool::new(false);
    let body = |over: &AtomicBool| {
        // SAFETY: it takes nothing.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: the place is valid on this thread.
        unsafe { errno.write(1234) };
        let before = ALLOCATIONS.with(Cell::get);
        ready.store(true, Ordering::SeqCst);
        while !over.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        // SAFETY: as above.
        assert_eq!(unsafe { errno.read() }, 1234);
        assert_eq!(ALLOCATIONS.with(Cell::get), before);
    };
    beside(body, |thread| {
        while !ready.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        for _ in 0..100 {
            copy(thread, None).expect("it answers");
        }
    });
}

#[test]
fn a_thread_that_sleeps_in_the_kernel_answers() {
    let (wake, woken) = channel::<()>();
    let woken = Mutex::new(woken);
    let body = |_: &AtomicBool| {
        let _ = woken.lock().unwrap_or_else(PoisonError::into_inner).recv();
    };
    beside(body, |thread| {
        let start = Instant::now();
        while thread_state::of(thread).is_none_or(|its| its.state != 'S') {
            assert!(start.elapsed() < PATIENCE, "it never sleeps");
        }
        assert!(copy(thread, None).is_ok());
        drop(wake);
    });
}

#[test]
fn a_thread_that_blocks_the_signal_is_said_to() {
    let blocked = AtomicBool::new(false);
    let body = |over: &AtomicBool| {
        // SAFETY: all zeroes are a valid set.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set is valid.
        unsafe { libc::sigaddset(&raw mut set, libc::SIGURG) };
        // SAFETY: as above; it changes the mask of this thread only.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        blocked.store(true, Ordering::SeqCst);
        while !over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
    };
    beside(body, |thread| {
        while !blocked.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        assert_eq!(copy(thread, None), Err(NoCopy::Blocked(libc::SIGURG)));
    });
}

static FOREIGN: AtomicU32 = AtomicU32::new(0);

extern "C" fn foreign(_: i32) {
    FOREIGN.fetch_add(1, Ordering::SeqCst);
}

/// Sets a handler of the program.
fn handle(signal: i32) {
    // SAFETY: all zeroes are a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = foreign as *const () as usize;
    // SAFETY: the action is valid, and its handler touches an atomic only.
    let result = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    assert_eq!(result, 0);
}

#[test]
fn the_programs_signals_reach_its_handler() {
    handle(libc::SIGUSR2);
    let signal = Some(libc::SIGUSR2);
    beside(spin, |thread| {
        assert!(copy(thread, signal).is_ok());
        // Ours do not reach it,
        assert_eq!(FOREIGN.load(Ordering::SeqCst), 0);
        // SAFETY: it takes a number.
        unsafe { libc::raise(libc::SIGUSR2) };
        // and the others do.
        assert_eq!(FOREIGN.load(Ordering::SeqCst), 1);
        assert!(copy(thread, signal).is_ok());
        assert_eq!(FOREIGN.load(Ordering::SeqCst), 1);
        // One that is set later replaces ours.
        handle(libc::SIGUSR2);
        assert_eq!(copy(thread, signal), Err(NoCopy::SignalInUse(libc::SIGUSR2)));
    });
}

fn spin(over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

#[test]
fn signals_that_cannot_be_handled_are_refused() {
    for signal in [0, -1, 1000, libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, i32::MIN] {
        assert_eq!(copy(1, Some(signal)), Err(NoCopy::BadSignal(signal)));
        assert!(NoCopy::BadSignal(signal).to_string().contains("choose another"));
    }
}

/// How many signals are sent in tests that repeat one; more in the nightly run.
fn repeats() -> usize {
    std::env::var("WARPWEFT_SIGNALS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1000)
}

#[test]
fn signals_come_while_a_thread_unwinds() {
    let unwound = AtomicUsize::new(0);
    let body = |over: &AtomicBool| {
        struct Counts<'a>(&'a AtomicUsize);
        impl Drop for Counts<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        #[inline(never)]
        fn deep(levels: u32, counts: &AtomicUsize) {
            let _counts = Counts(counts);
            if levels == 0 {
                resume_unwind(Box::new(()));
            }
            deep(black_box(levels - 1), counts);
        }
        while !over.load(Ordering::Relaxed) {
            assert!(catch_unwind(|| deep(10, &unwound)).is_err());
        }
    };
    beside(body, |thread| {
        for _ in 0..repeats() {
            copy(thread, None).expect("it answers");
        }
    });
    assert!(unwound.load(Ordering::Relaxed) > 10);
}

#[test]
fn threads_end_while_they_are_asked() {
    let over = AtomicBool::new(false);
    let number = AtomicU32::new(0);
    let answers = thread::scope(|scope| {
        let threads = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let one = thread::spawn({
                    let me = thread_state::thread;
                    move || me().expect("Linux numbers threads")
                });
                number.store(one.join().expect("no panic"), Ordering::Relaxed);
                let short =
                    scope.spawn(|| number.store(thread_state::thread().unwrap_or(0), Ordering::SeqCst));
                short.join().expect("no panic");
            }
        });
        let mut answers = [0; 2];
        for _ in 0..repeats() {
            let its = number.load(Ordering::SeqCst);
            let Ok(mut asked) = ask(its, None, describe) else {
                answers[0] += 1;
                continue;
            };
            if asked.poll().is_some_and(|answer| answer.is_ok()) {
                answers[1] += 1;
            }
            // Otherwise it is withdrawn, and the signal may come late.
        }
        over.store(true, Ordering::Relaxed);
        threads.join().expect("no panic");
        answers
    });
    assert!(answers[0] > 0, "no thread had ended: {answers:?}");
}

/// In a forked child the handler is there, and threads of the child are asked.
#[test]
fn a_forked_child_asks_its_own_threads() {
    beside(spin, |thread| {
        copy(thread, None).expect("it answers");
        // SAFETY: the child starts a thread, copies its stack, and ends. If it hangs, the alarm ends it.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: it takes a number.
            unsafe { libc::alarm(60) };
            let mut right = false;
            beside(spin, |thread| right = copy(thread, None).is_ok());
            // SAFETY: it takes a number and does not return.
            unsafe { libc::_exit(i32::from(!right)) };
        }
        let mut status = 0;
        // SAFETY: the status is valid for a write.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child failed, or hung");
    });
}
