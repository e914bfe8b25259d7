//! The head: the matrix that maps the decoder's result to logits, which some T5s have and others replace by their
//! embedding. Reading or omitting it makes another model, which messages about arrays must say.

/// The array of a head of its own.
pub(crate) const HEAD: &str = "target/decoder/logits_dense/kernel";

/// A remark on a head that the model needs and the checkpoint lacks.
pub(crate) const LACKING: &str = "the head: that of the checkpoint is its embedding, which models with \
                                  logits_via_embedding = True use";

/// A remark on a head that the checkpoint holds and the model lacks.
pub(crate) const UNUSED: &str = "the head: without it, logits come from the embedding, which is another model; \
                                 models with logits_via_embedding = False use it";

/// Returns the remark if an array is the head.
pub(crate) fn remark(name: &str, remark: &str) -> Option<String> {
    (name == HEAD).then(|| remark.to_string())
}
