//! What waiting for each other costs: `cargo bench -p warpweft --bench sync [filter]`.
//!
//! Each line is the median and the quartiles of several runs, in nanoseconds per operation of the whole.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use warpweft::sync::{Mutex, Notify, RwLock, Semaphore, channel, oneshot};
use warpweft::{PolicySpec, Pool, Runtime, TaskBuilder};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 15;

/// Nanoseconds per operation, `operations` of which `future` does.
async fn time(operations: usize, future: impl Future<Output = ()>) -> f64 {
    let start = Instant::now();
    future.await;
    start.elapsed().as_nanos() as f64 / operations as f64
}

/// Several runs of a program on so many workers. The program gives its nanoseconds per operation.
fn line<F: Future<Output = f64> + Send + 'static>(name: &str, workers: usize, program: impl Fn() -> F) {
    line_under("fifo", name, workers, program);
}

/// The same, under that policy.
fn line_under<F>(policy: &str, name: &str, workers: usize, program: impl Fn() -> F)
where
    F: Future<Output = f64> + Send + 'static,
{
    let filter = std::env::args().nth(1).unwrap_or_default();
    if !filter.starts_with('-') && !name.contains(&filter) {
        return;
    }
    let policy: PolicySpec = policy.parse().expect("a policy");
    let builder = Runtime::builder().workers(workers).policy_spec(policy);
    let runtime = builder.build().expect("workers");
    let mut times: Vec<f64> = (0..=RUNS)
        .map(|_| runtime.spawn(program()).wait().expect("no panic"))
        .skip(1)
        .collect();
    times.sort_by(f64::total_cmp);
    let at = |quarter: usize| times[RUNS * quarter / 4];
    println!(
        "{name:32} {workers} workers  {:8.1}  ({:.1} – {:.1})",
        at(2),
        at(1),
        at(3)
    );
}

/// `tasks` tasks that lock one mutex `each` times.
async fn one_for_all(tasks: usize, each: usize) -> f64 {
    let mutex = Arc::new(Mutex::new(0_usize));
    let ns = time(tasks * each, async {
        let tasks: Vec<_> = (0..tasks)
            .map(|_| {
                let mutex = Arc::clone(&mutex);
                warpweft::spawn(async move {
                    for _ in 0..each {
                        *mutex.lock().await += 1;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
    })
    .await;
    assert_eq!(*mutex.lock().await, tasks * each);
    ns
}

/// `tasks` tasks, of so many priorities, at one mutex. Each keeps it while others run, so all wait for it.
async fn kept(tasks: usize, each: usize, priorities: usize) -> f64 {
    let mutex = Arc::new(Mutex::new(0_usize));
    let pool = Pool::current().expect("a worker");
    time(tasks * each, async {
        let tasks: Vec<_> = (0..tasks)
            .map(|task| {
                let mutex = Arc::clone(&mutex);
                let mut builder = TaskBuilder::new();
                if priorities > 1 {
                    let priority = pool.priority((task % priorities) as u8);
                    builder = builder.priority(priority.expect("one of the policy's"));
                }
                builder.spawn(async move {
                    for _ in 0..each {
                        let mut count = mutex.lock().await;
                        *count += 1;
                        warpweft::yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
    })
    .await
}

/// One value there and back, `rounds` times.
async fn pingpong(capacity: usize, rounds: usize) -> f64 {
    let (ping, to) = channel::bounded(capacity);
    let (back, pong) = channel::bounded(capacity);
    let other = warpweft::spawn(async move {
        while let Ok(n) = to.recv().await {
            if back.send(n + 1).await.is_err() {
                break;
            }
        }
    });
    let ns = time(rounds, async {
        let mut n = 0;
        while n < rounds {
            ping.send(n).await.expect("the other is there");
            n = pong.recv().await.expect("the other is there");
        }
    })
    .await;
    drop(ping);
    other.await.expect("no panic");
    ns
}

fn main() {
    const MANY: usize = 1_000_000;
    line("mutex, alone", 1, || async {
        let mutex = Mutex::new(0_usize);
        time(MANY, async {
            for _ in 0..MANY {
                *black_box(&mutex).lock().await += 1;
            }
        })
        .await
    });
    line("mutex, alone, from a job", 1, || async {
        let mutex = Mutex::new(0_usize);
        time(MANY, async {
            for _ in 0..MANY {
                *black_box(&mutex).lock().wait() += 1;
            }
        })
        .await
    });
    line("mutex, alone, tried", 1, || async {
        let mutex = Mutex::new(0_usize);
        time(MANY, async {
            for _ in 0..MANY {
                *black_box(&mutex).try_lock().expect("free") += 1;
            }
        })
        .await
    });
    line("the system's mutex, alone", 1, || async {
        let mutex = std::sync::Mutex::new(0_usize);
        time(MANY, async {
            for _ in 0..MANY {
                *black_box(&mutex).lock().expect("free") += 1;
            }
        })
        .await
    });
    line("rwlock, read alone", 1, || async {
        let lock = RwLock::new(0_usize);
        time(MANY, async {
            for _ in 0..MANY {
                black_box(*black_box(&lock).read().await);
            }
        })
        .await
    });
    line("semaphore, alone", 1, || async {
        let semaphore = Semaphore::new(2);
        time(MANY, async {
            for _ in 0..MANY {
                drop(black_box(&semaphore).acquire(1).await.expect("open"));
            }
        })
        .await
    });
    for workers in [1, 2] {
        line("mutex, one for 2 tasks", workers, || one_for_all(2, MANY / 2));
        line("mutex, one for 64 tasks", workers, || one_for_all(64, MANY / 64));
        for (policy, priorities) in [("fifo", 1), ("priority", 1), ("priority", 3)] {
            let name = format!("mutex, kept, {policy}, {priorities} used");
            line_under(policy, &name, workers, || kept(64, MANY / 100 / 64, priorities));
        }
    }
    for workers in [1, 2] {
        for capacity in [0, 1, 64] {
            line(&format!("ping-pong, capacity {capacity}"), workers, || {
                pingpong(capacity, 200_000)
            });
        }
    }
    line("oneshot, made, sent, received", 1, || async {
        time(MANY, async {
            for n in 0..MANY {
                let (sender, receiver) = oneshot::channel();
                sender.send(n).expect("the receiver is there");
                assert_eq!(black_box(receiver).await, Ok(n));
            }
        })
        .await
    });
    for waiters in [1_000, 100_000] {
        line(&format!("notify_all, {waiters} waiters"), 1, || async move {
            let notify = Arc::new(Notify::new());
            let tasks: Vec<_> = (0..waiters)
                .map(|_| {
                    let notify = Arc::clone(&notify);
                    warpweft::spawn(async move { notify.notified().await })
                })
                .collect();
            warpweft::yield_now().await;
            time(waiters, async {
                notify.notify_all();
                for task in tasks {
                    task.await.expect("no panic");
                }
            })
            .await
        });
    }
}
