//! The command that users type answers in milliseconds, because it does not load libtorch.

use std::process::Command;

#[test]
fn gimlet_does_not_load_libtorch() {
    // The dynamic loader lists what it would load, and runs nothing.
    let output = Command::new(env!("CARGO_BIN_EXE_gimlet"))
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .output()
        .expect("gimlet starts");
    let libraries = String::from_utf8_lossy(&output.stdout);
    assert!(libraries.contains("libc.so"), "the loader listed nothing: {libraries}");
    assert!(
        !libraries.contains("torch"),
        "main.rs reaches code of the torch side; hand over to gimlet-torch instead:\n{libraries}"
    );
}
