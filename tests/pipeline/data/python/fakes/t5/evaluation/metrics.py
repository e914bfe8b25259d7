"""Names of t5's metrics, and the closures that it makes."""


def accuracy(targets, predictions):
  raise NotImplementedError


def all_match(targets, predictions):
  raise NotImplementedError


def sklearn_metrics_wrapper(metric_str, metric_dict_str=None, metric_post_process_fn=None, **metric_fn_kwargs):
  def fn(targets, predictions):
    return metric_str, metric_dict_str, metric_post_process_fn, metric_fn_kwargs
  return fn


def mean_multiclass_f1(num_classes, **metric_fn_kwargs):
  return sklearn_metrics_wrapper(
      "fbeta_score", metric_dict_str="mean_%dclass_f1" % num_classes,
      metric_post_process_fn=lambda x: 100 * x, beta=1, labels=range(num_classes), average="macro",
      **metric_fn_kwargs)


def mean_group_metric(metric_fn, group_key="group", value_key="value", return_subgroup_scores=False):
  def my_metric(targets, predictions):
    return metric_fn, group_key, value_key, return_subgroup_scores
  return my_metric
