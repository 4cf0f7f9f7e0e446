"""The ensemble: many cheap scores (views) of an observation, fused into one without labels.

Read in this order:

    features.py   measures an observation: sizes of steps, correlations, random convolutions, short windows
    linear.py     principal components and ridge regression, whose residuals are features
    views.py      compares the features with what is usual: one log score per view, all listed in its docstring
    fusion.py     weighs the log scores and adds them up
    scorer.py     the three together, for any detector; networks add their residuals as further views
    detector.py   the ensemble as a detector of its own

To add a view, define it in the table at the top of views.py, give the report a sentence for it (`show/words.py`), and

- if it scores single steps: add its name to `STEPWISE` (views.py) and its array to `cells` in
  `FeatureExtractor.__call__` (features.py), at the same position;
- if it scores windows: add its name to `KINDS` and its array to `Windows.features` (features.py), at the same position;
- if it scores whole observations: measure what it needs in `FeatureExtractor` and keep it in `Features` (features.py),
  add its name to `WHOLE`, a field to `FittedViews` and its line to each method there, including `state` and `restore`
  (views.py). If its features are fitted, they are saved by `state` and `restore` of `FeatureExtractor`.

Fusion and benchmarks need no change. Models saved before do not have the view and must be refitted.
"""
