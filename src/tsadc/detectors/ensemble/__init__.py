"""The ensemble: many cheap scores (views) of an observation, fused into one without labels.

Read in this order:

    features.py   measures an observation: sizes of steps, correlations, random convolutions, short windows
    linear.py     principal components and ridge regression, whose residuals are features
    views.py      compares the features with what is usual: one log score per view, all listed in its docstring
    fusion.py     weighs the log scores and adds them up
    scorer.py     the three together, for any detector; networks add their residuals as further views
    detector.py   the ensemble as a detector of its own

To add a view:

1. Measure what it needs in `FeatureExtractor` and keep it in `Features` (features.py).
2. Add a field to `FittedViews` and its line to each method there, its name to `view_names_with`, and its definition to
   the table at the top (views.py).
3. Give the report a sentence for it (`show/words.py`).

Fusion, evidence, saving and benchmarks need no change. Models saved before do not know the view and must be refitted.
"""
