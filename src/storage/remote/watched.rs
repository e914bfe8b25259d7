//! The only client that sends requests: it waits as long as is sensible for an answer.

use std::time::Duration;

use futures::future::BoxFuture;
use object_store::client::{
    HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};

use super::answer::{Answered, late, whole};
use super::limits::limits;
use super::sum::Crc32c;

/// A client that waits no longer than a stall for an answer, and keeps what servers answer.
#[derive(Debug)]
pub(super) struct Watched {
    /// What sends them.
    pub inner: HttpClient,
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

/// Whether the store does more for the request, before it answers, than look or store: it joins the parts of
/// an upload, or copies an object.
fn works_long(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let joins = request.method().as_str() == "POST" && query.contains("uploadId=");
    let copies = |(name, _): (&_, &_)| AsRef::<str>::as_ref(name).ends_with("-copy-source");
    joins || query.contains("comp=blocklist") || request.headers().iter().any(copies)
}
