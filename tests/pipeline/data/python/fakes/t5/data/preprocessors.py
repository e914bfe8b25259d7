"""Names of t5's preprocessors."""

import seqio
from seqio.preprocessors import rekey


@seqio.map_over_dataset
def summarize(x, article_key, summary_key):
  raise NotImplementedError


def span_corruption(dataset, sequence_length, output_features, mean_noise_span_length=3.0,
                    noise_density=0.15, input_feature_key="inputs", merge_examples_to_reduce_padding=True):
  raise NotImplementedError


def parse_tsv(line, field_names=None, field_delim="\t"):
  raise NotImplementedError


def select_random_chunk(dataset, output_features, max_length=None, feature_key="targets"):
  raise NotImplementedError
