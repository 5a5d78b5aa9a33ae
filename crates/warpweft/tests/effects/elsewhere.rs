//! Bodies that continue elsewhere than they began: under another token, or on a thread that has changed its
//! pool.

use super::{Ask, Dropped, Say, everywhere, panics, runtime};
use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::{Mutex, mpsc};
use std::{io, thread};
use warpweft::cancel::{self, CancelToken};
use warpweft::effect::{Continuation, Coroutine, Handler, Next, handle, perform};
use warpweft::{PoolThread, Runtime, blocking, scope, uncooperative};

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

/// Returns a runtime with one worker, and its thread.
fn with_thread() -> (Runtime, PoolThread, mpsc::Receiver<PoolThread>) {
    let (send, threads) = mpsc::channel();
    let send = Mutex::new(send);
    let start = move |thread| {
        let send = send.lock().map_err(|_| io::Error::other("poisoned"))?;
        send.send(thread).map_err(io::Error::other)
    };
    let builder = Runtime::builder().workers(1).stuck_after(None);
    let runtime = builder.start_threads(start).build().expect("a runtime");
    let thread = threads.recv().expect("one thread");
    (runtime, thread, threads)
}

/// The same thread is one of two pools, one after the other, and then of none.
#[test]
fn a_body_continues_in_its_own_pool_only() {
    const SAYS: &str = "can only continue in the pool";
    let dropped = Rc::new(RefCell::new(Vec::new()));
    let kept = || {
        let word = Dropped(Rc::clone(&dropped), "unwound");
        begin(move || {
            let _word = word;
            perform(Ask)
        });
    };
    kept();
    let (first, thread, threads) = with_thread();
    let entered = thread.enter();
    let said = panics(go_on);
    assert!(said.contains(SAYS), "{said}");
    assert!(dropped.borrow().is_empty(), "it is leaked");
    kept();
    assert_eq!(go_on(), 1);
    dropped.borrow_mut().clear();
    kept();
    let successor = thread::spawn(move || threads.recv().map(PoolThread::run));
    drop(entered);
    let body = KEPT.take();
    assert_eq!(dropped.borrow().len(), 0);
    // The pool is gone, but what the body needs is not.
    drop(first);
    successor.join().expect("no panic").expect("a thread");
    let (second, thread, threads) = with_thread();
    let entered = thread.enter();
    KEPT.set(body);
    let said = panics(go_on);
    assert!(said.contains(SAYS), "{said}");
    kept();
    drop(KEPT.take());
    assert_eq!(*dropped.borrow(), ["unwound"], "in its pool it is unwound");
    let successor = thread::spawn(move || threads.recv().map(PoolThread::run));
    drop(entered);
    drop(second);
    successor.join().expect("no panic").expect("a thread");
    kept();
    assert_eq!(go_on(), 1);
}

/// Returns true if a cancellation stops the code here.
fn stops() -> bool {
    let token = CancelToken::new();
    let stopped = token.run(|| {
        token.cancel();
        cancel::check();
    });
    stopped.is_err()
}

/// Tells whether it could be stopped before an effect, and afterwards.
fn before_and_after() -> u32 {
    let before = u32::from(stops());
    perform(Ask);
    10 * before + u32::from(stops())
}

/// Not of the thread: in a pool and outside, the handler's code stops while such a body is suspended.
#[test]
fn uncooperative_code_is_of_its_stack() {
    everywhere(|| {
        let body = || {
            let inside = uncooperative(|| {
                let before = stops();
                perform(Ask);
                before || stops()
            });
            u32::from(!inside && stops())
        };
        begin(body);
        assert!(stops(), "the body is suspended");
        assert_eq!(go_on(), 1);
        // On top of such code the body is uncooperative, too.
        uncooperative(|| begin(before_and_after));
        assert_eq!(go_on(), 1);
        begin(before_and_after);
        assert_eq!(uncooperative(go_on), 10);
        assert!(stops());
    });
}

/// The inner body is suspended with the outer one, and then by its own handler.
#[test]
fn uncooperative_code_below_a_chain_of_bodies() {
    everywhere(|| {
        let inner = || {
            let stopped = before_and_after();
            perform(Say("to the inner handler"));
            10 * stopped + u32::from(stops())
        };
        let chain = move || {
            let handler = Handler::new().on(|Say(_), k| {
                assert!(stops(), "nothing below is uncooperative any more");
                k.resume(())
            });
            handle(inner, handler)
        };
        uncooperative(|| begin(chain));
        assert_eq!(go_on(), 11);
        assert!(stops());
    });
}

/// The thread enters a pool, or leaves it, in the middle of an uncooperative call.
#[test]
fn an_uncooperative_call_ends_where_it_began() {
    let (runtime, thread, threads) = with_thread();
    let entered = uncooperative(|| thread.enter());
    assert!(stops());
    let successor = thread::spawn(move || threads.recv().map(PoolThread::run));
    uncooperative(|| drop(entered));
    assert!(stops());
    drop(runtime);
    successor.join().expect("no panic").expect("a thread");
}

/// What was outside of `blocking` continues inside of it, with all its handlers, and the other way round.
#[test]
fn a_chain_of_bodies_continues_in_blocking_and_outside_of_it() {
    fn inner() -> u32 {
        let sum = perform(Ask);
        perform(Say("to the inner handler"));
        sum + perform(Ask)
    }
    fn chain() -> u32 {
        handle(inner, Handler::new().on(|Say(_), k| k.resume(())))
    }
    fn blocked() -> u32 {
        let refused = || panics(|| blocking(|| perform(Say("to the inner handler"))));
        let sum = perform(Ask);
        let said = refused();
        assert!(said.contains("blocking"), "{said}");
        sum
    }
    let runtime = runtime(1);
    let job = runtime.spawn_job(|| {
        begin(chain);
        assert_eq!(blocking(go_on), 0);
        assert_eq!(go_on(), 2);
        blocking(|| begin(|| handle(blocked, Handler::new().on(|Say(_), k| k.resume(())))));
        assert_eq!(go_on(), 1);
    });
    job.wait().expect("no panic");
}

/// A job of its scope runs when the thread of the scope's owner has ended. Sanitizers would see that the job
/// uses what was the thread's.
#[test]
fn the_scope_of_a_leaked_body_keeps_its_pool() {
    let (send, threads) = mpsc::channel();
    let send = Mutex::new(send);
    let start = move |thread| {
        let send = send.lock().map_err(|_| io::Error::other("poisoned"))?;
        send.send(thread).map_err(io::Error::other)
    };
    let builder = Runtime::builder().workers(2).stuck_after(None);
    let runtime = builder.start_threads(start).build().expect("a runtime");
    let (first, second) = (threads.recv(), threads.recv());
    let other = thread::spawn(move || second.map(PoolThread::run));
    let successor = thread::spawn(move || threads.recv().map(PoolThread::run));
    let (tell, told) = mpsc::channel();
    let (go, goes) = mpsc::channel::<()>();
    let owner = move || {
        let entered = first.expect("a thread for each worker").enter();
        let body = move || {
            scope(|s| {
                s.spawn(move |s| {
                    tell.send(None).expect("somebody waits");
                    goes.recv().expect("it is sent");
                    let told = tell.send(Some(s.pool().name().to_owned()));
                    told.expect("somebody waits");
                });
                perform(Ask);
            });
        };
        let leak = |Ask, k: Continuation<Ask, ()>| std::mem::forget(k);
        handle(body, Handler::new().on(leak));
        drop(entered);
    };
    thread::spawn(owner).join().expect("no panic");
    assert_eq!(told.recv(), Ok(None), "another thread runs it");
    go.send(()).expect("it waits");
    assert_eq!(told.recv(), Ok(Some(String::from("warpweft"))));
    drop(runtime);
    other.join().expect("no panic").expect("a thread");
    successor.join().expect("no panic").expect("a thread");
}
