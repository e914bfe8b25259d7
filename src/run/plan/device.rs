//! The known devices, and the shares of their rates that kernels and links reach: the data of the model.

/// A device. Rates are those of the data sheet, or measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceRates {
    /// Its name, as `--gpus` takes it.
    pub name: &'static str,
    /// Bytes of its memory.
    pub memory: f64,
    /// Bytes a second of its memory.
    pub memory_rate: f64,
    /// Operations a second of dense products in float32.
    pub float32: f64,
    /// Those in bfloat16, which are also the measure of utilization.
    pub bfloat16: f64,
    /// Those in float16, as many unless only these have units.
    pub float16: f64,
    /// Those in 8-bit floats; `None` if it has no such products.
    pub fp8: Option<f64>,
    /// Operations a second inside attention, as its kernels reach them.
    pub attention: f64,
    /// Bytes a second that it sends to devices of its host.
    pub inside: f64,
    /// Bytes a second of its share of the host's network, unless `--network` says it.
    pub network: f64,
}

/// The shares of their rates that kernels and links reach, and the times that they take at least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Efficiency {
    /// Of dense products in 32 and 16 bits.
    pub products: f64,
    /// Of dense products in 8 bits.
    pub fp8_products: f64,
    /// Of the memory's rate.
    pub memory: f64,
    /// Of the links' rates.
    pub links: f64,
    /// Seconds in which an operation is begun.
    pub operation: f64,
    /// Seconds of a collective over two processes with nothing to send; every doubling of their number adds as much.
    pub collective: f64,
    /// The share of the last backward pass beside which gradients travel.
    pub overlap: f64,
    /// The share of a device's memory that is left beside libtorch, buffers of collectives and gaps.
    pub usable_memory: f64,
}

/// Shares of GPUs. A large product reaches 790 of an H100's 989 TFLOP/s, and a copy 4.3 of an H200's 4.8 TB/s; products
/// of a T5 are smaller. NCCL's sums reach 70 to 80% of links.
pub const GPUS: Efficiency = Efficiency {
    products: 0.70,
    fp8_products: 0.60,
    memory: 0.80,
    links: 0.75,
    operation: 3e-6,
    collective: 15e-6,
    overlap: 0.6,
    usable_memory: 0.92,
};

/// Shares of CPUs, whose rate of products is measured. Sums use the same processors as the backward pass, so that nothing
/// is gained by doing both at once.
pub const CPUS: Efficiency = Efficiency {
    products: 1.0,
    fp8_products: 1.0,
    memory: 1.0,
    links: 1.0,
    operation: 10e-6,
    collective: 150e-6,
    overlap: 0.0,
    usable_memory: 0.92,
};

/// The known GPUs. Source of rates: NVIDIA's data sheets, without sparsity and with sums in float32, of the SXM form if there are several;
/// networks are those of NVIDIA's own hosts, and 100 Gb/s for cards without such a host. Attention with a trained bias: libtorch's
/// memory-efficient kernels, which do not use the newer units of an H100 (estimates).
pub const KNOWN: [DeviceRates; 12] = [
    gpu("A100-40", [40e9, 1.555e12], [19.5e12, 312e12], 78e12, [300e9, 25e9]),
    gpu("A100-80", [80e9, 2.039e12], [19.5e12, 312e12], 78e12, [300e9, 25e9]),
    with_fp8(1979e12, gpu("H100", [80e9, 3.35e12], [67e12, 989e12], 110e12, [450e9, 50e9])),
    with_fp8(1979e12, gpu("H200", [141e9, 4.8e12], [67e12, 989e12], 110e12, [450e9, 50e9])),
    with_fp8(4500e12, gpu("B200", [180e9, 8e12], [80e12, 2250e12], 150e12, [900e9, 50e9])),
    // These two have no units for bfloat16, and none of Gimlet's kernels: attention is written out.
    with_float16(125e12, gpu("V100", [32e9, 0.9e12], [15.7e12, 15.7e12], 8e12, [150e9, 12.5e9])),
    with_float16(65e12, gpu("T4", [16e9, 0.32e12], [8.1e12, 8.1e12], 4e12, [16e9, 12.5e9])),
    // PCI Express joins the others.
    with_fp8(733e12, gpu("L40S", [48e9, 0.864e12], [91.6e12, 362e12], 70e12, [32e9, 12.5e9])),
    with_fp8(242e12, gpu("L4", [24e9, 0.3e12], [30.3e12, 121e12], 25e12, [32e9, 12.5e9])),
    gpu("A10", [24e9, 0.6e12], [31.2e12, 125e12], 30e12, [32e9, 12.5e9]),
    gpu("A6000", [48e9, 0.768e12], [38.7e12, 154.8e12], 38e12, [32e9, 12.5e9]),
    with_fp8(
        330.3e12,
        gpu("RTX4090", [24e9, 1.008e12], [82.6e12, 165.2e12], 41e12, [32e9, 12.5e9]),
    ),
];

/// A GPU, by its memory (bytes, bytes a second), products (float32, bfloat16), attention, and links (inside a host,
/// between hosts).
const fn gpu(
    name: &'static str,
    memory: [f64; 2],
    products: [f64; 2],
    attention: f64,
    links: [f64; 2],
) -> DeviceRates {
    let ([memory, memory_rate], [float32, bfloat16], [inside, network]) = (memory, products, links);
    DeviceRates {
        name,
        memory,
        memory_rate,
        float32,
        bfloat16,
        float16: bfloat16,
        fp8: None,
        attention,
        inside,
        network,
    }
}

const fn with_float16(float16: f64, device: DeviceRates) -> DeviceRates {
    DeviceRates { float16, ..device }
}

const fn with_fp8(fp8: f64, device: DeviceRates) -> DeviceRates {
    DeviceRates { fp8: Some(fp8), ..device }
}

/// The name of the device of processes on processors.
pub const CPU: &str = "CPU";
/// Bytes that processors move while they do an operation of a product: 20 GB/s beside 270 GFLOP/s.
const BYTES_OF_OPERATION: f64 = 0.075;
/// Operations of attention while they do one of a product.
const ATTENTION: f64 = 0.5;
/// Bytes a second that Gloo sends through the loopback device.
const LOOPBACK: f64 = 1e9;

/// The processors of a host, which compute as many operations a second in float32, with so many bytes of memory.
pub fn processors(products: f64, memory: f64) -> DeviceRates {
    DeviceRates {
        name: CPU,
        memory,
        memory_rate: products * BYTES_OF_OPERATION,
        float32: products,
        bfloat16: products,
        float16: products,
        fp8: None,
        attention: products * ATTENTION,
        inside: LOOPBACK,
        network: LOOPBACK,
    }
}
