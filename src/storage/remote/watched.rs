//! The only client that sends requests: it limits the time to wait for an answer.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use futures::future::BoxFuture;
use object_store::client::{
    HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};

use super::answer::{Answered, late, whole};
use super::failure::{Lost, cause};
use super::limits::limits;
use super::sending;
use super::sum::Crc32c;
use crate::slow;

/// A client that waits for an answer at most as long as a stall, and keeps servers' error answers.
#[derive(Debug)]
pub(super) struct Watched {
    /// The client that sends the requests.
    pub inner: HttpClient,
}

impl Watched {
    async fn execute(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let longest = limits().stall * if works_long(&request) { 10 } else { 1 };
        let size = request.body().content_length() as u64;
        // The reader of a file's bytes itself checks that the bytes keep coming.
        let is_of_file = request.headers().contains_key("range");
        let lists = request.method().as_str() == "GET" && !is_of_file;
        let server = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        let answer = sending::in_time(longest, size, self.inner.execute(request)).await;
        let mut response = answer.ok_or_else(late)?.map_err(|error| of_known(&server, error))?;
        slow::reached(&server);
        known().insert(server);
        // `object_store` passes on extensions, but not headers.
        if let Some(sum) = Crc32c::of_response(&response) {
            response.extensions_mut().insert(sum);
        }
        // `object_store` interprets these statuses correctly for every request.
        let status = response.status().as_u16();
        let understood = matches!(status, 200..=299 | 304 | 404 | 409 | 412);
        // For a missing bucket, `object_store` would only quote the server's answer.
        let understood = understood && !(lists && status == 404);
        if understood {
            return if is_of_file { Ok(response) } else { whole(response).await };
        }
        let kind = match status {
            408 | 429 | 500 | 502..=599 => HttpErrorKind::Request,
            _ => HttpErrorKind::Decode,
        };
        Err(HttpError::new(kind, Answered::read(response).await))
    }
}

impl HttpService for Watched {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> BoxFuture<'b, Result<HttpResponse, HttpError>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(self.execute(request))
    }
}

/// The servers that have answered this process, by host and port.
fn known() -> std::sync::MutexGuard<'static, HashSet<String>> {
    static KNOWN: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks the error of a server that has answered before: the name is not wrong, so this is an
/// outage that may end.
fn of_known(server: &str, error: HttpError) -> HttpError {
    match error.kind() {
        HttpErrorKind::Connect if known().contains(server) => {
            slow::lost(server, cause(&error), limits().outage);
            HttpError::new(HttpErrorKind::Interrupted, Lost(error))
        }
        _ => error,
    }
}

/// Whether the store needs long for the request, because it does more than look up or store data:
/// it joins the parts of an upload, or copies an object.
fn works_long(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let joins = request.method().as_str() == "POST" && query.contains("uploadId=");
    let copies = |(name, _): (&_, &_)| AsRef::<str>::as_ref(name).ends_with("-copy-source");
    joins || query.contains("comp=blocklist") || request.headers().iter().any(copies)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use object_store::client::{HttpRequestBody, HttpResponseBody};

    use super::*;
    use crate::remote::client::wait;
    use crate::remote::failure::{Failure, GivenUp};
    use crate::remote::limits::Limits;
    use crate::remote::retry::retry;

    /// A link on which some requests, counted from 1, do not reach a server.
    #[derive(Debug)]
    struct Link {
        out: std::ops::RangeInclusive<usize>,
        count: AtomicUsize,
    }

    impl HttpService for Link {
        fn call<'a, 'b>(&'a self, _: HttpRequest) -> BoxFuture<'b, Result<HttpResponse, HttpError>>
        where
            'a: 'b,
            Self: 'b,
        {
            let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
            let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
            let answer = match self.out.contains(&number) {
                true => Err(HttpError::new(HttpErrorKind::Connect, refused)),
                false => Ok(HttpResponse::new(HttpResponseBody::from(Vec::new()))),
            };
            Box::pin(async { answer })
        }
    }

    /// Sends `times` requests to a server, with the usual retries.
    fn asked(
        times: usize,
        host: &str,
        out: std::ops::RangeInclusive<usize>,
        outage: Duration,
    ) -> Result<(), Failure> {
        let inner = HttpClient::new(Link { out, count: AtomicUsize::new(0) });
        let watched = Watched { inner };
        let limits = Limits { first_pause: Duration::ZERO, outage, ..Limits::default() };
        let attempt = || async {
            let mut request = HttpRequest::new(HttpRequestBody::empty());
            *request.uri_mut() = format!("http://{host}/file").parse().unwrap();
            let answer = watched.execute(request).await;
            answer.map(drop).map_err(|error| Failure::of_request(&error))
        };
        (0..times).try_for_each(|_| wait(retry(limits.clone(), &host, attempt)))
    }

    #[test]
    fn a_server_that_has_answered_is_waited_for_and_one_that_never_did_is_not() {
        asked(2, "known.invalid:1", 2..=100, Duration::from_secs(300)).unwrap();
        let unreachable = |result| match result {
            Err(Failure::GivenUp(GivenUp { reason, unreachable })) => (reason, unreachable),
            other => panic!("{other:?}"),
        };
        let (reason, is_unknown) =
            unreachable(asked(2, "gone.invalid:1", 2..=usize::MAX, Duration::from_millis(1)));
        assert!(reason.contains("tries; GIMLET_OUTAGE_SECS") && !is_unknown, "{reason}");
        let (reason, is_unknown) =
            unreachable(asked(1, "unknown.invalid:1", 1..=100, Duration::from_secs(300)));
        assert!(reason.ends_with("after 3 tries") && is_unknown, "{reason}");
    }
}
