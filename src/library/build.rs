//! Tells cargo of new files, which a macro cannot. A change in them compiles no C++ of `bridge/` again, since this
//! script is not Gimlet's own.

fn main() {
    println!("cargo::rerun-if-changed=../../gin");
    println!("cargo::rerun-if-changed=../../tasks");
}
