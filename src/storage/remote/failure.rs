//! Interprets a server's answer: retry, give up, or tell the user what to set.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use object_store::client::{HttpError, HttpErrorKind};

use super::answer::Answered;

/// The reason why an attempt failed, before its path and operation are added.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nothing is there.
    NotFound,
    /// The server requires other credentials; the server's message may be empty.
    Denied(String),
    /// The requested range begins after the end of the file.
    PastEnd,
    /// The file has changed since it was opened; detected at this byte.
    Changed(u64),
    /// The file was removed after it was opened; detected at this byte.
    Vanished(u64),
    /// A retry may succeed.
    Temporary {
        /// Description of the failure.
        reason: String,
        /// Time that the server asks to wait.
        wait: Option<Duration>,
        /// Whether a server was reached.
        contact: Contact,
    },
    /// The maximum number of attempts was made.
    GivenUp(GivenUp),
    /// A retry would fail in the same way.
    Permanent(String),
    /// The received bytes do not have the store's checksum.
    Damaged(String),
    /// The file is not in the state that a conditional write expects.
    Conflict,
    /// The storage does not support the operation; the text names an alternative.
    Unsupported(String),
}

/// The connection that an attempt achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contact {
    /// A server was reached, whether it answered or not.
    Made,
    /// No server was reached, but this server has answered this process before.
    Lost,
    /// No server was reached, and this server has never answered.
    Never,
}

/// The error of a server that cannot be reached but has answered before.
#[derive(Debug)]
pub(super) struct Lost(pub HttpError);

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Lost {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// The result of a request that was retried and still failed.
#[derive(Clone, Debug)]
pub(crate) struct GivenUp {
    /// Description of the failure, and the number of attempts.
    pub reason: String,
    /// Whether the server was never reached.
    pub unreachable: bool,
}

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl Error for GivenUp {}

impl Failure {
    pub(super) fn temporary(reason: impl Into<String>) -> Self {
        Self::Temporary { reason: reason.into(), wait: None, contact: Contact::Made }
    }

    /// Interprets an answer other than success.
    pub(super) fn of_answer(answered: &Answered) -> Self {
        match answered.status {
            404 | 410 => Self::NotFound,
            401 | 403 | 407 => Self::Denied(answered.said.clone()),
            416 => Self::PastEnd,
            412 => Self::Conflict,
            501 => Self::Unsupported(answered.to_string()),
            408 | 425 | 429 | 500..=599 => Self::Temporary {
                reason: answered.to_string(),
                wait: answered.retry_after,
                contact: Contact::Made,
            },
            301 | 307 | 308 => {
                Self::Permanent(format!("{answered}; is the region right (AWS_REGION)?"))
            }
            _ => Self::Permanent(answered.to_string()),
        }
    }

    /// Interprets the failure of one of Gimlet's own requests.
    pub(super) fn of_request(error: &HttpError) -> Self {
        match error.source().and_then(|source| source.downcast_ref::<Answered>()) {
            Some(answered) => Self::of_answer(answered),
            None => Self::of_transport(error),
        }
    }

    /// Interprets the failure of a request without an answer, or with an incomplete answer.
    fn of_transport(error: &HttpError) -> Self {
        let reason = cause(error);
        match error.kind() {
            HttpErrorKind::Connect => {
                let reason = format!("no connection ({reason})");
                Self::Temporary { reason, wait: None, contact: Contact::Never }
            }
            HttpErrorKind::Timeout => Self::temporary("the server does not answer"),
            _ if error.source().is_some_and(|source| source.is::<Lost>()) => {
                let reason = format!("no connection ({reason})");
                Self::Temporary { reason, wait: None, contact: Contact::Lost }
            }
            _ => Self::temporary(format!("the connection broke ({reason})")),
        }
    }
}

impl From<object_store::Error> for Failure {
    fn from(error: object_store::Error) -> Self {
        use object_store::Error as E;
        match &error {
            E::NotFound { .. } => return Self::NotFound,
            E::AlreadyExists { .. } | E::Precondition { .. } => return Self::Conflict,
            E::NotImplemented { .. } | E::NotSupported { .. } => {
                return Self::Unsupported(error.to_string());
            }
            E::PermissionDenied { source, .. } | E::Unauthenticated { source, .. } => {
                return Self::Denied(said(&source.to_string()));
            }
            _ => {}
        }
        let mut cause: Option<&dyn Error> = Some(&error);
        let mut transport = None;
        while let Some(error) = cause {
            if let Some(answered) = error.downcast_ref::<Answered>() {
                return Self::of_answer(answered);
            }
            if let Some(given_up) = error.downcast_ref::<GivenUp>() {
                return Self::GivenUp(given_up.clone());
            }
            transport = transport.or(error.downcast_ref::<HttpError>());
            cause = error.source();
        }
        match transport {
            Some(error) => Self::of_transport(error),
            None => Self::Permanent(error.to_string()),
        }
    }
}

/// The message of the system or of TLS; the error itself only says "error sending request".
pub(super) fn cause(error: &HttpError) -> String {
    let mut deepest: &dyn Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// The readable message in a bucket's XML or JSON error, on one line.
pub(super) fn said(body: &str) -> String {
    let between = |start: &str, end: &str| {
        let rest = &body[body.find(start)? + start.len()..];
        Some(rest[..rest.find(end)?].trim().to_string())
    };
    let xml = || between("<Message>", "</Message>");
    let details = || between("<Details>", "</Details>");
    let json = || between("\"message\": \"", "\"").or_else(|| between("\"error\":\"", "\""));
    let code = || between("<Code>", "</Code>");
    details().or_else(xml).or_else(code).or_else(json).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_bucket_says_is_found_in_xml_and_json() {
        assert_eq!(said("x <Code>A</Code><Message>No such key</Message>"), "No such key");
        assert_eq!(said(r#"{"error":"Repository not found"}"#), "Repository not found");
        assert_eq!(said("<html>"), "");
    }

    #[test]
    fn answers_are_temporary_where_asking_again_can_help() {
        for (status, temporary) in [(500, true), (503, true), (429, true), (400, false)] {
            let answered = Answered { status, said: String::new(), retry_after: None };
            let failure = Failure::of_answer(&answered);
            assert_eq!(matches!(failure, Failure::Temporary { .. }), temporary, "{status}");
        }
    }
}
