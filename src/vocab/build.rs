//! Makes SentencePiece's trainer callable; sentencepiece-sys builds it and states its place.

fn main() {
    let source = "trainer.cpp";
    println!("cargo::rerun-if-changed={source}");
    cc::Build::new().cpp(true).std("c++17").file(source).compile("gimlet_trainer");
    // Not bundled: it must come after its caller, and before the library that it calls.
    println!("cargo::rustc-link-lib=static:-bundle=sentencepiece_train");
}
