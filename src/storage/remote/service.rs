//! Requests to web services that answer in JSON, through the client that all stores share.

use std::error::Error;
use std::time::Duration;

use object_store::client::{HttpError, HttpRequest, HttpRequestBody};
use serde_json::Value;

use super::answer::{Answered, whole};
use super::client::{client, wait};
use super::failure::said;
use super::{OFFLINE_VARIABLE, is_offline};

/// A request to a web service.
#[derive(Clone, Copy, Debug)]
pub struct JsonRequest<'a> {
    /// The address, `http://` or `https://`.
    pub url: &'a str,
    /// The value of the header `authorization`, if any.
    pub authorization: Option<&'a str>,
    /// The object to send with POST; without one, the request is a GET.
    pub body: Option<&'a Value>,
    /// The longest time that the answer may take.
    pub limit: Duration,
}

/// A request that was not answered with success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{said}")]
pub struct Unanswered {
    /// The HTTP status; `None` if there was no answer.
    pub status: Option<u16>,
    /// The server's words, or the reason why there was no answer.
    pub said: String,
}

impl Unanswered {
    fn silent(said: impl Into<String>) -> Self {
        Self { status: None, said: said.into() }
    }

    /// Whether the same request may succeed later.
    pub fn may_pass(&self) -> bool {
        self.status.is_none_or(|status| status >= 500 || [408, 429].contains(&status))
    }
}

impl JsonRequest<'_> {
    /// Sends the request, once, and returns the answer.
    ///
    /// # Errors
    /// The server cannot be reached, or it refuses.
    pub fn send(&self) -> Result<Value, Unanswered> {
        if is_offline() {
            return Err(Unanswered::silent(format!("{OFFLINE_VARIABLE} is set")));
        }
        let late = || Unanswered::silent(format!("no answer within {} s", self.limit.as_secs()));
        wait(async { tokio::time::timeout(self.limit, self.answer()).await.map_err(|_| late())? })
    }

    async fn answer(&self) -> Result<Value, Unanswered> {
        let client = client().map_err(|failure| Unanswered::silent(format!("{failure:?}")))?;
        let request = self.request().map_err(|said| Unanswered { status: Some(400), said })?;
        let response = client.execute(request).await.map_err(|error| unanswered(&error))?;
        let status = response.status();
        let response = whole(response).await.map_err(|error| unanswered(&error))?;
        let bytes = response.into_body().bytes().await.map_err(|error| unanswered(&error))?;
        if status.is_success() {
            let invalid = || Unanswered::silent("the answer is not JSON".to_string());
            return serde_json::from_slice(&bytes).map_err(|_| invalid());
        }
        let text = String::from_utf8_lossy(&bytes);
        let message = serde_json::from_str::<Value>(&text);
        let message = message.ok().and_then(|json| Some(json["message"].as_str()?.to_string()));
        let words = message.unwrap_or_else(|| said(&text));
        let colon = if words.is_empty() { "" } else { ": " };
        let said = format!("the server answered {}{colon}{words}", status.as_u16());
        Err(Unanswered { status: Some(status.as_u16()), said })
    }

    fn request(&self) -> Result<HttpRequest, String> {
        let body = self.body.map(Value::to_string);
        let mut request =
            HttpRequest::new(body.map_or_else(HttpRequestBody::empty, HttpRequestBody::from));
        *request.uri_mut() =
            self.url.parse().map_err(|_| format!("`{}` is not a URL", self.url))?;
        if self.body.is_some() {
            *request.method_mut() = "POST".parse().expect("it is a method");
            request
                .headers_mut()
                .insert("content-type", "application/json".parse().expect("it is a value"));
        }
        if let Some(authorization) = self.authorization {
            let value = authorization.parse();
            let value = value.map_err(|_| "the credentials hold a line break".to_string())?;
            request.headers_mut().insert("authorization", value);
        }
        Ok(request)
    }
}

/// Interprets an error of the client, which makes errors of most answers without success.
fn unanswered(error: &HttpError) -> Unanswered {
    match error.source().and_then(|source| source.downcast_ref::<Answered>()) {
        Some(answered) => Unanswered { status: Some(answered.status), said: answered.to_string() },
        None => Unanswered::silent(cause(error)),
    }
}

/// Returns the innermost cause of an error.
fn cause(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
