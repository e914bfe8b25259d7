//! L2: SeqIO's Evaluator and its loggers.
