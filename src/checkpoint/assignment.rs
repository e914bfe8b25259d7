//! `assignment_map`: maps the arrays of a checkpoint to the arrays of the model.
//! Source: `apply_assignment_map` of T5X's `state_utils.py`.

use std::collections::{BTreeMap, BTreeSet};

use fancy_regex::{Captures, Regex};

use super::array::Shapes;
use super::error::CheckpointError;
use super::fit::check_fit;
use super::format::{Format, Without};
use super::head::{UNUSED, remark};
use super::mismatch::Mismatch;
use super::names::trainer::slot_and_parameter;
use super::spec::RestoreCheckpointConfig;
use super::stored::Stored;
use super::t5x_tree::TARGET;
use gimlet_telemetry::{counted, quoted_names};

/// A rule: a pattern for whole names in the model, and the name in the checkpoint to read instead
/// (with `\1` or `\g<name>`), or `None` to leave the matching arrays initialized.
pub type Rule = (String, Option<String>);

/// Maximum number of names in a notice.
const MAX_NAMED: usize = 8;

/// The end of the names of the blocks that layers of a sparse BERT attend to, and a remark on them.
const LAYOUT: &str = "master_layout";
const TRAINED: &str = "the blocks with which t5-experiments trained a model: others are drawn unless \
                       bert.ListedSparsityConfig.rows has them, as `gimlet t5_experiments bert --init_checkpoint` binds it";

/// The source of each array of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Name in the model to name in the checkpoint.
    pub sources: BTreeMap<String, String>,
    /// Names in the model that are initialized.
    pub from_scratch: Vec<String>,
    /// Names in the model that the assignment map leaves initialized.
    pub dropped: BTreeSet<String>,
    /// Names in the model that the checkpoint itself holds, so that a rule for them has no effect.
    pub put_back: Vec<String>,
    /// Names in the checkpoint that are not used. T5X ignores them silently.
    pub unused: Vec<String>,
    /// The parts of a training state that the checkpoint's format never holds.
    pub without: Without,
}

impl RestoreCheckpointConfig {
    /// Plans how a fresh run reads a checkpoint: applies the assignment map; then every array that
    /// the model `needs` must be there with its shape, unless it is initialized. Arrays that a
    /// format never holds are initialized: the optimizer's state and the step of a Hugging Face
    /// model. With `strict` and without rules, every array of a TensorFlow checkpoint must be used
    /// too, as in T5X.
    pub fn plan(&self, stored: &dyn Stored, needs: &Shapes) -> Result<Plan, CheckpointError> {
        self.plan_part(stored, needs, &[])
    }

    /// Like [`RestoreCheckpointConfig::plan`], for callers that need only a part of a training state.
    /// The names of the `rest` count as names of the model for rules of a training configuration.
    pub fn plan_part(
        &self,
        stored: &dyn Stored,
        needs: &Shapes,
        rest: &[String],
    ) -> Result<Plan, CheckpointError> {
        let rules = self.rules();
        if self.fallback_to_scratch && self.strict && rules.is_none() {
            let reason = "`fallback_to_scratch` needs an `assignment_map` to say what is dropped, or `strict = False` \
                          to take what model and checkpoint share";
            return Err(CheckpointError::Assignment(reason.to_string()));
        }
        let found = stored.shapes();
        let has_rules = rules.is_some();
        let rules = rules.unwrap_or_default();
        let names = found.keys().map(String::as_str).collect();
        let mut assigned = assign(&rules, needs.keys(), rest, &names)?;
        if stored.format() == Format::Trainer {
            let is_free = |name: &&String| !assigned.dropped.contains(*name);
            for (new, old) in slots_elsewhere(needs.keys().filter(is_free), &found) {
                assigned.sources.entry(new).or_insert(old);
            }
        }
        let without = stored.without();
        let initializes = |name: &str| self.fallback_to_scratch || without.concerns(name);
        let path = stored.path().as_str();
        let plan = plan(path, assigned.sources, needs, &found, &initializes)?;
        // A training state always shares the step, so the parameters decide.
        if !plan.sources.keys().any(|name| name.starts_with(TARGET))
            && needs.keys().any(|name| name.starts_with(TARGET))
            && !has_rules
        {
            let (path, missing) = (path.to_string(), needs.keys().cloned().collect());
            let (extra, shapes) = (plan.unused, Vec::new());
            let mismatch = Mismatch { path, missing, extra, shapes, is_resumed: false };
            return Err(CheckpointError::OtherModel(mismatch));
        }
        let takes_all = self.strict && stored.format() == Format::MeshTensorFlow;
        if takes_all && !has_rules && !plan.unused.is_empty() {
            let (path, extra) = (path.to_string(), plan.unused);
            let (missing, shapes) = (Vec::new(), Vec::new());
            let mismatch = Mismatch { path, missing, extra, shapes, is_resumed: false };
            return Err(CheckpointError::OtherModel(mismatch));
        }
        Ok(Plan { without, dropped: assigned.dropped, put_back: assigned.put_back, ..plan })
    }
}

impl Plan {
    /// Notices of arrays that are initialized, of arrays on which a rule has no effect, and of parameters that are not read.
    pub fn notices(&self) -> Vec<String> {
        let notices = [self.of_initialized(), self.of_put_back(), self.of_unused()];
        notices.into_iter().flatten().collect()
    }

    /// Parameters that the model does not have. A rule that drops the model's own array of that name has said so already.
    fn of_unused(&self) -> Option<String> {
        let is_left = |name: &&String| name.starts_with(TARGET) && !self.dropped.contains(*name);
        let unused: Vec<&String> = self.unused.iter().filter(is_left).collect();
        let of_layout = |name: &str| name.ends_with(LAYOUT).then(|| TRAINED.to_string());
        let remarks = |name: &&String| remark(name, UNUSED).or_else(|| of_layout(name));
        let head = unused.iter().find_map(remarks);
        let head = head.map(|remark| format!(" ({remark})")).unwrap_or_default();
        let (are, them) = if unused.len() == 1 { (" is", "it") } else { ("s are", "them") };
        (!unused.is_empty()).then(|| {
            format!(
                "{} parameter{are} not read, since the model does not have {them}: {}{head}",
                unused.len(),
                quoted_names(&unused, MAX_NAMED)
            )
        })
    }

    fn of_put_back(&self) -> Option<String> {
        let named = quoted_names(&self.put_back, MAX_NAMED);
        (!self.put_back.is_empty()).then(|| {
            format!(
                "assignment_map has no effect on {named}: the checkpoint holds them under their own names, which \
                 T5X uses instead of the rule"
            )
        })
    }

    /// `None` when no array is initialized.
    fn of_initialized(&self) -> Option<String> {
        let count = self.from_scratch.len();
        let unheld = |name: &&String| self.without.concerns(name);
        let (unheld, mapped): (Vec<&String>, Vec<&String>) =
            self.from_scratch.iter().partition(unheld);
        let (dropped, lacking): (Vec<&String>, Vec<&String>) =
            mapped.into_iter().partition(|name| self.dropped.contains(*name));
        let what = match self.without {
            Without::State => "no optimizer state and no step",
            Without::Slots => "no optimizer state",
            Without::OtherSlots => "the optimizer state of layers in other arrays",
            Without::Nothing => "nothing of it",
        };
        let are = if count == 1 { "is" } else { "are" };
        let initialized = format!("{} {are} initialized", counted(count, "array"));
        match (unheld.len(), dropped.len(), lacking.len()) {
            (0, 0, 0) => return None,
            (_, 0, 0) => {
                return Some(format!("the checkpoint holds {what}: {initialized}"));
            }
            (0, _, 0) => {
                return Some(format!("{initialized}, as assignment_map says"));
            }
            _ => {}
        }
        let mut parts = Vec::new();
        if !dropped.is_empty() {
            parts.push(format!("{} as assignment_map says", dropped.len()));
        }
        if !unheld.is_empty() {
            parts.push(format!("{} since the checkpoint holds {what}", unheld.len()));
        }
        if !lacking.is_empty() {
            parts.push(format!(
                "{} that the checkpoint lacks ({})",
                lacking.len(),
                quoted_names(&lacking, MAX_NAMED)
            ));
        }
        Some(format!("{initialized}: {}", parts.join(", ")))
    }
}

/// Plans how a run resumes from its own checkpoint: every array under its own name.
pub fn plan_resume(stored: &dyn Stored, needs: &Shapes) -> Result<Plan, CheckpointError> {
    let found = stored.shapes();
    let same = |name: &String| (name.clone(), name.clone());
    let mut sources: BTreeMap<String, String> =
        needs.keys().filter(|name| found.contains_key(*name)).map(same).collect();
    if stored.format() == Format::Trainer {
        sources.extend(slots_elsewhere(needs.keys(), &found));
    }
    let planned = plan(stored.path().as_str(), sources, needs, &found, &|_| false);
    planned.map_err(|error| match error {
        CheckpointError::OtherModel(mismatch) => {
            CheckpointError::OtherModel(Mismatch { is_resumed: true, ..mismatch })
        }
        other => other,
    })
}

/// Finds arrays of the model's optimizer at another place of a chain, which a Trainer's file does not say: for each name that
/// is not found, the name of the same slot of the same parameter.
fn slots_elsewhere<'a>(
    names: impl Iterator<Item = &'a String>,
    found: &Shapes,
) -> Vec<(String, String)> {
    let places: BTreeMap<(&str, &str), &String> =
        found.keys().filter_map(|name| Some((slot_and_parameter(name)?, name))).collect();
    let lacking = names.filter(|name| !found.contains_key(*name));
    let place =
        |name: &String| Some((name.clone(), (*places.get(&slot_and_parameter(name)?)?).clone()));
    lacking.filter_map(place).collect()
}

fn plan(
    path: &str,
    sources: BTreeMap<String, String>,
    needs: &Shapes,
    found: &Shapes,
    initializes: &dyn Fn(&str) -> bool,
) -> Result<Plan, CheckpointError> {
    // The arrays of the checkpoint, under the names of the model.
    let offered: Shapes =
        sources.iter().map(|(new, old)| (new.clone(), found[old].clone())).collect();
    let lacking = needs.keys().filter(|name| !offered.contains_key(*name));
    let from_scratch: Vec<String> = lacking.filter(|name| initializes(name)).cloned().collect();
    let initialized: BTreeSet<&str> = from_scratch.iter().map(String::as_str).collect();
    let required = needs.iter().filter(|(name, _)| !initialized.contains(name.as_str()));
    let required: Shapes = required.map(|(name, shape)| (name.clone(), shape.clone())).collect();
    let used: BTreeSet<&String> = sources.values().collect();
    let unused: Vec<String> = found.keys().filter(|name| !used.contains(name)).cloned().collect();
    check_fit(path, &required, &offered).map_err(|error| match error {
        CheckpointError::OtherModel(mismatch) => {
            CheckpointError::OtherModel(Mismatch { extra: unused.clone(), ..mismatch })
        }
        other => other,
    })?;
    Ok(Plan { sources, from_scratch, unused, ..Plan::default() })
}

/// The result of applying the rules to a model and a checkpoint.
#[derive(Debug)]
pub struct Assigned {
    /// Name in the model to name in the checkpoint.
    pub sources: BTreeMap<String, String>,
    /// Names in the model that a rule leaves initialized.
    pub dropped: BTreeSet<String>,
    /// Names in the model with a rule that has no effect.
    pub put_back: Vec<String>,
}

/// Applies the rules. The first rule that matches a name in the model decides about it; a name without a rule stays
/// as it is if the checkpoint has it. So does a name with a rule if the checkpoint has the name and no rule reads
/// it for another: T5X puts back every array that was not taken. A rule without a match in the model or in the
/// `rest` of the training state is an error, as in T5X.
///
/// # Errors
/// A pattern or replacement is not valid; the checkpoint lacks a source; a rule is not used.
pub fn assign<'a>(
    rules: &[Rule],
    model: impl IntoIterator<Item = &'a String>,
    rest: &[String],
    checkpoint: &BTreeSet<&str>,
) -> Result<Assigned, CheckpointError> {
    let patterns = rules.iter().map(compile).collect::<Result<Vec<_>, _>>()?;
    let mut is_used = vec![false; rules.len()];
    let (mut sources, mut dropped) = (BTreeMap::new(), BTreeSet::new());
    let mut ruled = Vec::new();
    for name in model {
        match first_match(&patterns, name)? {
            Some((at, captures)) => {
                is_used[at] = true;
                let Some(template) = &rules[at].1 else {
                    dropped.insert(name.clone());
                    continue;
                };
                let old = expand(template, &captures).map_err(CheckpointError::Assignment)?;
                if !checkpoint.contains(&old[..]) {
                    return Err(absent(&old, name, &rules[at].0, checkpoint));
                }
                ruled.push(name.clone());
                sources.insert(name.clone(), old);
            }
            None if checkpoint.contains(&name[..]) => {
                sources.insert(name.clone(), name.clone());
            }
            None => {}
        }
    }
    let mut taken: BTreeSet<String> = ruled.iter().map(|name| sources[name].clone()).collect();
    for name in rest {
        if let Some((at, captures)) = first_match(&patterns, name)? {
            is_used[at] = true;
            let template = rules[at].1.as_ref();
            taken.extend(template.and_then(|template| expand(template, &captures).ok()));
        }
    }
    let stays = |name: &String| checkpoint.contains(&name[..]) && !taken.contains(name);
    let put_back: Vec<String> = ruled.into_iter().filter(stays).collect();
    sources.extend(put_back.iter().map(|name| (name.clone(), name.clone())));
    let unused: Vec<String> = rules
        .iter()
        .zip(is_used)
        .filter(|(_, used)| !used)
        .map(|(rule, _)| quoted(&rule.0))
        .collect();
    match unused.is_empty() {
        true => Ok(Assigned { sources, dropped, put_back }),
        false => Err(CheckpointError::Assignment(format!(
            "no array of the model matches {}; a pattern must match a whole name, such as \
             `target/encoder/encoder_norm/scale`",
            unused.join(", ")
        ))),
    }
}

fn compile(rule: &Rule) -> Result<Regex, CheckpointError> {
    // Python's `fullmatch`.
    Regex::new(&format!(r"\A(?:{})\z", rule.0)).map_err(|error| {
        CheckpointError::Assignment(format!("`{}` is not a pattern: {error}", rule.0))
    })
}

fn first_match<'n>(
    patterns: &[Regex],
    name: &'n str,
) -> Result<Option<(usize, Captures<'n, str>)>, CheckpointError> {
    for (at, pattern) in patterns.iter().enumerate() {
        let found = pattern.captures(name).map_err(|error| {
            let reason = format!("`{}` is too hard to match: {error}", pattern.as_str());
            CheckpointError::Assignment(reason)
        })?;
        if let Some(captures) = found {
            return Ok(Some((at, captures)));
        }
    }
    Ok(None)
}

fn absent(old: &str, new: &str, pattern: &str, checkpoint: &BTreeSet<&str>) -> CheckpointError {
    let near = gimlet_gin::did_you_mean(old, checkpoint.iter().copied());
    CheckpointError::Assignment(format!(
        "pattern `{pattern}` takes `{new}` from `{old}`, which the checkpoint does not have; {near}"
    ))
}

/// Fills a template of Python's `re`: `\1`, `\g<1>`, `\g<name>` and `\\`.
fn expand(template: &str, captures: &Captures<'_, str>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = template;
    while let Some((literal, escape)) = rest.split_once('\\') {
        out.push_str(literal);
        let digits = escape.bytes().take(2).take_while(u8::is_ascii_digit).count();
        rest = if let Some(after) = escape.strip_prefix('\\') {
            out.push('\\');
            after
        } else if digits > 0 {
            out.push_str(group(template, &escape[..digits], captures)?);
            &escape[digits..]
        } else if let Some((name, after)) =
            escape.strip_prefix("g<").and_then(|named| named.split_once('>'))
        {
            out.push_str(group(template, name, captures)?);
            after
        } else {
            let reason = "after `\\` expected a group's number, `g<name>` or `\\`";
            return Err(format!("`{template}` is not a replacement: {reason}"));
        };
    }
    out.push_str(rest);
    Ok(out)
}

/// The text of a group; empty for a group that took no part in the match.
fn group<'c>(template: &str, name: &str, captures: &Captures<'c, str>) -> Result<&'c str, String> {
    let found = match name.parse::<usize>() {
        Ok(number) if number < captures.len() => captures.get(number),
        Ok(_) => return Err(format!("`{template}` names group {name}, which the pattern lacks")),
        Err(_) => captures.name(name),
    };
    Ok(found.map_or("", |found| found.as_str()))
}

fn quoted(pattern: &str) -> String {
    format!("`{pattern}`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::HEAD;

    const MODEL: [&str; 4] =
        ["state/param_states/a/m", "state/step", "target/encoder/a", "target/encoder/b"];

    fn run(rules: &[(&str, Option<&str>)], checkpoint: &[&str]) -> Result<String, String> {
        let rules: Vec<Rule> =
            rules.iter().map(|(p, r)| (p.to_string(), r.map(str::to_string))).collect();
        let model: Vec<String> = MODEL.iter().map(|name| name.to_string()).collect();
        let checkpoint = checkpoint.iter().copied().collect();
        let assigned =
            assign(&rules, &model, &[], &checkpoint).map_err(|error| error.to_string())?;
        Ok(assigned
            .sources
            .iter()
            .map(|(new, old)| format!("{new}<{old}"))
            .collect::<Vec<_>>()
            .join(" "))
    }

    #[test]
    fn the_notice_tells_what_was_dropped_from_what_is_lacking() {
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let notice = |from_scratch: &[&str], dropped: &[&str], without| {
            let (from_scratch, dropped) =
                (names(from_scratch), names(dropped).into_iter().collect());
            let plan = Plan { from_scratch, dropped, without, ..Plan::default() };
            plan.notices().join("; ")
        };
        let nothing = Without::Nothing;
        assert_eq!(notice(&[], &["a"], nothing), "");
        let said = notice(&["a", "b"], &["a", "b"], nothing);
        assert_eq!(said, "2 arrays are initialized, as assignment_map says");
        let said = notice(&["a", "b", "c"], &["b"], nothing);
        let expected = "3 arrays are initialized: 1 as assignment_map says, 2 that the checkpoint \
                        lacks (`a`, `c`)";
        assert_eq!(said, expected);
        let many = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "state/step"];
        let expected = "11 arrays are initialized: 1 since the checkpoint holds no optimizer state and \
                        no step, 10 that the checkpoint lacks (`a`, `b`, `c`, `d`, `e`, `f`, `g`, `h` \
                        and 2 more)";
        assert_eq!(notice(&many, &[], Without::State), expected);
    }

    #[test]
    fn a_head_that_is_not_read_is_named_with_its_meaning() {
        let unused = ["state/x", "target/a", HEAD].map(str::to_string).to_vec();
        let plan = Plan { unused, ..Plan::default() };
        let said = plan.notices().join("; ");
        assert!(said.starts_with("2 parameters are not read"), "{said}");
        assert!(said.contains("logits come from the embedding, which is another model"), "{said}");
        let dropped = BTreeSet::from([HEAD.to_string()]);
        let plan = Plan { unused: vec![HEAD.to_string()], dropped, ..Plan::default() };
        assert_eq!(plan.notices(), [""; 0], "a rule says so");
        let layout =
            "target/bert/encoder/layer/0/attention/self/sparse_self_attention/master_layout";
        let plan = Plan { unused: vec![layout.to_string()], ..Plan::default() };
        assert!(plan.notices()[0].contains("bert.ListedSparsityConfig.rows has them"));
    }

    #[test]
    fn names_without_a_rule_keep_their_name() {
        let found = run(&[], &["state/step", "target/encoder/a", "target/other"]);
        assert_eq!(found.unwrap(), "state/step<state/step target/encoder/a<target/encoder/a");
    }

    #[test]
    fn groups_rename_and_none_drops() {
        let rules = [("state/.*", None), (r"target/encoder/(.*)", Some(r"target/old_encoder/\1"))];
        let found = run(&rules, &["state/step", "target/old_encoder/a", "target/old_encoder/b"]);
        assert_eq!(
            found.unwrap(),
            "target/encoder/a<target/old_encoder/a target/encoder/b<target/old_encoder/b"
        );
    }

    /// The expected result is that of T5X's `apply_assignment_map`.
    #[test]
    fn a_name_that_the_checkpoint_has_and_no_rule_takes_is_put_back() {
        let rule = [("target/encoder/a", Some("target/encoder/b"))];
        let both = ["target/encoder/a", "target/encoder/b"];
        let kept = "target/encoder/a<target/encoder/a target/encoder/b<target/encoder/b";
        assert_eq!(run(&rule, &both).unwrap(), kept);
        let swapped = [rule[0], ("target/encoder/b", Some("target/encoder/a"))];
        let found = run(&swapped, &both).unwrap();
        assert_eq!(found, "target/encoder/a<target/encoder/b target/encoder/b<target/encoder/a");
        let found = run(&rule, &["target/encoder/b"]).unwrap();
        assert_eq!(found, "target/encoder/a<target/encoder/b target/encoder/b<target/encoder/b");
        let plan = Plan { put_back: vec!["target/encoder/a".to_string()], ..Plan::default() };
        assert!(
            plan.notices()[0].starts_with("assignment_map has no effect on `target/encoder/a`")
        );
    }

    #[test]
    fn the_first_rule_wins_and_two_names_may_share_a_source() {
        let rules = [("target/encoder/[ab]", Some("target/x")), (".*", None)];
        assert_eq!(
            run(&rules, &["target/x"]).unwrap(),
            "target/encoder/a<target/x target/encoder/b<target/x"
        );
    }

    #[test]
    fn rules_for_what_is_not_taken_are_no_mistake() {
        let model = ["target/encoder/a".to_string()];
        let checkpoint = BTreeSet::from(["target/encoder/a"]);
        let rules = [("state/param_states/.*".to_string(), None)];
        let slots = ["state/param_states/a/m".to_string()];
        let assigned = assign(&rules, &model, &slots, &checkpoint).unwrap();
        assert_eq!(assigned.sources.len(), 1);
        assert!(assign(&rules, &model, &[], &checkpoint).is_err());
    }

    #[test]
    fn patterns_and_templates_are_those_of_python() {
        let rules =
            [(r"target/(?P<side>\w+)/(?!b)(a)", Some(r"\g<side>/\g<2>0")), ("state.*", None)];
        let found = run(&rules, &["encoder/a0", "target/encoder/b"]);
        assert_eq!(found.unwrap(), "target/encoder/a<encoder/a0 target/encoder/b<target/encoder/b");
    }

    #[test]
    fn mistakes_are_named() {
        let check = |rules: &[(&str, Option<&str>)], expected: &str| {
            let message = run(rules, &["target/encoder/a"]).unwrap_err();
            assert!(message.contains(expected), "{message}");
        };
        // Python matches whole names.
        check(&[("encoder", None)], "no array of the model matches `encoder`");
        check(&[("(", None)], "`(` is not a pattern");
        check(
            &[("target/encoder/(.)", Some("target/\\1"))],
            "takes `target/encoder/a` from `target/a`",
        );
        check(&[("target/encoder/.", Some("\\1"))], "names group 1");
        check(&[("target/encoder/.", Some("\\w"))], "is not a replacement");
    }
}
