//! The handler, the same for every contestant but for where it computes.

use std::convert::Infallible;
use std::future::Future;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};

/// Where a request computes.
pub(crate) trait Compute: Clone + Send + 'static {
    /// The digest of so many rounds.
    fn compute(&self, rounds: u64) -> impl Future<Output = u64> + Send;
}

/// In the task of its connection.
#[derive(Clone, Copy)]
pub(crate) struct Inline;

impl Compute for Inline {
    async fn compute(&self, rounds: u64) -> u64 {
        digest(rounds)
    }
}

/// What `/` answers.
pub(super) const HELLO: &str = "Hello, World!";

/// Answers a request.
pub(crate) async fn answer(
    request: Request<Incoming>,
    compute: impl Compute,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path();
    let body = match path.strip_prefix("/compute/").map(str::parse) {
        None if path == "/" => Bytes::from_static(HELLO.as_bytes()),
        Some(Ok(rounds)) => Bytes::from(compute.compute(rounds).await.to_string()),
        _ => {
            let mut response = Response::new(Full::default());
            *response.status_mut() = StatusCode::NOT_FOUND;
            return Ok(response);
        }
    };
    Ok(Response::new(Full::new(body)))
}

/// So many steps that depend on each other: nothing to do at the same time, nothing to leave out.
pub(crate) fn digest(rounds: u64) -> u64 {
    (0..rounds).fold(0x9E37_79B9_7F4A_7C15, |state: u64, round| {
        (state ^ round)
            .wrapping_mul(0xBF58_476D_1CE4_E5B9)
            .rotate_left(31)
    })
}
