//! Reads short answers of servers completely, and the servers' descriptions of failures.

use std::fmt;
use std::time::Duration;

use futures::StreamExt;
use object_store::client::{HttpError, HttpErrorKind, HttpResponse, HttpResponseBody};

use super::failure::said;
use super::limits::limits;

/// Maximum number of bytes that are read of an error answer.
const LONGEST_ERROR: usize = 64 << 10;

/// Maximum number of bytes of an answer that is held as a whole. A page of a listing has at most 1000 names
/// of 1 KiB each, and other such answers are no larger; files are read by ranges, whatever their size.
const LONGEST: usize = 64 << 20;

/// An answer for which `object_store` has no kind of error, kept unchanged.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    /// The HTTP status.
    pub status: u16,
    /// The server's message; may be empty.
    pub said: String,
    /// Time that the server asks to wait.
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
    /// Reads the answer's message, up to a limit.
    pub(super) async fn read(response: HttpResponse) -> Self {
        let status = response.status().as_u16();
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            value.to_str().ok().map(str::to_string)
        };
        let retry_after = header("retry-after").and_then(|text| text.parse().ok());
        let from_header = header("x-error-message");
        let mut body = Vec::new();
        let reading = read_up_to(LONGEST_ERROR, response.into_body(), &mut body);
        // The part received so far may contain the message.
        let _ = tokio::time::timeout(limits().stall, reading).await;
        Self {
            status,
            said: from_header.unwrap_or_else(|| said(&String::from_utf8_lossy(&body))),
            retry_after: retry_after.map(Duration::from_secs),
        }
    }
}

/// Reads a short answer completely, as long as its bytes keep coming.
pub(super) async fn whole(response: HttpResponse) -> Result<HttpResponse, HttpError> {
    let (parts, body) = response.into_parts();
    let mut bytes = Vec::new();
    read_up_to(LONGEST, body, &mut bytes).await?;
    if bytes.len() > LONGEST {
        let said = format!("with more than the {} MiB that are read of a list", LONGEST >> 20);
        let endless = Answered { status: parts.status.as_u16(), said, retry_after: None };
        return Err(HttpError::new(HttpErrorKind::Decode, endless));
    }
    match hidden_failure(&bytes) {
        Some(hidden) => Err(HttpError::new(HttpErrorKind::Request, hidden)),
        None => Ok(HttpResponse::from_parts(parts, bytes.into())),
    }
}

/// Appends received bytes to `bytes`, and stops when there are more than `most`.
async fn read_up_to(
    most: usize,
    body: HttpResponseBody,
    bytes: &mut Vec<u8>,
) -> Result<(), HttpError> {
    let mut stream = body.bytes_stream();
    while bytes.len() <= most {
        let next = tokio::time::timeout(limits().stall, stream.next()).await;
        match next.map_err(|_| late())? {
            Some(chunk) => bytes.extend_from_slice(&chunk?),
            None => break,
        }
    }
    Ok(())
}

/// The failure in an answer that began as a success: Amazon's store sends such answers when it
/// copies, joins or removes objects.
fn hidden_failure(body: &[u8]) -> Option<Answered> {
    let text = std::str::from_utf8(body).ok().filter(|text| text.contains("<Error>"))?;
    let is_temporary =
        ["InternalError", "SlowDown"].iter().any(|code| text.contains(&format!("<Code>{code}<")));
    is_temporary.then(|| Answered { status: 503, said: said(text), retry_after: None })
}

/// The error for a server that does not answer.
pub(super) fn late() -> HttpError {
    let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
    HttpError::new(HttpErrorKind::Timeout, late)
}
