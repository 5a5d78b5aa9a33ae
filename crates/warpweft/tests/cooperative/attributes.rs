//! What the attributes accept, and tests that are async.

use super::others_during;
use warpweft::{JoinError, cooperative, yield_now};

#[test]
fn methods_generics_and_recursion_have_checks_too() {
    trait Walk {
        fn walk(&self) -> u64;
    }
    impl<const N: usize> Walk for [u64; N] {
        #[cooperative]
        fn walk(&self) -> u64 {
            let mut sum = 0;
            for x in self {
                sum += x;
            }
            sum
        }
    }
    #[cooperative]
    fn fib(n: u64) -> u64 {
        if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
    }
    assert!(others_during(|| assert_eq!(fib(15), 610)) >= 50);
    assert!(others_during(|| assert_eq!([1; 1000].walk(), 1000)) >= 50);
}

#[warpweft::test(workers = 2, policy = "lifo+steal=half")]
async fn a_test_may_be_async() -> Result<(), JoinError> {
    let half = warpweft::spawn(async { 21 }).await?;
    assert_eq!(2 * half, 42);
    Ok(())
}

#[warpweft::test]
#[should_panic(expected = "as it should")]
async fn its_panic_is_its_own() {
    yield_now().await;
    panic!("as it should");
}

fn body() -> u32 {
    7
}

#[warpweft::test]
async fn a_function_of_the_program_may_be_called_body() {
    assert_eq!(body(), 7);
}

#[warpweft::test(workers = 5000)]
#[should_panic(expected = "no runtime: a pool of 5000 workers")]
async fn a_runtime_that_cannot_be_built_says_why() {}

#[warpweft::test(policy = "lifo+steal=none of them")]
#[should_panic(expected = "is no policy")]
async fn a_text_that_is_no_policy_says_so() {}

/// If it were not ignored, it would say that it needs the simulator.
#[warpweft::test(sim, seed = 7)]
async fn a_simulated_test_is_ignored_in_other_builds() {
    yield_now().await;
}
