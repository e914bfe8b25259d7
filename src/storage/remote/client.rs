//! The runtime and the HTTP client that all stores share: one pool of connections and threads.

use std::fmt;
use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpService, ReqwestConnector,
};
use tokio::runtime::{Builder, Runtime};

use super::failure::{Failure, said};
use super::limits::limits;
use super::retry::Backoff;
use super::sum::Crc32c;

/// The process's only runtime, started with the first request.
pub(super) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let built = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("storage")
            .enable_all()
            .build();
        built.expect("the system has threads to give")
    })
}

/// Waits for what a store does.
pub(super) fn wait<T>(future: impl Future<Output = T>) -> T {
    runtime().block_on(future)
}

/// The shared client; certificates are loaded with the first use.
pub(super) fn client() -> Result<HttpClient, Failure> {
    static CLIENT: OnceLock<Result<HttpClient, String>> = OnceLock::new();
    let made = CLIENT.get_or_init(|| {
        let _entered = runtime().enter();
        // Time limits are ours: whole requests last as long as their bytes keep coming.
        let options = ClientOptions::new()
            .with_allow_http(true)
            .with_timeout_disabled()
            .with_connect_timeout(Duration::from_secs(10));
        let inner = ReqwestConnector::default().connect(&options);
        let inner = inner.map_err(|error| error.to_string())?;
        Ok(HttpClient::new(Watched { inner }))
    });
    made.clone().map_err(|reason| Failure::Permanent(format!("no HTTP client: {reason}")))
}

/// Gives every store the shared client. How often a request is made is decided in one place, [`retry`],
/// and never by `object_store`, which knows no `Retry-After`.
///
/// [`retry`]: super::retry
#[derive(Clone, Copy, Debug)]
pub(super) enum Connector {
    /// Requests are made once: who has them made asks again.
    Once,
    /// Requests are made as often as it takes, for what `object_store` does in several.
    Patient,
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = client().map_err(|failure| object_store::Error::Generic {
            store: "HTTP",
            source: format!("{failure:?}").into(),
        })?;
        Ok(match self {
            Self::Once => client,
            Self::Patient => HttpClient::new(Patient { once: client }),
        })
    }
}

/// A client that asks again.
#[derive(Debug)]
struct Patient {
    once: HttpClient,
}

impl Patient {
    async fn execute(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let mut backoff = Backoff::new(limits());
        loop {
            let error = match self.once.execute(request.clone()).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            match backoff.pause(Failure::of_request(&error)).await {
                Ok(()) => {}
                Err(Failure::GivenUp(given_up)) => {
                    return Err(HttpError::new(HttpErrorKind::Decode, given_up));
                }
                Err(_) => return Err(error),
            }
        }
    }
}

impl HttpService for Patient {
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

/// An answer that `object_store` has no kind of error for, kept as it came.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    /// The HTTP status.
    pub status: u16,
    /// The server's words, or nothing.
    pub said: String,
    /// How long the server asks to wait.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.status {
            400 => " bad request",
            408 => " request timeout",
            416 => " no such range",
            429 => " too many requests",
            500 => " internal error",
            502 => " bad gateway",
            503 => " unavailable",
            504 => " gateway timeout",
            _ => "",
        };
        write!(f, "the server answered {}{word}", self.status)?;
        match self.said.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", self.said),
        }
    }
}

impl std::error::Error for Answered {}

impl Answered {
    /// Reads the answer to its end.
    pub(super) async fn read(response: HttpResponse) -> Self {
        let status = response.status().as_u16();
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            value.to_str().ok().map(str::to_string)
        };
        let retry_after = header("retry-after").and_then(|text| text.parse().ok());
        let from_header = header("x-error-message");
        let body = async {
            let bytes = response.into_body().bytes().await.unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let body = tokio::time::timeout(limits().stall, body).await.unwrap_or_default();
        Self {
            status,
            said: from_header.unwrap_or_else(|| said(&body)),
            retry_after: retry_after.map(Duration::from_secs),
        }
    }
}

/// A client that waits no longer than a stall for an answer, and keeps what servers answer.
#[derive(Debug)]
struct Watched {
    inner: HttpClient,
}

impl Watched {
    async fn execute(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // A slow link may take its time to send a body: 256 KiB a second are granted.
        let sending = Duration::from_millis(request.body().content_length() as u64 / 256);
        let longest = limits().stall * if works_long(&request) { 10 } else { 1 } + sending;
        // Of a file's bytes their reader sees that they keep coming.
        let is_of_file = request.headers().contains_key("range");
        let lists = request.method().as_str() == "GET" && !is_of_file;
        let answer = tokio::time::timeout(longest, self.inner.execute(request));
        let Ok(answer) = answer.await else {
            return Err(late());
        };
        let mut response = answer?;
        // `object_store` passes extensions on, and headers not.
        if let Some(sum) = Crc32c::of_response(&response) {
            response.extensions_mut().insert(sum);
        }
        // These `object_store` understands, of whatever request.
        let status = response.status().as_u16();
        let understood = matches!(status, 200..=299 | 304 | 404 | 409 | 412);
        // Of a bucket that is not there it would only quote what the server sent.
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

/// Reads a short answer to its end, as long as its bytes keep coming.
async fn whole(response: HttpResponse) -> Result<HttpResponse, HttpError> {
    let (parts, body) = response.into_parts();
    let (mut stream, mut bytes) = (body.bytes_stream(), Vec::new());
    loop {
        let next = tokio::time::timeout(limits().stall, stream.next()).await;
        match next.map_err(|_| late())? {
            Some(chunk) => bytes.extend_from_slice(&chunk?),
            None if let Some(hidden) = hidden_failure(&bytes) => {
                return Err(HttpError::new(HttpErrorKind::Request, hidden));
            }
            None => return Ok(HttpResponse::from_parts(parts, bytes.into())),
        }
    }
}

/// Whether the store does more for the request, before it answers, than look or store: it joins the parts of
/// an upload, or copies an object.
fn works_long(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let joins = request.method().as_str() == "POST" && query.contains("uploadId=");
    let copies = |(name, _): (&_, &_)| AsRef::<str>::as_ref(name).ends_with("-copy-source");
    joins || query.contains("comp=blocklist") || request.headers().iter().any(copies)
}

/// The failure in an answer that began as a success: Amazon's store does so where it copies, joins or
/// removes objects.
fn hidden_failure(body: &[u8]) -> Option<Answered> {
    let text = std::str::from_utf8(body).ok().filter(|text| text.contains("<Error>"))?;
    let is_temporary =
        ["InternalError", "SlowDown"].iter().any(|code| text.contains(&format!("<Code>{code}<")));
    is_temporary.then(|| Answered { status: 503, said: said(text), retry_after: None })
}

fn late() -> HttpError {
    let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
    HttpError::new(HttpErrorKind::Timeout, late)
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
