//! Refusals in the form of OpenAI's interface: `{"error": {"message", "type", "param", "code"}}`.

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::interactive::BadPrompt;
use crate::serve::refusal::Refusal;

/// The type of mistakes in a request.
const INVALID: &str = "invalid_request_error";

/// A request that is not answered.
#[derive(Debug)]
pub struct Fault {
    status: StatusCode,
    headers: HeaderMap,
    message: String,
    kind: &'static str,
    param: Option<String>,
    code: Option<&'static str>,
}

impl Fault {
    /// A field that is not as expected; the message says found and expected.
    pub fn field(param: &str, message: String) -> Self {
        Self { param: Some(param.to_string()), ..Refusal::Malformed(message).into() }
    }

    /// A prompt that the model does not take.
    pub fn prompt(number: usize, bad: &BadPrompt) -> Self {
        let code = match bad {
            BadPrompt::Id { .. } => None,
            BadPrompt::Long { .. } => Some("context_length_exceeded"),
        };
        Self { code, ..Self::field("prompt", format!("`prompt`[{number}]: {bad}")) }
    }

    /// A model that is not the one that is served.
    pub fn other_model(found: &str, served: &str) -> Self {
        let message = format!(
            "the model `{found}` does not exist, expected `{served}`, which this server has"
        );
        let code = Some("model_not_found");
        Self { status: StatusCode::NOT_FOUND, code, ..Self::field("model", message) }
    }

    /// The body of the answer, or an event of a stream.
    pub fn body(&self) -> Value {
        let Self { message, kind, param, code, .. } = self;
        json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        let status = refusal.status();
        let (kind, code) = match status {
            StatusCode::UNAUTHORIZED => (INVALID, Some("invalid_api_key")),
            StatusCode::TOO_MANY_REQUESTS => ("requests", Some("rate_limit_exceeded")),
            status if status.is_server_error() => ("server_error", None),
            _ => (INVALID, None),
        };
        let (headers, message) = (refusal.headers(), refusal.message());
        Self { status, headers, message, kind, param: None, code }
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let body = Json(self.body());
        (self.status, self.headers, body).into_response()
    }
}
