//! A server that refuses requests which would be answered too late.
//!
//! # Invariants
//!
//! - A request that is refused has neither called the service nor read its body.
//! - Between its admission and its start a request stays behind all connections that are ready, by a yield of
//!   its own connection. So these are read, and ask, before it starts.

use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{HeaderValue, RETRY_AFTER};
use hyper::service::Service as HyperService;
use hyper::{Request, Response, StatusCode};
use pin_project_lite::pin_project;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use warpweft::{AdmissionControl, Overload, StartAfterOthers};

/// A service of hyper that asks for admission before each request: see
/// [`Serve::admission`](crate::Serve::admission).
#[derive(Debug, Clone)]
pub struct Admitting<S> {
    service: S,
    admission: AdmissionControl,
}

impl<S> Admitting<S> {
    pub(crate) fn new(service: S, admission: AdmissionControl) -> Self {
        Self { service, admission }
    }
}

impl<S, R, B> HyperService<Request<R>> for Admitting<S>
where
    S: HyperService<Request<R>, Response = Response<B>> + Clone,
{
    type Response = Response<AdmittedBody<B>>;
    type Error = S::Error;
    type Future = Admission<S, R>;

    fn call(&self, request: Request<R>) -> Self::Future {
        Admission {
            step: match self.admission.try_admit() {
                Err(overload) => Step::Refused { overload },
                Ok(admitted) => Step::Waits {
                    start: admitted.start_after_others(),
                    call: Some((self.service.clone(), request)),
                },
            },
        }
    }
}

pin_project! {
    /// The answer to one request.
    pub struct Admission<S, R>
    where
        S: HyperService<Request<R>>,
    {
        #[pin]
        step: Step<S, R>,
    }
}

pin_project! {
    #[project = StepNow]
    enum Step<S, R>
    where
        S: HyperService<Request<R>>,
    {
        Refused { overload: Box<Overload> },
        /// `None` is only there while it starts.
        Waits { start: StartAfterOthers, call: Option<(S, Request<R>)> },
        Runs { #[pin] future: S::Future },
    }
}

impl<S, R, B> Future for Admission<S, R>
where
    S: HyperService<Request<R>, Response = Response<B>>,
{
    type Output = Result<Response<AdmittedBody<B>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut step = self.project().step;
        loop {
            let (start, service, request) = match step.as_mut().project() {
                StepNow::Refused { overload } => return Poll::Ready(Ok(refusal(overload))),
                StepNow::Runs { future } => {
                    let response = ready!(future.poll(cx));
                    return Poll::Ready(response.map(|response| response.map(AdmittedBody::of)));
                }
                StepNow::Waits { start, call } => {
                    let start = ready!(Pin::new(start).poll(cx));
                    match call.take() {
                        Some((service, request)) => (start, service, request),
                        None => unreachable!("it is taken once, and then replaced"),
                    }
                }
            };
            step.set(match start {
                Ok(()) => Step::Runs {
                    future: service.call(request),
                },
                Err(overload) => Step::Refused { overload },
            });
        }
    }
}

/// Returns the answer to a request that is refused: 503, and when to come back.
#[cold]
fn refusal<B>(overload: &Overload) -> Response<AdmittedBody<B>> {
    let mut response = Response::new(AdmittedBody { body: None });
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    // The header counts whole seconds.
    let seconds = overload.interval.as_secs_f64().ceil().max(1.0) as u64;
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}

pin_project! {
    /// The body of an answer: that of the service, or none.
    #[derive(Debug)]
    pub struct AdmittedBody<B> {
        #[pin]
        body: Option<B>,
    }
}

impl<B> AdmittedBody<B> {
    fn of(body: B) -> Self {
        Self { body: Some(body) }
    }
}

impl<B: Body> Body for AdmittedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        match self.project().body.as_pin_mut() {
            Some(body) => body.poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Some(body) => body.size_hint(),
            None => SizeHint::with_exact(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper_util::service::TowerToHyperService;
    use std::convert::Infallible;
    use std::pin::pin;
    use std::task::Waker;
    use std::thread;
    use std::time::Duration;
    use warpweft::{QueueDelay, Runtime};

    /// Longer than a busy machine stops a test between two lines.
    const TARGET: Duration = Duration::from_millis(300);
    /// The overload lasts for so long after a refusal: longer than the rest of the test.
    const INTERVAL: Duration = Duration::from_secs(1);

    #[test]
    #[expect(clippy::disallowed_methods, reason = "this thread is no worker")]
    fn a_request_that_has_waited_too_long_is_answered_without_its_handler() {
        let delay = QueueDelay::new().target(TARGET).interval(INTERVAL);
        let runtime = Runtime::builder().workers(1).admission(delay).build();
        let runtime = runtime.expect("a small pool");
        let admission = runtime.first().admission().expect("the builder says so");
        // One waits for longer than the interval: that is an overload.
        let first = admission.try_admit().expect("none waits");
        thread::sleep(TARGET + INTERVAL);
        admission.try_admit().expect_err("nothing starts");
        drop(first);

        let service = tower::service_fn(|_: Request<()>| async {
            Ok::<_, Infallible>(Response::new(http_body_util::Full::<bytes::Bytes>::from("hello")))
        });
        let service = Admitting::new(TowerToHyperService::new(service), admission.clone());
        let mut request = pin!(service.call(Request::new(())));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(request.as_mut().poll(&mut cx).is_pending(), "it yields");
        // One that waits behind it, and may still be in time.
        let behind = admission.try_admit().expect("a start takes no time");
        thread::sleep(3 * TARGET);
        let again = request.as_mut().poll(&mut cx);
        assert!(again.is_pending(), "what became ready meanwhile goes first");
        let Poll::Ready(Ok(response)) = request.as_mut().poll(&mut cx) else {
            panic!("it is not answered");
        };
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[RETRY_AFTER], "1");
        assert!(response.body().is_end_stream());
        assert_eq!(response.body().size_hint().exact(), Some(0));
        assert_eq!(admission.stats().shed, 1);
        behind.start();
        // Now none waits, and one is admitted.
        let mut request = pin!(service.call(Request::new(())));
        let response = (0..3).find_map(|_| match request.as_mut().poll(&mut cx) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        });
        let Some(Ok(response)) = response else {
            panic!("it is not answered");
        };
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.body().size_hint().exact(), Some(5));
    }
}
