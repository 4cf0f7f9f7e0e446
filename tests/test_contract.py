"""What `tsadc.detectors.base` promises of scores, checked for every registered detector, and for those with a network
with either scoring. The other promises: `test_contract_*.py`."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

from contract import (
    BLIND,
    LENGTH,
    NAMES,
    OWN,
    assert_same,
    every,
    every_scoring,
    every_that_looks,
    fitted,
    fresh,
    waves,
)
from tsadc.detectors.events import Events
from tsadc.detectors.store import load
from tsadc.errors import DataError, TsadcNotice
from tsadc.windows import runs


@every_scoring
def test_scores_are_finite_and_contributions_lie_where_something_was_measured(name):
    data = fresh()
    result = fitted(name).detect(data)
    measured = np.isfinite(data["one"].to_numpy())
    assert np.isfinite(result.observations["score"]).all()
    np.testing.assert_array_equal(np.isfinite(result.timeline["score"]), measured.any(axis=1))
    blame = result.variables.to_numpy()
    np.testing.assert_array_equal(np.isfinite(blame), measured)
    assert (blame[measured] >= 0).all()
    if result.expected is not None:
        assert np.isfinite(result.expected.to_numpy()[measured]).all()


@every_that_looks
@pytest.mark.parametrize("place", [1, 4])
def test_a_planted_anomaly_ranks_highest_and_is_found_where_it_is(name, place):
    frame = waves(6 * LENGTH, 3)
    first = place * LENGTH + 20
    frame.iloc[first : first + 4, 2] += 30.0
    result = fitted(name).detect({"one": frame})
    assert result.observations["score"].argmax() == place
    assert result.observations["anomalous"][place]
    worst = result.worst(1).iloc[0]
    assert worst["start"] < frame.index[first + 4]
    assert worst["end"] > frame.index[first]
    assert next(iter(worst["variables"])) == "level"


@every_scoring
def test_a_saved_model_gives_the_same_numbers(name, tmp_path):
    detector = copy.deepcopy(fitted(name)).adapt({"three": waves(3 * LENGTH, 4, offset=-7.0)})
    detector.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.settings == detector.settings
    assert again.labels_.tobytes() == detector.labels_.tobytes()
    data = {**fresh(), "three": waves(2 * LENGTH, 5, offset=-7.0)}
    assert_same(again.detect(data), detector.detect(data))


@every_scoring
def test_a_copy_gives_the_same_numbers(name):
    expected = fitted(name).detect(fresh())
    assert_same(copy.deepcopy(fitted(name)).detect(fresh()), expected)
    assert_same(pickle.loads(pickle.dumps(fitted(name))).detect(fresh()), expected)


@every_scoring
def test_a_score_does_not_depend_on_what_else_is_asked_for(name):
    data = {"one": waves(5 * LENGTH, 7), "two": waves(4 * LENGTH, 8, offset=40.0)}
    together = fitted(name).detect(data)
    for entity, frame in data.items():
        alone = [fitted(name).detect({entity: frame.iloc[i : i + LENGTH]}) for i in range(0, len(frame), LENGTH)]
        for kind in ("timeline", "observations"):
            joined = pd.concat([getattr(one, kind) for one in alone], ignore_index=True)
            own = getattr(together, kind).query("entity == @entity").reset_index(drop=True)
            if kind == "timeline":  # events on both sides of a border become one if they are close
                merge = Events.of(fitted(name).settings.event, fitted(name).memory_, LENGTH).merge
                flags = joined["anomalous"].to_numpy().copy()
                for start, stop in runs(~flags):
                    if start > 0 and stop < len(flags) and stop - start < merge:
                        flags[start:stop] = True
                joined["anomalous"] = flags
            if kind == "timeline" and fitted(name).row_cuts > 1:  # observations that overlap these score rows, too
                joined, own = joined.drop(columns="score"), own.drop(columns="score")
            pd.testing.assert_frame_equal(joined, own, check_exact=True)
        blame = pd.concat([one.variables for one in alone])
        pd.testing.assert_frame_equal(blame, together.variables.loc[[entity]], check_exact=True)


@every
def test_a_request_may_begin_amid_an_observation(name):
    frame = waves(5 * LENGTH, 10)
    whole = fitted(name).detect({"one": frame}).observations
    for late in (10, 24, 30):
        left_out = late > LENGTH // 2
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = fitted(name).detect({"one": frame.iloc[late:]})
        assert [one.category for one in caught] == [TsadcNotice] * left_out
        assert found.left_out == int(left_out)
        rest = found.observations.iloc[0 if left_out else 1 :].reset_index(drop=True)
        pd.testing.assert_frame_equal(rest, whole.iloc[1:].reset_index(drop=True), check_exact=True)
        if not left_out:
            partial = found.observations.iloc[0]
            assert partial["coverage"] == (LENGTH - late) / LENGTH
            assert (partial["start"], partial["end"]) == (frame.index[late], frame.index[LENGTH])
            assert np.isfinite(partial["score"])


@every_scoring
def test_a_partial_observation_at_the_end(name):
    frame = waves(3 * LENGTH, 11)
    found = fitted(name).detect({"one": frame.iloc[: 2 * LENGTH + 24]})
    assert found.observations["coverage"].tolist() == [1.0, 1.0, 0.5]
    assert np.isfinite(found.timeline["score"]).all()
    with pytest.warns(
        TsadcNotice, match="1 observation with values in less than half of the rows was left out: 'one' from "
    ):
        less = fitted(name).detect({"one": frame.iloc[: 2 * LENGTH + 23]})
    assert (len(less.observations), less.left_out) == (2, 1)
    assert np.isnan(less.timeline["score"].iloc[2 * LENGTH :]).all()
    assert not less.timeline["anomalous"].iloc[2 * LENGTH :].any()
    with pytest.raises(DataError, match="at least half of its 48 rows have values, but 'one' has 23 rows"):
        fitted(name).detect({"one": frame.iloc[:23]})


@every_scoring
def test_what_is_stored_under_a_gap_does_not_matter(name):
    data = fresh()
    values = data["one"].to_numpy().copy()
    values.view(np.uint64)[np.isnan(values)] |= np.uint64(1 << 63) | np.uint64(12345)  # another NaN, bit by bit
    other = {"one": pd.DataFrame(values, index=data["one"].index, columns=NAMES)}
    assert values.tobytes() != data["one"].to_numpy().tobytes()
    assert_same(fitted(name).detect(other), fitted(name).detect(data))


@every_scoring
def test_an_observation_of_which_little_was_measured(name):
    rng = np.random.default_rng(14)
    frame = waves(4 * LENGTH, 14)
    frame.iloc[:, 1] = np.nan
    frame = frame.mask(rng.random(frame.shape) < 0.6)
    frame.iloc[LENGTH : LENGTH + 24] = np.nan
    frame.iloc[LENGTH + 24 : 2 * LENGTH, 0] = 0.5
    result = fitted(name).detect({"one": frame})
    assert len(result.observations) == 4
    assert np.isfinite(result.observations["score"]).all()
    np.testing.assert_array_equal(np.isnan(result.variables.to_numpy()), frame.isna().to_numpy())


@every_scoring
@pytest.mark.parametrize("wild", [1e12, -1e80, 1e300])
def test_a_wild_value_gives_a_finite_score(name, wild):
    frame = waves(3 * LENGTH, 15)
    frame.iloc[60, 3] = wild
    result = fitted(name).detect({"one": frame})
    assert np.isfinite(result.observations["score"]).all()
    if name not in BLIND and not name.endswith(OWN):  # a mean over an observation need not tell
        assert result.observations["score"].argmax() == 1
        assert result.variables.iloc[60].argmax() == 3
