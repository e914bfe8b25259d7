//! L4: the training step and its loop.

mod spec;

pub use spec::{
    Action, ActionMode, EarlyStopping, SummarizeConfig, SummarizeGinConfig, TerminateOnNan, Train,
    Trainer, TrainerClass,
};
