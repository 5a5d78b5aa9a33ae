//! What the original does not promise: who runs what, and on which threads.

use std::cell::Cell;
use std::collections::HashSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use rayon_core::{ThreadPool, ThreadPoolBuilder, current_thread_index, join, scope};

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .expect("threads")
}

fn tree(depth: usize, leaf: &(impl Fn() + Sync)) {
    if depth == 0 {
        leaf();
    } else {
        join(|| tree(depth - 1, leaf), || tree(depth - 1, leaf));
    }
}

/// No two closures have the same index at the same time, also while others wait.
#[test]
fn an_index_belongs_to_one_closure_at_a_time() {
    for threads in [1, 2, 3, 8] {
        let taken: Vec<_> = (0..threads).map(|_| AtomicBool::new(false)).collect();
        let leaf = || {
            let index = current_thread_index().expect("a thread of the pool");
            assert!(
                !taken[index].swap(true, Ordering::SeqCst),
                "index {index} is taken"
            );
            thread::yield_now();
            taken[index].store(false, Ordering::SeqCst);
        };
        pool(threads).install(|| {
            scope(|scope| {
                for _ in 0..20 {
                    scope.spawn(|_| tree(7, &leaf));
                }
            });
        });
    }
}

/// A cell for each index, without atomics or locks, as programs have it.
struct Cells(Vec<Cell<u64>>);

// SAFETY: `add` alone touches a cell, on the thread that has its index; it does not wait meanwhile.
unsafe impl Sync for Cells {}

impl Cells {
    /// Adds to the cell of the index that the calling thread has now.
    fn add(&self, number: u64) {
        let cell = &self.0[current_thread_index().expect("a thread of the pool")];
        let before = cell.get();
        // A thread that had the same index would come meanwhile.
        std::hint::spin_loop();
        cell.set(before + number);
    }
}

/// The index is taken anew after each wait: then no sum is lost, however often indices change.
#[test]
fn cells_by_index_are_exact_if_the_index_is_taken_anew_after_each_wait() {
    fn tree(cells: &Cells, depth: u32) {
        cells.add(1);
        if depth > 0 {
            join(|| tree(cells, depth - 1), || tree(cells, depth - 1));
            cells.add(1);
            scope(|scope| scope.spawn(|_| cells.add(1)));
        }
        cells.add(1);
    }
    const DEPTH: u32 = 10;
    const ROUNDS: u64 = 20;
    let expected = ROUNDS * ((2 << DEPTH) * 2 + ((1 << DEPTH) - 1) * 2 - 2);
    for threads in [1, 2, 4, 8] {
        let cells = Cells((0..threads).map(|_| Cell::new(0)).collect());
        let pool = pool(threads);
        pool.install(|| {
            scope(|scope| {
                for _ in 0..ROUNDS {
                    scope.spawn(|_| tree(&cells, DEPTH));
                }
            });
        });
        // The pool's threads have done all that they do with the cells.
        let sum: u64 = cells.0.iter().map(Cell::get).sum();
        assert_eq!(sum, expected, "{threads} threads");
    }
}

/// With threads that the program starts, an index stays over waits, so a reference to its cell may be kept.
#[test]
fn given_threads_keep_their_index_over_waits() {
    fn tree(depth: u32) {
        if depth > 0 {
            let before = (current_thread_index(), thread::current().id());
            join(|| tree(depth - 1), || tree(depth - 1));
            assert_eq!((current_thread_index(), thread::current().id()), before);
        }
        thread::yield_now();
    }
    let pool = ThreadPoolBuilder::new()
        .num_threads(4)
        .spawn_handler(|thread| {
            thread::spawn(|| thread.run());
            Ok(())
        })
        .build()
        .expect("threads");
    pool.install(|| tree(10));
}

/// Two closures want a lock that is held across a join: on the original a thread that waits for the stolen
/// half takes the next closure, which wants the lock that the frame below has.
#[test]
fn a_lock_may_be_held_across_a_join() {
    let pool = Arc::new(pool(2));
    let lock = Arc::new(Mutex::new(0));
    let (done, ended) = mpsc::channel();
    for _ in 0..200 {
        for _ in 0..2 {
            let (lock, done) = (Arc::clone(&lock), done.clone());
            pool.spawn(move || {
                let mut count = lock.lock().expect("no panic");
                join(
                    || thread::sleep(Duration::from_micros(50)),
                    || thread::sleep(Duration::from_micros(150)),
                );
                *count += 1;
                drop(count);
                done.send(()).expect("the test waits");
            });
        }
        for _ in 0..2 {
            ended.recv_timeout(Duration::from_secs(60)).expect("a deadlock");
        }
    }
    assert_eq!(*lock.lock().expect("no panic"), 400);
}

/// Threads that the program starts are the only ones, also where frames wait.
#[test]
fn given_threads_stay_alone() {
    thread_local!(static GIVEN: Cell<bool> = const { Cell::new(false) });
    let strangers = AtomicUsize::new(0);
    ThreadPoolBuilder::new()
        .num_threads(3)
        .build_scoped(
            |thread| {
                GIVEN.set(true);
                thread.run();
            },
            |pool| {
                pool.install(|| {
                    tree(8, &|| {
                        strangers.fetch_add(usize::from(!GIVEN.get()), Ordering::Relaxed);
                        thread::yield_now();
                    });
                });
            },
        )
        .expect("threads");
    assert_eq!(strangers.into_inner(), 0);
}

/// A thread whose start fails is an error, and those before it end.
#[test]
fn a_thread_that_does_not_start_is_an_error() {
    let mut threads = Vec::new();
    let pool = ThreadPoolBuilder::new()
        .num_threads(4)
        .spawn_handler(|builder| {
            if builder.index() == 2 {
                return Err(io::Error::other("no more"));
            }
            threads.push(thread::spawn(|| builder.run()));
            Ok(())
        })
        .build();
    assert_eq!(pool.expect_err("the third fails").to_string(), "no more");
    assert_eq!(threads.len(), 2);
    for thread in threads {
        thread.join().expect("it ends");
    }
}

/// The calling thread runs closures while it waits, and leaves the pool when it drops it.
#[test]
fn the_current_thread_is_the_first() {
    for threads in [1, 2] {
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .use_current_thread()
            .build()
            .expect("a thread of no pool");
        assert_eq!(current_thread_index(), Some(0));
        let sum = AtomicUsize::new(0);
        let ids = Mutex::new(HashSet::new());
        pool.install(|| {
            tree(6, &|| {
                sum.fetch_add(1, Ordering::Relaxed);
                ids.lock().expect("no panic").insert(thread::current().id());
            });
        });
        assert_eq!(sum.into_inner(), 64);
        assert!(ids.lock().expect("no panic").contains(&thread::current().id()));
        let (send, receive) = mpsc::channel();
        pool.spawn(move || send.send(7).expect("the test waits"));
        drop(pool);
        // What was spawned runs, although its thread has left.
        assert_eq!(receive.recv_timeout(Duration::from_secs(60)), Ok(7));
        assert_eq!(current_thread_index(), None);
    }
}

/// In a task of a Warpweft runtime everything stays on its workers.
#[test]
fn a_runtimes_task_is_in_a_pool() {
    let runtime = warpweft::Runtime::builder()
        .workers(2)
        .name("mine")
        .build()
        .expect("workers");
    let names = runtime
        .install(|_| {
            let names = Mutex::new(HashSet::new());
            let note = || {
                let name = thread::current().name().map(str::to_owned);
                names.lock().expect("no panic").insert(name.expect("a name"));
            };
            tree(5, &note);
            scope(|scope| scope.spawn(|_| note()));
            rayon_core::broadcast(|_| note());
            assert!(rayon_core::current_num_threads() >= 2);
            names.into_inner().expect("no panic")
        })
        .expect("it is open");
    assert!(names.iter().all(|name| name.starts_with("mine-")), "{names:?}");
}

/// Threads that never ran call no handler and keep none.
#[test]
fn a_build_that_fails_lets_its_handlers_go() {
    let starts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&starts);
    let built = ThreadPoolBuilder::new()
        .num_threads(10)
        .stack_size(isize::MAX as usize)
        .start_handler(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
        })
        .build();
    assert!(built.is_err());
    let mut looks = 0;
    while Arc::strong_count(&starts) > 1 {
        looks += 1;
        assert!(looks < 1000, "the handler lives on");
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(starts.load(Ordering::SeqCst), 0);
}

/// The jobs borrow from the frame, which waits for them although a token of the other library is cancelled.
#[test]
fn a_cancelled_token_leaves_no_scope_with_jobs_that_run() {
    let pool = pool(1);
    for _ in 0..20 {
        let (ended, begun) = (AtomicBool::new(false), AtomicBool::new(false));
        let token = warpweft::cancel::CancelToken::new();
        thread::scope(|threads| {
            threads.spawn(|| {
                while !begun.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                token.cancel();
            });
            let _ = token.run(|| {
                pool.in_place_scope(|scope| {
                    scope.spawn(|_| {
                        begun.store(true, Ordering::SeqCst);
                        thread::sleep(Duration::from_millis(5));
                        ended.store(true, Ordering::SeqCst);
                    });
                });
            });
            assert!(ended.load(Ordering::SeqCst), "its frame was left");
        });
    }
}

/// The thread that is the first of a pool keeps it: functions of the crate find it there.
#[test]
fn a_pool_that_another_thread_drops_stays_with_its_first_thread() {
    thread::spawn(|| {
        let pool = ThreadPoolBuilder::new()
            .num_threads(2)
            .use_current_thread()
            .build();
        let pool = pool.expect("two threads");
        std::thread::spawn(move || drop(pool)).join().expect("no panic");
        assert_eq!(rayon_core::current_num_threads(), 2);
        assert_eq!(rayon_core::join(|| 1, || 2), (1, 2));
    })
    .join()
    .expect("no panic");
}

/// It is a thread of the program, so the pool has no more of them, and sets nothing up there.
#[test]
fn a_pool_with_the_current_thread_starts_no_other() {
    thread::spawn(|| {
        let (here, handled) = (thread::current().id(), Arc::new(AtomicUsize::new(0)));
        let (starts, exits) = (Arc::clone(&handled), Arc::clone(&handled));
        let pool = ThreadPoolBuilder::new()
            .num_threads(1)
            .use_current_thread()
            .start_handler(move |_| {
                starts.fetch_add(1, Ordering::SeqCst);
            })
            .exit_handler(move |_| {
                exits.fetch_add(1, Ordering::SeqCst);
            })
            .build()
            .expect("this thread");
        let ran = Arc::new(Mutex::new(None));
        let runs = Arc::clone(&ran);
        pool.spawn(move || *runs.lock().expect("no panic") = Some(thread::current().id()));
        while ran.lock().expect("no panic").is_none() {
            rayon_core::yield_now();
        }
        assert_eq!(*ran.lock().expect("no panic"), Some(here));
        assert_eq!(pool.broadcast(|_| thread::current().id()), [here]);
        drop(pool);
        assert_eq!(handled.load(Ordering::SeqCst), 0);
    })
    .join()
    .expect("no panic");
}

#[test]
fn a_thread_that_cannot_be_started_lets_the_first_one_go() {
    thread::spawn(|| {
        let pool = ThreadPoolBuilder::new()
            .num_threads(2)
            .use_current_thread()
            .spawn_handler(|_| Err(std::io::Error::other("as asked")))
            .build();
        assert!(pool.is_err());
        assert_eq!(rayon_core::current_thread_index(), None);
        assert!(rayon_core::current_num_threads() > 0, "those of the global pool");
        // A function of the program that panics, too.
        let built = std::panic::catch_unwind(|| {
            ThreadPoolBuilder::new()
                .num_threads(2)
                .use_current_thread()
                .thread_name(|index| {
                    if index == 0 {
                        "first".into()
                    } else {
                        panic!("as asked")
                    }
                })
                .build()
        });
        assert!(built.is_err() && rayon_core::current_thread_index().is_none());
    })
    .join()
    .expect("no panic");
}

/// The threads that the handler keeps for later never start.
#[test]
fn a_build_that_fails_waits_for_no_thread() {
    let kept = Mutex::new(Vec::new());
    let built = ThreadPoolBuilder::new()
        .num_threads(3)
        .spawn_handler(|thread| {
            if thread.index() == 2 {
                return Err(io::Error::other("no more"));
            }
            kept.lock().expect("no panic").push(thread);
            Ok(())
        })
        .build();
    assert!(built.is_err());
}

/// Where the thread cannot leave its pool, it stays there, and its functions find the pool.
#[test]
fn a_pool_that_is_dropped_where_its_thread_cannot_leave_it_stays() {
    let stays = thread::spawn(|| {
        let builder = ThreadPoolBuilder::new().num_threads(1).use_current_thread();
        let pool = Arc::new(builder.build().expect("one thread"));
        let other = Arc::clone(&pool);
        let (tell, told) = mpsc::channel();
        pool.spawn(move || {
            drop(other);
            tell.send(()).expect("the test waits");
        });
        drop(pool);
        rayon_core::yield_now();
        told.recv().expect("it ran");
        assert_eq!(rayon_core::current_num_threads(), 1);
    });
    stays.join().expect("no panic");
}

/// A thread-local that has a pool is dropped behind those of this crate.
#[test]
fn a_pool_in_a_thread_local_ends_with_its_thread() {
    thread_local!(static POOL: std::cell::RefCell<Option<ThreadPool>> = const { std::cell::RefCell::new(None) });
    let ends = thread::spawn(|| {
        for _ in 0..2 {
            POOL.set(Some(pool(1)));
        }
    });
    ends.join().expect("no panic");
}

/// A closure that did not run is a panic of the scope, because what it was to write is not written.
#[test]
fn a_scope_in_place_tells_of_closures_that_did_not_run() {
    let pool = pool(1);
    let token = warpweft::cancel::CancelToken::new();
    let ended = catch_unwind(AssertUnwindSafe(|| {
        token.run(|| {
            pool.in_place_scope(|scope| {
                token.cancel();
                scope.spawn(|_| panic!("it never runs"));
            });
        })
    }));
    assert!(!matches!(ended, Ok(Ok(()))), "{ended:?}");
}

/// The job that takes the oldest closure is not dropped for a token: it would leave the closure to the next.
#[test]
fn a_closure_of_spawn_fifo_runs_under_a_token_that_is_cancelled() {
    let pool = pool(1);
    let token = warpweft::cancel::CancelToken::new();
    let (tell, told) = mpsc::channel();
    for number in 0..2 {
        let tell = tell.clone();
        let canceller = token.clone();
        let _ended = catch_unwind(AssertUnwindSafe(|| {
            token.run(|| {
                pool.install(|| {
                    rayon_core::spawn_fifo(move || tell.send(number).expect("the test waits"));
                    canceller.cancel();
                });
            })
        }));
        if number == 0 {
            assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(0));
        }
    }
}

/// One thread runs them in the order in which they came, from wherever that was.
#[test]
fn what_comes_from_outside_by_fifo_runs_oldest_first() {
    let pool = ThreadPoolBuilder::new().num_threads(1).build().expect("a pool");
    let order = Mutex::new(Vec::new());
    let (begin, begins) = mpsc::channel::<()>();
    let (sender, receiver) = mpsc::channel();
    // Keeps the thread while the others come.
    pool.spawn(move || {
        let _ = begins.recv();
    });
    for number in 0..8 {
        let sender = sender.clone();
        pool.spawn_fifo(move || sender.send(number).expect("it is received"));
    }
    drop((begin, sender));
    assert_eq!(receiver.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
    pool.in_place_scope_fifo(|scope| {
        let order = &order;
        scope.spawn_fifo(|_| thread::sleep(Duration::from_millis(20)));
        for number in 0..8 {
            scope.spawn_fifo(move |_| order.lock().expect("no panic").push(number));
        }
    });
    assert_eq!(order.into_inner().expect("no panic"), [0, 1, 2, 3, 4, 5, 6, 7]);
}
