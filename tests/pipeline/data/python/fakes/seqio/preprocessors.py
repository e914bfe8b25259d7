"""Names of SeqIO's preprocessors."""


def rekey(dataset, key_map=None):
  raise NotImplementedError


def tokenize(dataset, output_features, copy_pretokenized=True, with_eos=False):
  raise NotImplementedError


def append_eos_after_trim(dataset, output_features, sequence_length=None):
  raise NotImplementedError
