//! What checks cost: programs with them against the same without, in turns.
//!
//! ```text
//! cargo bench -p warpweft --bench cooperative
//! ```
//!
//! - *news*: reporters send messages to customers, each a fiber with a channel of its own, who read every
//!   byte. The loops over customers and over bytes have a check per turn.
//! - *matrix*: a product of two matrices by the triple loop over indices; *matrix by rows*: the same with the
//!   loops in the order that lets the innermost be vectorised. Both in a fiber.
//! - *mix*: a loop of four instructions over a slice: about the worst that a check per turn can do.
//!
//! Each figure is time that the one worker's thread had a CPU, the median of the rounds; the ratio is the
//! median of the ratios within a round, with its quartiles.

use std::hint::black_box;
use std::sync::Arc;
use warpweft::sync::channel::{Receiver, Sender, unbounded};
use warpweft::{Runtime, cooperative, fiber};
use warpweft_platform::clock::thread_cpu_ns;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 31;
const CUSTOMERS: usize = 1000;
const REPORTERS: usize = 10;
const MESSAGES: usize = 10;
const SIDE: usize = 256;
const NUMBERS: usize = 4_000_000;

type Message = Arc<[u8]>;

/// Each function twice: as it stands, and cooperative.
macro_rules! twice {
    ($(fn $plain:ident/$checked:ident $arguments:tt $(-> $output:ty)? { $($body:tt)* })*) => {$(
        fn $plain $arguments $(-> $output)? { $($body)* }
        #[cooperative]
        fn $checked $arguments $(-> $output)? { $($body)* }
    )*};
}

twice! {
    fn report/report_checked(reporter: usize, customers: &[Sender<Message>]) {
        for number in 0..MESSAGES {
            let text = format!("{reporter} says for the {number}th time that it is fine, and that it will rain at last");
            let message: Message = text.into_bytes().into();
            for customer in customers {
                let sent = fiber::wait(customer.send(Arc::clone(&message)));
                sent.expect("customers stay until the last reporter has gone");
            }
        }
    }

    fn read/read_checked(news: &Receiver<Message>) -> u64 {
        let mut seen = 0_u64;
        while let Ok(message) = fiber::wait(news.recv()) {
            for &byte in message.iter() {
                seen = (seen ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        seen
    }

    fn product/product_checked(side: usize, a: &[f64], b: &[f64], c: &mut [f64]) {
        for i in 0..side {
            for j in 0..side {
                let mut sum = 0.0;
                for k in 0..side {
                    sum += a[i * side + k] * b[k * side + j];
                }
                c[i * side + j] = sum;
            }
        }
    }

    fn by_rows/by_rows_checked(side: usize, a: &[f64], b: &[f64], c: &mut [f64]) {
        for i in 0..side {
            let to = &mut c[i * side..][..side];
            for k in 0..side {
                let (factor, from) = (a[i * side + k], &b[k * side..][..side]);
                for j in 0..side {
                    to[j] += factor * from[j];
                }
            }
        }
    }

    fn mix/mix_checked(numbers: &[u64]) -> u64 {
        let mut mixed = 0_u64;
        for number in numbers {
            mixed = (mixed ^ number).rotate_left(7);
        }
        mixed
    }
}

/// What a program takes in milliseconds: with checks or without, on that runtime.
type Program = fn(bool, &Runtime) -> f64;

fn main() {
    println!("milliseconds, {ROUNDS} rounds: with checks, without, ratio [quartiles]");
    compare("news", news);
    compare("matrix", |checked, runtime| {
        matrix(if checked { product_checked } else { product }, runtime)
    });
    compare("matrix by rows", |checked, runtime| {
        matrix(if checked { by_rows_checked } else { by_rows }, runtime)
    });
    compare("mix", |checked, runtime| {
        let mix = if checked { mix_checked } else { mix };
        let numbers: Vec<u64> = (0..NUMBERS as u64).collect();
        in_fiber(runtime, move || {
            black_box(mix(black_box(&numbers)));
        })
    });
}

fn compare(name: &str, program: Program) {
    let runtime = Runtime::builder().workers(1).build().expect("threads");
    let (mut with, mut without, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Who begins would otherwise always find the caches as the other one left them.
        let first = round % 2 == 0;
        let (one, other) = (program(first, &runtime), program(!first, &runtime));
        let (on, off) = if first { (one, other) } else { (other, one) };
        with.push(on);
        without.push(off);
        ratios.push(on / off);
    }
    for figures in [&mut with, &mut without, &mut ratios] {
        figures.sort_by(f64::total_cmp);
    }
    let (middle, quarter) = (ROUNDS / 2, ROUNDS / 4);
    println!(
        "{name:>14}: {:8.2} {:8.2}   {:.4} [{:.4}, {:.4}]",
        with[middle],
        without[middle],
        ratios[middle],
        ratios[quarter],
        ratios[ROUNDS - 1 - quarter]
    );
}

/// Milliseconds of its thread's time that `body` takes in a fiber, and others until it has ended.
fn in_fiber(runtime: &Runtime, body: impl FnOnce() + Send + 'static) -> f64 {
    let now = || thread_cpu_ns().expect("the system tells");
    let took = runtime.spawn_fiber(move || {
        let start = now();
        body();
        now() - start
    });
    took.wait().expect("no panic") as f64 / 1e6
}

fn news(checked: bool, runtime: &Runtime) -> f64 {
    let (report, read) = if checked {
        (
            report_checked as fn(usize, &[Sender<Message>]),
            read_checked as fn(&Receiver<Message>) -> u64,
        )
    } else {
        (
            report as fn(usize, &[Sender<Message>]),
            read as fn(&Receiver<Message>) -> u64,
        )
    };
    in_fiber(runtime, move || {
        let (senders, customers): (Vec<_>, Vec<_>) = (0..CUSTOMERS)
            .map(|_| {
                let (sender, receiver) = unbounded();
                (sender, fiber::spawn(move || read(&receiver)))
            })
            .unzip();
        let senders: Arc<[Sender<Message>]> = senders.into();
        let reporters: Vec<_> = (0..REPORTERS)
            .map(|reporter| {
                let senders = Arc::clone(&senders);
                fiber::spawn(move || report(reporter, &senders))
            })
            .collect();
        drop(senders);
        for reporter in reporters {
            reporter.wait().expect("no panic");
        }
        for customer in customers {
            black_box(customer.wait().expect("no panic"));
        }
    })
}

fn matrix(product: fn(usize, &[f64], &[f64], &mut [f64]), runtime: &Runtime) -> f64 {
    let [a, b] = [3, 5].map(|step| {
        (0..SIDE * SIDE)
            .map(|n| (n * step % 7) as f64)
            .collect::<Vec<_>>()
    });
    let mut c = vec![0.0; SIDE * SIDE];
    in_fiber(runtime, move || {
        product(black_box(SIDE), black_box(&a), black_box(&b), &mut c);
        black_box(&c);
    })
}
