//! Layers of tower around a service: limits, time-outs, retries.

use ::tower::retry::Policy;
use ::tower::{BoxError, ServiceBuilder, ServiceExt as _, service_fn};
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use warpweft_ecosystem::{on_a_worker, on_pools};

/// Tries again, a number of times.
#[derive(Clone)]
struct Again(usize);

impl Policy<usize, usize, BoxError> for Again {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut usize, result: &mut Result<usize, BoxError>) -> Option<Ready<()>> {
        let again = result.is_err() && self.0 > 0;
        self.0 -= usize::from(again);
        again.then(|| ready(()))
    }

    fn clone_request(&mut self, request: &usize) -> Option<usize> {
        Some(*request)
    }
}

#[test]
fn layers_around_a_service() {
    on_pools(|| async {
        let (calls, inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let counts = Arc::new((calls, inside, most));
        let counted = Arc::clone(&counts);
        let inner = service_fn(move |n: usize| {
            let counts = Arc::clone(&counted);
            async move {
                let (calls, inside, most) = &*counts;
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let call = calls.fetch_add(1, Ordering::SeqCst);
                on_a_worker().await;
                tokio::time::sleep(Duration::from_millis(1)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                if call % 3 == 0 {
                    return Err(BoxError::from("every third call fails"));
                }
                Ok(n * n)
            }
        });
        let service = ServiceBuilder::new()
            .concurrency_limit(4)
            .retry(Again(5))
            .timeout(Duration::from_secs(20))
            .service(inner);
        let asking: Vec<_> = (0..20)
            .map(|n| warpweft::spawn(service.clone().oneshot(n)))
            .collect();
        for (n, asked) in asking.into_iter().enumerate() {
            assert_eq!(asked.await.expect("no panic")?, n * n);
        }
        assert!(counts.0.load(Ordering::SeqCst) > 20, "some were tried again");
        assert!(counts.2.load(Ordering::SeqCst) <= 4);

        let never = service_fn(|()| std::future::pending::<Result<(), BoxError>>());
        let never = ServiceBuilder::new()
            .timeout(Duration::from_millis(1))
            .service(never);
        let error = never.oneshot(()).await.expect_err("it takes for ever");
        assert!(error.is::<::tower::timeout::error::Elapsed>());
        Ok(())
    });
}
