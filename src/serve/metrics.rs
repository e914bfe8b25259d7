//! Counts and times for Prometheus.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// The labels of a request.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    path: &'static str,
    status: u16,
}

/// The metrics of a server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    seconds: Histogram,
    batch_texts: Histogram,
    tokens: Counter,
    waiting: Gauge,
}

impl Metrics {
    /// Metrics that are all 0.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("gimlet");
        let requests = Family::<RequestLabels, Counter>::default();
        registry.register("requests", "Requests by path and status", requests.clone());
        let seconds = Histogram::new(exponential_buckets(0.005, 2.0, 14));
        let help = "Time from a request to the start of its answer";
        registry.register_with_unit("request", help, Unit::Seconds, seconds.clone());
        let batch_texts = Histogram::new(exponential_buckets(1.0, 2.0, 10));
        registry.register("batch_texts", "Texts that share a batch", batch_texts.clone());
        let tokens = Counter::default();
        registry.register("generated_tokens", "Tokens of all answers", tokens.clone());
        let waiting = Gauge::default();
        registry.register("waiting_texts", "Texts that wait for the model", waiting.clone());
        Self { registry, requests, seconds, batch_texts, tokens, waiting }
    }

    /// Counts a request.
    pub fn request(&self, path: &'static str, status: u16, duration: Duration) {
        self.requests.get_or_create(&RequestLabels { path, status }).inc();
        self.seconds.observe(duration.as_secs_f64());
    }

    /// Counts a batch of so many texts, and the tokens of its answers.
    pub fn batch(&self, texts: usize, tokens: usize) {
        self.batch_texts.observe(texts as f64);
        self.tokens.inc_by(tokens as u64);
    }

    /// Returns the text that Prometheus reads, with the number of texts that wait.
    pub fn text(&self, waiting: usize) -> String {
        self.waiting.set(waiting as i64);
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a text can be written");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_path_and_status() {
        let metrics = Metrics::new();
        metrics.request("/v1/score", 200, Duration::from_millis(3));
        metrics.batch(4, 31);
        let text = metrics.text(2);
        for line in [
            "gimlet_requests_total{path=\"/v1/score\",status=\"200\"} 1",
            "gimlet_generated_tokens_total 31",
            "gimlet_waiting_texts 2",
            "gimlet_request_seconds_count 1",
        ] {
            assert!(text.lines().any(|found| found == line), "`{line}` is not in:\n{text}");
        }
    }
}
