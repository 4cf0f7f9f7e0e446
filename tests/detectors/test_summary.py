"""A fit to the merged summaries of parts is the fit to the whole, to the bit, whatever the parts and their order."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

import tsadc
from machines import ENTITIES, LENGTH, MINUTE, NAMES, assert_same, learnt, limit, machine, machines, unfitted
from tsadc import Ensemble, Series
from tsadc.detectors import summary
from tsadc.detectors.classical.robust_z import RobustZ
from tsadc.detectors.parts import add_baselines, baselines, fit_summary, summarise
from tsadc.detectors.summary import Entity, Rule, Summary, merge
from tsadc.errors import ConfigError, DataError
from tsadc.io.read import read
from tsadc.io.reading import Reading
from tsadc.scale import LEVELS, Distribution
from tsadc.series import Clock


@pytest.fixture
def series() -> tuple[Series, ...]:
    return machines()


@pytest.fixture
def small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four entities of six observations fill the sample."""
    limit(monkeypatch, 20)


def divided(series: Sequence[Series], parts: Sequence[int]) -> list[list[Series]]:
    """Give each series to one of the parts; without those that stay empty."""
    groups: dict[int, list[Series]] = {}
    for item, part in zip(series, parts, strict=True):
        groups.setdefault(part, []).append(item)
    return list(groups.values())


@given(
    parts=st.lists(st.integers(0, 3), min_size=ENTITIES, max_size=ENTITIES),
    order=st.permutations(range(ENTITIES)),
    most=st.sampled_from([4000, *range(5, 60)]),
    kept=st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_the_summary_of_merged_parts_is_that_of_the_whole(parts, order, most, kept):
    """In any order and any tree of merges; the model depends on nothing else."""
    series = machines()
    with pytest.MonkeyPatch.context() as patch:
        limit(patch, most)
        whole = summarise(unfitted(), series, kept=kept).to_bytes()
        summaries = [summarise(unfitted(), own, kept=kept) for own in divided([series[i] for i in order], parts)]
        assert merge(summaries).to_bytes() == whole
        tree = summaries[0]
        for own in summaries[1:]:
            tree = merge([own, Summary.from_bytes(tree.to_bytes())])
        assert tree.to_bytes() == whole


@given(
    runs=st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=12),
    cuts=st.sets(st.integers(1, 100), max_size=4),
    left_out=st.integers(0, 12),
    most=st.sampled_from([1, 4000]),
)
@example(runs=[(9, True), (30, False), (9, True)], cuts={19, 20}, left_out=10, most=1)
@settings(max_examples=60, deadline=None)
def test_the_longest_gap_does_not_depend_on_the_parts(runs, cuts, left_out, most):
    """Rows without any value may be at the borders of parts, or between them, or a whole part."""
    measured = np.concatenate([np.full(count, is_measured) for count, is_measured in runs])
    values = np.where(measured, np.arange(len(measured)), np.nan)[:, None]
    rule = Rule(("a",), 4, 0.5, 0, most)
    clock = Clock(0, MINUTE, dated=True)
    stops = [*sorted(cut for cut in cuts if cut < len(values)), len(values)]
    joined, first = None, 0
    for stop in stops:
        start = first
        while first > 0 and start < min(first + left_out, stop - 1) and not measured[start]:
            start += 1
        part = Series(values[start:stop], ("a",), replace(clock, start=start * MINUTE), "pump")
        own = Entity.of(part, rule)
        joined, first = own if joined is None else joined.followed_by(own, rule), stop
    whole = Entity.of(Series(values, ("a",), clock, "pump"), rule)
    assert (joined.rows, joined.gap) == (whole.rows, whole.gap)
    assert (joined.leading, joined.trailing) == (whole.leading, whole.trailing)
    assert whole.gap == max((len(run) for run in "".join("_" if m else "x" for m in measured).split("_")), default=0)


@pytest.mark.parametrize(("most", "trailing"), [(4000, 7), (20, 0)])
def test_a_summary_of_an_earlier_version_can_be_read(series, monkeypatch, most, trailing):
    """It does not have the ends of a history, which are known only if its sample is all of it."""
    limit(monkeypatch, most)
    values = series[0].values.copy()
    values[-7:] = np.nan
    own = summarise(unfitted(), [replace(series[0], values=values), *series[1:]])
    arrays = load_arrays(own.to_bytes())
    about = json.loads(arrays["about"].tobytes())
    for entity in about["entities"]:
        del entity["leading"], entity["trailing"]
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    restored = Summary.from_bytes(save_arrays(arrays)).entities[series[0].entity]
    assert (restored.gap, restored.leading, restored.trailing) == (7, 0, trailing)


@pytest.mark.parametrize("most", [4000, 30, 20])
def test_a_fit_to_merged_parts_is_that_to_the_whole(series, monkeypatch, most):
    """With a sample that is everything, a part of each entity, and a part of some entities."""
    limit(monkeypatch, most)
    merged = merge([summarise(unfitted(), series[i::2]) for i in (1, 0)])
    assert merged.whole == (most == 4000)
    assert bool(merged.rest) == (most == 20)
    fitted, whole = fit_summary(unfitted(), merged), unfitted().fit(series)
    assert_same(fitted, whole)
    if most == 4000:
        np.testing.assert_array_equal(fitted.decision_scores_, whole.decision_scores_)


def test_a_second_pass_over_the_data_replaces_the_samples_of_the_rest(series, small_sample):
    merged = merge([summarise(unfitted(), iter(series[i::2]), kept=False) for i in (1, 0)])
    assert merged.rest
    assert not merged.series(merged.rest)
    fitted = fit_summary(unfitted(), merged)
    before = learnt(fitted)
    found = [baselines(fitted, item) for item in reversed(series) if item.entity in merged.rest]
    for name, array in learnt(fitted).items():  # unchanged so far
        np.testing.assert_array_equal(array, before[name])
    assert_same(add_baselines(fitted, found), unfitted().fit(series))


def test_rows_that_stay_in_their_file_give_the_same_model(series, small_sample, tmp_path: Path):
    arrays = [Series(np.asarray(item.values), NAMES, Clock(), item.entity) for item in series]
    for item in arrays:
        np.save(tmp_path / f"{item.entity}.npy", item.values)
        (tmp_path / f"{item.entity}.columns.txt").write_text("\n".join(NAMES))
    streamed = read(sorted(tmp_path.glob("*.npy")), Reading(stream=True))
    assert not isinstance(streamed[0].values, np.ndarray)
    in_memory = [Series(item.values, streamed[0].names, Clock(), item.entity) for item in arrays]
    assert_same(unfitted().fit(streamed), unfitted().fit(in_memory))


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_the_scores_of_all_observations_are_kept_by_a_fit_to_all(series, small_sample):
    whole = unfitted().fit(series)
    scores, others = whole.decision_function(series), ~whole._learnt_from
    assert len(whole.decision_scores_) == len(scores) > 1.5 * (~others).sum()
    np.testing.assert_array_equal(whole.decision_scores_[others], scores[others])


def test_the_threshold_does_not_depend_on_what_was_not_learnt_from(series, small_sample, tmp_path: Path):
    whole = unfitted().fit(series)
    part = fit_summary(unfitted(), summarise(unfitted(), series))
    assert len(part.decision_scores_) < len(whole.decision_scores_)
    whole.save(tmp_path / "model")
    for detector in (whole, tsadc.load(tmp_path / "model"), part):
        detector.set_threshold(method="tail", share=0.05)
    assert whole.threshold_ == tsadc.load(tmp_path / "model").set_threshold(method="tail", share=0.05).threshold_
    assert whole.threshold_ == part.threshold_


def test_the_quota_is_the_largest_that_fits():
    rule = Rule(NAMES, LENGTH, 0.5, 0, 1000)
    for cells in ([10, 2000], [400, 500, 600], [999], [5000], [1, 2, 997], [300] * 5, [41] * 20):
        quota = rule.quota(cells)
        within = sum(min(own, quota) for own in cells)
        assert within <= 1000
        assert within == sum(cells) or sum(min(own, quota + 1) for own in cells) > 1000
    assert rule.quota([500] * 100) == summary.MIN_QUOTA


def test_priorities_depend_on_seed_entity_and_time():
    ticks = np.arange(10_000) * MINUTE
    first = Rule(NAMES, LENGTH, 0.5, 0, 10)
    found = first.priorities("a", ticks)
    assert len(np.unique(found)) == len(ticks)
    assert abs(found.astype(np.float64).mean() / 2.0**63 - 1) < 0.03
    np.testing.assert_array_equal(first.priorities("a", ticks[5:]), found[5:])
    for other in (first.priorities("b", ticks), Rule(NAMES, LENGTH, 0.5, 1, 10).priorities("a", ticks)):
        assert abs(np.corrcoef(found.astype(np.float64), other.astype(np.float64))[0, 1]) < 0.05


class Counting:
    """Makes series one by one and counts the cells that are held at the same time."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[Series]:
        return (machine(number, rows=LENGTH * 50) for number in range(self.count))


def test_the_summary_does_not_grow_with_the_history(small_sample):
    sizes = []
    for count in (20, 60):
        merged = summarise(unfitted(), iter(Counting(count)), kept=False)
        sizes.append(sum(piece.values.size for piece in merged.series(merged.entities)))
        assert all(piece.values.base is None for piece in merged.series(merged.entities))  # nothing else is held
        assert sizes[-1] <= merged.rule.most * LENGTH * 3
    assert sizes[0] == sizes[1]
    kept = summarise(unfitted(), iter(Counting(20)))
    assert 0.9 < sum(piece.values.size for piece in kept.series(kept.entities)) / (20 * 6 * LENGTH * 3) <= 1


@given(
    first=st.integers(30, 4000),
    second=st.integers(30, 4000),
    third=st.integers(30, 4000),
    seed=st.integers(0, 1000),
    rounded=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_quantiles_of_joined_distributions_are_within_the_stated_error(first, second, third, seed, rounded):
    rng = np.random.default_rng(seed)
    columns = [rng.normal(loc, spread, size) for loc, spread, size in ((0, 1, first), (1, 3, second), (4, 0.5, third))]
    if rounded:
        columns = [np.round(column) for column in columns]
    parts = [Distribution.of([Series(column[:, None], ("a",))], levels=LEVELS) for column in columns]
    joined = parts[0].joined(parts[1]).joined(parts[2])
    every = np.sort(np.concatenate(columns))
    whole = Distribution.of([Series(every[:, None], ("a",))], levels=LEVELS)
    np.testing.assert_array_equal(joined.extent.low, whole.extent.low)
    np.testing.assert_array_equal(joined.extent.count, whole.extent.count)
    np.testing.assert_allclose([joined.mean, joined.deviation], [whole.mean, whole.deviation], rtol=1e-9)
    for level, value in zip(np.linspace(0, 1, LEVELS), joined.quantiles[:, 0], strict=True):
        low, high = np.searchsorted(every, [value, value], "left")[0], np.searchsorted(every, value, "right")
        error = max(low / len(every) - level, level - high / len(every), 0.0)
        allowed = 2 / (LEVELS - 1) + 3 / len(every)  # joined twice, and the rounding of ranks in three parts
        assert error <= allowed, (level, error)


def test_an_entity_in_two_parts_is_refused(series):
    parts = [summarise(unfitted(), series[:3]), summarise(unfitted(), series[2:])]
    with pytest.raises(DataError, match="machine-2 has rows in two parts, but an entity must lie in one"):
        merge(parts)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (Ensemble(length=30, config=Ensemble.Config(kernels=4)), "`length` is 24 and 30"),
        (Ensemble(length=LENGTH, seed=3, config=Ensemble.Config(kernels=4)), "`seed` is 0 and 3"),
    ],
)
def test_parts_with_other_settings_are_refused(series, other, expected):
    with pytest.raises(ConfigError, match=expected):
        merge([summarise(unfitted(), series[:3]), summarise(other, series[3:])])


@pytest.mark.parametrize(("came", "shown"), [(lambda own: [own, 3], "3"), (lambda own: own, "Summary"), (None, "None")])
def test_what_is_no_summary_is_refused(series, came, shown):
    with pytest.raises(DataError, match=f"`summaries` must be a list of what `summarise` returns, but got .*{shown}"):
        merge(came and came(summarise(unfitted(), series[:1])))


def test_parts_with_other_variables_or_clocks_are_refused(series):
    first = summarise(unfitted(), series[:3])
    renamed = Series(series[4].values, ("a", "b", "d"), series[4].clock, "other")
    with pytest.raises(DataError, match="the variables differ: c, d"):
        merge([first, summarise(unfitted(), renamed)])
    slower = Series(series[4].values, NAMES, Clock(0, 2 * MINUTE, dated=True), "other")
    with pytest.raises(DataError, match="the same sampling interval"):
        merge([first, summarise(unfitted(), slower)])


def test_other_detectors_and_other_settings_are_refused(series):
    with pytest.raises(ConfigError, match="robust-z cannot be fitted in parts"):
        summarise(RobustZ(length=LENGTH), series)
    with pytest.raises(ConfigError, match="robust-z cannot be fitted in parts"):
        RobustZ(length=LENGTH).fit(series, mergeable=True)
    with pytest.raises(ConfigError, match="ensemble with validation data of its own cannot"):
        unfitted().fit(series[:4], validation=series[4:], mergeable=True)
    with pytest.raises(ConfigError, match="made with other settings"):
        fit_summary(Ensemble(length=LENGTH, seed=1), summarise(unfitted(), series))


def test_what_is_no_summary_is_not_fitted_to(series):
    fitted = unfitted().fit(series)
    with pytest.raises(DataError, match=r"A Summary was expected, .* but got NoneType; a detector has one"):
        fit_summary(unfitted(), fitted.summary_)


def test_too_little_history_is_refused_as_by_fit(series):
    short = Series(series[0].values[:60], NAMES, series[0].clock, "short")
    with pytest.raises(DataError, match="Training needs at least 5 observations"):
        fit_summary(unfitted(), summarise(unfitted(), short))
