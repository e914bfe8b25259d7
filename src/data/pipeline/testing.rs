//! Steps over examples in memory, for the tests of preprocessors.

#![cfg(test)]

use super::chunks::StepContext;
use super::pull::{Pull, Pulled, Stage, StageState};
use super::task::staged;
use crate::error::DataError;
use crate::example::Example;
use crate::preprocess::Step;
use crate::random::StageSeed;
use crate::source::BadRecordGuard;

/// Yields given examples.
struct Given {
    examples: Vec<Example>,
    next: usize,
}

impl Pull for Given {
    type Item = Example;

    fn pull(&mut self) -> Result<Option<Example>, DataError> {
        self.next += 1;
        Ok(self.examples.get(self.next - 1).cloned())
    }

    fn save(&self) -> StageState {
        StageState::new::<StageState>("given", &Pulled { counter: self.next as u64 }, [])
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        let Pulled { counter } = state.read("given", 0)?;
        self.next = counter as usize;
        Ok(())
    }
}

/// Applies the steps to the examples; `seed` is that of the whole pipeline.
pub(crate) fn run_steps(
    steps: impl Fn() -> Vec<Step>,
    examples: &[Example],
    seed: u64,
) -> Result<Vec<Example>, DataError> {
    let start = || {
        let given: Stage = Box::new(Given { examples: examples.to_vec(), next: 0 });
        let numbered = steps().into_iter().enumerate();
        numbered.fold(given, |stage, (i, step)| {
            let seed = StageSeed::new(seed, &i.to_string());
            let (task, bad_records) = ("test".to_string(), BadRecordGuard::default());
            staged(stage, StepContext { task, name: "step", seed, bad_records }, step, None)
        })
    };
    let mut whole = start();
    let (mut made, mut states) = (Vec::new(), vec![whole.save()]);
    while let Some(example) = whole.pull()? {
        made.push(example);
        states.push(whole.save());
    }
    // After a restore from any state, the pipeline continues with the same examples.
    for (done, state) in states.iter().enumerate() {
        let mut resumed = start();
        resumed.restore(state)?;
        assert_eq!(resumed.pull()?.as_ref(), made.get(done), "after {done} examples");
    }
    Ok(made)
}
