"""The ensemble: many cheap scores (views) of an observation, fused into one without labels.

Read in this order:

    views.py        lists all views; what every group of views has in common
    training.py     the training observations, and the folds by which their scores are cross-fitted
    features.py     measures whole observations and short windows, and standardises what was measured
    linear.py       principal components and ridge regression from a gram matrix
    peaks.py        views of single steps
    neighbours.py   views of whole observations
    windows.py      views of short windows
    rows.py         views of rows and ranges
    fusion.py       weighs the log scores and adds them up
    scorer.py       all views together, for any detector; networks add their residuals as further views
    detector.py     the ensemble as a detector of its own

To add a view, write a `ViewGroup` (or extend one), list it in the table of views.py, in `VIEWS` and in `_groups`
(scorer.py), and give the report a sentence for it (`show/words.py`). Fusion and benchmarks need no change. Models saved
before do not have the view and must be refitted.
"""
