//! Makes SentencePiece's trainer callable; sentencepiece-sys builds it and says where it lies.

fn main() {
    let source = "../../bridge/trainer.cpp";
    println!("cargo::rerun-if-changed={source}");
    cc::Build::new().cpp(true).std("c++17").file(source).compile("gimlet_trainer");
    // Not bundled: it stands behind what calls it, and before the library that it calls.
    println!("cargo::rustc-link-lib=static:-bundle=sentencepiece_train");
}
