//! Runs preprocessors of a gin text over examples, without files and vocabularies.

use std::io;

use super::{Context, ExamplePosition, Features, Preprocessor, Step};
use crate::example::Example;
use crate::random::StageSeed;
use crate::value::Value;
use gimlet_gin::{Configurable, Evaluator, Registry, Request, Source, load};

/// `steps.preprocessors = [..]`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "test.steps")]
struct Steps {
    /// The preprocessors under test.
    preprocessors: Vec<Preprocessor>,
}

/// One text, at any path.
struct Text<'a>(&'a str);

impl Source for Text<'_> {
    fn read(&self, path: &str) -> io::Result<Option<String>> {
        Ok((path == "case.gin").then(|| self.0.to_string()))
    }

    fn similar(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

/// The preprocessors that gin text binds to `steps.preprocessors`.
pub(crate) fn preprocessors(gin: &str) -> Vec<Preprocessor> {
    let registry = Registry::default().with::<Steps>();
    let request = Request { files: vec!["case.gin".to_string()], ..Request::default() };
    let loaded = load(&request, &Text(gin), &registry)
        .unwrap_or_else(|diagnostics| panic!("{}\n{gin}", diagnostics.render(false)));
    let mut evaluator = Evaluator::new(&loaded.config, &registry);
    match evaluator.evaluate_in::<Steps>("") {
        Ok(steps) => steps.preprocessors,
        Err(_) => panic!("{:?}\n{gin}", evaluator.into_diagnostics()),
    }
}

/// The result of preprocessors without features or lengths on the examples.
pub(crate) fn run(all: &[Preprocessor], examples: Vec<Example>) -> Result<Vec<Example>, String> {
    let features = Features::new();
    let context = Context { features: &features, lengths: None };
    run_in(&context, all, examples)
}

/// The result of a task's preprocessors on the examples. A buffer shuffles all of them, or none if
/// its size is 1.
pub(crate) fn run_in(
    context: &Context<'_>,
    all: &[Preprocessor],
    mut examples: Vec<Example>,
) -> Result<Vec<Example>, String> {
    for (i, preprocessor) in all.iter().enumerate() {
        let steps = preprocessor.steps(context).map_err(|error| error.to_string())?;
        for (j, step) in steps.into_iter().enumerate() {
            let seed = StageSeed::new(7, &format!("{i}/{j}"));
            examples = run_step(step, &seed, examples)?;
        }
    }
    Ok(examples)
}

fn run_step(
    step: Step,
    seed: &StageSeed,
    mut examples: Vec<Example>,
) -> Result<Vec<Example>, String> {
    let place = |counter: usize| ExamplePosition { seed, counter: counter as u64 };
    match step {
        Step::Map(step) => {
            let mapped = examples.into_iter().enumerate();
            mapped.filter_map(|(i, example)| step.apply(example, place(i)).transpose()).collect()
        }
        Step::FlatMap(step) => {
            let made = examples.into_iter().enumerate();
            let made: Result<Vec<Vec<Example>>, String> =
                made.map(|(i, example)| step.apply(example, place(i))).collect();
            Ok(made?.into_iter().flatten().collect())
        }
        Step::Join { num_examples, step } => {
            let groups = examples.chunks(num_examples).enumerate();
            groups.map(|(i, group)| step.apply(group.to_vec(), place(i * num_examples))).collect()
        }
        Step::Batch { num_examples, step } => {
            let groups = examples.chunks(num_examples).enumerate();
            let made = groups.map(|(i, group)| {
                let first = (i * num_examples) as u64;
                step.apply(group.to_vec(), seed, first).map_err(|(_, reason)| reason)
            });
            Ok(made.collect::<Result<Vec<_>, _>>()?.concat())
        }
        Step::Rebatch { .. } | Step::Convert(_) | Step::Take { .. } => {
            unreachable!("steps across examples are tested in tasks")
        }
        Step::Shuffle { buffer_size: 1 } => Ok(examples),
        Step::Shuffle { .. } => {
            place(0).draw().shuffle(&mut examples);
            Ok(examples)
        }
    }
}

/// An example from a JSON object, whose keys may be paths.
pub(crate) fn example(json: &serde_json::Value) -> Example {
    let feature = |(key, value): (&String, &serde_json::Value)| {
        let value: Value = serde_json::from_value(value.clone())
            .unwrap_or_else(|error| panic!("{key} in {json}: {error}"));
        (key.as_str().into(), value)
    };
    json.as_object().expect("an example is an object").iter().map(feature).collect()
}
