//! Whole runs: the order of accesses, sleeping and waking, slices, and that a seed repeats a run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use warpweft_sim::{
    AtomicU64, AtomicUsize, Condvar, Failure, JoinHandle, LocalKey, Machine, Mutex, Settings, compute,
    now_ns, pin, run, sleep, spawn, spin_loop, try_run, yield_now,
};

const HOUR_NS: u64 = 3_600_000_000_000;

fn epyc() -> Machine {
    Machine::named("epyc-7702x2").expect("it is built in")
}

fn join<T>(threads: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
    // All first: an iterator that starts them would start each after the end of the one before.
    let threads: Vec<_> = threads.into_iter().collect();
    threads
        .into_iter()
        .map(|thread| thread.join().expect("no panic"))
        .collect()
}

/// Waits for a moment after which all threads of a test have started.
fn together() {
    while now_ns() < 2_000_000 {
        compute(50);
    }
}

/// Many threads with a lock, a counter, sleeps and memory that is allocated anew each time.
fn busy() -> u64 {
    let shared = Arc::new((Mutex::new(0_u64), AtomicU64::new(0), Condvar::new()));
    let threads = (0..24).map(|number| {
        let shared = Arc::clone(&shared);
        spawn(move || {
            together();
            for turn in 0..800 {
                let own = Box::new(AtomicU64::new(turn));
                own.fetch_add(shared.1.fetch_add(1, Relaxed), Relaxed);
                if turn % 8 == number % 8 {
                    *shared.0.lock().expect("no panic") += 1;
                    shared.2.notify_one();
                }
                if turn % 50 == 0 {
                    sleep(1_000 * number);
                }
                for _ in 0..3 {
                    while own.load(Relaxed) == u64::MAX {
                        spin_loop();
                    }
                }
            }
        })
    });
    join(threads);
    shared.1.load(Relaxed) + *shared.0.lock().expect("no panic")
}

/// A process of its own prints the hash of a run. Its addresses are others.
#[test]
fn a_seed_gives_the_same_log_in_two_processes() {
    const CHILD: &str = "WARPWEFT_SIM_TEST_CHILD";
    let hash = || {
        let (sum, report) = run(11, &epyc(), busy);
        assert_eq!(sum, 24 * 800 + 24 * 100);
        assert!(report.steps > 100_000, "{} steps", report.steps);
        format!("{:x} {} {}", report.hash, report.steps, report.time_ns)
    };
    if std::env::var_os(CHILD).is_some() {
        println!("hash: {}", hash());
        return;
    }
    let of_child = || {
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child
            .args(["--exact", "a_seed_gives_the_same_log_in_two_processes"])
            .args(["--nocapture"])
            .env(CHILD, "1");
        let output = child.output().expect("it starts");
        let text = String::from_utf8(output.stdout).expect("text");
        let (_, after) = text.split_once("hash: ").unwrap_or_else(|| panic!("{text}"));
        after.lines().next().expect("a line").to_owned()
    };
    let first = of_child();
    assert_eq!(first, of_child());
}

#[test]
fn another_seed_gives_another_order() {
    let hashes: Vec<u64> = (0..4).map(|seed| run(seed, &epyc(), busy).1.hash).collect();
    assert!(
        (1..4).all(|seed| !hashes[..seed].contains(&hashes[seed])),
        "{hashes:?}"
    );
}

#[test]
fn an_hour_passes_at_once_and_sleepers_wake_in_order() {
    let start = std::time::Instant::now();
    let (order, report) = run(1, &epyc(), || {
        let order = Arc::new(Mutex::new(Vec::new()));
        join([3, 1, 2].map(|hours| {
            let order = Arc::clone(&order);
            spawn(move || {
                sleep(hours * HOUR_NS);
                order.lock().expect("no panic").push(hours);
            })
        }));
        order.lock().expect("no panic").clone()
    });
    assert_eq!(order, [1, 2, 3]);
    assert!((3 * HOUR_NS..3 * HOUR_NS + 1_000_000).contains(&report.time_ns));
    assert!(start.elapsed().as_secs() < 10, "no hour of the host");
}

#[test]
fn a_lock_has_one_holder_and_a_wait_loses_no_notification() {
    run(2, &epyc(), || {
        let shared = Arc::new((Mutex::new((0_u64, false)), Condvar::new()));
        let threads = (0..40).map(|_| {
            let shared = Arc::clone(&shared);
            spawn(move || {
                for _ in 0..20 {
                    let mut guard = shared.0.lock().expect("no panic");
                    assert!(!std::mem::replace(&mut guard.1, true), "two at a time");
                    compute(200);
                    *guard = (guard.0 + 1, false);
                    shared.1.notify_one();
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        let mut guard = shared.0.lock().expect("no panic");
        while guard.0 < 800 {
            guard = shared.1.wait(guard).expect("no panic");
        }
        drop(guard);
        join(threads);
    });
}

#[test]
fn a_wait_with_a_limit_ends_at_its_time() {
    let ((), report) = run(3, &epyc(), || {
        let (lock, event) = (Mutex::new(()), Condvar::new());
        let before = now_ns();
        let (guard, over) = event.wait_ns(lock.lock().expect("no panic"), 5_000_000);
        assert!(over && guard.is_ok());
        let took = now_ns() - before;
        assert!((5_000_000..5_100_000).contains(&took), "{took} ns");
    });
    assert_eq!(report.left, 0);
}

/// The time of a thread is over while the only CPU is busy, and the notification comes before it runs.
#[test]
fn a_notification_after_the_limit_is_not_lost() {
    let mut machine = Machine::named("desktop").expect("it is built in");
    machine.shape.cores = 1;
    machine.shape.threads = 1;
    run(3, &machine, || {
        let shared = Arc::new((Mutex::new(()), Condvar::new()));
        let wait = |ns: u64| {
            let shared = Arc::clone(&shared);
            spawn(move || shared.1.wait_ns(shared.0.lock().expect("no panic"), ns).1)
        };
        let first = wait(1_000_000);
        sleep(100_000);
        let second = wait(HOUR_NS);
        sleep(100_000);
        compute(1_500_000);
        shared.1.notify_one();
        let first_is_over = join([first])[0];
        if first_is_over {
            // It must have left the line, and the other one was notified.
            assert_eq!(join([second]), [false]);
            return;
        }
        shared.1.notify_one();
        assert_eq!(join([second]), [false]);
    });
}

/// A counter of 64 threads is one line that goes round; each transfer takes its time.
#[test]
fn a_contended_line_goes_from_core_to_core() {
    const THREADS: u64 = 64;
    const EACH: u64 = 500;
    let time = |threads: u64| {
        let each = EACH * THREADS / threads;
        let ((), mut report) = run(4, &epyc(), move || {
            let counter = Arc::new(AtomicU64::new(0));
            join((0..threads).map(|_| {
                let counter = Arc::clone(&counter);
                spawn(move || {
                    together();
                    for _ in 0..each {
                        counter.fetch_add(1, Relaxed);
                    }
                })
            }));
            assert_eq!(counter.load(Relaxed), EACH * THREADS);
        });
        report.time_ns -= 2_000_000;
        report
    };
    let (alone, together) = (time(1), time(THREADS));
    assert!(alone.misses < 100, "{} misses", alone.misses);
    assert!(together.misses > 10_000, "{} misses", together.misses);
    assert!(
        together.time_ns > 3 * alone.time_ns,
        "{} ns, and alone {}",
        together.time_ns,
        alone.time_ns
    );
    let place = &together.lines[0].places[0];
    assert_eq!(
        (place.name.as_str(), place.file.ends_with("runs.rs")),
        ("counter", true)
    );
}

/// Two words that different threads write, once on one line and once on two.
#[test]
fn fields_that_share_a_line_are_named() {
    #[repr(align(64))]
    struct Ends {
        head: AtomicUsize,
        tail: AtomicUsize,
    }
    let report = run(5, &epyc(), || {
        let ends = Arc::new(Ends {
            head: AtomicUsize::new(0),
            tail: AtomicUsize::new(0),
        });
        let other = Arc::clone(&ends);
        let taker = spawn(move || {
            together();
            for _ in 0..2_000 {
                other.head.fetch_add(1, Relaxed);
            }
        });
        together();
        for _ in 0..2_000 {
            ends.tail.fetch_add(1, Relaxed);
        }
        join([taker]);
    })
    .1;
    let shared = report.lines[0].shared_by();
    let names: Vec<&str> = shared.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["other.head", "ends.tail"], "{}", report.lines[0]);
    assert!(report.lines[0].to_string().contains("share the line"));
}

#[test]
fn more_threads_than_cpus_take_turns() {
    let mut machine = Machine::named("desktop").expect("it is built in");
    machine.shape.cores = 1;
    machine.shape.threads = 1;
    let (most, report) = run(6, &machine, || {
        let ends = join((0..4).map(|_| {
            spawn(|| {
                compute(12_000_000);
                now_ns()
            })
        }));
        ends.into_iter().max().expect("four")
    });
    assert!(most > 48_000_000, "four times 12 ms on one CPU: {most}");
    assert!(report.switches > 12, "slices of 3 ms");
    // And one that only gives way lets others proceed.
    run(7, &machine, || {
        let flag = Arc::new(AtomicUsize::new(0));
        let other = Arc::clone(&flag);
        let thread = spawn(move || other.store(1, SeqCst));
        while flag.load(SeqCst) == 0 {
            yield_now();
        }
        join([thread]);
    });
}

#[test]
fn a_pinned_thread_stays_on_its_cpu() {
    run(8, &epyc(), || {
        assert!(!pin(&[1_000]), "there is no such CPU");
        assert!(pin(&[70]));
        assert_eq!(warpweft_sim::allowed(), [70]);
        assert_eq!(warpweft_sim::places()[70].socket, 1);
        let child = spawn(warpweft_sim::allowed);
        assert_eq!(join([child]), [[70]]);
    });
}

#[test]
fn each_thread_has_its_own_variables_and_drops_what_it_keeps() {
    static NUMBER: LocalKey<std::cell::Cell<u32>> = LocalKey::new(|| std::cell::Cell::new(7));
    struct Says(Arc<AtomicUsize>);
    impl Drop for Says {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    run(9, &epyc(), || {
        let dropped = Arc::new(AtomicUsize::new(0));
        NUMBER.set(1);
        let threads = (0..5).map(|number| {
            let says = Says(Arc::clone(&dropped));
            spawn(move || {
                assert_eq!(NUMBER.replace(number), 7);
                warpweft_sim::keep_until_exit(Box::new(says));
                sleep(1_000);
                NUMBER.get()
            })
        });
        assert_eq!(join(threads), [0, 1, 2, 3, 4]);
        assert_eq!((NUMBER.get(), dropped.load(Relaxed)), (1, 5));
    });
    NUMBER.set(3);
    assert_eq!(NUMBER.get(), 3, "outside of a simulation, too");
}

/// Makes a value with the simulator's own means, and with those of another key.
#[test]
fn a_variable_may_use_the_simulator_to_begin() {
    static BEGAN: LocalKey<u64> = LocalKey::new(|| {
        let lock = Mutex::new(AtomicU64::new(0));
        *lock.lock().expect("no panic") = AtomicU64::new(1);
        yield_now();
        let began = lock.lock().expect("no panic").fetch_add(1, Relaxed);
        OTHER.with(|other| began + other + now_ns())
    });
    static OTHER: LocalKey<u64> = LocalKey::new(|| warpweft_sim::random_below(1) as u64);
    run(16, &epyc(), || {
        sleep(1_000);
        let threads = (0..5).map(|_| spawn(|| BEGAN.with(|began| *began)));
        assert!(join(threads).into_iter().all(|began| began > 1_000));
        assert!(BEGAN.with(|began| *began) > 1_000);
    });
    assert_eq!(BEGAN.with(|began| *began), 1, "outside of a simulation, too");
}

#[test]
fn failures_are_values_and_a_panic_repeats_with_its_seed() {
    let failure = |settings: &Settings, body: fn()| try_run(settings, body).expect_err("it fails");
    let settings = Settings::new(&epyc(), 1);
    let deadlock = failure(&settings, || {
        let lock = Mutex::new(());
        let _held = lock.lock();
        drop(Condvar::new().wait(Mutex::new(()).lock().expect("free")));
    });
    assert!(
        matches!(&deadlock, Failure::Deadlock(text) if text.contains("Event")),
        "{deadlock}"
    );
    let mut few = settings.clone();
    few.most_accesses = 10_000;
    let endless = failure(&few, || {
        let words = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let other = Arc::clone(&words);
        spawn(move || while other[0].fetch_add(1, Relaxed) < u64::MAX {});
        while words[0].fetch_add(1, Relaxed) < u64::MAX {}
    });
    assert!(matches!(endless, Failure::TooLong(10_000)), "{endless}");
    // A thread that is alone never waits for its turn. It ends, so that a failure of this test does.
    let alone = failure(&few, || {
        let word = AtomicU64::new(0);
        for _ in 0..100_000 {
            assert_eq!(word.load(Relaxed), 0);
            spin_loop();
        }
    });
    assert!(matches!(alone, Failure::TooLong(10_000)), "{alone}");
    // A race that is lost with some seeds.
    let races = |seed| {
        let body = AssertUnwindSafe(|| {
            run(seed, &epyc(), || {
                let word = Arc::new(AtomicU64::new(0));
                let threads = [1, 2].map(|number| {
                    let word = Arc::clone(&word);
                    spawn(move || {
                        together();
                        word.store(number, SeqCst);
                    })
                });
                join(threads);
                assert_eq!(word.load(SeqCst), 2, "the other one was last");
            })
        });
        catch_unwind(body).is_err()
    };
    let first: Vec<bool> = (0..40).map(races).collect();
    assert!(first.contains(&true) && first.contains(&false), "{first:?}");
    assert_eq!(first, (0..40).map(races).collect::<Vec<_>>());
}

#[test]
fn a_panic_of_a_thread_is_its_result_and_others_go_on() {
    run(10, &epyc(), || {
        let lock = Arc::new(Mutex::new(0));
        let other = Arc::clone(&lock);
        let thread = spawn(move || {
            let _guard = other.lock();
            panic!("on purpose");
        });
        assert!(thread.join().is_err());
        assert!(lock.lock().is_err(), "poisoned, as std's");
    });
}

#[test]
fn outside_of_a_simulation_words_work_and_threads_are_refused() {
    let word = AtomicU64::new(1);
    assert_eq!((word.fetch_add(1, Relaxed), word.load(Relaxed)), (1, 2));
    let error = warpweft_sim::Builder::new()
        .spawn(|| ())
        .expect_err("no simulation");
    assert!(error.to_string().contains("warpweft_sim::run"), "{error}");
    let lock = Mutex::new(1);
    let guard = lock.lock().expect("it is free");
    assert!(lock.try_lock().is_err());
    drop(guard);
    assert!(lock.try_lock().is_ok());
}

/// Each reading of the clock comes a constant time after its access.
#[test]
fn accesses_take_effect_in_the_order_of_their_times() {
    let seen = run(12, &epyc(), || {
        let word = Arc::new(AtomicU64::new(0));
        let lists = join((0..32).map(|number| {
            let word = Arc::clone(&word);
            spawn(move || {
                together();
                let step = |turn| {
                    // Now and then it keeps the line for a while.
                    compute(if turn % 16 < 8 { 0 } else { 40 + 7 * number });
                    (word.fetch_add(1, SeqCst), now_ns())
                };
                (0..300).map(step).collect::<Vec<_>>()
            })
        }));
        let mut seen = lists.concat();
        seen.sort_unstable();
        seen
    })
    .0;
    assert_eq!(seen.len(), 32 * 300);
    let wrong = seen.windows(2).filter(|pair| pair[0].1 > pair[1].1).count();
    assert_eq!(wrong, 0, "of {}", seen.len());
}

/// One thread has the line nearly always, and the other asks for it now and then.
#[test]
fn a_core_that_keeps_a_line_loses_it_in_time() {
    let seen = run(14, &epyc(), || {
        let word = Arc::new(AtomicU64::new(0));
        let lists = join([(0, 4_000), (700, 60)].map(|(pause, count)| {
            let word = Arc::clone(&word);
            spawn(move || {
                together();
                let step = |_| {
                    compute(pause);
                    (word.fetch_add(1, SeqCst), now_ns())
                };
                (0..count).map(step).collect::<Vec<_>>()
            })
        }));
        let mut seen = lists.concat();
        seen.sort_unstable();
        seen
    })
    .0;
    assert!(seen.is_sorted_by_key(|&(_, time)| time));
}

/// A load from the other socket takes 197 ns, and the line leaves after half of them.
#[test]
fn a_load_sees_what_was_written_before_the_line_left() {
    run(15, &epyc(), || {
        let word = Arc::new(AtomicU64::new(0));
        let other = Arc::clone(&word);
        let writer = spawn(move || {
            assert!(pin(&[0]));
            together();
            let write = |number| {
                other.store(number, Relaxed);
                now_ns()
            };
            (1..=2_000).map(write).collect::<Vec<_>>()
        });
        let reader = spawn(move || {
            assert!(pin(&[64]));
            together();
            compute(5_000);
            (word.load(Relaxed), now_ns())
        });
        let (times, (value, loaded)) = (join([writer]).remove(0), join([reader]).remove(0));
        assert!(value > 10 && value < 2_000, "in the middle: {value}");
        let missed = times[value as usize];
        assert!(
            missed + 130 > loaded,
            "what was written at {missed} was not seen at {loaded}"
        );
    });
}

#[test]
fn a_store_does_not_wait_and_what_orders_it_does() {
    run(13, &epyc(), || {
        let words = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let far = Arc::clone(&words);
        let thread = spawn(move || {
            assert!(pin(&[64]));
            far[0].store(1, Relaxed);
        });
        join([thread]);
        assert!(pin(&[0]));
        let before = now_ns();
        words[0].store(2, Relaxed);
        let stored = now_ns() - before;
        warpweft_sim::fence(SeqCst);
        let ordered = now_ns() - before;
        assert!(stored < 60, "a reading of the clock takes 25 ns: {stored}");
        assert!(ordered > 150, "the other socket is 197 ns away: {ordered}");
    });
}

#[test]
fn a_seed_that_fails_is_printed() {
    const CHILD: &str = "WARPWEFT_SIM_TEST_FAILS";
    if std::env::var_os(CHILD).is_some() {
        run(4711, &epyc(), || assert_eq!(now_ns(), 0, "on purpose"));
    }
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child
        .args(["--exact", "a_seed_that_fails_is_printed", "--nocapture"])
        .env(CHILD, "1");
    let output = child.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("seed 4711") && text.contains("on purpose"),
        "{text}"
    );
    assert!(!output.status.success());
}
