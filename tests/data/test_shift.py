import numpy as np
import pytest

from tsadc.data import prepare, smd
from tsadc.data.smd import FLOOR, shift, shift_table, shifts


def test_a_shift_is_measured_in_standard_deviations_of_the_train_part():
    generator = np.random.default_rng(0)
    train = generator.normal(0, 0.1, (2000, 4))
    test = train.copy()
    test[:, 0] += 0.5  # five standard deviations
    test[:, 1] = 3 * (test[:, 1] - test[:, 1].mean()) + train[:, 1].mean()
    found = shift("m", train, test)
    assert found.largest_mean == pytest.approx(0.5 / train[:, 0].std())
    assert found.largest_spread == pytest.approx(3)
    assert found.shifted == 0.5
    assert found.median_mean == pytest.approx(0, abs=1e-9)


def test_variables_that_hardly_move_do_not_make_a_shift():
    train, test = np.zeros((100, 2)), np.full((100, 2), 0.5 * FLOOR)
    found = shift("m", train, test)
    assert found.largest_mean == pytest.approx(0.5)
    assert found.largest_spread == 1
    assert found.shifted == 0


def write_machines(raw, offsets):
    for part in smd.PARTS:
        (raw / part).mkdir(parents=True)
    for name, offset in offsets.items():
        values = np.random.default_rng(1).random((50, 38))
        np.savetxt(raw / "train" / f"{name}.txt", 0.1 * values, delimiter=",")
        np.savetxt(raw / "test" / f"{name}.txt", 0.1 * values + offset, delimiter=",")
        (raw / "test_label" / f"{name}.txt").write_text("0\n" * 50)
        (raw / "interpretation_label" / f"{name}.txt").write_text("")
    return raw


def test_the_most_shifted_machine_comes_first(tmp_path):
    raw = write_machines(tmp_path / "raw", {"machine-1-1": 0.0, "machine-1-2": 0.4, "machine-1-3": 9.0})
    prepared = prepare("smd", raw, tmp_path / "out", length=25, leave_out=["machine-1-3"])
    every = shifts(prepared)
    assert [one.machine for one in every] == ["machine-1-2", "machine-1-1"]
    train = 0.1 * np.random.default_rng(1).random((50, 38))
    assert every[0].largest_mean == pytest.approx((0.4 / train.std(0)).max(), rel=1e-5)
    table = shift_table(every)
    assert table["variables shifted"].tolist() == ["100%", "0%"]


def test_a_machine_without_both_parts_has_no_shift(prepared_of):
    assert shifts(prepared_of({"machine-1-1": [(), ()]})) == []
