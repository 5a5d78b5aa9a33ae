//! Bodies that continue elsewhere than they began: under another token, or on a thread that has changed its
//! pool.

use super::Ask;
use std::cell::RefCell;
use std::hint::black_box;
use warpweft::cancel::{self, CancelToken};
use warpweft::effect::{Continuation, Coroutine, Handler, Next, perform};

thread_local!(static KEPT: RefCell<Option<Coroutine<u32>>> = const { RefCell::new(None) });

/// A clause that keeps the answered body.
fn keep(_: Ask, k: Continuation<Ask, u32>) -> Next<u32, u32> {
    KEPT.with(|kept| *kept.borrow_mut() = Some(k.resume(1)));
    Next::Leave(0)
}

fn begin(body: impl FnOnce() -> u32 + 'static) {
    assert_eq!(Handler::new().on(keep).run(Coroutine::new(body)), 0);
}

fn go_on() -> u32 {
    Handler::new().on(keep).run(KEPT.take().expect("it was kept"))
}

/// Writes over what ended frames have left on this stack.
#[inline(never)]
fn write_over() {
    black_box([!0_u8; 20_000]);
}

/// It began on a thread of no pool, in a frame that has ended, and has the token that counted there.
#[test]
fn a_body_keeps_its_token_when_the_frame_of_its_runner_has_ended() {
    let token = CancelToken::new();
    let mine = token.clone();
    let run = || {
        begin(move || {
            perform(Ask);
            let before = cancel::is_cancelled();
            mine.cancel();
            u32::from(!before && cancel::current().is_some() && cancel::is_cancelled())
        });
    };
    token.run(run).expect("not cancelled yet");
    write_over();
    assert_eq!(go_on(), 1);
    assert!(cancel::current().is_none());
}
