//! The same program on rayon and on Warpweft: `cargo run --release --bin from_rayon -- 1000000`.

/// Numbers that look random, always the same.
fn numbers(count: usize) -> Vec<u64> {
    let next = |seen: &u64| Some(seen.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    std::iter::successors(Some(1), next).take(count).collect()
}

fn partition(slice: &mut [u64]) -> (&mut [u64], &mut [u64]) {
    let middle = slice.len() / 2;
    let (low, _, high) = slice.select_nth_unstable(middle);
    (low, high)
}

mod before {
    pub(super) fn run(numbers: &mut [u64]) -> u64 {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(2)
            .build()
            .expect("two threads");
        pool.install(|| {
            sort(numbers);
            let (mut even, mut odd) = (0, 0);
            rayon::scope(|scope| {
                scope.spawn(|_| even = numbers.iter().step_by(2).fold(0, |a, b| a ^ b));
                scope.spawn(|_| odd = numbers.iter().skip(1).step_by(2).fold(0, |a, b| a ^ b));
            });
            even ^ odd
        })
    }

    fn sort(slice: &mut [u64]) {
        if slice.len() > 1 {
            let (low, high) = super::partition(slice);
            rayon::join(|| sort(low), || sort(high));
        }
    }
}

mod after {
    pub(super) fn run(numbers: &mut [u64]) -> u64 {
        let runtime = warpweft::Runtime::builder()
            .workers(2)
            .build()
            .expect("two workers");
        let result = runtime.install(|_| {
            sort(numbers);
            let (mut even, mut odd) = (0, 0);
            warpweft::scope(|scope| {
                scope.spawn(|_| even = numbers.iter().step_by(2).fold(0, |a, b| a ^ b));
                scope.spawn(|_| odd = numbers.iter().skip(1).step_by(2).fold(0, |a, b| a ^ b));
            });
            even ^ odd
        });
        result.expect("the runtime is not shutting down")
    }

    fn sort(slice: &mut [u64]) {
        if slice.len() > 1 {
            let (low, high) = super::partition(slice);
            warpweft::join(|| sort(low), || sort(high));
        }
    }
}

fn main() -> Result<(), std::num::ParseIntError> {
    let count = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    let (mut one, mut other) = (numbers(count), numbers(count));
    let (before, after) = (before::run(&mut one), after::run(&mut other));
    println!("{count} numbers, sorted: {}", one.is_sorted() && one == other);
    println!("rayon {before:x}, Warpweft {after:x}");
    Ok(())
}
