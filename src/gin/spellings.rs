//! Spellings in a text whose names are not resolved: `f.x` and `lib.f.x` may be one parameter,
//! whose last binding counts. So they are printed in the order of the bindings.

use std::collections::BTreeMap;

use super::config::Config;
use super::print::Section;
use super::source::Span;

/// Orders the sections whose names may mean one configurable and that bind the same parameter; the others
/// keep their places.
pub(super) fn in_order<'a>(sections: Vec<Section<'a>>, config: &Config) -> Vec<Section<'a>> {
    let mut alike: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for (index, section) in sections.iter().enumerate() {
        let key = (section.scope, section.schema.short_name());
        alike.entry(key).or_default().push(index);
    }
    // The group of each section, named by its first one.
    let mut group: Vec<usize> = (0..sections.len()).collect();
    for indices in alike.into_values().filter(|indices| indices.len() > 1) {
        for (at, &one) in indices.iter().enumerate() {
            for &other in &indices[at + 1..] {
                if compete(&sections[one], &sections[other]) {
                    let (into, from) = (group[one], group[other]);
                    for &joined in &indices {
                        if group[joined] == from {
                            group[joined] = into;
                        }
                    }
                }
            }
        }
    }
    let mut groups: BTreeMap<usize, Vec<Section<'a>>> = BTreeMap::new();
    for (section, group) in sections.into_iter().zip(group) {
        groups.entry(group).or_default().push(section);
    }
    groups.into_values().flat_map(|group| as_bound(group, config)).collect()
}

/// Whether both names may mean one configurable, and both bind the same parameter.
fn compete(one: &Section<'_>, other: &Section<'_>) -> bool {
    let ends =
        |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.ends_with('.'));
    let (a, b) = (one.schema.name, other.schema.name);
    (ends(a, b) || ends(b, a))
        && one.arguments.iter().any(|(name, _)| other.arguments.iter().any(|(o, _)| o == name))
}

/// Returns the bindings of a group in the order of the text, a section for each stretch of one
/// name.
fn as_bound<'a>(group: Vec<Section<'a>>, config: &Config) -> Vec<Section<'a>> {
    if group.len() == 1 {
        return group;
    }
    let place = |section: &Section<'a>, argument: &str| -> Span {
        config.bindings[&(section.scope.to_string(), section.schema.name)][argument].key
    };
    let mut lines: Vec<_> = group
        .iter()
        .flat_map(|section| section.arguments.iter().map(move |argument| (section, *argument)))
        .collect();
    lines.sort_by_key(|(section, (name, _))| place(section, name));
    let mut out: Vec<Section<'a>> = Vec::new();
    for (section, argument) in lines {
        match out.last_mut().filter(|last| last.schema.name == section.schema.name) {
            Some(last) => last.arguments.push(argument),
            None => out.push(Section { arguments: vec![argument], ..*section }),
        }
    }
    out
}
