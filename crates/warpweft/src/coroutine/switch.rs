//! A coroutine on x86-64 Linux: a closure on a separate stack, by jumps between stacks on one thread.
//!
//! The other implementations, with the same interface, are in `portable.rs` (for systems on which these few
//! instructions have not been tested) and `on_thread.rs`.
//!
//! ```text
//!   resume ── jump ─▶ closure ── jump ─▶ another closure ── jump ─▶ where `resume` was called
//!     left as `back`    left as `left`     has `back` from the first
//! ```
//!
//! The code that leaves a stack pushes the two registers that the compiler does not give up, and the address
//! at which it continues. The compiler saves the rest (all registers are clobbered). The code then loads the
//! other stack's pointer and jumps to the address there. There is no `call` and no `ret`: the processor's
//! list of return addresses stays the thread's. So a function that was called before a switch returns as
//! predicted, if the stacks that take turns called it from the same place.
//!
//! Nothing unwinds from one stack into another: closures do not unwind, and a backtrace ends at [`enter`].
//! Unwinding within a stack does not meet a switch, which calls nothing.
//!
//! For tools: valgrind's `memcheck` takes a jump between neighbouring stacks for a large frame. It needs
//! `--max-stackframe=30000`, or a build with `--cfg warpweft_corosensei`.
//!
//! # Invariants
//!
//! - `left` is null while the closure runs and when it has ended. Otherwise it is the stack pointer to three
//!   words: the address at which it continues, rbx, rbp. Before the first run these are [`enter`], the
//!   address of [`run`], and the closure.
//! - `back` is right while the closure runs.

use super::stack::StackMemory;
use crate::coroutine::Input;
use std::arch::{asm, naked_asm};
use std::cell::Cell;
use std::mem::{ManuallyDrop, align_of, offset_of, size_of};
use std::ptr;
use warpweft_platform::stack_copy::Registers;

/// True if one stack can be left directly for another.
pub(crate) const SWITCHES_DIRECTLY: bool = true;

/// The word that `resume` receives: the closure has switched away,
const SWITCHED: usize = 0;
/// or it has ended.
const ENDED: usize = 1;
/// The word that a closure receives: it continues,
const GO: usize = 0;
/// or unwinds.
const UNWIND: usize = 1;

/// The handle with which the closure switches away: where its stack was left, and where the stack that
/// resumed it was.
pub(crate) struct Switch {
    left: Cell<*mut u8>,
    back: Cell<*mut u8>,
}

impl Switch {
    /// Returns control to the code that resumed the closure, until it is resumed again.
    #[allow(
        clippy::inline_always,
        reason = "each return behind a switch of stacks may be mispredicted"
    )]
    #[inline(always)]
    pub(crate) fn suspend(&self, (): ()) -> Input {
        self.leave_to(self.back.get())
    }

    #[allow(clippy::inline_always, reason = "as `suspend`")]
    #[inline(always)]
    fn leave_to(&self, to: *mut u8) -> Input {
        // SAFETY: the closure runs, so `back`, or the other one's `left`, for which the caller guarantees, is
        // where a stack of this thread was left. Each was left once since it continued.
        match unsafe { switch(&self.left, to, self, SWITCHED) } {
            GO => Input::Go,
            _ => Input::Unwind,
        }
    }
}

/// Returns the registers with which a stack continues that was left. `switch` is the address of its
/// [`Switch`], and `read` reads a word of memory. The stack may continue meanwhile: then the result says
/// nothing. Returns `None` if it runs, or has ended.
pub(crate) fn left_registers(switch: u64, read: impl Fn(u64) -> Option<u64>) -> Option<Registers> {
    let left = read(switch + offset_of!(Switch, left) as u64).filter(|&left| left != 0)?;
    // See the invariants: the address, rbx, rbp.
    let word = |at: u64| read(left + at * size_of::<usize>() as u64);
    Some(Registers {
        pc: word(0)?,
        sp: left + 3 * size_of::<usize>() as u64,
        fp: word(2)?,
        lr: 0,
    })
}

/// Leaves the stack of `from`, which runs, for that of `next`. The latter then comes back to the code that
/// resumed `from`. Without `next` the switch goes there at once.
///
/// # Safety
///
/// `from` belongs to the calling stack; `next` has begun, has not ended, and does not run; both belong to
/// this thread.
#[allow(clippy::inline_always, reason = "as `Switch::suspend`")]
#[inline(always)]
pub(crate) unsafe fn leave_for(from: &Switch, next: Option<&RawCoroutine>) -> Input {
    let back = from.back.get();
    from.leave_to(next.map_or(back, |next| {
        next.switch.back.set(back);
        next.switch.left.get()
    }))
}

/// A closure and its stack. From the first resume on it stays on that thread, and does not move in memory.
pub(crate) struct RawCoroutine {
    switch: Switch,
    /// How to drop the closure, which is on the stack; `None` from the first run on.
    unrun: Cell<Option<unsafe fn(*mut u8)>>,
    stack: ManuallyDrop<StackMemory>,
}

impl RawCoroutine {
    /// # Safety
    ///
    /// What `body` borrows is there until it has returned. `body` does not unwind. The value does not move
    /// from its first [`resume`](Self::resume) to the end of `body`.
    pub(crate) unsafe fn new<F: FnOnce(&Switch)>(stack: StackMemory, body: F) -> Self {
        let top = ptr::with_exposed_provenance_mut::<u8>(stack.top());
        let align = align_of::<F>().max(16);
        let place = top.map_addr(|top| (top - size_of::<F>()) & !(align - 1));
        debug_assert!(
            place.addr() > stack.bottom() + (stack.bytes() >> 1),
            "a small closure"
        );
        let left = place.wrapping_sub(2 * size_of::<usize>()).cast::<usize>();
        let main: unsafe extern "sysv64" fn(*const Switch, *mut F) -> ! = run::<F>;
        let start: unsafe extern "sysv64" fn() -> ! = enter;
        // SAFETY: at the top of a stack that no code uses, and aligned.
        unsafe { place.cast::<F>().write(body) };
        // SAFETY: as above, right below it.
        unsafe { left.cast::<[usize; 2]>().write([start as usize, main as usize]) };
        Self {
            switch: Switch {
                left: Cell::new(left.cast()),
                back: Cell::new(ptr::null_mut()),
            },
            unrun: Cell::new(Some(|left| {
                // SAFETY: `drop` passes the address at which the closure was written above, once.
                unsafe {
                    left.wrapping_add(2 * size_of::<usize>())
                        .cast::<F>()
                        .drop_in_place();
                }
            })),
            stack: ManuallyDrop::new(stack),
        }
    }

    /// Runs the closure until it, or one that it was left for, switches back here or ends. Returns true if
    /// that one has ended.
    #[allow(clippy::inline_always, reason = "as `Switch::suspend`")]
    #[inline(always)]
    pub(crate) fn resume(&self, input: Input) -> bool {
        debug_assert!(!self.switch.left.get().is_null(), "it runs, or has ended");
        self.unrun.set(None);
        let input = match input {
            Input::Go => GO,
            Input::Unwind => UNWIND,
        };
        // SAFETY: `left` is where its stack was left, or begins; it belongs to this thread.
        let word = unsafe {
            switch(
                &self.switch.back,
                self.switch.left.get(),
                &raw const self.switch,
                input,
            )
        };
        word == ENDED
    }

    pub(crate) fn into_stack(self) -> StackMemory {
        debug_assert!(self.switch.left.get().is_null(), "it has not ended");
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so the stack is taken out once.
        unsafe { ptr::read(&*this.stack) }
    }
}

impl Drop for RawCoroutine {
    fn drop(&mut self) {
        let left = self.switch.left.get();
        if let Some(drop_body) = self.unrun.get() {
            // SAFETY: it was never run, so the closure is where `new` has put it.
            unsafe { drop_body(left) };
        } else if !left.is_null() {
            // It is in the middle of the closure. Other code may know its frames, so the stack stays as it
            // is, for ever.
            return;
        }
        // SAFETY: nothing is left on it, and it is dropped once.
        unsafe { ManuallyDrop::drop(&mut self.stack) };
    }
}

/// The first frame of each stack: it runs the closure, and then switches back to the code that resumed it
/// last.
///
/// # Safety
///
/// Called by [`enter`]: the switch is of the calling stack, and `body` was written there by `new`.
unsafe extern "sysv64" fn run<F: FnOnce(&Switch)>(switch: *const Switch, body: *mut F) -> ! {
    // SAFETY: by contract; a coroutine does not move once it has begun, and its owner keeps it until the end.
    let switch = unsafe { &*switch };
    // SAFETY: by contract, and it is read once.
    let body = unsafe { body.read() };
    body(switch);
    switch.left.set(ptr::null_mut());
    // SAFETY: as in `suspend`; nothing on this stack is used any more.
    unsafe {
        asm!(
            "mov rsp, rsi",
            "pop rax",
            "jmp rax",
            in("rsi") switch.back.get(),
            in("rcx") ENDED,
            options(noreturn)
        )
    }
}

/// The begin of a stack: rsp is at the address of [`run`], the closure is behind it, and rdx is its switch.
/// It is a frame without a caller, where backtraces end.
///
/// # Safety
///
/// Only [`switch`] jumps here.
#[unsafe(naked)]
unsafe extern "sysv64" fn enter() -> ! {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        // The closure's address is a multiple of 16, and so is rsp then.
        "pop rax",
        "mov rdi, rdx",
        "mov rsi, rsp",
        "xor ebp, ebp",
        // A return address for backtraces, without a call that the processor would remember. No code returns
        // to it.
        "lea rcx, [rip + 2f]",
        "push rcx",
        "jmp rax",
        "2:",
        "ud2",
        ".cfi_endproc",
    )
}

/// Leaves the calling stack, notes its position in `left`, and continues with the stack that was left at
/// `to`. Returns when the calling stack continues, with the word of the code that resumed it.
///
/// # Safety
///
/// At `to` this function left a stack of this thread, once since that stack continued; or a stack begins
/// there, with the switch `own`.
#[allow(clippy::inline_always, reason = "as `Switch::suspend`")]
#[inline(always)]
unsafe fn switch(left: &Cell<*mut u8>, to: *mut u8, own: *const Switch, mut word: usize) -> usize {
    // SAFETY: by contract. All registers are given up, except rbx and rbp, which cannot be: they are kept on
    // the stack. Pushing to that stack is allowed, and it is unchanged when it continues.
    unsafe {
        asm!(
            "push rbp",
            "push rbx",
            "lea rax, [rip + 2f]",
            "push rax",
            "mov [rdi], rsp",
            "mov rsp, rsi",
            "pop rax",
            "jmp rax",
            "2:",
            "pop rbx",
            "pop rbp",
            inlateout("rdi") left.as_ptr() => _,
            inlateout("rsi") to => _,
            inlateout("rdx") own => _,
            inlateout("rcx") word,
            lateout("r12") _,
            lateout("r13") _,
            lateout("r14") _,
            lateout("r15") _,
            clobber_abi("sysv64"),
        );
    }
    word
}

#[cfg(test)]
mod tests {
    use super::{Input, RawCoroutine, Switch, leave_for};
    use crate::coroutine::stack::StackMemory;
    use crate::coroutine::stack::{LEAST_BYTES, Stacks};
    use std::cell::{Cell, RefCell};
    use std::hint::black_box;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::Arc;

    fn stack() -> StackMemory {
        Arc::new(Stacks::new(4 * LEAST_BYTES, 10)).take().expect("memory")
    }

    /// Boxed: a coroutine does not move.
    fn coroutine<'a>(body: impl FnOnce(&Switch) + 'a) -> Box<RawCoroutine> {
        // SAFETY: the tests run it to its end before what it borrows is dropped, or never; it is in a box.
        Box::new(unsafe { RawCoroutine::new(stack(), body) })
    }

    /// Leaves the calling stack for that of `next`.
    fn leave(from: &Switch, next: &RawCoroutine) -> Input {
        // SAFETY: the tests call it on the stack of `from`, for a coroutine that has begun and waits.
        unsafe { leave_for(from, Some(next)) }
    }

    #[test]
    fn a_closure_that_was_never_run_is_dropped() {
        let kept = Arc::new(());
        let captured = Arc::clone(&kept);
        drop(coroutine(move |_| drop(captured)));
        assert_eq!(Arc::strong_count(&kept), 1);
    }

    #[test]
    fn words_go_both_ways_and_the_stack_comes_back() {
        let told = RefCell::new(Vec::new());
        let it = coroutine(|switch| {
            told.borrow_mut().push(switch.suspend(()));
            told.borrow_mut().push(switch.suspend(()));
        });
        assert!(!it.resume(Input::Go) && !it.resume(Input::Unwind) && it.resume(Input::Go));
        assert_eq!(*told.borrow(), [Input::Unwind, Input::Go]);
        assert!(it.into_stack().bytes() >= LEAST_BYTES);
    }

    /// Fills all registers that the compiler may use, on both sides of a switch.
    #[inline(never)]
    fn busy(seed: u64, mut switches: impl FnMut()) -> (u64, f64) {
        let mut ints: [u64; 14] = std::array::from_fn(|n| black_box(seed + n as u64));
        let mut floats: [f64; 14] = std::array::from_fn(|n| black_box((seed + n as u64) as f64));
        for round in 0..50 {
            ints.iter_mut()
                .for_each(|it| *it = it.wrapping_mul(31).wrapping_add(round));
            floats.iter_mut().for_each(|it| *it = *it * 1.25 + 0.5);
            switches();
        }
        (ints.iter().fold(0, |all, it| all ^ it), floats.iter().sum())
    }

    #[test]
    fn nothing_is_lost_in_a_switch() {
        let inside = Cell::new(None);
        let it = coroutine(|switch| inside.set(Some(busy(7, || _ = switch.suspend(())))));
        let outside = busy(1000, || assert!(!it.resume(Input::Go)));
        assert!(it.resume(Input::Go));
        assert_eq!(inside.get(), Some(busy(7, || ())));
        assert_eq!(outside, busy(1000, || ()));
    }

    #[test]
    fn a_closure_may_want_to_lie_straight() {
        #[repr(align(128))]
        struct Straight(u8);
        let straight = Straight(1);
        let it = coroutine(move |_| {
            assert_eq!((&raw const straight).addr() % 128, 0);
            assert_eq!(straight.0, 1);
        });
        assert!(it.resume(Input::Go));
    }

    /// Resumes it from a deeper frame than the others.
    #[inline(never)]
    fn from_below(it: &RawCoroutine) -> bool {
        let deep = black_box([1_u8; 999]);
        let ended = it.resume(Input::Go);
        assert_eq!(black_box(deep), [1; 999]);
        ended
    }

    #[test]
    fn who_is_left_for_comes_back_to_who_resumed_the_first() {
        let order = RefCell::new(Vec::new());
        let tell = |what: &'static str| order.borrow_mut().push(what);
        let second = coroutine(|switch| {
            tell("second begins");
            switch.suspend(());
            tell("second goes on");
        });
        assert!(!second.resume(Input::Go));
        let first = coroutine(|switch| {
            tell("first leaves");
            leave(switch, &second);
            tell("first goes on");
        });
        assert!(from_below(&first), "the second has ended");
        assert!(first.resume(Input::Go));
        assert_eq!(
            *order.borrow(),
            ["second begins", "first leaves", "second goes on", "first goes on"]
        );
        second.into_stack();
        first.into_stack();
    }

    #[test]
    fn a_panic_is_caught_where_it_began() {
        let results = RefCell::new(Vec::new());
        let body = |switch: &Switch| {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                if switch.suspend(()) == Input::Unwind {
                    resume_unwind(Box::new("unwound"));
                }
            }));
            results
                .borrow_mut()
                .push(caught.err().and_then(|it| it.downcast::<&str>().ok()));
        };
        let (first, second) = (coroutine(body), coroutine(body));
        assert!(!first.resume(Input::Go) && !second.resume(Input::Go));
        assert!(first.resume(Input::Unwind) && second.resume(Input::Go));
        assert_eq!(*results.borrow(), [Some(Box::new("unwound")), None]);
    }

    #[test]
    fn one_in_the_middle_keeps_its_stack_for_ever() {
        let kept = Arc::new(());
        let captured = Arc::clone(&kept);
        let it = coroutine(move |switch| {
            switch.suspend(());
            drop(captured);
        });
        assert!(!it.resume(Input::Go));
        drop(it);
        assert_eq!(Arc::strong_count(&kept), 2);
    }
}
