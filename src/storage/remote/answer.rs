//! Short answers of servers, read to their end, and what servers say of a failure.

use std::fmt;
use std::time::Duration;

use futures::StreamExt;
use object_store::client::{HttpError, HttpErrorKind, HttpResponse};

use super::failure::said;
use super::limits::limits;

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

/// Reads a short answer to its end, as long as its bytes keep coming.
pub(super) async fn whole(response: HttpResponse) -> Result<HttpResponse, HttpError> {
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

/// The failure in an answer that began as a success: Amazon's store does so where it copies, joins or
/// removes objects.
fn hidden_failure(body: &[u8]) -> Option<Answered> {
    let text = std::str::from_utf8(body).ok().filter(|text| text.contains("<Error>"))?;
    let is_temporary =
        ["InternalError", "SlowDown"].iter().any(|code| text.contains(&format!("<Code>{code}<")));
    is_temporary.then(|| Answered { status: 503, said: said(text), retry_after: None })
}

/// The error of a server that says nothing.
pub(super) fn late() -> HttpError {
    let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
    HttpError::new(HttpErrorKind::Timeout, late)
}
