//! Compiles the bridge and makes the binaries find libtorch in its place, without any environment
//! variable. `make libtorch` (or `make cuda`) puts libtorch in the folder of `.cargo/config.toml`;
//! with GIMLET_WHEEL=1 the programs do not look there, but only in the places of Python and `make
//! install`.

use std::env;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// The version for which the bridge and `tch` are written.
const TORCH_VERSION: &str = "2.11.0";
/// The versions 3.N of Python for which this torch has wheels.
const PYTHONS: RangeInclusive<u32> = 10..=14;
/// The sources of `bridge/`, except the one that links SentencePiece.
const BRIDGE: [&str; 23] = [
    "bridge/attention.cpp",
    "bridge/autograd.cpp",
    "bridge/beam_step.cpp",
    "bridge/bridge.cpp",
    "bridge/c10d.cpp",
    "bridge/cuda_graph.cpp",
    "bridge/device_attention.cpp",
    "bridge/kernels.cpp",
    "bridge/kernels/adafactor.cpp",
    "bridge/kernels/cross_entropy.cpp",
    "bridge/kernels/gated_gelu.cpp",
    "bridge/kernels/rms_norm.cpp",
    "bridge/matmul.cpp",
    "bridge/narrow_product.cpp",
    "bridge/optimizer.cpp",
    "bridge/packed.cpp",
    "bridge/parallel.cpp",
    "bridge/profiler.cpp",
    "bridge/screen.cpp",
    "bridge/sequence_attention.cpp",
    "bridge/step_attention.cpp",
    "bridge/team.cpp",
    "bridge/tiles.cpp",
];
/// The devices for which kernels are compiled: A100s, H100s, and newer ones by the PTX of the last.
const ARCHITECTURES: [&str; 3] =
    ["arch=compute_80,code=sm_80", "arch=compute_90,code=sm_90", "arch=compute_90,code=compute_90"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=bridge");
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    println!("cargo::rerun-if-env-changed=GIMLET_WHEEL");
    println!("cargo::rustc-env=GIMLET_COMMIT={}", commit());
    tell_front_program();
    if env::var_os("CARGO_FEATURE_TORCH").is_none() {
        return;
    }
    let libtorch = find_libtorch();
    check_version(&libtorch);
    let cuda = env::var_os("CARGO_FEATURE_CUDA").is_some();
    println!("cargo::rustc-env=GIMLET_LIBTORCH={}", libtorch_facts(&libtorch, cuda));
    compile_bridge(&libtorch, cuda);
    if cuda {
        compile_kernels(&libtorch);
    }
    link(&libtorch, cuda);
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

/// Describes the libtorch for which `gimlet-torch` is built: `2.11.0, CUDA 13.0`.
fn libtorch_facts(libtorch: &Path, cuda: bool) -> String {
    if !cuda {
        return format!("{TORCH_VERSION}, without CUDA");
    }
    // PyTorch's builds are named after CUDA's version without its dot: `2.11.0+cu130`.
    let stated = stated_version(libtorch).unwrap_or_default();
    let digits = stated.split_once("+cu").map(|(_, digits)| digits);
    match digits.and_then(|digits| digits.split_at_checked(digits.len().checked_sub(1)?)) {
        Some((major, minor)) => format!("{TORCH_VERSION}, CUDA {major}.{minor}"),
        None => format!("{TORCH_VERSION}, CUDA"),
    }
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

fn find_libtorch() -> PathBuf {
    let Some(libtorch) = own_libtorch() else {
        fail(
            "LIBTORCH is not set and .cargo/config.toml, which sets it, was not read: build inside the checkout",
        );
    };
    if !libtorch.join("lib/libtorch_cpu.so").exists() {
        fail(&format!(
            "no libtorch in {}: run `make libtorch` (with CUDA: `make cuda`), \
             or build without it with `--no-default-features`",
            libtorch.display()
        ));
    }
    println!("cargo::rerun-if-changed={}", libtorch.join("build-version").display());
    libtorch
}

fn check_version(libtorch: &Path) {
    let found = stated_version(libtorch).unwrap_or_else(|| "unknown".to_owned());
    if found.split('+').next() != Some(TORCH_VERSION) {
        fail(&format!(
            "libtorch in {} is version {found}, but the bridge binds to {TORCH_VERSION}: \
             unset LIBTORCH and run `make libtorch`",
            libtorch.display()
        ));
    }
}

/// Returns the version in libtorch's archive or in PyTorch's wheel.
fn stated_version(libtorch: &Path) -> Option<String> {
    if let Ok(version) = fs::read_to_string(libtorch.join("build-version")) {
        return Some(version.trim().to_owned());
    }
    let module = fs::read_to_string(libtorch.join("version.py")).ok()?;
    let line = module.lines().find(|line| line.starts_with("__version__"))?;
    line.split('\'').nth(1).map(str::to_owned)
}

fn compile_bridge(libtorch: &Path, cuda: bool) {
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++17")
        .files(BRIDGE)
        .include(libtorch.join("include"))
        .include(libtorch.join("include/torch/csrc/api/include"))
        // Stand-ins of Gloo's headers, which PyTorch does not ship.
        .include("bridge")
        .define("_GLIBCXX_USE_CXX11_ABI", "1")
        .define("USE_C10D_GLOO", None)
        // Gimlet's own kernels, unlike the rest, would take tens of times as long in a development
        // build.
        .opt_level(3)
        // Warnings would come from libtorch's headers, not from the bridge.
        .warnings(false);
    if cuda {
        build.define("GIMLET_CUDA", None).define("USE_CUDA", None).define("USE_C10D_NCCL", None);
        for include in cuda_includes(libtorch) {
            build.include(include);
        }
    }
    build.compile("gimlet_bridge");
}

/// Returns the possible folders of CUDA: beside torch as in the wheels, or in the system.
fn cuda_roots(libtorch: &Path) -> [PathBuf; 2] {
    let toolkit = env::var_os("CUDA_HOME").map_or_else(|| "/usr/local/cuda".into(), PathBuf::from);
    [libtorch.with_file_name("nvidia").join("cu13"), toolkit]
}

fn cuda_includes(libtorch: &Path) -> Vec<PathBuf> {
    let [wheels, toolkit] = cuda_roots(libtorch);
    let candidates = [
        wheels.join("include"),
        wheels.join("include/cccl"),
        libtorch.with_file_name("nvidia").join("nccl/include"),
        toolkit.join("include"),
    ];
    let found: Vec<_> = candidates.into_iter().filter(|path| path.is_dir()).collect();
    if !found.iter().any(|path| path.join("cuda_runtime_api.h").exists()) {
        fail("the feature `cuda` needs CUDA's headers: run `make cuda`, which fetches them");
    }
    found
}

/// Compiles `bridge/kernels/*.cu`, all at the same time.
fn compile_kernels(libtorch: &Path) {
    let compilers = cuda_roots(libtorch).map(|root| root.join("bin/nvcc"));
    let Some(nvcc) = compilers.iter().find(|nvcc| nvcc.exists()) else {
        fail(&format!(
            "the feature `cuda` needs nvcc, and there is neither {} nor {}: run `make cuda`, \
             which fetches it",
            compilers[0].display(),
            compilers[1].display()
        ));
    };
    let includes = cuda_includes(libtorch);
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let sources = fs::read_dir("bridge/kernels").expect("bridge/kernels is a folder");
    let mut archive = cc::Build::new();
    let mut running = Vec::new();
    for source in sources.map(|entry| entry.expect("an entry of bridge/kernels").path()) {
        if source.extension().is_none_or(|extension| extension != "cu") {
            continue;
        }
        let object = out.join(source.with_extension("o").file_name().expect("sources have names"));
        archive.object(&object);
        let child =
            nvcc_command(nvcc, &includes).arg("-o").arg(object).arg("-c").arg(&source).spawn();
        running.push((source, child));
    }
    for (source, child) in running {
        match child.and_then(|mut child| child.wait()) {
            Ok(status) if status.success() => {}
            Ok(_) => fail(&format!("nvcc does not compile {}: see above", source.display())),
            Err(error) => fail(&format!("cannot run {}: {error}", nvcc.display())),
        }
    }
    archive.compile("gimlet_kernels");
}

fn nvcc_command(nvcc: &Path, includes: &[PathBuf]) -> Command {
    let mut command = Command::new(nvcc);
    command.args(["-O3", "-std=c++17", "-Xcompiler=-fPIC"]);
    command.args(ARCHITECTURES.map(|architecture| format!("-gencode={architecture}")));
    for include in includes {
        command.arg("-I").arg(include);
    }
    command
}

fn link(libtorch: &Path, cuda: bool) {
    let libs: Vec<_> = libtorch_places().iter().map(|place| format!("{place}/lib")).collect();
    // DT_RPATH, unlike DT_RUNPATH, also serves the libraries that libtorch itself loads.
    println!("cargo::rustc-link-arg=-Wl,--disable-new-dtags,-rpath,{}", libs.join(":"));
    // Parts of libtorch that are not shipped (Python, and CUDA on CPU builds) stay unresolved.
    println!("cargo::rustc-link-arg=-Wl,--allow-shlib-undefined");
    if cuda {
        link_cuda_runtime(libtorch);
        // Most of what is in these libraries registers itself when loaded, without a symbol that the code names.
        println!("cargo::rustc-link-arg=-Wl,--no-as-needed,-ltorch_cuda,-lc10_cuda,--as-needed");
    }
}

/// Links CUDA's runtime for the kernels. It must be the one that libtorch loads. The wheel has no
/// `libcudart.so`.
fn link_cuda_runtime(libtorch: &Path) {
    let [wheels, toolkit] = cuda_roots(libtorch);
    let folders = [wheels.join("lib"), toolkit.join("lib64")];
    let Some(folder) = folders.iter().find(|folder| folder.join("libcudart.so.13").exists()) else {
        fail("the feature `cuda` needs libcudart.so.13: run `make cuda`, which fetches it");
    };
    let folder = folder.display();
    println!("cargo::rustc-link-arg=-L{folder}");
    println!("cargo::rustc-link-arg=-l:libcudart.so.13");
    for packages in site_packages() {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{packages}/nvidia/cu13/lib");
    }
    if env::var_os("GIMLET_WHEEL").is_none() {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{folder}");
    }
}

fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    exit(1);
}
