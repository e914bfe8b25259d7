//! `gimlet doctor`: what this build and machine support, and what is missing.

use std::env;
use std::fmt::Write;
use std::path::PathBuf;
use std::thread::available_parallelism;

use crate::nn::bridge::{
    CudaDevice, ProcessGroup, cuda_devices, cuda_version, has_process_group, torch_version,
};

/// A provider's standard places of credentials: environment variables, then files below HOME.
struct Credentials {
    provider: &'static str,
    variables: &'static [&'static str],
    files: &'static [&'static str],
}

const CREDENTIALS: [Credentials; 4] = [
    Credentials {
        provider: "gs://",
        variables: &["GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT"],
        files: &[".config/gcloud/application_default_credentials.json"],
    },
    Credentials {
        provider: "s3://",
        variables: &["AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"],
        files: &[".aws/credentials"],
    },
    Credentials {
        provider: "az://",
        variables: &["AZURE_STORAGE_ACCOUNT_KEY", "AZURE_CLIENT_ID"],
        files: &[],
    },
    Credentials {
        provider: "hf://",
        variables: &["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"],
        files: &[".cache/huggingface/token"],
    },
];

/// The report, a line a fact. Credentials are named, their values never shown.
pub fn report() -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "{name:<13} {value}");
    };
    line("gimlet", env!("CARGO_PKG_VERSION").to_string());
    line("libtorch", torch_version().to_string());
    line("CUDA", cuda_line());
    let devices = cuda_devices();
    devices.iter().for_each(|device| line("device", device_line(device)));
    let cores = available_parallelism().map_or(1, usize::from);
    line("CPU", format!("{cores} cores, {} threads for libtorch", tch::get_num_threads()));
    line("bfloat16", bfloat16_line(&devices));
    line("c10d", backends_line());
    for credentials in CREDENTIALS {
        line(credentials.provider, credentials.found());
    }
    line("buckets", "read and written through local mirrors: --path_map gs://NAME=DIR".to_string());
    out
}

fn cuda_line() -> String {
    match cuda_version() {
        Some((major, minor)) => format!("{major}.{minor}"),
        None => "not in this build; for NVIDIA GPUs: `make cuda`".to_string(),
    }
}

fn device_line(device: &CudaDevice) -> String {
    let gib = device.memory_bytes >> 30;
    let (major, minor) = device.capability;
    format!("{}, {gib} GiB, compute capability {major}.{minor}", device.name)
}

/// Whether matrix products in bfloat16 are faster than in float32.
fn bfloat16_line(devices: &[CudaDevice]) -> String {
    let on_gpu = devices.iter().any(|device| device.capability >= (8, 0));
    #[cfg(target_arch = "x86_64")]
    let on_cpu = std::is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    let on_cpu = false;
    match (on_gpu, on_cpu) {
        (true, _) => "fast on the GPU".to_string(),
        (false, true) => "fast on this CPU (avx512_bf16)".to_string(),
        (false, false) => {
            "works, slower than float32 here: network.T5Config.dtype = 'float32'".to_string()
        }
    }
}

fn backends_line() -> String {
    let present = [(ProcessGroup::Gloo, "gloo"), (ProcessGroup::Nccl, "nccl")];
    let present = present.iter().filter(|(group, _)| has_process_group(*group));
    let names: Vec<&str> = present.map(|(_, name)| *name).collect();
    if names.is_empty() { "none in this libtorch".to_string() } else { names.join(", ") }
}

impl Credentials {
    fn found(&self) -> String {
        let set = |name: &&&str| env::var_os(name).is_some_and(|value| !value.is_empty());
        if let Some(variable) = self.variables.iter().find(set) {
            return format!("credentials in ${variable}");
        }
        let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        match self.files.iter().find(|file| home.join(file).exists()) {
            Some(file) => format!("credentials in ~/{file}"),
            None => format!("no credentials; set ${}", self.variables[0]),
        }
    }
}
