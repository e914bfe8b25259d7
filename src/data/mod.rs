//! L2: SeqIO tasks, from files to batches.
