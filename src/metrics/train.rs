//! Training metrics over a window of steps, under T5X's names.
//!
//! A window is the time between two writes (`stats_period`), or one evaluation pass.
//! Source: T5X `models.py` (`compute_base_metrics`), `metrics.py` and `trainer.py`.

use std::collections::BTreeMap;

use super::sums::{FeatureSums, LossSums, sum};

/// The duration and the devices of a window.
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
    /// Over all steps; `None` before the first.
    sums: Option<LossSums>,
    learning_rates: Vec<f32>,
}

impl TrainMetrics {
    /// Counts a step; evaluation has no learning rate.
    pub fn add_step(&mut self, sums: &LossSums, learning_rate: Option<f32>) {
        self.num_steps += 1;
        self.learning_rates.extend(learning_rate);
        match &mut self.sums {
            Some(total) => *total += sums,
            first => *first = Some(sums.clone()),
        }
    }

    /// Steps of this window.
    pub fn num_steps(&self) -> u64 {
        self.num_steps
    }

    /// Returns the positions of all features in the window, padding included: the number of
    /// processed tokens.
    pub fn num_positions(&self) -> u64 {
        self.features().map(|feature| feature.num_positions).sum()
    }

    fn features(&self) -> impl Iterator<Item = &FeatureSums> {
        self.sums.iter().flat_map(|sums| &sums.features)
    }

    /// Returns every metric of the window by its TensorBoard tag; none before the first step.
    pub fn summary(&self, window: &Window) -> BTreeMap<String, f64> {
        let Some(sums) = &self.sums else { return BTreeMap::new() };
        let steps = self.num_steps as f64;
        let targets = sums.num_target_tokens as f64;
        let weights = sums.get(sum::WEIGHT_SUM);
        let mut out = BTreeMap::new();
        for (name, value) in &sums.sums {
            match *name {
                sum::CORRECT => {
                    let accuracy = value / sums.get(sum::NUM_WEIGHTED_TOKENS);
                    out.insert("accuracy".to_string(), accuracy);
                    if sums.sums.contains_key(sum::MASKED_TOKENS_LOSS) {
                        out.insert("accuracy_mlm".to_string(), accuracy);
                    }
                }
                sum::WEIGHT_SUM => {
                    out.insert("non_padding_fraction/loss_weights".to_string(), value / targets);
                }
                sum::NEXT_SENTENCE_CORRECT => {
                    let accuracy = value / sums.get(sum::NUM_SENTENCE_PAIRS);
                    out.insert("accuracy_nsp".to_string(), accuracy);
                }
                sum::NUM_WEIGHTED_TOKENS | sum::NUM_SENTENCE_PAIRS => {}
                name => {
                    out.insert(name.to_string(), value / steps);
                }
            }
        }
        let (loss, z_loss) = (sums.get(sum::LOSS), sums.get(sum::Z_LOSS));
        let of_routers = sums.get(sum::AUXILIARY_LOSS) + sums.get(sum::ROUTER_Z_LOSS);
        let cross_entropy = loss - z_loss - of_routers;
        out.extend(
            [
                ("loss_per_nonpadding_target_token", loss / weights),
                ("loss_per_all_target_tokens", loss / targets),
                ("z_loss_per_all_target_tokens", z_loss / targets),
                ("cross_ent_loss", cross_entropy / steps),
                ("cross_ent_loss_per_all_target_tokens", cross_entropy / targets),
            ]
            .map(|(tag, value)| (tag.to_string(), value)),
        );
        if let Some(last) = self.learning_rates.last() {
            let sum: f64 = self.learning_rates.iter().map(|rate| f64::from(*rate)).sum();
            out.insert("learning_rate".to_string(), sum / self.learning_rates.len() as f64);
            out.insert("learning_rate/current".to_string(), f64::from(*last));
        }
        self.add_features(&mut out);
        self.add_timing(&mut out, sums, window);
        out
    }

    fn add_features(&self, out: &mut BTreeMap<String, f64>) {
        for feature in self.features() {
            let name = feature.name;
            let per_step = feature.num_examples / self.num_steps as f64;
            out.insert(format!("effective_batch_size/{name}"), per_step);
            let full = feature.num_non_padding / feature.num_positions as f64;
            out.insert(format!("non_padding_fraction/{name}"), full);
            out.insert(format!("padding_fraction/{name}"), 1.0 - full);
        }
        let non_padding: f64 = self.features().map(|feature| feature.num_non_padding).sum();
        let overall = non_padding / self.num_positions() as f64;
        out.insert("non_padding_fraction/overall".to_string(), overall);
    }

    fn add_timing(&self, out: &mut BTreeMap<String, f64>, sums: &LossSums, window: &Window) {
        let devices = window.num_devices as f64;
        let sequences = sums.num_sequences as f64;
        let per_second = |count: f64| count / window.seconds;
        let targets = per_second(sums.num_target_tokens as f64);
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

    /// Sums of a batch whose loss weights are 1 on its targets.
    fn batch(
        num_sequences: u64,
        [loss, z_loss, correct]: [f64; 3],
        features: [FeatureSums; 2],
    ) -> LossSums {
        let decoder = &features[1];
        let counted = decoder.num_non_padding;
        LossSums {
            sums: BTreeMap::from([
                (sum::LOSS, loss),
                (sum::Z_LOSS, z_loss),
                (sum::CORRECT, correct),
                (sum::NUM_WEIGHTED_TOKENS, counted),
                (sum::WEIGHT_SUM, counted),
            ]),
            num_sequences,
            num_target_tokens: decoder.num_positions,
            features: features.into(),
        }
    }

    fn feature(
        name: &'static str,
        num_examples: f64,
        num_non_padding: f64,
        num_positions: u64,
    ) -> FeatureSums {
        FeatureSums { name, num_examples, num_non_padding, num_positions }
    }

    #[test]
    fn a_window_averages_over_its_steps() {
        let features = [
            feature("encoder_input_tokens", 2.0, 8.0, 12),
            feature("decoder_target_tokens", 2.0, 5.0, 8),
        ];
        let mut sums = batch(2, [12.0, 2.0, 2.5], features);
        sums.sums.insert(sum::AUXILIARY_LOSS, 0.5);
        let mut metrics = TrainMetrics::default();
        for rate in [0.5, 0.25] {
            metrics.add_step(&sums, Some(rate));
        }
        let found = metrics.summary(&Window { uptime: Some(9.0), ..WINDOW });
        let expected = [
            ("accuracy", 0.5),
            ("cross_ent_loss", 9.5),
            ("cross_ent_loss_per_all_target_tokens", 19.0 / 16.0),
            ("effective_batch_size/decoder_target_tokens", 2.0),
            ("effective_batch_size/encoder_input_tokens", 2.0),
            ("experts/auxiliary_loss", 0.5),
            ("learning_rate", 0.375),
            ("learning_rate/current", 0.25),
            ("loss", 12.0),
            ("loss_per_all_target_tokens", 1.5),
            ("loss_per_nonpadding_target_token", 2.4),
            ("non_padding_fraction/decoder_target_tokens", 0.625),
            ("non_padding_fraction/encoder_input_tokens", 8.0 / 12.0),
            ("non_padding_fraction/loss_weights", 0.625),
            ("non_padding_fraction/overall", 0.65),
            ("padding_fraction/decoder_target_tokens", 0.375),
            ("padding_fraction/encoder_input_tokens", 1.0 - 8.0 / 12.0),
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

    fn check_step(sums: &LossSums, rate: f32, expected: &[(&str, f64)]) {
        let mut metrics = TrainMetrics::default();
        metrics.add_step(sums, Some(rate));
        let mut found = metrics.summary(&WINDOW);
        // These are Gimlet's own: T5X has only the share of tokens that are no padding.
        found.retain(|tag, _| !tag.starts_with("timing/") && !tag.starts_with("padding_fraction/"));
        assert_eq!(found.len(), expected.len());
        for (tag, value) in expected {
            let error = (found[*tag] - value).abs();
            assert!(error <= 1e-6 * value.abs(), "{tag}: {} is not {value}", found[*tag]);
        }
    }

    /// Values that T5X (cc342d4, jax 0.10.2, float32) logged for a step of four unpacked rows,
    /// lengths 32 and 16; relative 1e-6.
    #[test]
    fn an_unpacked_step_has_t5x_s_tags_and_values() {
        let features = [
            feature("encoder_input_tokens", 4.0, 74.0, 128),
            feature("decoder_target_tokens", 4.0, 38.0, 64),
        ];
        let sums = batch(4, [233.34255981445312, 0.1374528557062149, 0.0], features);
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
        check_step(&sums, 0.01, &expected);
    }

    /// The same for four rows of two packed examples each.
    #[test]
    fn a_packed_step_has_t5x_s_tags_and_values() {
        let features = [feature("encoder", 8.0, 112.0, 128), feature("decoder", 8.0, 56.0, 64)];
        let sums = batch(4, [5.228795528411865, 0.003142033703625202, 0.0], features);
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
        check_step(&sums, 1e-8, &expected);
    }

    #[test]
    fn an_evaluation_has_no_learning_rate_and_no_uptime() {
        let mut metrics = TrainMetrics::default();
        assert!(metrics.summary(&WINDOW).is_empty());
        let half_full = |name| feature(name, 1.0, 2.0, 4);
        metrics.add_step(&batch(1, [0.0; 3], ["encoder", "decoder"].map(half_full)), None);
        let found = metrics.summary(&WINDOW);
        assert_eq!(found["non_padding_fraction/overall"], 0.5);
        assert!(!found.contains_key("learning_rate") && !found.contains_key("timing/uptime"));
    }
}
