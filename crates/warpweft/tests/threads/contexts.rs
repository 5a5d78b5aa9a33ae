//! Contexts of threads: entered before the first task, left after the last one, nested in their order.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use warpweft::effect::{Handler, handle};
use warpweft::{
    Builder, PoolThread, Runtime, ThreadRole, block_on, blocking, fiber, spawn_blocking, spawn_job,
};

thread_local! {
    /// The names of what the thread is in.
    static INSIDE: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// What the calling thread is in.
fn inside() -> Vec<&'static str> {
    INSIDE.with_borrow(Vec::clone)
}

/// A context, which is not `Send`. It must be left where it was entered, and as the last one that was.
struct Inside(&'static str, Rc<thread::ThreadId>);

impl Inside {
    fn enter(name: &'static str) -> Self {
        INSIDE.with_borrow_mut(|inside| inside.push(name));
        Self(name, Rc::new(thread::current().id()))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(|inside| {
            // A panic here would be caught: so the next look must see it.
            if (inside.pop(), *self.1) != (Some(self.0), thread::current().id()) {
                inside.push("left in the wrong order, or elsewhere");
            }
        });
    }
}

type Roles = Arc<Mutex<Vec<ThreadRole>>>;

/// Adds a context that notes which threads enter.
fn noted(builder: Builder, name: &'static str) -> (Builder, Roles) {
    let roles = Roles::default();
    let entered = Arc::clone(&roles);
    let builder = builder.thread_context(move |role| {
        entered.lock().expect("no panic").push(role);
        Inside::enter(name)
    });
    (builder, roles)
}

fn small() -> Builder {
    Runtime::builder().workers(1).stuck_after(None)
}

#[test]
fn all_code_of_a_pool_is_inside() {
    let (builder, roles) = noted(small(), "a");
    let runtime = builder.build().expect("a worker");
    let here = vec!["a"];
    assert_eq!(runtime.spawn_job(inside).wait().expect("no panic"), here);
    assert_eq!(runtime.spawn(async { inside() }).wait().expect("no panic"), here);
    let fiber = || fiber::spawn(inside).wait();
    assert_eq!(
        runtime.install(|_| fiber()).expect("open").expect("no panic"),
        here
    );
    assert_eq!(
        runtime.spawn_job(|| blocking(inside)).wait().expect("no panic"),
        here
    );
    // The frame that waits keeps its thread, and another one takes the worker over.
    let nested = runtime.spawn_job(|| (spawn_job(inside).wait(), inside()));
    let (other, own) = nested.wait().expect("no panic");
    assert_eq!((other.expect("no panic"), own), (here.clone(), here.clone()));
    let elsewhere = runtime.block_on(async { (inside(), spawn_blocking(inside).await) });
    assert_eq!(
        (elsewhere.0, elsewhere.1.expect("no panic")),
        (here.clone(), here)
    );
    assert_eq!(inside(), [""; 0], "the thread of `block_on` has left");
    drop(runtime);
    let roles = std::mem::take(&mut *roles.lock().expect("no panic"));
    let count = |role: fn(&ThreadRole) -> bool| roles.iter().filter(|entered| role(entered)).count();
    assert!(
        count(|role| matches!(role, ThreadRole::Worker(0))) >= 2,
        "{roles:?}"
    );
    assert_eq!(count(|role| matches!(role, ThreadRole::Blocking(_))), 1);
    assert_eq!(count(|role| matches!(role, ThreadRole::BlockOn)), 1);
}

#[test]
fn contexts_and_hooks_compose_in_any_order() {
    for contexts_first in [true, false] {
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let note = |name: &'static str| {
            let seen = Arc::clone(&seen);
            move |worker: usize| {
                let text = format!("{name}{worker} in {:?}", inside());
                seen.lock().expect("no panic").push(text);
            }
        };
        let contexts = |builder: Builder| {
            builder
                .thread_context(|_| Inside::enter("a"))
                .thread_context(|_| Inside::enter("b"))
        };
        let hooks = |builder: Builder| {
            builder
                .on_thread_start(note("start 1 of "))
                .on_thread_stop(note("stop 1 of "))
                .on_thread_start(note("start 2 of "))
                .on_thread_stop(note("stop 2 of "))
        };
        let builder = match contexts_first {
            true => hooks(contexts(small())),
            false => contexts(hooks(small())),
        };
        let runtime = builder.build().expect("a worker");
        assert_eq!(runtime.spawn_job(inside).wait().expect("no panic"), ["a", "b"]);
        drop(runtime);
        let expected = ["start 1", "start 2", "stop 2", "stop 1"];
        let expected = expected.map(|name| format!("{name} of 0 in [\"a\", \"b\"]"));
        assert_eq!(*seen.lock().expect("no panic"), expected);
    }
}

#[test]
fn a_context_that_panics_is_left_out() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let runtime = small()
        .thread_context(|_| Inside::enter("a"))
        .thread_context(|_| -> Inside { panic!("on purpose") })
        .thread_context(|_| Panics)
        .thread_context(|_| Inside::enter("b"))
        .build()
        .expect("a worker");
    assert_eq!(runtime.spawn_job(inside).wait().expect("no panic"), ["a", "b"]);
    assert_eq!(runtime.block_on(async { inside() }), ["a", "b"]);
    assert_eq!(
        inside(),
        [""; 0],
        "what is below the one that panicked is left, too"
    );
}

#[test]
fn block_on_enters_where_the_thread_is_not_inside() {
    let (builder, inner) = noted(small().name("inner"), "inner");
    let inner_runtime = Arc::new(builder.build().expect("a worker"));
    let (builder, outer) = noted(small().name("outer"), "outer");
    let runtime = builder.build().expect("a worker");
    // On the thread of another pool.
    let other = Arc::clone(&inner_runtime);
    let seen = runtime.spawn_job(move || (other.block_on(async { inside() }), inside()));
    assert_eq!(
        seen.wait().expect("no panic"),
        (vec!["outer", "inner"], vec!["outer"])
    );
    // In a fiber, which may be left while another one goes on, it does not.
    let other = Arc::clone(&inner_runtime);
    let fiber = move || fiber::spawn(move || other.block_on(async { inside() })).wait();
    let seen = runtime.install(|_| fiber()).expect("open").expect("no panic");
    assert_eq!(seen, ["outer"]);
    // The same in a handled body, here on a thread of no pool.
    let other = Arc::clone(&inner_runtime);
    let body = move || other.block_on(async { inside() });
    assert_eq!(handle(body, Handler::new()), [""; 0]);
    // In a task of its own, it is inside already.
    let count = |roles: &Roles| {
        let roles = roles.lock().expect("no panic");
        let entered = roles.iter().filter(|role| **role == ThreadRole::BlockOn);
        entered.count()
    };
    assert_eq!((count(&inner), count(&outer)), (1, 0));
    let own = Arc::clone(&inner_runtime);
    let seen = inner_runtime.spawn_job(move || own.block_on(async { inside() }));
    assert_eq!(seen.wait().expect("no panic"), ["inner"]);
    assert_eq!(count(&inner), 1);
    assert_eq!(block_on(async { inside() }), [""; 0], "outside of any pool");
}

/// A thread that the program lends is inside from `enter` to the drop of its guard.
#[test]
fn a_thread_that_enters_a_pool_is_inside() {
    let (send, threads) = mpsc::channel();
    let send = Mutex::new(send);
    let runtime = small()
        .start_threads(move |thread| {
            let send = send.lock().map_err(|_| std::io::Error::other("poisoned"))?;
            send.send(thread).map_err(std::io::Error::other)
        })
        .thread_context(|_| Inside::enter("a"))
        .build()
        .expect("a worker");
    let entered = threads.recv().expect("one thread").enter();
    assert_eq!(inside(), ["a"]);
    let successor = thread::spawn(move || threads.recv().map(PoolThread::run));
    drop(entered);
    assert_eq!(inside(), [""; 0]);
    assert_eq!(runtime.spawn_job(inside).wait().expect("no panic"), ["a"]);
    drop(runtime);
    assert!(successor.join().is_ok());
}
