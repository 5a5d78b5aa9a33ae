//! *remote-data*: `mapreducefib` with each number on rank 1, which answers after a while. Rank 0 computes
//! fib(30) for each.
//!
//! The limit is the time of the same work without messages, and one delay: all delays may pass at once.

use crate::idioms::{Calls, ForkJoin, Futures, TestLoop};
use crate::work::fib;
use crate::workload::{Figure, Setting, Workload};
use std::collections::VecDeque;
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

#[derive(Debug, Clone)]
pub(crate) struct RemoteData {
    count: usize,
    delays: &'static [Delay],
}

/// A time until the answer, and how its figures are called.
#[derive(Debug)]
struct Delay {
    ms: u64,
    time: &'static str,
    ratio: &'static str,
}

const FEW: &str = "remote-data-few";
const DELAYS: [Delay; 2] = [
    Delay {
        ms: 50,
        time: "50 ms",
        ratio: "50 ms, of the limit",
    },
    Delay {
        ms: 100,
        time: "100 ms",
        ratio: "100 ms, of the limit",
    },
];
const QUESTION: i32 = 1;
const ANSWER: i32 = 2;
const FIB_30: u64 = 832_040;
/// Below this, fib is serial.
const BASE: u64 = 25;
const PAUSE: Duration = Duration::from_micros(20);

impl Workload for RemoteData {
    const SETTINGS: &'static [Setting] = &[
        Setting {
            name: "remote-data",
            about: "rank 1 answers each question after 50 or 100 ms, and rank 0 computes fib(30) for it; \
                    the amount is the number of questions",
            amount: 5000,
            smoke: 10,
            jobs: &[(2, 1)],
        },
        Setting {
            name: FEW,
            about: "the same with so few questions that a thread can wait for each answer",
            amount: 100,
            smoke: 3,
            jobs: &[(2, 1)],
        },
    ];

    fn new(setting: &'static Setting, amount: usize) -> Self {
        Self {
            count: amount,
            delays: if setting.name == FEW {
                &DELAYS[..1]
            } else {
                &DELAYS
            },
        }
    }

    fn lacks(&self, contestant: &str, _: usize, _: usize) -> Option<&'static str> {
        // All delays one after the other take minutes.
        let is_long = self.count > 1000;
        let is_blocked = matches!(contestant, "rayon" | "blocking");
        (is_long && is_blocked)
            .then_some("has no more questions at once than workers, and takes minutes: see remote-data-few")
    }

    async fn futures<F: Futures>(self, on: F) -> Vec<Figure> {
        ask_futures(&on, self.warm_up(), None).await;
        let alone = ask_futures(&on, self.count, None).await;
        let mut figures = Vec::new();
        for delay in self.delays {
            let time = Duration::from_millis(delay.ms);
            let took = ask_futures(&on, self.count, Some(time)).await;
            figures.extend(self.figures(delay, took, alone));
        }
        figures
    }

    fn calls<C: Calls>(self, on: &C) -> Vec<Figure> {
        let ask = |count: usize, delay: Option<Duration>| {
            on.for_each(count, &|on, number| {
                if delay.is_some() {
                    let number = number as u32;
                    on.send(1, QUESTION, number.to_le_bytes().to_vec());
                    let answer = on.recv(1, ANSWER + number as i32, vec![0; 4]);
                    assert_eq!(answer, number.to_le_bytes());
                }
                assert_eq!(item::<C>(), FIB_30);
            });
        };
        self.by_calls(on, ask)
    }

    fn plain<T: TestLoop>(self, on: &T) -> Vec<Figure> {
        let ask = |count: usize, delay: Option<Duration>| {
            if delay.is_none() {
                (0..count).for_each(|_| assert_eq!(item::<T>(), FIB_30));
                return;
            }
            let numbers = 0..count as u32;
            let receives = numbers
                .clone()
                .map(|number| on.post_recv(1, ANSWER + number as i32, vec![0; 4]));
            let sends = numbers.map(|number| on.post_send(1, QUESTION, number.to_le_bytes().to_vec()));
            let requests = receives.chain(sends).collect();
            on.wait_for_all(requests, |place, bytes| {
                if place < count {
                    assert_eq!(bytes, (place as u32).to_le_bytes());
                    assert_eq!(item::<T>(), FIB_30);
                }
            });
        };
        self.by_calls(on, ask)
    }
}

impl RemoteData {
    fn warm_up(&self) -> usize {
        self.count.div_ceil(10)
    }

    /// Measures a program of calls, `ask`, which rank 0 runs. Rank 1 answers, the same way for all.
    fn by_calls<C: Calls>(&self, on: &C, ask: impl Fn(usize, Option<Duration>)) -> Vec<Figure> {
        let run = |count: usize, delay: Option<Duration>| {
            on.barrier();
            let begin = Instant::now();
            match (on.rank(), delay) {
                (0, _) => ask(count, delay),
                (1, Some(delay)) => answer(on, count, delay),
                _ => {}
            }
            let took = begin.elapsed();
            // Rank 1 sleeps meanwhile: a loop without a pause would slow down rank 0.
            let mut end = on.post_barrier();
            while !on.test(&mut end) {
                thread::sleep(PAUSE);
            }
            took
        };
        run(self.warm_up(), None);
        let alone = run(self.count, None);
        let measure = |delay: &Delay| {
            let took = run(self.count, Some(Duration::from_millis(delay.ms)));
            self.figures(delay, took, alone)
        };
        self.delays.iter().flat_map(measure).collect()
    }

    fn figures(&self, delay: &Delay, took: Duration, alone: Duration) -> [Figure; 2] {
        let (took, alone) = (took.as_secs_f64(), alone.as_secs_f64());
        let limit = alone + delay.ms as f64 / 1e3;
        let extra = format!("{} questions, {alone:.3} s without messages", self.count);
        [
            Figure::less(delay.time, took, "s").extra(extra),
            Figure::less(delay.ratio, took / limit, "×"),
        ]
    }
}

async fn ask_futures<F: Futures>(on: &F, count: usize, delay: Option<Duration>) -> Duration {
    on.barrier().await;
    let begin = Instant::now();
    match (on.rank(), delay) {
        (0, _) => {
            let tasks: Vec<_> = (0..count as u32)
                .map(|number| {
                    let own = on.clone();
                    on.spawn(async move {
                        if delay.is_some() {
                            let answer = own.recv(1, ANSWER + number as i32, vec![0; 4]);
                            own.send(1, QUESTION, number.to_le_bytes().to_vec()).await;
                            assert_eq!(answer.await, number.to_le_bytes());
                        }
                        own.compute(item::<F>).await
                    })
                })
                .collect();
            for task in tasks {
                assert_eq!(task.await, FIB_30);
            }
        }
        (1, Some(delay)) => {
            let mut answers = Vec::new();
            for _ in 0..count {
                let question = on.recv(0, QUESTION, vec![0; 4]).await;
                let own = on.clone();
                answers.push(on.spawn(async move {
                    own.sleep(delay).await;
                    own.send(0, ANSWER + number_of(&question) as i32, question).await;
                }));
            }
            for answer in answers {
                answer.await;
            }
        }
        _ => {}
    }
    let took = begin.elapsed();
    on.barrier().await;
    took
}

/// Answers each question of rank 0 after the delay.
fn answer<C: Calls>(on: &C, count: usize, delay: Duration) {
    let post = || on.post_recv(0, QUESTION, vec![0; 4]);
    let (mut to_come, mut due, mut sends) = (count, VecDeque::new(), Vec::new());
    let mut question = Some(post());
    while sends.len() < count {
        let mut is_idle = true;
        if let Some(come) = question.take_if(|question| on.test(question)) {
            is_idle = false;
            to_come -= 1;
            question = (to_come > 0).then(post);
            due.push_back((Instant::now() + delay, come.into_bytes()));
        }
        if let Some((_, bytes)) = due.pop_front_if(|(time, _)| *time <= Instant::now()) {
            is_idle = false;
            sends.push(on.post_send(0, ANSWER + number_of(&bytes) as i32, bytes));
        }
        if is_idle {
            thread::sleep(PAUSE);
        }
    }
    for send in sends {
        on.wait(send);
    }
}

/// What is computed for each number. The compiler must not compute it once for all.
fn item<J: ForkJoin>() -> u64 {
    forked_fib::<J>(black_box(30))
}

/// Fibonacci's numbers by a parallel recursion.
fn forked_fib<J: ForkJoin>(n: u64) -> u64 {
    if n <= BASE {
        return fib(n);
    }
    let (a, b) = J::join(|| forked_fib::<J>(n - 1), || forked_fib::<J>(n - 2));
    a + b
}

fn number_of(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::{FIB_30, item, number_of};
    use crate::contestants::plain::Plain;
    use crate::contestants::rayon::Rayon;

    #[test]
    fn all_compute_the_same_number() {
        assert_eq!(item::<Plain>(), FIB_30);
        assert_eq!(item::<Rayon>(), FIB_30);
    }

    #[test]
    fn a_question_is_its_number() {
        assert_eq!(number_of(&4711_u32.to_le_bytes()), 4711);
    }
}
