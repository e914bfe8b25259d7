//! Tells cargo of new files, which a macro cannot. It also copies the gin files of `runs/`, so that programs contain them without data.

use std::env;
use std::fs;
use std::io::Result;
use std::path::{Path, PathBuf};

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=../../gin");
    println!("cargo::rerun-if-changed=../../tasks");
    println!("cargo::rerun-if-changed=../../runs");
    let copies = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("runs");
    if copies.exists() {
        fs::remove_dir_all(&copies)?;
    }
    copy_gin_files(Path::new("../../runs"), &copies)
}

/// Copies the gin files of a folder and of those within.
fn copy_gin_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        if path.is_dir() {
            copy_gin_files(&path, &to.join(name))?;
        } else if path.extension().is_some_and(|extension| extension == "gin") {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}
