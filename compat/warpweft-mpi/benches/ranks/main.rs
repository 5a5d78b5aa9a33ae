//! What messages between ranks cost, and what they hide: run by a launcher, as `cargo xtask mpi --bench`
//! does.
//!
//! The first word is the measure. Rank 0 prints one line for each figure.

mod stencil;
mod tree;

use std::env;
use std::time::{Duration, Instant};
use tree::Tree;
use warpweft::{Runtime, join, spawn, spawn_job};
use warpweft_mpi::{Comm, Functions, Mpi, Source};

fn main() {
    // `cargo bench` gives this word.
    let words: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    let [measure, rest @ ..] = &words[..] else {
        println!("no measure: `cargo xtask mpi --bench` runs all");
        return;
    };
    let number = |index: usize, or: usize| rest.get(index).and_then(|word| word.parse().ok()).unwrap_or(or);
    let workers = number(0, 1);
    let runtime = Runtime::builder().workers(workers).build().expect("workers");
    let mpi = match Mpi::init(&runtime) {
        Ok(mpi) => mpi,
        Err(error) => {
            println!("skipped: {error}");
            return;
        }
    };
    let comm = mpi.world().clone();
    let measure = measure.clone();
    let amount = number(1, 0);
    let run = move || match measure.as_str() {
        "ping-pong" => ping_pong(&comm, 20_000),
        "outstanding" => outstanding(&comm, 1000),
        "remote-data" => remote_data(&comm, workers),
        "overlap" => overlap(&comm),
        "t1" => search(&comm, workers, Tree::T1),
        "t3" => search(&comm, workers, Tree::T3),
        "stencil" => stencil::stencil(&comm),
        "calls" => calls(&comm, 20_000),
        "idle" => idle(&comm),
        "drops" => drops(&comm, amount.max(100_000)),
        other => panic!("there is no measure `{other}`"),
    };
    runtime.spawn_fiber(run).wait().expect("no panic");
    mpi.finalize().expect("nothing is outstanding");
}

fn say(comm: &Comm, line: &str) {
    if comm.rank() == 0 {
        println!("{line}");
    }
}

fn meet(comm: &Comm) {
    comm.barrier().wait().expect("all come");
}

/// A round trip of 8 bytes between two futures.
fn ping_pong(comm: &Comm, rounds: u32) {
    let run = |rounds: u32| {
        meet(comm);
        let begin = Instant::now();
        if comm.rank() < 2 {
            let own = comm.clone();
            let player = spawn(async move {
                let (rank, other) = (own.rank(), 1 - own.rank());
                let (mut out, mut room) = (vec![0; 8], vec![0; 8]);
                for _ in 0..rounds {
                    if rank == 0 {
                        out = own.send(other, 1, out).await.expect("it is gone");
                        room = own.recv_into(other, 1, room).await.expect("it comes").bytes;
                    } else {
                        room = own.recv_into(other, 1, room).await.expect("it comes").bytes;
                        out = own.send(other, 1, out).await.expect("it is gone");
                    }
                }
            });
            player.wait().expect("no panic");
        }
        begin.elapsed().as_secs_f64() * 1e6 / f64::from(rounds)
    };
    run(1000);
    let us = run(rounds);
    say(comm, &format!("ping-pong, futures: {us:.2} us a round trip"));
    meet(comm);
}

/// A call and its answer, one after the other and many at once.
fn calls(comm: &Comm, rounds: u32) {
    let mut functions = Functions::new();
    let next = functions.register("next", |number: u64| async move { number + 1 });
    let calls = warpweft::block_on(comm.serve(functions)).expect("all have it");
    let other = comm.size() - 1;
    for (what, at_once) in [("one after the other", 1), ("1000 at once", 1000)] {
        meet(comm);
        if comm.rank() == 0 {
            let begin = Instant::now();
            for _ in 0..rounds / at_once {
                let begun: Vec<_> = (0..u64::from(at_once))
                    .map(|number| calls.call(other, next, &number))
                    .collect();
                for (number, call) in begun.into_iter().enumerate() {
                    assert_eq!(call.wait(), Ok(number as u64 + 1));
                }
            }
            let us = begin.elapsed().as_secs_f64() * 1e6 / f64::from(rounds);
            say(comm, &format!("calls, {what}: {us:.2} us each"));
        }
        meet(comm);
    }
    warpweft::block_on(calls.close()).expect("nothing is left");
}

/// Many receives that wait, whose messages come in a random order.
fn outstanding(comm: &Comm, count: usize) {
    let (mut took, rounds) = (Duration::ZERO, 20);
    let seed = 12345_u64;
    let mut order: Vec<usize> = (0..count).collect();
    let mut random = seed;
    for index in (1..count).rev() {
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        order.swap(index, (random >> 33) as usize % (index + 1));
    }
    for _ in 0..rounds {
        if comm.rank() == 0 {
            let receives: Vec<_> = (0..count).map(|tag| comm.recv(1, tag as i32, 8)).collect();
            meet(comm);
            let begin = Instant::now();
            for receive in receives {
                receive.wait().expect("it comes");
            }
            took += begin.elapsed();
        } else {
            meet(comm);
            if comm.rank() == 1 {
                let sent: Vec<_> = order
                    .iter()
                    .map(|tag| comm.send(0, *tag as i32, vec![0; 8]))
                    .collect();
                for sent in sent {
                    sent.wait().expect("it is gone");
                }
            }
        }
        meet(comm);
    }
    let ns = took.as_secs_f64() * 1e9 / (count * rounds) as f64;
    say(
        comm,
        &format!("{count} outstanding: {ns:.0} ns a completion, with the send of each"),
    );
}

fn fib(n: u64) -> u64 {
    if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
}

/// fib(30) by a parallel recursion with the serial base case 25.
fn parallel_fib(n: u64) -> u64 {
    if n <= 25 {
        return fib(n);
    }
    let (a, b) = join(|| parallel_fib(n - 1), || parallel_fib(n - 2));
    a + b
}

/// `mapreducefib` with each number at rank 1, which answers after a while. Rank 0 computes.
fn remote_data(comm: &Comm, workers: usize) {
    const COUNT: usize = 5000;
    const ASK: i32 = 1;
    const TELL: i32 = 2;
    let map = |delay: Option<Duration>| {
        meet(comm);
        let begin = Instant::now();
        if comm.rank() == 0 {
            let tasks: Vec<_> = (0..COUNT as u32)
                .map(|number| {
                    let comm = comm.clone();
                    spawn(async move {
                        if delay.is_some() {
                            let tag = TELL + number as i32;
                            let data = comm.recv(1, tag, 4);
                            comm.send(1, ASK, number.to_le_bytes().to_vec())
                                .await
                                .expect("it is gone");
                            assert_eq!(data.await.expect("it comes").bytes, number.to_le_bytes());
                        }
                        spawn_job(|| parallel_fib(30)).await.expect("no panic")
                    })
                })
                .collect();
            for task in tasks {
                assert_eq!(task.wait().expect("no panic"), 832_040);
            }
        } else if let (1, Some(delay)) = (comm.rank(), delay) {
            let answers: Vec<_> = (0..COUNT)
                .map(|_| {
                    let question = comm.recv(0, ASK, 4).wait().expect("it comes");
                    let comm = comm.clone();
                    spawn(async move {
                        warpweft::time::sleep(delay).await;
                        let Ok(number) = question.bytes[..].try_into().map(u32::from_le_bytes) else {
                            unreachable!("a number was sent")
                        };
                        comm.send(0, TELL + number as i32, question.bytes)
                            .await
                            .expect("it is gone");
                    })
                })
                .collect();
            for answer in answers {
                answer.wait().expect("no panic");
            }
        }
        let took = begin.elapsed().as_secs_f64();
        meet(comm);
        took
    };
    map(None);
    let ideal = map(None);
    for ms in [50, 100] {
        let delay = Duration::from_millis(ms);
        let took = map(Some(delay));
        let limit = ideal + delay.as_secs_f64();
        say(
            comm,
            &format!(
                "mapreducefib, {COUNT} x {ms} ms on rank 1, {workers} workers: {:.3} of the limit ({took:.3} s, alone {ideal:.3} s)",
                took / limit
            ),
        );
    }
}

/// Computes for some 100 µs. Returns how often.
fn compute(until: &dyn Fn() -> bool, at_most: u64) -> u64 {
    let mut count = 0;
    while count < at_most && !until() {
        std::hint::black_box(fib(std::hint::black_box(19)));
        warpweft::block_on(warpweft::yield_now());
        count += 1;
    }
    count
}

/// The share of an exchange that tasks hide, as the OSU benchmarks count it.
fn overlap(comm: &Comm) {
    let (bytes, rounds) = (1 << 20, 30);
    let exchange = || comm.all_to_all(vec![1; bytes * comm.size()]);
    let pure = |rounds: u32| {
        meet(comm);
        let begin = Instant::now();
        for _ in 0..rounds {
            exchange().wait().expect("all come");
        }
        begin.elapsed() / rounds
    };
    pure(3);
    let alone = pure(rounds);
    // As many tasks as take about as long as the exchange.
    let begin = Instant::now();
    compute(&|| false, 100);
    let tasks = (alone.as_secs_f64() / (begin.elapsed().as_secs_f64() / 100.0)).ceil() as u64;
    let begin = Instant::now();
    for _ in 0..rounds {
        compute(&|| false, tasks);
    }
    let computed = begin.elapsed() / rounds;
    meet(comm);
    let begin = Instant::now();
    for _ in 0..rounds {
        let request = exchange();
        compute(&|| false, tasks);
        request.wait().expect("all come");
    }
    let both = begin.elapsed() / rounds;
    let hidden = 1.0 - (both.saturating_sub(computed)).as_secs_f64() / alone.as_secs_f64();
    say(
        comm,
        &format!(
            "overlap, all-to-all of 1 MiB each: {:.0} % (alone {alone:.2?}, tasks {computed:.2?}, both {both:.2?})",
            100.0 * hidden.clamp(0.0, 1.0)
        ),
    );
    meet(comm);
}

/// Unbalanced tree search, with all the work on rank 0.
fn search(comm: &Comm, workers: usize, tree: Tree) {
    for _ in 0..3 {
        meet(comm);
        let begin = Instant::now();
        let mut bags: Vec<_> = (0..workers).map(|_| tree.empty()).collect();
        if comm.rank() == 0 {
            bags[0] = tree.root();
        }
        let shared = warpweft::block_on(comm.share(bags)).expect("all come");
        let took = begin.elapsed().as_secs_f64();
        let own: u64 = shared.bags.iter().map(|bag| bag.count).sum();
        let counts = comm
            .all_gather(own.to_le_bytes().to_vec())
            .wait()
            .expect("all come");
        let counts: Vec<u64> = counts
            .chunks_exact(8)
            .map(|chunk| {
                u64::from_le_bytes([
                    chunk[0], chunk[1], chunk[2], chunk[3], chunk[4], chunk[5], chunk[6], chunk[7],
                ])
            })
            .collect();
        let all: u64 = counts.iter().sum();
        assert_eq!(all, tree.size(), "the tree is known");
        say(
            comm,
            &format!(
                "tree search {tree:?}, {} ranks x {workers} workers: {:.3} s, {:.2} M nodes/s, by rank {counts:?}",
                comm.size(),
                took,
                all as f64 / took / 1e6
            ),
        );
    }
}

/// Returns how often the threads of this process have slept.
fn sleeps() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok())
        .filter_map(|status| {
            let line = status
                .lines()
                .find(|line| line.starts_with("voluntary_ctxt_switches"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .sum()
}

fn cpu() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Wake-ups and CPU time of a rank that waits for a message.
fn idle(comm: &Comm) {
    let (seconds, other) = (3, (comm.rank() + 1) % comm.size());
    let receive = comm.recv(Source::Any, 1, 8);
    meet(comm);
    // Until the rank sleeps.
    warpweft::block_on(warpweft::time::sleep(Duration::from_millis(200)));
    let (before, used) = (sleeps(), cpu());
    warpweft::block_on(warpweft::time::sleep(Duration::from_secs(seconds)));
    let (slept, used) = (sleeps() - before, cpu() - used);
    say(
        comm,
        &format!(
            "idle with a receive outstanding: {:.1} wake-ups/s, {:.2} % of a core",
            slept as f64 / seconds as f64,
            100.0 * used / seconds as f64
        ),
    );
    comm.send(other, 1, vec![1]).wait().expect("it is gone");
    receive.wait().expect("it comes");
}

/// Receives that are dropped, and what they leave.
fn drops(comm: &Comm, count: usize) {
    let memory = || {
        let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
        let pages = text
            .split_whitespace()
            .nth(1)
            .and_then(|word| word.parse::<u64>().ok());
        pages.expect("a number") * 4096
    };
    (0..1000).for_each(|_| drop(comm.recv(comm.rank(), 7, 100)));
    meet(comm);
    let (before, begin) = (memory(), Instant::now());
    (0..count).for_each(|_| drop(comm.recv(comm.rank(), 7, 100)));
    meet(comm);
    say(
        comm,
        &format!(
            "{count} dropped receives: {:.0} ns each, {} KiB more memory",
            begin.elapsed().as_secs_f64() * 1e9 / count as f64,
            memory().saturating_sub(before) / 1024
        ),
    );
}
