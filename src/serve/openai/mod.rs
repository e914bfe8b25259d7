//! OpenAI's interface: `GET /v1/models` and `POST /v1/completions`, for clients that speak it. Source: OpenAI's reference of its
//! completions.
//!
//! `request` reads a body, `growth` and `stop` follow an answer token by token, `completions` gives texts to the queue and waits
//! for their news, `answer` and `logprobs` write the result, and `fault` is the form of refusals.

mod answer;
mod completions;
mod fault;
mod growth;
mod logprobs;
mod models;
mod request;
mod stop;

pub use answer::unix_seconds;
pub use completions::completions;
pub use fault::Fault;
pub use models::models;

/// The path of completions.
pub const COMPLETIONS: &str = "/v1/completions";

/// The path of the list of models.
pub const MODELS: &str = "/v1/models";

/// The paths of this interface.
pub const PATHS: [&str; 2] = [COMPLETIONS, MODELS];
