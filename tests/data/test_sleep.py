import numpy as np

from tsadc.data import sleep
from tsadc.data.dataset import Span

STAGES = ["awake", "N1", "N3", "REM", "not scored", "N3"]


def test_deep_sleep_is_normal_and_light_sleep_is_neither():
    indices = sleep.kept(STAGES)
    assert indices == [0, 2, 3, 5]
    reading = sleep.extract(np.zeros((4, 6, 2)), STAGES, indices)
    pieces = list(reading.pieces)
    assert [piece.spans for piece in pieces] == [(Span(0, 6, "awake"),), (), (Span(0, 6, "REM"),), ()]
    assert [piece.start for piece in pieces] == [0, 12, 18, 30]
    assert dict(reading.left_out) == {"stage N1": 1, "stage not scored": 1}


def test_epochs_beyond_the_end_are_not_observed():
    epochs = sleep.epochs_of(np.arange(10.0), [0, 2], 4)
    assert epochs[0].tolist() == [0, 1, 2, 3]
    assert epochs[1, :2].tolist() == [8, 9]
    assert np.isnan(epochs[1, 2:]).all()
