//! From task features to what an encoder-decoder model is fed. Source: SeqIO
//! `feature_converters.py` and `utils.py`.

use super::error::DataError;
use super::example::{Example, Value};
use super::pipeline::{Pull, Stage, StageState};

/// Converts 'inputs' and 'targets' for an encoder-decoder model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncDecFeatureConverter {
    /// Several examples a row.
    pub pack: bool,
    /// Length of encoder rows.
    pub inputs_length: usize,
    /// Length of decoder rows.
    pub targets_length: usize,
    /// The decoder's first input of each example.
    pub bos_id: i32,
}

/// Rows of model features, each field `[rows, length]` in row-major order, padded with 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncDecBatch {
    /// Number of rows.
    pub rows: usize,
    /// Length of encoder rows.
    pub inputs_length: usize,
    /// Length of decoder rows.
    pub targets_length: usize,
    /// Inputs.
    pub encoder_input_tokens: Vec<i32>,
    /// Targets.
    pub decoder_target_tokens: Vec<i32>,
    /// Targets shifted right within each example.
    pub decoder_input_tokens: Vec<i32>,
    /// 1 where a target counts, 0 on padding.
    pub decoder_loss_weights: Vec<i32>,
    /// Which example of its row a token belongs to, and where in it; only when packed.
    pub packing: Option<EncDecPacking>,
}

/// The features that keep packed examples apart; shapes as in [`EncDecBatch`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncDecPacking {
    /// Examples counted from 1; 0 is padding.
    pub encoder_segment_ids: Vec<i32>,
    /// Positions within the example.
    pub encoder_positions: Vec<i32>,
    /// Examples counted from 1; 0 is padding.
    pub decoder_segment_ids: Vec<i32>,
    /// Positions within the example.
    pub decoder_positions: Vec<i32>,
}

/// One row of task features, not padded.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    inputs: RowFeature,
    targets: RowFeature,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct RowFeature {
    tokens: Vec<i32>,
    /// Positions within each example.
    positions: Vec<i32>,
}

impl EncDecFeatureConverter {
    /// A row that holds one example, trimmed to the lengths.
    pub(crate) fn row(&self, mut example: Example) -> Result<Row, DataError> {
        Ok(Row {
            inputs: self.feature(&mut example, "inputs", self.inputs_length)?,
            targets: self.feature(&mut example, "targets", self.targets_length)?,
        })
    }

    fn feature(
        &self,
        example: &mut Example,
        key: &str,
        limit: usize,
    ) -> Result<RowFeature, DataError> {
        let mut tokens = match example.take(key) {
            Some(Value::Ints(tokens)) => tokens,
            Some(other) => {
                let found = other.type_name();
                let message = format!("the model needs token ids in '{key}', found {found}");
                return Err(DataError::Config(message));
            }
            None => {
                let found = example.names();
                let message = format!("the model needs the feature '{key}', found {found}");
                return Err(DataError::Config(message));
            }
        };
        tokens.truncate(limit);
        if self.pack {
            // SeqIO counts the tokens that are not 0 and keeps as many from the left.
            tokens.truncate(tokens.iter().filter(|&&token| token != 0).count());
        }
        let positions = if self.pack { (0..tokens.len() as i32).collect() } else { Vec::new() };
        Ok(RowFeature { tokens, positions })
    }

    /// Whether `next` fits behind `row`.
    fn fits(&self, row: &Row, next: &Row) -> bool {
        row.inputs.tokens.len() + next.inputs.tokens.len() <= self.inputs_length
            && row.targets.tokens.len() + next.targets.tokens.len() <= self.targets_length
    }

    /// An empty batch with room for `rows`.
    pub fn empty_batch(&self, rows: usize) -> EncDecBatch {
        let (inputs, targets) = (rows * self.inputs_length, rows * self.targets_length);
        EncDecBatch {
            rows: 0,
            inputs_length: self.inputs_length,
            targets_length: self.targets_length,
            encoder_input_tokens: Vec::with_capacity(inputs),
            decoder_target_tokens: Vec::with_capacity(targets),
            decoder_input_tokens: Vec::with_capacity(targets),
            decoder_loss_weights: Vec::with_capacity(targets),
            packing: self.pack.then(EncDecPacking::default),
        }
    }

    /// One unpacked row an example, in order; the rows up to `rows` are padding.
    ///
    /// Fails where an example lacks a feature; longer ones are trimmed.
    pub fn batch(&self, examples: &[Example], rows: usize) -> Result<EncDecBatch, DataError> {
        let mut batch = self.empty_batch(rows);
        for example in examples {
            self.push_row(&mut batch, &self.row(example.clone())?);
        }
        while batch.rows < rows {
            self.push_row(&mut batch, &Row::default());
        }
        Ok(batch)
    }

    /// Appends a row to a batch of this converter.
    pub(crate) fn push_row(&self, batch: &mut EncDecBatch, row: &Row) {
        batch.rows += 1;
        push_padded(&mut batch.encoder_input_tokens, &row.inputs.tokens, self.inputs_length);
        let targets =
            push_padded(&mut batch.decoder_target_tokens, &row.targets.tokens, self.targets_length);
        batch.decoder_loss_weights.extend(targets.iter().map(|&token| i32::from(token != 0)));
        let sequence_id = batch.packing.as_mut().map(|packing| {
            push_segments(
                &mut packing.encoder_segment_ids,
                &mut packing.encoder_positions,
                &row.inputs,
                self.inputs_length,
            );
            push_segments(
                &mut packing.decoder_segment_ids,
                &mut packing.decoder_positions,
                &row.targets,
                self.targets_length,
            )
        });
        push_shifted(&mut batch.decoder_input_tokens, targets, sequence_id, self.bos_id);
    }
}

/// Appends values padded to `length` and gives them back.
fn push_padded<'a>(out: &'a mut Vec<i32>, values: &[i32], length: usize) -> &'a [i32] {
    let start = out.len();
    out.extend_from_slice(values);
    out.resize(start + length, 0);
    &out[start..]
}

/// Appends segment ids, which it gives back, and positions.
fn push_segments<'a>(
    segment_ids: &'a mut Vec<i32>,
    positions: &mut Vec<i32>,
    feature: &RowFeature,
    length: usize,
) -> &'a [i32] {
    push_padded(positions, &feature.positions, length);
    let start = segment_ids.len();
    let mut segment = 0;
    for (&token, &position) in feature.tokens.iter().zip(&feature.positions) {
        segment += i32::from(position == 0);
        segment_ids.push(if token == 0 { 0 } else { segment });
    }
    segment_ids.resize(start + length, 0);
    &segment_ids[start..]
}

/// The decoder's inputs for these targets: shifted right by one, with `bos_id` at the beginning and
/// wherever `sequence_id` changes.
pub fn make_autoregressive_inputs(
    targets: &[i32],
    sequence_id: Option<&[i32]>,
    bos_id: i32,
) -> Vec<i32> {
    let mut inputs = Vec::with_capacity(targets.len());
    push_shifted(&mut inputs, targets, sequence_id, bos_id);
    inputs
}

fn push_shifted(out: &mut Vec<i32>, targets: &[i32], sequence_id: Option<&[i32]>, bos_id: i32) {
    let Some(last) = targets.len().checked_sub(1) else { return };
    out.push(bos_id);
    match sequence_id {
        None => out.extend_from_slice(&targets[..last]),
        Some(ids) => {
            let changes = ids.windows(2).map(|pair| pair[0] != pair[1]);
            let shifted = targets.iter().zip(changes);
            out.extend(shifted.map(|(&token, changes)| if changes { bos_id } else { token }));
        }
    }
}

/// Makes rows of examples: packed greedily in their order, or one each.
pub(crate) struct Rows {
    input: Stage,
    converter: EncDecFeatureConverter,
    /// Examples of the current packing batch that were packed.
    in_batch: usize,
    partial: Option<Row>,
}

impl Rows {
    /// Rows of what `input` yields.
    pub(crate) fn new(input: Stage, converter: EncDecFeatureConverter) -> Self {
        Self { input, converter, in_batch: 0, partial: None }
    }

    /// SeqIO packs batches of as many examples as the longest row has tokens, and a row never
    /// crosses the end of such a batch.
    fn packing_batch(&self) -> usize {
        self.converter.inputs_length.max(self.converter.targets_length)
    }

    fn pull_packed(&mut self) -> Result<Option<Row>, DataError> {
        loop {
            if self.in_batch == self.packing_batch() {
                self.in_batch = 0;
                return Ok(self.partial.take());
            }
            let Some(example) = self.input.pull()? else {
                self.in_batch = 0;
                return Ok(self.partial.take());
            };
            self.in_batch += 1;
            let next = self.converter.row(example)?;
            match &mut self.partial {
                Some(row) if self.converter.fits(row, &next) => row.append(next),
                partial => {
                    if let Some(row) = partial.replace(next) {
                        return Ok(Some(row));
                    }
                }
            }
        }
    }
}

impl Row {
    fn append(&mut self, next: Row) {
        for (feature, next) in [(&mut self.inputs, next.inputs), (&mut self.targets, next.targets)]
        {
            feature.tokens.extend(next.tokens);
            feature.positions.extend(next.positions);
        }
    }

    fn to_example(&self) -> Example {
        let features = [
            ("inputs", &self.inputs.tokens),
            ("inputs_positions", &self.inputs.positions),
            ("targets", &self.targets.tokens),
            ("targets_positions", &self.targets.positions),
        ];
        features
            .map(|(key, values)| (key.into(), Value::Ints(values.clone())))
            .into_iter()
            .collect()
    }

    fn from_example(example: &Example) -> Self {
        let ints = |key: &str| example.ints(key).unwrap_or_default().to_vec();
        Self {
            inputs: RowFeature { tokens: ints("inputs"), positions: ints("inputs_positions") },
            targets: RowFeature { tokens: ints("targets"), positions: ints("targets_positions") },
        }
    }
}

impl Pull for Rows {
    type Item = Row;

    fn pull(&mut self) -> Result<Option<Row>, DataError> {
        if self.converter.pack {
            return self.pull_packed();
        }
        let example = self.input.pull()?;
        example.map(|example| self.converter.row(example)).transpose()
    }

    fn save(&self) -> StageState {
        let mut state =
            StageState::new("rows", vec![self.in_batch as u64], vec![self.input.save()]);
        state.examples = self.partial.iter().map(Row::to_example).collect();
        state
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        state.expect("rows", Some(1), 1)?;
        self.input.restore(&state.inputs[0])?;
        self.in_batch = state.counters[0] as usize;
        self.partial = state.examples.first().map(Row::from_example);
        Ok(())
    }
}
