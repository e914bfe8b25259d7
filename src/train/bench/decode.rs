//! Measures the time of decoding, and of what precedes the first step: the encoder, or the prompt.

use std::sync::Arc;

use crate::models::decoding::{DecodeFn, Prediction};
use crate::models::memory::StepShape;
use crate::models::{Batch, feature};
use crate::nn::Axes;
use crate::partition::Mesh;
use crate::session::error::SessionError;
use crate::session::state::draw_params;
use crate::telemetry::Laps;
use crate::train::inputs::decoding_shape;
use crate::train::spec::Train;
use crate::train::step::Stepper;

use super::synthetic::{RowKind, batch};
use super::{Machine, Plan, peak_bytes, synchronize};

/// An id that no token has: random parameters would end sequences anywhere, and times would not
/// compare.
const NEVER: i64 = -1;

/// The results of measuring the decoding of batches.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodeFigures {
    /// The machine of the measurement.
    pub machine: Machine,
    /// Rows, length of the inputs, and tokens that each row is decoded to.
    pub shape: StepShape,
    /// Name of the decoding method: `beam_search`, `temperature_sample` or `generate`.
    pub decode_fn: &'static str,
    /// Beams, or samples, per row.
    pub num_decodes: usize,
    /// Tokens that each sequence gains.
    pub num_tokens: usize,
    /// The timed batches, from their inputs.
    pub laps: Laps,
    /// The encoder or the prompt alone, for the same number of batches.
    pub encoder: Laps,
    /// Peak memory: of tensors on a GPU, of the process on a CPU.
    pub peak_bytes: u64,
}

/// Measures decoding as in a run's evaluation, with new parameters. No sequence ends before its last token.
///
/// # Errors
/// Lengths are not bound or contradict the decoding function, memory runs out, or libtorch fails.
pub fn bench_decode(spec: &Train, mesh: &Mesh, plan: Plan) -> Result<DecodeFigures, SessionError> {
    let predictions = spec.model.prediction_spec()?;
    let (prediction, device) = (predictions.prediction(NEVER), mesh.device());
    let mut shape = decoding_shape(spec)?;
    let whole = shape.clone();
    let targets_length = num_tokens(&prediction, shape.last_length())?;
    *shape.lengths.last_mut().expect("a network has a stack") = targets_length;
    let seed = spec.random_seed.unwrap_or(0) as u64;
    let stepper = Stepper::new(spec, seed, mesh, (&Axes::default(), &Arc::default()))?;
    let (params, batch) = stepper.guarded(0, || {
        let features = stepper.forward.network.features();
        let batch = batch(features, &whole, spec.model.num_ids(), RowKind::Plain, seed);
        let params = draw_params(&spec.model.param_tree(), seed, mesh);
        (params, batch.to_device(device))
    })?;
    let (network, hypotheses) = (stepper.forward.predicting(), whole.rows * prediction.num_decodes);
    let predictor = stepper.guarded(0, || network.predictor(&params, hypotheses))?;
    let decode = || {
        stepper.guarded(0, || {
            let decodes = predictor.predict(&batch, &prediction);
            synchronize(device);
            decodes.map(drop).map_err(|error| SessionError::Unfit(error.to_string()))
        })?
    };
    let encode = || {
        stepper.guarded(0, || {
            predictor.prefill(&batch);
            synchronize(device);
        })
    };
    peak_bytes(device);
    let laps = timed(plan, decode)?;
    let peak_bytes = peak_bytes(device);
    Ok(DecodeFigures {
        machine: Machine::of(device),
        shape,
        decode_fn: match prediction.decode_fn {
            DecodeFn::BeamSearch(_) => "beam_search",
            DecodeFn::TemperatureSample(_) => "temperature_sample",
            DecodeFn::Generate(_) => "generate",
        },
        num_decodes: prediction.num_decodes,
        num_tokens: targets_length - prompt_length(&batch),
        laps,
        encoder: timed(plan, encode)?,
        peak_bytes,
    })
}

/// The tokens of each row that a decoder alone reads before it decodes.
fn prompt_length(batch: &Batch) -> usize {
    let Some(prefix) = batch.get(feature::DECODER_CAUSAL_ATTENTION) else { return 0 };
    let tokens = batch.tensor(feature::DECODER_INPUT_TOKENS) * prefix;
    tokens.get(0).count_nonzero(0).int64_value(&[]) as usize
}

fn timed(
    plan: Plan,
    mut body: impl FnMut() -> Result<(), SessionError>,
) -> Result<Laps, SessionError> {
    let mut laps = Laps::default();
    for _ in 0..plan.warmup {
        body()?;
    }
    for _ in 0..plan.steps {
        laps.time(&mut body)?;
    }
    Ok(laps)
}

/// Returns the number of tokens to which a row is decoded if no token ends it.
fn num_tokens(prediction: &Prediction, length: usize) -> Result<usize, SessionError> {
    let checked = match &prediction.decode_fn {
        DecodeFn::BeamSearch(search) => search.check(length).map(|limit| {
            let steps = usize::try_from(search.max_decode_step).unwrap_or(0);
            if steps > 0 { limit.min(steps) } else { limit }
        }),
        DecodeFn::TemperatureSample(sample) => {
            sample.check(length).map(|limit| limit.unwrap_or(length))
        }
        DecodeFn::Generate(generate) => generate.check().map(|()| length),
    };
    checked.map_err(|error| SessionError::Unfit(error.to_string()))
}
