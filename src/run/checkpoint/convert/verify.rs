//! `gimlet checkpoint convert --verify`: the logits of what was converted, read in both forms.

use anyhow::anyhow;
use tch::{Kind, Tensor};

use super::args::ConvertArgs;
use super::configuration::evaluated;
use super::{checkpoints_in, target};
use crate::checkpoint::{Condition, DType};
use crate::interactive::{Found, InteractiveModel};
use crate::models::t5::T5;
use crate::models::{Batch, feature};
use crate::nn::{Dropout, Dtype};
use crate::partition::{LocalDevice, Process};
use crate::run::checkpoint::open::{open_at, parse_checkpoint, parse_path, storage_failure};
use crate::run::configure::map_paths;
use crate::run::failure::Failure;
use crate::run::gin_flags::GinArgs;
use crate::run::output::write;
use crate::session::restored_params::RestoredParams;
use crate::session::weights::Weights;
use crate::storage::Path;

/// The length of the inputs that are compared, beyond the exact buckets of relative positions.
const INPUTS: i64 = 64;
const TARGETS: i64 = 24;
const ROWS: i64 = 2;

/// The greatest difference between equal models in float32, as a share of the largest logit: other orders of the same sums.
const TOLERANCE: f64 = 1e-4;
/// The same for parameters that were rounded, in units of the type's last place at 1.
const UNITS: f64 = 16.0;

/// Compares each checkpoint with its conversion, and prints the largest difference.
///
/// # Errors
/// They differ, or logits cannot be computed.
pub fn verify(args: &ConvertArgs) -> Result<(), Failure> {
    map_paths(&args.gin.path_map)?;
    let (from, to) = (parse_checkpoint(&args.from)?, parse_path(&args.to)?);
    for (source, target) in pairs(args, &from, &to)? {
        compare(args, &source, &target)?;
    }
    Ok(())
}

/// Returns each checkpoint with the place of its conversion.
fn pairs(args: &ConvertArgs, from: &Path, to: &Path) -> Result<Vec<(Path, Path)>, Failure> {
    let format = args.format();
    let Some(all) = checkpoints_in(from)? else {
        let target = match format.is_of_a_step() {
            true => target(format, &*open_at(&args.from)?, to)?,
            false => to.clone(),
        };
        return Ok(vec![(from.clone(), target)]);
    };
    let whole = all.into_iter().filter(|one| one.condition == Condition::Whole);
    Ok(whole.filter_map(|one| Some((one.path, format.place(to, one.step?)))).collect())
}

fn compare(args: &ConvertArgs, source: &Path, target: &Path) -> Result<(), Failure> {
    let source_model = evaluated(&args.gin, source)?;
    let target_model = evaluated(&gin_of_target(args, source, target)?, target)?;
    let (expected, found) = (logits(&source_model)?, logits(&target_model)?);
    if expected.size() != found.size() {
        return Err(Failure::world(anyhow!(
            "{target}: it has {} logits, and `{source}` {}",
            found.size()[2],
            expected.size()[2]
        )));
    }
    let largest = |tensor: &Tensor| tensor.abs().max().double_value(&[]);
    let (difference, magnitude) = (largest(&(&found - &expected)), largest(&expected));
    let tolerance = tolerance(args.dtype()) * magnitude;
    let said = format!(
        "{target}: logits differ from those of `{source}` by at most {difference:.2e}; the largest is {magnitude:.2e}, \
         and {tolerance:.2e} is rounding"
    );
    // Not a number is no small difference.
    match difference <= tolerance {
        true => write(&format!("{said}\n")),
        false => Err(Failure::world(anyhow!("{said}"))),
    }
}

/// Returns the gin that names the target's model: a folder of transformers has its own, other targets have the source's.
fn gin_of_target(args: &ConvertArgs, source: &Path, target: &Path) -> Result<GinArgs, Failure> {
    let mut gin = args.gin.clone();
    match args.format().weights().is_some() && !args.is_file() {
        true => {
            gin.files.gin_file.clear();
            gin.files.gin_bindings.clear();
        }
        false if Found::at(target)?.config.is_none() => {
            let of_source = Found::at(source)?.config.map(|config| config.to_string());
            gin.files.precede(of_source.into_iter().collect(), None);
        }
        false => {}
    }
    if args.merge && args.format().weights().is_none() {
        let without = "models.EncoderDecoderModel.lora = None";
        gin.files.gin_bindings.push(without.to_string());
    }
    Ok(gin)
}

/// Computes logits in float32, for any type of activations.
fn logits(spec: &InteractiveModel) -> Result<Tensor, Failure> {
    let mut network = spec.model.transformer();
    let Some(encoder) = &mut network.encoder else {
        return Err(Failure::usage(anyhow!(
            "--verify compares models with an encoder, and this one has none"
        )));
    };
    encoder.dims.dtype = Dtype::Float32;
    network.last.dims.dtype = Dtype::Float32;
    network.fp8 = None;
    let mesh = spec.mesh(Process { rank: 0, count: 1 }, LocalDevice::Cpu);
    let wanted = RestoredParams::new(&spec.model, &spec.restore_config());
    let path = Path::parse(&spec.checkpoint_path).map_err(storage_failure)?;
    let params = Weights::new(&spec.model, wanted, None, mesh).restore(&path)?.params;
    let batch = batch(network.tokens.vocab_size as i64);
    let network = T5::new(network);
    Ok(tch::no_grad(|| network.logits(&params, &batch, Dropout::off())).to_kind(Kind::Double))
}

/// Returns the same tokens each time: all above the special ones, the last row's padded.
fn batch(vocab_size: i64) -> Batch {
    let special = 3.min(vocab_size - 1);
    let ids = |length: i64, stride: i64| {
        let ids = Tensor::arange(ROWS * length, (Kind::Int64, tch::Device::Cpu)) * stride;
        ids.remainder(vocab_size - special).view([ROWS, length]) + special
    };
    let (inputs, targets) = (ids(INPUTS, 7919), ids(TARGETS, 104_729));
    let _ = inputs.narrow(0, ROWS - 1, 1).narrow(1, INPUTS - 7, 7).fill_(0);
    let start = Tensor::zeros([ROWS, 1], (Kind::Int64, tch::Device::Cpu));
    let shifted = Tensor::cat(&[start, targets.narrow(1, 0, TARGETS - 1)], 1);
    Batch::new([
        (feature::ENCODER_INPUT_TOKENS, inputs),
        (feature::DECODER_INPUT_TOKENS, shifted),
        (feature::DECODER_TARGET_TOKENS, targets),
    ])
}

/// The share of the largest logit by which equal models differ, whose parameters were rounded to a type.
fn tolerance(rounded: Option<DType>) -> f64 {
    match rounded {
        Some(DType::Bf16) => UNITS / 256.0,
        Some(DType::F16) => UNITS / 2048.0,
        _ => TOLERANCE,
    }
}
