//! The decoder's inputs, shifted from its targets.

/// The decoder's inputs for these targets: shifted right by one, with `bos_id` at the beginning and
/// wherever `sequence_id` changes.
pub fn make_autoregressive_inputs(
    targets: &[i32],
    sequence_id: Option<&[i32]>,
    bos_id: i32,
) -> Vec<i32> {
    shifted(targets, sequence_id, bos_id).collect()
}

/// The same, one by one.
pub(super) fn shifted<'a>(
    targets: &'a [i32],
    sequence_id: Option<&'a [i32]>,
    bos_id: i32,
) -> impl Iterator<Item = i32> + 'a {
    let begins = move |i: usize| i == 0 || sequence_id.is_some_and(|ids| ids[i] != ids[i - 1]);
    (0..targets.len()).map(move |i| if begins(i) { bos_id } else { targets[i - 1] })
}
