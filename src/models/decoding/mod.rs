//! Turning a model's distributions into sequences: beam search and sampling.
