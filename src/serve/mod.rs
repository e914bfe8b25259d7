//! L6: `gimlet serve`: the answers of `interactive` over HTTP.
//!
//! Handlers encode texts and put them into a bounded queue; one thread, which holds the model, forms batches of them.
//! `options` and `ask` are torch-free, as are the queue and the metrics; `server` owns the runtime of this command. `openai` answers
//! in the form of OpenAI's interface.

mod options;

#[cfg(feature = "torch")]
mod ask;
#[cfg(feature = "torch")]
mod batcher;
#[cfg(feature = "torch")]
mod metrics;
#[cfg(feature = "torch")]
mod openai;
#[cfg(feature = "torch")]
mod queue;
#[cfg(feature = "torch")]
mod refusal;
#[cfg(feature = "torch")]
mod routes;
#[cfg(feature = "torch")]
mod served;
#[cfg(feature = "torch")]
mod server;
#[cfg(feature = "torch")]
mod shared;

pub use options::ServeOptions;

#[cfg(feature = "torch")]
pub use served::Served;
#[cfg(feature = "torch")]
pub use server::{bind, serve};
