//! *outstanding*: many receives wait at once, and their messages come in a random order.

use crate::idioms::{Futures, TestLoop};
use crate::work::Random;
use crate::workload::{Figure, Setting, Workload};
use std::time::{Duration, Instant};

#[derive(Debug, Clone)]
pub(crate) struct Outstanding {
    count: usize,
}

const ROUNDS: usize = 20;

impl Workload for Outstanding {
    const SETTINGS: &'static [Setting] = &[Setting {
        name: "outstanding",
        about: "rank 1 sends what as many receives of rank 0 wait for, in a random order",
        amount: 1000,
        smoke: 100,
        jobs: &[(2, 1)],
    }];

    fn new(_: &'static Setting, amount: usize) -> Self {
        Self { count: amount }
    }

    fn lacks(&self, contestant: &str, _: usize, _: usize) -> Option<&'static str> {
        match contestant {
            "rayon" => Some("has no receives that wait at once: each takes a worker"),
            "blocking" => Some("has no receives that wait at once: each call waits for one"),
            _ => None,
        }
    }

    async fn futures<F: Futures>(self, on: F) -> Vec<Figure> {
        let (mut took, order) = (Duration::ZERO, self.order());
        for _ in 0..ROUNDS {
            if on.rank() == 0 {
                let receives: Vec<_> = (0..self.count)
                    .map(|tag| on.recv(1, tag as i32, vec![0; 8]))
                    .collect();
                on.barrier().await;
                let begin = Instant::now();
                for (tag, receive) in receives.into_iter().enumerate() {
                    assert_eq!(receive.await, tag.to_le_bytes());
                }
                took += begin.elapsed();
            } else {
                on.barrier().await;
                if on.rank() == 1 {
                    let sends: Vec<_> = order
                        .iter()
                        .map(|tag| on.send(0, *tag as i32, tag.to_le_bytes().to_vec()))
                        .collect();
                    for send in sends {
                        send.await;
                    }
                }
            }
            on.barrier().await;
        }
        self.figures(took)
    }

    fn plain<T: TestLoop>(self, on: &T) -> Vec<Figure> {
        let (mut took, order) = (Duration::ZERO, self.order());
        for _ in 0..ROUNDS {
            if on.rank() == 0 {
                let receives: Vec<_> = (0..self.count)
                    .map(|tag| on.post_recv(1, tag as i32, vec![0; 8]))
                    .collect();
                on.barrier();
                let begin = Instant::now();
                on.wait_for_all(receives, |tag, bytes| assert_eq!(bytes, tag.to_le_bytes()));
                took += begin.elapsed();
            } else {
                on.barrier();
                if on.rank() == 1 {
                    let sends = order
                        .iter()
                        .map(|tag| on.post_send(0, *tag as i32, tag.to_le_bytes().to_vec()))
                        .collect();
                    on.wait_for_all(sends, |_, _| ());
                }
            }
            on.barrier();
        }
        self.figures(took)
    }
}

impl Outstanding {
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.count).collect();
        let mut random = Random(12345);
        for index in (1..self.count).rev() {
            order.swap(index, random.below(index + 1));
        }
        order
    }

    fn figures(&self, took: Duration) -> Vec<Figure> {
        let ns = took.as_secs_f64() * 1e9 / (self.count * ROUNDS) as f64;
        let extra = format!("{} at once, with the send of each", self.count);
        vec![Figure::less("completion", ns, "ns").extra(extra)]
    }
}

#[cfg(test)]
mod tests {
    use super::Outstanding;

    #[test]
    fn each_message_is_sent_once() {
        let mut order = Outstanding { count: 1000 }.order();
        assert!(!order.is_sorted());
        order.sort_unstable();
        assert!(order.into_iter().eq(0..1000));
    }
}
