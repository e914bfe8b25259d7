//! Requests that are not answered, with HTTP's status and a JSON body that says why.

use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// The seconds after which a client should ask again.
const RETRY_SECS: &str = "1";

/// The methods and paths of the server.
const PATHS: [&str; 8] = [
    "POST /v1/generate",
    "POST /v1/score",
    "POST /v1/fill",
    "POST /v1/completions",
    "GET /v1/models",
    "GET /healthz",
    "GET /metrics",
    "GET /",
];

/// The path of that name, if the server has it.
pub fn known_path(path: &str) -> Option<&'static str> {
    PATHS
        .iter()
        .filter_map(|known| known.split_once(' '))
        .map(|(_, known)| known)
        .find(|known| *known == path)
}

/// The reason why a request is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The body is not what is expected; the message says found and expected.
    Malformed(String),
    /// There is no token, or another one.
    Unauthorized,
    /// The body is too large.
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The body is not declared as JSON.
    NotJson {
        /// The header `Content-Type`.
        found: Option<String>,
    },
    /// There is no such path, or it takes another method.
    NoPath {
        /// The method and the path.
        found: String,
        /// Whether the path exists.
        exists: bool,
    },
    /// The model does other work.
    OtherWork {
        /// The model's configurable.
        model: &'static str,
        /// The paths that it answers.
        expected: &'static str,
    },
    /// Too many texts wait already.
    Busy,
    /// The server is ending.
    Ending,
    /// The time limit has passed.
    Late {
        /// The limit.
        seconds: u64,
    },
    /// libtorch failed.
    Failed(String),
}

impl Refusal {
    /// Refuses a request whose path, or the method for it, does not exist.
    pub fn no_path(request: &Request) -> Self {
        let (method, path) = (request.method(), request.uri().path());
        let exists = known_path(path).is_some();
        Self::NoPath { found: format!("{method} {path}"), exists }
    }

    /// HTTP's status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NotJson { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::NoPath { exists: true, .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::NoPath { .. } | Self::OtherWork { .. } => StatusCode::NOT_FOUND,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::Ending => StatusCode::SERVICE_UNAVAILABLE,
            Self::Late { .. } => StatusCode::GATEWAY_TIMEOUT,
            Self::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The headers of the answer beside those of every answer.
    pub fn headers(&self) -> HeaderMap {
        let header = match self {
            Self::Busy | Self::Ending => Some((header::RETRY_AFTER, RETRY_SECS)),
            Self::Unauthorized => Some((header::WWW_AUTHENTICATE, "Bearer")),
            _ => None,
        };
        let value = |(name, value)| (name, HeaderValue::from_static(value));
        header.map(value).into_iter().collect()
    }

    /// Returns the message for the client.
    pub fn message(&self) -> String {
        match self {
            Self::Malformed(message) | Self::Failed(message) => message.clone(),
            Self::Unauthorized => {
                "the token is missing or is another one, expected the header `Authorization: Bearer TOKEN`".to_string()
            }
            Self::TooLarge { limit } => format!("the request is larger than {limit} bytes (--max_body_bytes)"),
            Self::NotJson { found } => {
                let found = match found {
                    None => "there is no header `Content-Type`".to_string(),
                    Some(found) => format!("the header `Content-Type` is `{found}`"),
                };
                format!("{found}, expected `Content-Type: application/json`, and a body that is JSON")
            }
            Self::NoPath { found, .. } => format!("there is no `{found}`, expected {}", PATHS.join(", ")),
            Self::OtherWork { model, expected } => format!("the model of this server is a {model}, expected {expected}"),
            Self::Busy => "too many texts wait (--queue): ask again later".to_string(),
            Self::Ending => "the server is ending".to_string(),
            Self::Late { seconds } => format!("no answer within {seconds} s (--timeout_secs)"),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = Json(json!({"error": self.message()}));
        (self.status(), self.headers(), body).into_response()
    }
}
