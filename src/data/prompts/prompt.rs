//! A data set combined with a template.

use super::datasets::{DATASETS, Dataset, Eval, Train};
use super::templates::{Template, Templates, templates};
use gimlet_gin::{Reference, Value, ValueKind};

/// Maximum number of examples of one data set in a training mixture.
const MAX_EXAMPLES_PER_DATASET: u64 = 500_000;

/// Templates that T0 does not train with: most of their examples are longer than 1024 tokens, or their
/// cache was broken.
const BLOCKED: [&str; 24] = [
    "hotpot_qa_distractor_Generate_Explanations",
    "hotpot_qa_fullwiki_Generate_Explanations",
    "hotpot_qa_distractor_Generate_Answer_and_Explanations",
    "hotpot_qa_fullwiki_Generate_Answer_and_Explanations",
    "hotpot_qa_fullwiki_Generate_Answer",
    "hotpot_qa_distractor_Generate_Answer",
    "hotpot_qa_distractor_Generate_Title_2",
    "hotpot_qa_fullwiki_Generate_Title_2",
    "hotpot_qa_fullwiki_Generate_Title_1",
    "hotpot_qa_distractor_Generate_Title_1",
    "hotpot_qa_distractor_Generate_Question",
    "hotpot_qa_fullwiki_Generate_Question",
    "tab_fact_tab_fact_tab_fact_3",
    "tab_fact_tab_fact_tab_fact_2",
    "tab_fact_tab_fact_tab_fact_1",
    "tab_fact_tab_fact_tab_fact_7",
    "tab_fact_tab_fact_tab_fact_4",
    "tab_fact_tab_fact_tab_fact_5",
    "tab_fact_tab_fact_tab_fact_6",
    "wiki_hop_masked_Choose_Best_Object_Candidate",
    "wiki_hop_masked_Indirect_Question_about_Birthplace_Citizenship_Place_of_Death",
    "narrativeqa_Template_05",
    "ecthr_cases_alleged_violation_prediction_silver_rationales",
    "gigaword_summarize_",
];

/// Tasks whose names contain one of these are trained on but not ranked.
const NOT_RANKED: [&str; 14] = [
    "paws_labeled_final",
    "adversarial_qa_dbidaf",
    "adversarial_qa_dbert",
    "duorc_ParaphraseRC",
    "dream",
    "amazon_polarity",
    "app_reviews",
    "imdb",
    "wiki_bio",
    "gigaword",
    "multi_news",
    "samsum",
    "dbpedia_14",
    "trec",
];

/// These tasks are not ranked either, as they could not be cached.
const NOT_RANKED_EITHER: [&str; 5] = [
    "wiki_hop_original_choose_best_object_affirmative_1",
    "wiki_hop_original_choose_best_object_affirmative_2",
    "wiki_hop_original_choose_best_object_affirmative_3",
    "wiki_hop_original_choose_best_object_interrogative_1",
    "wiki_hop_original_choose_best_object_interrogative_2",
];

/// One of T0's tasks.
#[derive(Clone, Debug)]
pub(super) struct Prompt {
    pub name: String,
    pub train: Train,
    pub eval: Eval,
    /// The rate in training.
    pub cap: u64,
    pub template: Template,
    dataset: &'static str,
    subset: &'static str,
    /// ANLI's round.
    round: Option<&'static str>,
}

/// Every task of T0 for which there is a template.
pub(super) fn prompts(dir: &str) -> Result<Vec<Prompt>, String> {
    let found = templates(dir)?;
    Ok(DATASETS
        .iter()
        .flat_map(|dataset| of_dataset(dataset, &found))
        .chain(of_anli(&found))
        .collect())
}

fn of_dataset(dataset: &Dataset, found: &Templates) -> Vec<Prompt> {
    let templates =
        found.get(&(dataset.name, dataset.subset)).map(Vec::as_slice).unwrap_or_default();
    let cap = match dataset.train_size {
        size if size > MAX_EXAMPLES_PER_DATASET => {
            MAX_EXAMPLES_PER_DATASET / templates.len().max(1) as u64
        }
        size => size,
    };
    let prompt = |template: &Template| Prompt {
        name: task_name(dataset.name, dataset.subset, &template.name),
        train: dataset.train,
        eval: dataset.eval,
        cap,
        template: template.clone(),
        dataset: dataset.name,
        subset: dataset.subset,
        round: None,
    };
    templates.iter().map(prompt).collect()
}

/// Each round of ANLI is a separate data set.
fn of_anli(found: &Templates) -> Vec<Prompt> {
    let templates = found.get(&("anli", "")).map(Vec::as_slice).unwrap_or_default();
    let of_round = |round: &'static str| {
        templates.iter().map(move |template| Prompt {
            name: format!("{}_{round}", task_name("anli", "", &template.name)),
            train: Train::No,
            eval: Eval::Base,
            cap: 0,
            template: template.clone(),
            dataset: "anli",
            subset: "",
            round: Some(round),
        })
    };
    ["r1", "r2", "r3"].into_iter().flat_map(of_round).collect()
}

/// The names joined, with `_` for each run of characters other than letters, digits, `_` and `.`.
pub(super) fn task_name(dataset: &str, subset: &str, template: &str) -> String {
    let subset = if subset.is_empty() { String::new() } else { format!("_{subset}") };
    let mut name = String::new();
    let mut in_gap = false;
    for c in format!("{dataset}{subset}_{template}").chars() {
        let fits = c.is_alphanumeric() || c == '_' || c == '.';
        match fits {
            true => name.push(c),
            false if !in_gap => name.push('_'),
            false => {}
        }
        in_gap = !fits;
    }
    name
}

impl Prompt {
    pub(super) fn dataset_and_subset(&self) -> (&'static str, &'static str) {
        (self.dataset, self.subset)
    }

    pub(super) fn has_choices(&self) -> bool {
        self.template.answer_choices.as_ref().is_some_and(|choices| !choices.is_empty())
    }

    pub(super) fn is_blocked(&self) -> bool {
        BLOCKED.contains(&&self.name[..])
    }

    pub(super) fn is_left_out_of_evaluation(&self) -> bool {
        NOT_RANKED.iter().any(|part| self.name.contains(part))
            || NOT_RANKED_EITHER.contains(&&self.name[..])
    }

    /// The row of the task in a family.
    pub(super) fn row(&self, ranked: bool) -> Result<ValueKind, String> {
        let labels = self.template.fixed_choices();
        let name = if ranked { format!("{}_score_eval", self.name) } else { self.name.clone() };
        let subset = if self.subset.is_empty() { ValueKind::None } else { text(self.subset) };
        let num_classes = labels.as_ref().map(|labels| ValueKind::Int(labels.len().into()));
        let fields = [
            ("NAME", text(&name)),
            ("DATASET", text(self.dataset)),
            ("SUBSET", subset),
            ("SPLITS", self.splits()),
            ("TEMPLATE", text(&self.template.jinja)),
            ("CHOICES", self.template.answer_choices.as_deref().map_or(ValueKind::None, text)),
            (
                "LABELS",
                labels.map_or(ValueKind::None, |labels| list(labels.iter().map(|l| text(l)))),
            ),
            ("NUM_CLASSES", num_classes.unwrap_or(ValueKind::None)),
            ("METRICS", self.metrics()?),
        ];
        let entry = |(key, value)| (Value::unplaced(text(key)), Value::unplaced(value));
        Ok(ValueKind::Dict(fields.map(entry).into()))
    }

    fn splits(&self) -> ValueKind {
        let Some(round) = self.round else { return ValueKind::None };
        let names = [("train", "train"), ("validation", "dev"), ("test", "test")];
        let entry = |(split, of_anli): (&str, &str)| {
            (Value::unplaced(text(split)), Value::unplaced(text(&format!("{of_anli}_{round}"))))
        };
        ValueKind::Dict(names.map(entry).into())
    }

    fn metrics(&self) -> Result<ValueKind, String> {
        let names: Vec<(&str, &str)> = match (self.dataset, self.subset) {
            ("glue", _) => vec![("", "f1_score_with_invalid"), ("", "accuracy")],
            ("super_glue", "axg") => Vec::new(),
            ("super_glue", "cb") => vec![("three_classes", "mean_multiclass_f1"), ("", "accuracy")],
            ("super_glue", "record") => vec![("by_passage", "deduplicate_metric")],
            ("super_glue", _) => vec![("", "accuracy")],
            _ => {
                let metrics = self.template.metrics.iter();
                let known = metrics.map(|metric| {
                    metric_of(metric).map(|name| ("", name)).ok_or_else(|| {
                        format!("template `{}` names an unknown metric, `{metric}`", self.name)
                    })
                });
                known.collect::<Result<_, _>>()?
            }
        };
        Ok(list(names.into_iter().map(|(scope, name)| metric_reference(scope, name))))
    }
}

/// The metric function for a metric's name in promptsource.
fn metric_of(metric: &str) -> Option<&'static str> {
    Some(match metric {
        "BLEU" => "bleu",
        "ROUGE" => "rouge",
        "Span Squad" => "span_squad",
        "Squad" => "squad",
        "Trivia QA" => "trivia_qa",
        "Accuracy" | "Other" => "accuracy",
        "Sequence Accuracy" => "sequence_accuracy",
        "Pearson Correlation" => "pearson_corrcoef",
        "Spearman Correlation" => "spearman_corrcoef",
        "MultiRC" => "multirc_f1_over_all_answers",
        "AUC" => "auc",
        "COQA F1" => "coqa_f1",
        "Edit Distance" => "edit_distance",
        _ => return None,
    })
}

fn metric_reference(scope: &str, name: &str) -> ValueKind {
    let target = format!("t5.evaluation.metrics.{name}");
    let scope = if scope.is_empty() { Vec::new() } else { vec![scope.to_string()] };
    ValueKind::Reference(Reference { scope, selector: target.clone(), target, called: false })
}

fn text(text: &str) -> ValueKind {
    ValueKind::Str(text.to_string())
}

fn list(items: impl Iterator<Item = ValueKind>) -> ValueKind {
    ValueKind::List(items.map(Value::unplaced).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares names with `task_clean` of T0's `seqio_tasks/utils.py`.
    #[test]
    fn names_hold_no_punctuation_but_dots() {
        let check = |(dataset, subset, template), expected: &str| {
            assert_eq!(task_name(dataset, subset, template), expected);
        };
        check(("ai2_arc", "ARC-Easy", "pick (a/b)?"), "ai2_arc_ARC_Easy_pick_a_b_");
        check(("cos_e", "v1.11", "i think"), "cos_e_v1.11_i_think");
        check(("trec", "", "what's it"), "trec_what_s_it");
    }
}
