//! Compiles the C++ and CUDA of this folder against libtorch. A crate of its own, so that neither a
//! commit nor another place of libtorch for the programs compiles it again.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// The version for which this folder and `tch` are written.
const TORCH_VERSION: &str = "2.11.0";
/// The devices for which kernels are compiled: A100s, H100s, and newer ones by the PTX of the last.
const ARCHITECTURES: [&str; 3] =
    ["arch=compute_80,code=sm_80", "arch=compute_90,code=sm_90", "arch=compute_90,code=compute_90"];

fn main() {
    println!("cargo::rerun-if-changed=.");
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    let libtorch = find_libtorch();
    check_version(&libtorch);
    let cuda = env::var_os("CARGO_FEATURE_CUDA").is_some();
    println!("cargo::metadata=facts={}", libtorch_facts(&libtorch, cuda));
    compile(&libtorch, cuda);
    if cuda {
        compile_kernels(&libtorch);
        println!("cargo::metadata=cuda_runtime={}", cuda_runtime(&libtorch).display());
    }
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

fn find_libtorch() -> PathBuf {
    let Some(libtorch) = env::var_os("LIBTORCH").map(PathBuf::from) else {
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

fn compile(libtorch: &Path, cuda: bool) {
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++17")
        .files(sources(".", "cpp"))
        .files(sources("kernels", "cpp"))
        .include(libtorch.join("include"))
        .include(libtorch.join("include/torch/csrc/api/include"))
        // Stand-ins of Gloo's headers, which PyTorch does not ship.
        .include(".")
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
        add_cudnn(&mut build, libtorch);
    }
    build.compile("gimlet_bridge");
}

/// Returns the files of `folder` with this extension.
fn sources(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder beside this file");
    let paths = entries.map(|entry| entry.expect("an entry of that folder").path());
    let mut sources: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    sources.sort();
    sources
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

/// Adds attention by cuDNN, if its headers are there: those of its C++ frontend come with no libtorch.
fn add_cudnn(build: &mut cc::Build, libtorch: &Path) {
    let wheels = libtorch.with_file_name("nvidia");
    // The second place is that of the frontend's own wheel, beside PyTorch's.
    let frontends = [wheels.join("cudnn_frontend/include"), libtorch.with_file_name("include")];
    let cudnn = wheels.join("cudnn/include");
    let headers = frontends.each_ref().map(|path| path.join("cudnn_frontend.h"));
    headers.iter().for_each(|path| println!("cargo::rerun-if-changed={}", path.display()));
    let found = headers.iter().position(|path| path.exists() && cudnn.join("cudnn.h").exists());
    let Some(found) = found else {
        println!(
            "cargo::warning=attention is built without cuDNN, since `cudnn_frontend.h` is missing: run `make cuda` \
             or install nvidia-cudnn-frontend beside PyTorch"
        );
        return;
    };
    build.include(&frontends[found]).include(cudnn).files(sources("cudnn", "cpp"));
    // libtorch has loaded the library, wherever it lies.
    build.define("GIMLET_CUDNN", None).define("NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING", None);
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
    let mut archive = cc::Build::new();
    let mut running = Vec::new();
    for source in sources("kernels", "cu") {
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

/// Returns the folder of CUDA's runtime.
fn cuda_runtime(libtorch: &Path) -> PathBuf {
    let [wheels, toolkit] = cuda_roots(libtorch);
    let folders = [wheels.join("lib"), toolkit.join("lib64")];
    let found = folders.into_iter().find(|folder| folder.join("libcudart.so.13").exists());
    let missing = "the feature `cuda` needs libcudart.so.13: run `make cuda`, which fetches it";
    found.unwrap_or_else(|| fail(missing))
}

fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    exit(1);
}
