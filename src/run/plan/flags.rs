//! The machine that flags describe.

use anyhow::{Result, anyhow, ensure};

use crate::telemetry::total_on_host;

use super::PlanArgs;
use super::cluster::Cluster;
use super::device::{CPUS, DeviceRates, GPUS, KNOWN, processors};

/// Operations a second that processors are assumed to do in products until a measured step says how many.
const ASSUMED_PRODUCTS: f64 = 100e9;

/// Returns the machine to plan for.
///
/// # Errors
/// Flags that describe none.
pub fn machine(args: &PlanArgs) -> Result<Cluster> {
    let mut machine = match (&args.gpus, args.cpus) {
        (Some(gpus), _) => of_gpus(gpus, args)?,
        (None, Some(count)) => of_cpus(count, args)?,
        (None, None) => {
            return Err(anyhow!(
                "no machine to plan for: give --gpus=NxGPU, such as --gpus=256xH100, or --cpus=N"
            ));
        }
    };
    if let Some(overlap) = args.overlap {
        ensure!((0.0..=1.0).contains(&overlap), "--overlap is {overlap}, expected 0 to 1");
        machine.efficiency.overlap = overlap;
    }
    Ok(machine)
}

fn of_gpus(text: &str, args: &PlanArgs) -> Result<Cluster> {
    let unfit = || anyhow!("--gpus is `{text}`, expected a number and a kind, such as 256xH100");
    let (count, name) = text.split_once('x').ok_or_else(unfit)?;
    let count: usize = count.parse().ok().filter(|count| *count > 0).ok_or_else(unfit)?;
    let known = KNOWN.iter().find(|device| device.name.eq_ignore_ascii_case(name));
    let mut device: DeviceRates = *known.ok_or_else(|| {
        let names = KNOWN.map(|device| device.name);
        anyhow!("`{name}` is not a known GPU, expected one of {}", names.join(", "))
    })?;
    if let Some(network) = &args.network {
        device.network = rate("--network", network)?;
    }
    ensure!(args.nvlink > 0, "--nvlink is 0, expected at least 1");
    let per_host = args.nvlink.min(count);
    ensure!(
        count.is_multiple_of(per_host),
        "{count} GPUs are not a multiple of --nvlink, {per_host}: give the number of GPUs of a host"
    );
    Ok(Cluster { count, per_host, device, efficiency: GPUS, pace: 1.0 })
}

fn of_cpus(count: usize, args: &PlanArgs) -> Result<Cluster> {
    ensure!(count > 0, "--cpus is 0, expected at least 1");
    ensure!(
        args.gflops.is_some() || args.measured_step.is_some(),
        "--cpus needs the rate of the processors: give --measured_step=SECONDS, the median of \
         `gimlet bench train_step` with the same flags, or --gflops=GFLOP/S as it prints it"
    );
    let memory = total_on_host().map_or(f64::INFINITY, |bytes| bytes as f64);
    let device = processors(ASSUMED_PRODUCTS, memory);
    Ok(Cluster { count, per_host: count, device, efficiency: CPUS, pace: 1.0 })
}

/// Reads `400Gb` or `50GB` as bytes a second.
fn rate(flag: &str, text: &str) -> Result<f64> {
    let unfit =
        || anyhow!("{flag} is `{text}`, expected bits or bytes a second, such as 400Gb or 50GB");
    let (number, unit) = number_and_unit(text).ok_or_else(unfit)?;
    match unit {
        "Gb" => Ok(number * 1e9 / 8.0),
        "GB" => Ok(number * 1e9),
        "Mb" => Ok(number * 1e6 / 8.0),
        _ => Err(unfit()),
    }
}

/// Returns the seconds that a step of `flops` operations of the model takes in one process there, if a flag says so. A rate is
/// that of whole steps, as `gimlet bench` prints it: products alone are faster.
///
/// # Errors
/// A flag that is not a time or a rate.
pub fn measured_seconds(args: &PlanArgs, flops: f64) -> Result<Option<f64>> {
    match (&args.measured_step, args.gflops) {
        (Some(text), _) => seconds("--measured_step", text).map(Some),
        (None, Some(gflops)) => {
            ensure!(gflops > 0.0, "--gflops is {gflops}, expected more than 0");
            Ok(Some(flops / (gflops * 1e9)))
        }
        (None, None) => Ok(None),
    }
}

/// Reads `1.3s`, `850ms` or `1.3`.
///
/// # Errors
/// Another text.
fn seconds(flag: &str, text: &str) -> Result<f64> {
    let unfit = || anyhow!("{flag} is `{text}`, expected a time, such as 1.3s or 850ms");
    let (number, unit) = number_and_unit(text).ok_or_else(unfit)?;
    match unit {
        "s" | "" => Ok(number),
        "ms" => Ok(number / 1e3),
        _ => Err(unfit()),
    }
}

/// Splits a number greater than 0 from its unit.
fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|letter: char| letter.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = number.trim().parse().ok().filter(|number: &f64| *number > 0.0)?;
    Some((number, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times_have_units() {
        assert_eq!(rate("--network", "400Gb").unwrap(), 50e9);
        assert_eq!(rate("--network", "50GB").unwrap(), 50e9);
        assert_eq!(seconds("--measured_step", "1.5s").unwrap(), 1.5);
        assert_eq!(seconds("--measured_step", "850ms").unwrap(), 0.85);
        for text in ["", "fast", "-1s", "3h"] {
            assert!(seconds("--measured_step", text).is_err(), "{text}");
        }
        let error = rate("--network", "400").unwrap_err().to_string();
        assert!(error.starts_with("--network is `400`, expected"), "{error}");
    }
}
