//! The optimizers of `torch.optim`, under torch's names and with its defaults. Decay reaches every parameter: as a part of the
//! gradient, or for AdamW of the step. Numbers of an update are float64, as Python's. Source: torch 2.15, `torch/optim/`.

use crate::checkpoint::PickleValue;
use crate::gin::{Configurable, Parameters};
use crate::nn::Dtype;

use super::LearningRate;
use super::expr::{Expr, gradient, param, slot};
use super::formula::{
    Changes, Formula, FusedNumbers, OptaxSlot, Settings, Turn, floats, settings_of, zeros,
};
use super::means::{mean, mean_square};

/// Parameters of the means that Adam and its kin keep. Source: torch `optim/adam.py`.
#[derive(Clone, Debug, PartialEq, Parameters)]
pub struct TorchMoments {
    /// Decays of the gradients' mean and of their squares' mean.
    #[gin(default = (0.9, 0.999))]
    pub betas: (f64, f64),
    /// Added to the root of the second moment.
    #[gin(default = 1e-8, limit = NonNegative)]
    pub eps: f64,
}

/// Adam (Kingma & Ba 2015, arXiv:1412.6980). Source: torch `optim/adam.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "torch.optim.Adam")]
pub struct TorchAdam {
    /// A number, a schedule of the updates made so far, or 'trainer'.
    #[gin(default = LearningRate::Constant(1e-3))]
    pub lr: LearningRate,
    /// Those of the moments.
    #[gin(flatten)]
    pub moments: TorchMoments,
    /// Fraction of the parameter that is added to the gradient.
    #[gin(default = 0.0, limit = NonNegative)]
    pub weight_decay: f64,
}

/// Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv:1711.05101). Source: torch `optim/adamw.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "torch.optim.AdamW")]
pub struct TorchAdamW {
    /// A number, a schedule of the updates made so far, or 'trainer'.
    #[gin(default = LearningRate::Constant(1e-3))]
    pub lr: LearningRate,
    /// Those of the moments.
    #[gin(flatten)]
    pub moments: TorchMoments,
    /// Decay of the parameters by each update, as a fraction of them, times the learning rate.
    #[gin(default = 1e-2, limit = NonNegative)]
    pub weight_decay: f64,
}

/// RAdam (Liu et al. 2020, arXiv:1908.03265): Adam whose first steps are not divided by a moment of few gradients. Source: torch
/// `optim/radam.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "torch.optim.RAdam")]
pub struct TorchRAdam {
    /// A number, a schedule of the updates made so far, or 'trainer'.
    #[gin(default = LearningRate::Constant(1e-3))]
    pub lr: LearningRate,
    /// Those of the moments.
    #[gin(flatten)]
    pub moments: TorchMoments,
    /// Fraction of the parameter that is added to the gradient.
    #[gin(default = 0.0, limit = NonNegative)]
    pub weight_decay: f64,
}

/// NAdam (Dozat 2016): Adam whose first moment looks one update ahead, with a decay that rises. Source: torch `optim/nadam.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "torch.optim.NAdam")]
pub struct TorchNAdam {
    /// A number, a schedule of the updates made so far, or 'trainer'.
    #[gin(default = LearningRate::Constant(2e-3))]
    pub lr: LearningRate,
    /// Those of the moments.
    #[gin(flatten)]
    pub moments: TorchMoments,
    /// Fraction of the parameter that is added to the gradient.
    #[gin(default = 0.0, limit = NonNegative)]
    pub weight_decay: f64,
    /// Speed at which the decay of the mean rises from its half.
    #[gin(default = 4e-3, limit = NonNegative)]
    pub momentum_decay: f64,
}

/// Gradient descent, with momentum or without. Source: torch `optim/sgd.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "torch.optim.SGD")]
pub struct TorchSgd {
    /// A number, a schedule of the updates made so far, or 'trainer'.
    #[gin(default = LearningRate::Constant(1e-3))]
    pub lr: LearningRate,
    /// Decay of the sum of gradients; 0 means no momentum.
    #[gin(default = 0.0, limit = NonNegative)]
    pub momentum: f64,
    /// Fraction of each gradient after the first that is not added to the sum.
    #[gin(default = 0.0)]
    pub dampening: f64,
    /// Fraction of the parameter that is added to the gradient.
    #[gin(default = 0.0, limit = NonNegative)]
    pub weight_decay: f64,
    /// Whether the momentum looks one update ahead.
    #[gin(default = false)]
    pub nesterov: bool,
}

/// RMSProp (Tieleman & Hinton 2012; centered: Graves 2013, arXiv:1308.0850). Source: torch `optim/rmsprop.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "torch.optim.RMSprop")]
pub struct TorchRmsProp {
    /// A number, a schedule of the updates made so far, or 'trainer'.
    #[gin(default = LearningRate::Constant(1e-2))]
    pub lr: LearningRate,
    /// Decay of the squared gradients' mean.
    #[gin(default = 0.99, limit = NonNegative)]
    pub alpha: f64,
    /// Added to the root of the mean.
    #[gin(default = 1e-8, limit = NonNegative)]
    pub eps: f64,
    /// Fraction of the parameter that is added to the gradient.
    #[gin(default = 0.0, limit = NonNegative)]
    pub weight_decay: f64,
    /// Decay of the sum of steps; 0 means no momentum.
    #[gin(default = 0.0, limit = NonNegative)]
    pub momentum: f64,
    /// Whether the square of the gradients' mean is subtracted: their variance.
    #[gin(default = false)]
    pub centered: bool,
}

/// Adagrad (Duchi et al. 2011): gradients over the root of the sum of their squares. Source: torch `optim/adagrad.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "torch.optim.Adagrad")]
pub struct TorchAdagrad {
    /// A number, a schedule of the updates made so far, or 'trainer'.
    #[gin(default = LearningRate::Constant(1e-2))]
    pub lr: LearningRate,
    /// Decay of the learning rate: it is divided by 1 plus this times the updates made so far.
    #[gin(default = 0.0, limit = NonNegative)]
    pub lr_decay: f64,
    /// Fraction of the parameter that is added to the gradient.
    #[gin(default = 0.0, limit = NonNegative)]
    pub weight_decay: f64,
    /// The sum before the first update.
    #[gin(default = 0.0, limit = NonNegative)]
    pub initial_accumulator_value: f64,
    /// Added to the root of the sum.
    #[gin(default = 1e-10, limit = NonNegative)]
    pub eps: f64,
}

/// The gradient with a part of the parameter.
fn decayed(weight_decay: f64) -> Expr {
    if weight_decay == 0.0 { gradient() } else { gradient() + param() * weight_decay }
}

impl TorchMoments {
    /// The new means of a gradient and of its square.
    fn means(&self, gradient: &Expr) -> [Expr; 2] {
        [mean(0, gradient.clone(), self.betas.0), mean_square(1, gradient, self.betas.1)]
    }

    /// The corrections of both means for their first value.
    fn corrections(&self, turn: &Turn) -> (f64, f64) {
        let number = turn.number() as f64;
        (1.0 - self.betas.0.powf(number), 1.0 - self.betas.1.powf(number))
    }

    /// Adam's step for a learning rate of 1.
    fn step(&self, turn: &Turn, [first, second]: &[Expr; 2]) -> Expr {
        let (of_first, of_second) = self.corrections(turn);
        first.clone() / (second.sqrt() / of_second.sqrt() + self.eps) * of_first.recip()
    }

    fn fused(&self, weight_decay: f64) -> FusedNumbers {
        let (b1, b2) = self.betas;
        FusedNumbers { b1, b2, eps: self.eps, weight_decay }
    }

    fn settings(&self, weight_decay: f64) -> Settings {
        settings_of(&self.fused(weight_decay))
    }
}

fn slots_of_moments() -> Vec<OptaxSlot> {
    vec![zeros("exp_avg", None), zeros("exp_avg_sq", None)]
}

/// The parts of a formula that are the same for all: torch counts updates once, in `step`.
macro_rules! of_torch {
    () => {
        fn learning_rate(&self) -> &LearningRate {
            &self.lr
        }

        fn rate_count(&self) -> &'static str {
            "schedule/count"
        }

        fn counts(&self) -> Vec<&'static str> {
            vec!["count"]
        }
    };
}

impl Formula for TorchAdam {
    of_torch!();

    fn slots(&self) -> Vec<OptaxSlot> {
        slots_of_moments()
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let means = self.moments.means(&decayed(self.weight_decay));
        let step = self.moments.step(turn, &means) * -turn.learning_rate;
        Changes { step, state: means.to_vec() }
    }

    fn fused(&self) -> Option<FusedNumbers> {
        (self.weight_decay == 0.0).then(|| self.moments.fused(0.0))
    }

    fn torch_settings(&self) -> Option<Settings> {
        Some(self.moments.settings(self.weight_decay))
    }
}

impl Formula for TorchAdamW {
    of_torch!();

    fn slots(&self) -> Vec<OptaxSlot> {
        slots_of_moments()
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let means = self.moments.means(&gradient());
        let step = self.moments.step(turn, &means) + param() * self.weight_decay;
        Changes { step: step * -turn.learning_rate, state: means.to_vec() }
    }

    fn fused(&self) -> Option<FusedNumbers> {
        Some(self.moments.fused(self.weight_decay))
    }
}

impl Formula for TorchRAdam {
    of_torch!();

    fn slots(&self) -> Vec<OptaxSlot> {
        slots_of_moments()
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let means = self.moments.means(&decayed(self.weight_decay));
        let (of_first, of_second) = self.moments.corrections(turn);
        let (b2, number) = (self.moments.betas.1, turn.number() as f64);
        let most = 2.0 / (1.0 - b2) - 1.0;
        let length = most - 2.0 * number * b2.powf(number) / of_second;
        let mut step = means[0].clone() / of_first;
        if length > 5.0 {
            let ratio =
                (length - 4.0) * (length - 2.0) * most / ((most - 4.0) * (most - 2.0) * length);
            step = step / (means[1].sqrt() + self.moments.eps) * (of_second * ratio).sqrt();
        }
        Changes { step: step * -turn.learning_rate, state: means.to_vec() }
    }

    fn torch_settings(&self) -> Option<Settings> {
        Some(self.moments.settings(self.weight_decay))
    }
}

impl TorchNAdam {
    /// The decay of the mean in an update.
    fn decay(&self, number: f64) -> f64 {
        self.moments.betas.0 * (1.0 - 0.5 * 0.96f64.powf(number * self.momentum_decay))
    }

    /// The product of the decays of all updates up to one, which torch keeps in float32.
    fn product(&self, number: i64) -> f64 {
        let multiplied = |product: f32, number| {
            let product = (f64::from(product) * self.decay(number as f64)) as f32;
            // It is 0 after some hundred updates, and stays so.
            (product > 0.0).then_some(product)
        };
        (1..=number).try_fold(1.0, multiplied).map_or(0.0, f64::from)
    }
}

impl Formula for TorchNAdam {
    of_torch!();

    fn slots(&self) -> Vec<OptaxSlot> {
        slots_of_moments()
    }

    /// torch's state has a number beside the means, which is made anew here: it has no place in a Trainer's file.
    fn changes(&self, turn: &Turn) -> Changes {
        let gradient = decayed(self.weight_decay);
        let means = self.moments.means(&gradient);
        let number = turn.number();
        let [now, next] = [number, number + 1].map(|number| self.decay(number as f64));
        let product = self.product(number);
        let root = (means[1].clone() / self.moments.corrections(turn).1).sqrt() + self.moments.eps;
        let of_gradient = gradient * ((1.0 - now) / (1.0 - product));
        let of_mean = means[0].clone() * (next / (1.0 - product * next));
        let step = (of_gradient + of_mean) / root * -turn.learning_rate;
        Changes { step, state: means.to_vec() }
    }
}

impl Formula for TorchSgd {
    of_torch!();

    fn slots(&self) -> Vec<OptaxSlot> {
        (self.momentum > 0.0).then(|| zeros("momentum_buffer", None)).into_iter().collect()
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let gradient = decayed(self.weight_decay);
        if self.momentum == 0.0 {
            return Changes { step: gradient * -turn.learning_rate, state: Vec::new() };
        }
        // The sum begins with the whole first gradient.
        let sum = match turn.count {
            0 => gradient.clone(),
            _ => slot(0) * self.momentum + gradient.clone() * (1.0 - self.dampening),
        };
        let step = if self.nesterov { gradient + sum.clone() * self.momentum } else { sum.clone() };
        Changes { step: step * -turn.learning_rate, state: vec![sum] }
    }

    fn torch_settings(&self) -> Option<Settings> {
        let mut settings = floats([
            ("momentum", self.momentum),
            ("dampening", self.dampening),
            ("weight_decay", self.weight_decay),
        ]);
        settings.push(("nesterov", PickleValue::Bool(self.nesterov)));
        Some(settings)
    }
}

impl Formula for TorchRmsProp {
    of_torch!();

    fn slots(&self) -> Vec<OptaxSlot> {
        let sum = (self.momentum > 0.0).then(|| zeros("momentum_buffer", None));
        let mean = self.centered.then(|| zeros("grad_avg", None));
        [Some(zeros("square_avg", None)), mean, sum].into_iter().flatten().collect()
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let gradient = decayed(self.weight_decay);
        let square = mean_square(0, &gradient, self.alpha);
        let mean = self.centered.then(|| mean(1, gradient.clone(), self.alpha));
        let root = match &mean {
            Some(mean) => (square.clone() - mean.square()).sqrt(),
            None => square.sqrt(),
        };
        let mut step = gradient / (root + self.eps);
        let mut state: Vec<Expr> = [Some(square), mean].into_iter().flatten().collect();
        if self.momentum > 0.0 {
            step = slot(state.len()) * self.momentum + step;
            state.push(step.clone());
        }
        Changes { step: step * -turn.learning_rate, state }
    }

    fn torch_settings(&self) -> Option<Settings> {
        let mut settings = floats([
            ("alpha", self.alpha),
            ("eps", self.eps),
            ("weight_decay", self.weight_decay),
            ("momentum", self.momentum),
        ]);
        settings.push(("centered", PickleValue::Bool(self.centered)));
        Some(settings)
    }
}

impl Formula for TorchAdagrad {
    of_torch!();

    fn slots(&self) -> Vec<OptaxSlot> {
        let initial = self.initial_accumulator_value;
        vec![OptaxSlot { name: "sum", dtype: Dtype::Float32, initial }]
    }

    fn changes(&self, turn: &Turn) -> Changes {
        let gradient = decayed(self.weight_decay);
        let sum = slot(0) + gradient.square();
        let rate = turn.learning_rate / (1.0 + turn.count as f64 * self.lr_decay);
        let step = gradient / (sum.sqrt() + self.eps) * -rate;
        Changes { step, state: vec![sum] }
    }

    fn torch_settings(&self) -> Option<Settings> {
        Some(floats([
            ("lr_decay", self.lr_decay),
            ("eps", self.eps),
            ("weight_decay", self.weight_decay),
            ("initial_accumulator_value", self.initial_accumulator_value),
        ]))
    }
}
