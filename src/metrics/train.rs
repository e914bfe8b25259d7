//! Training metrics over a window of steps, under T5X's names.
//!
//! A window is what happens between two writes (`stats_period`), or one evaluation pass. Losses are
//! summed on the device and handed over once per window; counts come from the batches on the host.
//! Source: T5X `models.py` (`compute_base_metrics`), `metrics.py` and `trainer.py`.

use std::collections::BTreeMap;

/// Counts of one batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchCounts {
    /// Rows, packed or not.
    pub rows: u64,
    /// Target positions, padding included.
    pub target_tokens: u64,
    /// Target positions whose loss counts.
    pub weighted_tokens: u64,
    /// Sum of the loss weights: as `weighted_tokens`, unless the loss rescales them
    /// (`AVERAGE_PER_SEQUENCE`).
    pub weight_sum: f64,
    /// How full each feature is.
    pub features: Vec<FeatureCounts>,
}

/// How full one feature of a batch is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureCounts {
    /// As in the metric's name: `encoder` of packed batches, `encoder_input_tokens` of others.
    pub name: String,
    /// Examples, of which a packed row holds several.
    pub examples: u64,
    /// Positions that are not padding.
    pub non_padding: u64,
    /// All positions.
    pub positions: u64,
}

impl BatchCounts {
    /// Counts a batch of `rows` rows given as its model features by name, each row after row.
    pub fn of<'a>(rows: usize, features: impl IntoIterator<Item = (&'a str, &'a [i32])>) -> Self {
        let features: BTreeMap<&str, &[i32]> = features.into_iter().collect();
        let targets = features.get("decoder_target_tokens").map_or(0, |targets| targets.len());
        let weighted = match features.get("decoder_loss_weights") {
            Some(weights) => weights.iter().filter(|weight| **weight != 0).count(),
            None => targets,
        };
        let segments = features
            .iter()
            .filter_map(|(name, ids)| Some((name.strip_suffix("_segment_ids")?, ids.to_vec())));
        let mut packing: Vec<(&str, Vec<i32>)> = segments.collect();
        if packing.is_empty() {
            // Without packing a row is one segment.
            let tokens = ["decoder_target_tokens", "encoder_input_tokens"];
            packing.extend(tokens.into_iter().filter_map(|name| {
                let one_segment = features.get(name)?.iter().map(|token| i32::from(*token != 0));
                Some((name, one_segment.collect()))
            }));
        }
        Self {
            rows: rows as u64,
            target_tokens: targets as u64,
            weighted_tokens: weighted as u64,
            weight_sum: weighted as f64,
            features: packing
                .into_iter()
                .filter(|(_, ids)| !ids.is_empty())
                .map(|(name, ids)| FeatureCounts::of(name, rows, &ids))
                .collect(),
        }
    }
}

impl FeatureCounts {
    /// Counts changes of segment within rows; padding, segment 0, lies at the end of a row.
    fn of(name: &str, rows: usize, segment_ids: &[i32]) -> Self {
        let length = segment_ids.len() / rows.max(1);
        let examples: usize = segment_ids
            .chunks_exact(length.max(1))
            .map(|row| {
                let changes = row.windows(2).filter(|pair| pair[0] != pair[1]).count();
                changes + usize::from(row.last() != Some(&0))
            })
            .sum();
        Self {
            name: name.to_string(),
            examples: examples as u64,
            non_padding: segment_ids.iter().filter(|id| **id != 0).count() as u64,
            positions: segment_ids.len() as u64,
        }
    }
}

/// Sums over the batches of a window, which the device has accumulated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossSums {
    /// The loss as optimized, z-loss included, after normalization.
    pub loss: f64,
    /// The z-loss in it.
    pub z_loss: f64,
    /// Targets of any weight that the model ranked first.
    pub correct: f64,
}

/// How long a window took, and where.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Wall time of its steps.
    pub seconds: f64,
    /// Devices that shared them.
    pub num_devices: usize,
    /// Seconds since the trainer was made; `None` in evaluation.
    pub uptime: Option<f64>,
}

/// The metrics of one window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainMetrics {
    num_steps: u64,
    batches: BatchCounts,
    features: BTreeMap<String, FeatureCounts>,
    learning_rates: Vec<f32>,
}

impl TrainMetrics {
    /// Counts a batch, or a microbatch of it.
    pub fn add_batch(&mut self, batch: &BatchCounts) {
        self.batches.rows += batch.rows;
        self.batches.target_tokens += batch.target_tokens;
        self.batches.weighted_tokens += batch.weighted_tokens;
        self.batches.weight_sum += batch.weight_sum;
        for feature in &batch.features {
            let name = || FeatureCounts { name: feature.name.clone(), ..Default::default() };
            let sum = self.features.entry(feature.name.clone()).or_insert_with(name);
            sum.examples += feature.examples;
            sum.non_padding += feature.non_padding;
            sum.positions += feature.positions;
        }
    }

    /// Ends a step; evaluation has no learning rate.
    pub fn end_step(&mut self, learning_rate: Option<f32>) {
        self.num_steps += 1;
        self.learning_rates.extend(learning_rate);
    }

    /// Steps ended in this window.
    pub fn num_steps(&self) -> u64 {
        self.num_steps
    }

    /// Positions of all features in the window, padding included: the tokens computed on.
    pub fn num_positions(&self) -> u64 {
        self.features.values().map(|feature| feature.positions).sum()
    }

    /// Every metric of the window by its TensorBoard tag.
    pub fn summary(&self, sums: &LossSums, window: &Window) -> BTreeMap<String, f64> {
        let steps = self.num_steps as f64;
        let targets = self.batches.target_tokens as f64;
        let weights = self.batches.weight_sum;
        let cross_entropy = sums.loss - sums.z_loss;
        let mut out: BTreeMap<String, f64> = [
            ("accuracy", sums.correct / self.batches.weighted_tokens as f64),
            ("loss", sums.loss / steps),
            ("loss_per_nonpadding_target_token", sums.loss / weights),
            ("loss_per_all_target_tokens", sums.loss / targets),
            ("z_loss", sums.z_loss / steps),
            ("z_loss_per_all_target_tokens", sums.z_loss / targets),
            ("cross_ent_loss", cross_entropy / steps),
            ("cross_ent_loss_per_all_target_tokens", cross_entropy / targets),
            ("non_padding_fraction/loss_weights", weights / targets),
        ]
        .map(|(tag, value)| (tag.to_string(), value))
        .into();
        if let Some(last) = self.learning_rates.last() {
            let sum: f64 = self.learning_rates.iter().map(|rate| f64::from(*rate)).sum();
            out.insert("learning_rate".to_string(), sum / self.learning_rates.len() as f64);
            out.insert("learning_rate/current".to_string(), f64::from(*last));
        }
        self.add_features(&mut out);
        self.add_timing(&mut out, window);
        out
    }

    fn add_features(&self, out: &mut BTreeMap<String, f64>) {
        let fraction = |non_padding: u64, positions: u64| non_padding as f64 / positions as f64;
        for (name, feature) in &self.features {
            let per_step = feature.examples as f64 / self.num_steps as f64;
            out.insert(format!("effective_batch_size/{name}"), per_step);
            let full = fraction(feature.non_padding, feature.positions);
            out.insert(format!("non_padding_fraction/{name}"), full);
        }
        if !self.features.is_empty() {
            let non_padding = self.features.values().map(|feature| feature.non_padding).sum();
            let overall = fraction(non_padding, self.num_positions());
            out.insert("non_padding_fraction/overall".to_string(), overall);
        }
    }

    fn add_timing(&self, out: &mut BTreeMap<String, f64>, window: &Window) {
        let devices = window.num_devices as f64;
        let sequences = self.batches.rows as f64;
        let per_second = |count: f64| count / window.seconds;
        let targets = per_second(self.batches.target_tokens as f64);
        out.extend(
            [
                ("timing/seconds", window.seconds),
                ("timing/steps_per_second", per_second(self.num_steps as f64)),
                ("timing/seqs", sequences),
                ("timing/seqs_per_second", per_second(sequences)),
                ("timing/seqs_per_second_per_core", per_second(sequences) / devices),
                ("timing/target_tokens_per_second", targets),
                ("timing/target_tokens_per_second_per_core", targets / devices),
            ]
            .map(|(tag, value)| (tag.to_string(), value)),
        );
        if let Some(uptime) = window.uptime {
            out.insert("timing/uptime".to_string(), uptime);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { seconds: 2.0, num_devices: 2, uptime: None };

    /// T5X's docstring of `count_packed_examples`, and its test.
    #[test]
    fn packed_examples_are_counted_by_their_changes() {
        let count = |rows, ids: &[i32]| FeatureCounts::of("encoder", rows, ids).examples;
        assert_eq!(count(3, &[1, 1, 3, 3, 0, 0, 2, 2, 2, 2, 2, 2, 2, 7, 7, 7, 7, 0]), 5);
        assert_eq!(count(2, &[0, 0, 0, 4, 4, 4]), 1);
    }

    #[test]
    fn a_window_averages_over_its_steps() {
        let mut metrics = TrainMetrics::default();
        for rate in [0.5, 0.25] {
            metrics.add_batch(&BatchCounts::of(
                2,
                [
                    ("encoder_input_tokens", &[5, 6, 1, 0, 0, 0, 7, 8, 9, 5, 1, 0][..]),
                    ("decoder_target_tokens", &[4, 1, 0, 0, 3, 9, 1, 0][..]),
                    ("decoder_input_tokens", &[0, 4, 0, 0, 0, 3, 9, 0][..]),
                    ("decoder_loss_weights", &[1, 1, 0, 0, 1, 1, 1, 0][..]),
                ],
            ));
            metrics.end_step(Some(rate));
        }
        let sums = LossSums { loss: 24.0, z_loss: 4.0, correct: 5.0 };
        let found = metrics.summary(&sums, &Window { uptime: Some(9.0), ..WINDOW });
        let expected = [
            ("accuracy", 0.5),
            ("cross_ent_loss", 10.0),
            ("cross_ent_loss_per_all_target_tokens", 20.0 / 16.0),
            ("effective_batch_size/decoder_target_tokens", 2.0),
            ("effective_batch_size/encoder_input_tokens", 2.0),
            ("learning_rate", 0.375),
            ("learning_rate/current", 0.25),
            ("loss", 12.0),
            ("loss_per_all_target_tokens", 1.5),
            ("loss_per_nonpadding_target_token", 2.4),
            ("non_padding_fraction/decoder_target_tokens", 0.625),
            ("non_padding_fraction/encoder_input_tokens", 8.0 / 12.0),
            ("non_padding_fraction/loss_weights", 0.625),
            ("non_padding_fraction/overall", 0.65),
            ("timing/seconds", 2.0),
            ("timing/seqs", 4.0),
            ("timing/seqs_per_second", 2.0),
            ("timing/seqs_per_second_per_core", 1.0),
            ("timing/steps_per_second", 1.0),
            ("timing/target_tokens_per_second", 8.0),
            ("timing/target_tokens_per_second_per_core", 4.0),
            ("timing/uptime", 9.0),
            ("z_loss", 2.0),
            ("z_loss_per_all_target_tokens", 0.25),
        ];
        let expected = expected.map(|(tag, value)| (tag.to_string(), value));
        assert_eq!(found, BTreeMap::from(expected));
    }

    /// Rows of the given lengths, each made of segments, padded with 0.
    fn segment_ids(rows: &[&[usize]], length: usize) -> Vec<i32> {
        let row = |lengths: &&[usize]| {
            let ids = lengths.iter().zip(1..).flat_map(|(n, id)| std::iter::repeat_n(id, *n));
            ids.chain(std::iter::repeat(0)).take(length).collect::<Vec<i32>>()
        };
        rows.iter().flat_map(row).collect()
    }

    fn check_step(batch: &BatchCounts, rate: f32, sums: LossSums, expected: &[(&str, f64)]) {
        let mut metrics = TrainMetrics::default();
        metrics.add_batch(batch);
        metrics.end_step(Some(rate));
        let mut found = metrics.summary(&sums, &WINDOW);
        found.retain(|tag, _| !tag.starts_with("timing/"));
        assert_eq!(found.len(), expected.len());
        for (tag, value) in expected {
            let error = (found[*tag] - value).abs();
            assert!(error <= 1e-6 * value.abs(), "{tag}: {} is not {value}", found[*tag]);
        }
    }

    /// What T5X (cc342d4, jax 0.10.2, float32) logged for a step of four unpacked rows, lengths 32 and
    /// 16; relative 1e-6.
    #[test]
    fn an_unpacked_step_has_t5x_s_tags_and_values() {
        let inputs = segment_ids(&[&[22], &[15], &[13], &[24]], 32);
        let targets = segment_ids(&[&[10], &[5], &[16], &[7]], 16);
        let batch = BatchCounts::of(
            4,
            [
                ("encoder_input_tokens", inputs.as_slice()),
                ("decoder_target_tokens", targets.as_slice()),
                ("decoder_loss_weights", targets.as_slice()),
            ],
        );
        let sums = LossSums { loss: 233.34255981445312, z_loss: 0.1374528557062149, correct: 0.0 };
        let expected = [
            ("accuracy", 0.0),
            ("cross_ent_loss", 233.20510864257812),
            ("cross_ent_loss_per_all_target_tokens", 3.643829822540283),
            ("effective_batch_size/decoder_target_tokens", 4.0),
            ("effective_batch_size/encoder_input_tokens", 4.0),
            ("learning_rate", 0.009999999776482582),
            ("learning_rate/current", 0.009999999776482582),
            ("loss", 233.34255981445312),
            ("loss_per_all_target_tokens", 3.64597749710083),
            ("loss_per_nonpadding_target_token", 6.140593528747559),
            ("non_padding_fraction/decoder_target_tokens", 0.59375),
            ("non_padding_fraction/encoder_input_tokens", 0.578125),
            ("non_padding_fraction/loss_weights", 0.59375),
            ("non_padding_fraction/overall", 0.5833333333333334),
            ("z_loss", 0.1374528557062149),
            ("z_loss_per_all_target_tokens", 0.002147700870409608),
        ];
        check_step(&batch, 0.01, sums, &expected);
    }

    /// As above, for four rows of two packed examples each.
    #[test]
    fn a_packed_step_has_t5x_s_tags_and_values() {
        let inputs = segment_ids(&[&[18, 10][..]; 4], 32);
        let targets = segment_ids(&[&[9, 5][..]; 4], 16);
        let weights: Vec<i32> = targets.iter().map(|id| i32::from(*id != 0)).collect();
        let batch = BatchCounts::of(
            4,
            [
                ("encoder_input_tokens", inputs.as_slice()),
                ("encoder_segment_ids", inputs.as_slice()),
                ("decoder_target_tokens", targets.as_slice()),
                ("decoder_segment_ids", targets.as_slice()),
                ("decoder_loss_weights", weights.as_slice()),
            ],
        );
        let sums = LossSums { loss: 5.228795528411865, z_loss: 0.003142033703625202, correct: 0.0 };
        let expected = [
            ("accuracy", 0.0),
            ("cross_ent_loss", 5.225653648376465),
            ("cross_ent_loss_per_all_target_tokens", 0.08165083825588226),
            ("effective_batch_size/decoder", 8.0),
            ("effective_batch_size/encoder", 8.0),
            ("learning_rate", 9.99999993922529e-09),
            ("learning_rate/current", 9.99999993922529e-09),
            ("loss", 5.228795528411865),
            ("loss_per_all_target_tokens", 0.0816999301314354),
            ("loss_per_nonpadding_target_token", 0.09337134659290314),
            ("non_padding_fraction/decoder", 0.875),
            ("non_padding_fraction/encoder", 0.875),
            ("non_padding_fraction/loss_weights", 0.875),
            ("non_padding_fraction/overall", 0.875),
            ("z_loss", 0.003142033703625202),
            ("z_loss_per_all_target_tokens", 4.9094276619143784e-05),
        ];
        check_step(&batch, 1e-8, sums, &expected);
    }

    #[test]
    fn packed_features_are_named_after_their_side() {
        let mut metrics = TrainMetrics::default();
        metrics.add_batch(&BatchCounts::of(
            1,
            [
                ("encoder_input_tokens", &[7, 1, 8, 1][..]),
                ("encoder_segment_ids", &[1, 1, 2, 2][..]),
                ("encoder_positions", &[0, 1, 0, 1][..]),
                ("decoder_target_tokens", &[3, 1, 1, 0][..]),
                ("decoder_segment_ids", &[1, 1, 2, 0][..]),
                ("decoder_loss_weights", &[1, 1, 1, 0][..]),
            ],
        ));
        metrics.end_step(None);
        let found = metrics.summary(&LossSums::default(), &WINDOW);
        assert_eq!(found["effective_batch_size/encoder"], 2.0);
        assert_eq!(found["effective_batch_size/decoder"], 2.0);
        assert_eq!(found["non_padding_fraction/decoder"], 0.75);
        assert_eq!(found["non_padding_fraction/overall"], 0.875);
        assert!(!found.contains_key("learning_rate") && !found.contains_key("timing/uptime"));
        assert!(!found.contains_key("effective_batch_size/encoder_input_tokens"));
    }
}
