"""Names of t5's postprocessors."""


def string_label_to_class_id(string_label, label_classes, default=-1, **unused_kwargs):
  raise NotImplementedError
