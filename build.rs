//! Makes the binaries find libtorch in its place, without any environment variable. `make libtorch`
//! (or `make cuda`) puts libtorch in the folder of `.cargo/config.toml`; with GIMLET_WHEEL=1 the
//! programs do not look there, but only in the places of Python and `make install`.

use std::env;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version for which `bridge/` and `tch` are written.
const TORCH_VERSION: &str = "2.11.0";
/// The versions 3.N of Python for which this torch has wheels.
const PYTHONS: RangeInclusive<u32> = 10..=14;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    println!("cargo::rerun-if-env-changed=GIMLET_WHEEL");
    println!("cargo::rustc-env=GIMLET_COMMIT={}", commit());
    tell_front_program();
    // `bridge/build.rs` states it; a build without libtorch does not run that.
    let Ok(facts) = env::var("DEP_GIMLET_BRIDGE_FACTS") else { return };
    println!("cargo::rustc-env=GIMLET_LIBTORCH={facts}");
    link();
    if let Some(folder) = env::var_os("DEP_GIMLET_BRIDGE_CUDA_RUNTIME") {
        link_cuda(Path::new(&folder));
    }
}

/// Returns the commit and its date, for `--version`. Development builds omit them, because each
/// commit would cause a complete rebuild.
fn commit() -> String {
    if env::var("PROFILE").is_ok_and(|profile| profile != "release") {
        return "development build".to_owned();
    }
    // Git appends a line here on every checkout of another commit. A missing file would always be stale.
    if Path::new(".git/logs/HEAD").exists() {
        println!("cargo::rerun-if-changed=.git/logs/HEAD");
    }
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // Sources that were unpacked below another project's folder do not belong to its commit.
    let is_own = git(&["ls-files", "build.rs"]).is_some_and(|found| !found.is_empty());
    let commit = git(&["log", "-1", "--abbrev=9", "--format=%h %cs"]).filter(|_| is_own);
    commit.unwrap_or_else(|| "unknown commit".to_owned())
}

/// Folders in which the programs look for libtorch, in this order; `$ORIGIN` is the program's own.
fn libtorch_places() -> Vec<String> {
    let mut places = vec!["$ORIGIN/../lib/gimlet".to_owned()];
    places.extend(site_packages().map(|folder| format!("{folder}/torch")));
    if env::var_os("GIMLET_WHEEL").is_none() {
        places.extend(own_libtorch().map(|libtorch| libtorch.display().to_string()));
    }
    places
}

/// Returns the package folders of Python environments, relative to their programs.
fn site_packages() -> impl Iterator<Item = String> {
    PYTHONS.map(|minor| format!("$ORIGIN/../lib/python3.{minor}/site-packages"))
}

fn own_libtorch() -> Option<PathBuf> {
    env::var_os("LIBTORCH").map(PathBuf::from)
}

/// Tells `gimlet`, which is built without libtorch, which libtorch `gimlet-torch` will load
/// (`run::start`).
fn tell_front_program() {
    println!("cargo::rustc-env=GIMLET_LIBTORCH_PLACES={}", libtorch_places().join(":"));
    println!("cargo::rustc-env=GIMLET_TORCH_VERSION={TORCH_VERSION}");
    // torch-sys links CUDA as soon as it sees this library.
    let has_cuda = own_libtorch().is_some_and(|place| place.join("lib/libtorch_cuda.so").exists());
    let library = if has_cuda { "libtorch_cuda.so" } else { "libtorch_cpu.so" };
    println!("cargo::rustc-env=GIMLET_LIBTORCH_LIBRARY={library}");
}

fn link() {
    let libs: Vec<_> = libtorch_places().iter().map(|place| format!("{place}/lib")).collect();
    // DT_RPATH, unlike DT_RUNPATH, also serves the libraries that libtorch itself loads.
    println!("cargo::rustc-link-arg=-Wl,--disable-new-dtags,-rpath,{}", libs.join(":"));
    // Parts of libtorch that are not shipped (Python, and CUDA on CPU builds) stay unresolved.
    println!("cargo::rustc-link-arg=-Wl,--allow-shlib-undefined");
}

/// Links CUDA's runtime in `folder` for the kernels. It must be the one that libtorch loads. The
/// wheel has no `libcudart.so`.
fn link_cuda(folder: &Path) {
    let folder = folder.display();
    println!("cargo::rustc-link-arg=-L{folder}");
    println!("cargo::rustc-link-arg=-l:libcudart.so.13");
    for packages in site_packages() {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{packages}/nvidia/cu13/lib");
    }
    if env::var_os("GIMLET_WHEEL").is_none() {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{folder}");
    }
    // Most of what is in these libraries registers itself when loaded, without a symbol that the code names.
    println!("cargo::rustc-link-arg=-Wl,--no-as-needed,-ltorch_cuda,-lc10_cuda,--as-needed");
}
