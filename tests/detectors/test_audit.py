"""Audit: which parts of a history look anomalous, by models that were not trained on them."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import tsadc
from tsadc.detectors.audit import FoldProgress, audit
from tsadc.detectors.audit.estimate import Estimate, grenander, share_above
from tsadc.detectors.audit.folds import plan
from tsadc.detectors.audit.judge import log_above
from tsadc.detectors.classical.robust_z import RobustZ
from tsadc.detectors.interval_id import interval_id
from tsadc.detectors.threshold import Normal
from tsadc.errors import ConfigError, DataError, TsadcNotice
from tsadc.series import Clock, Floats, Series

LENGTH = 20
NAMES = ("flow", "level", "power")


def noise(rows: int = 2000, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=(rows, 3))


def faulty() -> Series:
    """A hundred observations; rows 390 to 410 lie on both sides of the first border between folds."""
    values = noise()
    values[390:410, 1] += 12
    values[1503:1509, 0] -= 15
    clock = Clock(start=0, interval=60 * 10**9, dated=True)
    return Series(values, NAMES, clock, "line 1")


@pytest.fixture(scope="module")
def found() -> tsadc.Audit:
    return audit(RobustZ(length=LENGTH), faulty())


def test_folds_are_contiguous_and_their_neighbours_are_not_trained_on() -> None:
    planned = plan(RobustZ(length=LENGTH), noise())
    assert [(fold.judged[0], fold.judged[-1]) for fold in planned.folds] == [
        (0, 19), (20, 39), (40, 59), (60, 79), (80, 99),
    ]  # fmt: skip
    assert [(fold.left_out[0], fold.left_out[-1]) for fold in planned.folds] == [
        (0, 20), (19, 40), (39, 60), (59, 80), (79, 99),
    ]  # fmt: skip
    assert planned.fold_of.tolist() == np.repeat(np.arange(5), 20).tolist()
    (series,) = planned.training(planned.folds[1])
    missing = np.isnan(series.values).all(axis=1)
    assert np.flatnonzero(missing).tolist() == list(range(19 * LENGTH, 41 * LENGTH))
    assert np.array_equal(series.values[~missing], noise()[~missing])


def test_short_entities_take_turns_and_separate_observations_have_no_neighbours() -> None:
    short = {name: noise(3 * LENGTH, seed) for seed, name in enumerate("abcdefg")}
    planned = plan(RobustZ(length=LENGTH), short, 3)
    assert [sorted({planned.history.entity(i) for i in fold.judged}) for fold in planned.folds] == [
        [*"abcdefg"]
    ] * 3  # three observations each: one per fold
    planned = plan(RobustZ(length=LENGTH), short, 4)
    assert [sorted({planned.history.entity(i) for i in fold.judged}) for fold in planned.folds] == [
        ["a", "e"], ["b", "f"], ["c", "g"], ["d"],
    ]  # fmt: skip
    assert [series.entity for series in planned.training(planned.folds[0])] == ["b", "c", "d", "f", "g"]
    separate = noise(30 * LENGTH).reshape(30, LENGTH, 3)
    assert all(np.array_equal(fold.judged, fold.left_out) for fold in plan(RobustZ(length=LENGTH), separate).folds)


@pytest.mark.parametrize(
    ("folds", "rows", "error", "message"),
    [
        (1, 2000, ConfigError, "`folds` must be a whole number of at least 2, but got 1."),
        (2.0, 2000, ConfigError, "`folds` must be a whole number of at least 2, but got 2.0."),
        (2, 8 * LENGTH, DataError, "at least 5 observations of 20 rows outside each of the 2 folds .* leaves 3"),
        (9, 6 * LENGTH, DataError, "cannot be divided into 9 folds: .* only 1 fold has data"),
    ],
)
def test_bad_input_is_one_sentence(folds: Any, rows: int, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        audit(RobustZ(length=LENGTH), noise(rows), folds=folds)
    assert len(re.findall(r"[.!?](\s|$)", str(raised.value))) == 1


@pytest.mark.parametrize("detector", ["robust-z", RobustZ, None])
def test_what_is_no_detector_is_refused(detector: object) -> None:
    with pytest.raises(
        ConfigError, match=r"`detector` must be a detector, such as tsadc.Ensemble\(length=60\), but got"
    ):
        tsadc.audit(detector, np.zeros((400, 3)))


def test_the_estimate_of_a_falling_density_is_the_slope_of_the_least_concave_majorant() -> None:
    p = np.random.default_rng(0).beta(0.5, 1.2, size=40)
    x, y = np.concatenate([[0], np.sort(p), [1]]), np.concatenate([np.arange(41) / 40, [1]])
    edges, heights = grenander(p)
    for middle in (x[1:] + x[:-1]) / 2:
        before, after = np.flatnonzero(x < middle), np.flatnonzero(x > middle)
        slopes = (y[after] - y[before, None]) / (x[after] - x[before, None])
        assert heights[np.searchsorted(edges, middle) - 1] == pytest.approx(slopes.max(axis=1).min())
    assert (np.diff(edges) * heights).sum() == pytest.approx(1)


@pytest.mark.parametrize("positive", [True, False])
def test_the_logarithm_of_the_share_above_agrees_with_the_share(positive: bool) -> None:
    scores = np.random.default_rng(0).normal(size=300)
    normal = Normal(np.exp(scores) if positive else scores, 0.1)
    tried = np.array([-1.0, 0.0, 0.01, 0.5, 1.0, 2.0, 5.0])
    assert np.exp(log_above(normal, tried)) == pytest.approx([normal.above(score) for score in tried])
    assert np.isnan(log_above(normal, np.array([np.nan]))[0])
    assert np.isfinite(log_above(normal, np.array([1e8]))[0])


@pytest.mark.parametrize(("share", "distance"), [(0.02, 5.0), (0.1, 5.0), (0.2, 4.0)])
def test_probabilities_are_calibrated_if_normal_scores_are_gaussian(share: float, distance: float) -> None:
    predicted, true = [], []
    for seed in range(20):
        generator = np.random.default_rng(seed)
        anomalous = generator.random(1000) < share
        deviates = 0.3 + 1.4 * (generator.normal(size=1000) + distance * anomalous)
        estimate = Estimate.of(deviates, "auto", 0)
        predicted.append(estimate.probability(estimate.standardised(deviates)))
        true.append(anomalous)
    probability, anomalous = np.concatenate(predicted), np.concatenate(true)
    for low, high in ((0.0, 0.1), (0.7, 0.9), (0.9, 1.01)):
        chosen = (probability >= low) & (probability < high)
        assert abs(probability[chosen].mean() - anomalous[chosen].mean()) < 0.12
    assert probability.mean() == pytest.approx(share, abs=0.025)
    flagged = probability >= 0.5
    assert anomalous[flagged].mean() > 0.9
    assert flagged[anomalous].mean() > 0.8


def test_clean_deviates_are_hardly_ever_suspected() -> None:
    suspected = 0
    for seed in range(20):
        deviates = np.random.default_rng(seed).normal(size=500)
        estimate = Estimate.of(deviates, "auto", 0)
        suspected += int((estimate.probability(estimate.standardised(deviates)) >= 0.5).sum())
    assert suspected <= 20  # of 10,000


@pytest.mark.slow
@pytest.mark.parametrize(("observations", "recall"), [(50, 0.5), (100, 0.65), (500, 0.8)])
def test_probabilities_are_honest_with_few_observations(observations: int, recall: float) -> None:
    false, found, present = 0, 0, 0
    for seed in range(20):
        generator = np.random.default_rng(seed)
        normal = generator.normal(size=observations)
        for anomalous in (np.zeros(observations, dtype=bool), np.arange(observations) < observations // 10):
            deviates = normal + anomalous * generator.uniform(3, 7, observations)
            estimate = Estimate.of(deviates, "auto", 0)
            sure = estimate.probability(estimate.standardised(deviates)) > 0.9
            false += 0 if anomalous.any() else int(sure.sum())
            found, present = found + int((sure & anomalous).sum()), present + int(anomalous.sum())
    assert false == 0  # in 20 clean histories; by a Gaussian about 4 of 50 observations, and 3 of 100
    assert found / present > recall


def test_many_observations_are_judged_by_a_gaussian() -> None:
    z = np.linspace(-3, 5, 9)
    np.testing.assert_allclose(share_above(z, 100_000), norm.sf(z), rtol=0.03)
    assert share_above(np.array([-1.0, 0.0]), 50) == pytest.approx(norm.sf([-1.0, 0.0]), abs=1e-4)
    assert share_above(np.array([4.0]), 50)[0] > 100 * norm.sf(4.0)


def test_an_audit_finds_what_was_planted_and_whom_to_blame(found: tsadc.Audit) -> None:
    certain = sorted((s for s in found.suspects if s.probability >= 0.5), key=lambda s: s.interval.start)
    assert [(s.interval.start, s.interval.stop, s.blamed) for s in certain] == [
        (390, 410, ("level",)), (1503, 1509, ("flow",)),
    ]  # fmt: skip
    assert [s.probability for s in found.suspects] == sorted((s.probability for s in found.suspects), reverse=True)
    assert found.low <= found.share <= found.high
    assert 0.01 <= found.share <= 0.05
    (cells,) = found.suspected()
    assert cells.sum(axis=0).tolist() == [6, 20, 0]
    (rows,) = found.suspected_rows()
    assert np.flatnonzero(rows).tolist() == [*range(390, 410), *range(1503, 1509)]
    assert found.suspected(1.1)[0].sum() == 0


def test_the_tables_name_times_and_propose_decisions(found: tsadc.Audit) -> None:
    table, review = found.to_frame(), found.review()
    first = table[table["start"] == pd.Timestamp("1970-01-01 06:30")].iloc[0]
    assert (first["entity"], first["end"]) == ("line 1", pd.Timestamp("1970-01-01 06:50"))
    assert first["id"] == interval_id("line 1", *map(found.series[0].clock.tick, (390, 410)))
    assert first["variables"]["level"] > 0.9
    assert list(review) == [
        "id", "entity", "start", "end", "probability", "kind", "variables", "reason", "decision", "comment",
    ]  # fmt: skip
    assert set(review.loc[review["probability"] >= 0.5, "decision"]) == {"drop"}
    assert set(review.loc[review["probability"] < 0.5, "decision"]) <= {"keep"}


def test_the_models_with_and_without_the_suspects_are_compared(found: tsadc.Audit) -> None:
    suspected = int((found.probabilities >= 0.5).sum())
    assert found.without is not None
    # The middle of the rows 390 to 410 is the border of two observations, which keep half of their rows.
    assert found.whole.observations == found.without.observations == 100
    assert found.without.suspects_flagged == suspected == 3
    assert found.without.threshold < found.whole.threshold
    assert found.cost.models == 7
    assert found.cost.observations == (79, 78, 78, 78, 79)


def test_the_detector_stays_as_it_is_and_the_same_seed_gives_the_same_audit(found: tsadc.Audit) -> None:
    history = faulty()
    detector = RobustZ(length=LENGTH).fit(history)
    threshold, scores = detector.threshold_, detector.decision_scores_.copy()
    calls: list[FoldProgress] = []
    again = audit(detector, history, progress=lambda now: calls.append(now) if isinstance(now, FoldProgress) else None)
    assert detector.threshold_ == threshold
    assert np.array_equal(detector.decision_scores_, scores)
    assert np.array_equal(again.probabilities, found.probabilities)
    assert [suspect.id for suspect in again.suspects] == [suspect.id for suspect in found.suspects]
    assert [call.done for call in calls] == [1, 2, 3, 4, 5, 6, 7]


def test_no_score_comes_from_a_model_that_has_seen_the_observation(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[bytes]] = []
    fit, score = RobustZ._fit, RobustZ._score

    def rows(observations: Any) -> set[bytes]:
        raw = tsadc.series.Observations(observations.series, observations.places, observations.length)
        return {raw.read(i).tobytes() for i in range(len(raw))}

    def watched_fit(self: Any, train: Any, validation: Any, options: Any) -> Any:
        seen.append(rows(train) | rows(validation))
        return fit(self, train, validation, options)

    judged: list[set[bytes]] = []

    def watched_score(self: Any, observations: Any) -> Any:
        judged.append(rows(observations) & seen[-1])
        return score(self, observations)

    monkeypatch.setattr(RobustZ, "_fit", watched_fit)
    audit_of_folds = plan(RobustZ(length=LENGTH), faulty())
    for fold in audit_of_folds.folds:
        model = RobustZ(length=LENGTH).fit(audit_of_folds.training(fold))
        monkeypatch.setattr(RobustZ, "_score", watched_score)
        list(model._evidence(audit_of_folds.history.take(fold.judged), None))
        monkeypatch.setattr(RobustZ, "_score", score)
    assert len(judged) == 5
    assert all(not both for both in judged)


def test_the_ensemble_audits_several_entities() -> None:
    values = {name: noise(800, seed) for seed, name in enumerate("ab")}
    values["b"][205:235, 2] += 10
    found = tsadc.audit(tsadc.Ensemble(length=LENGTH, config=tsadc.Ensemble.Config(kernels=8)), values, folds=3)
    best = found.suspects[0]
    assert (best.entity, best.blamed) == ("b", ("variable_2",))
    assert best.interval.start <= 205
    assert best.interval.stop >= 235
    assert best.probability > 0.5
    assert found.probabilities.shape == found.folds.shape == (80,)
    assert found.share - 1e-9 < found.probabilities.mean() < found.share + 0.05


def test_notices_about_the_data_and_about_the_fit_are_given_once() -> None:
    values = noise(600)
    values[:, 1] = np.arange(600) // 100 % 2  # a state
    history = pd.DataFrame(values, columns=NAMES).assign(constant=1.0)
    with pytest.warns(TsadcNotice) as caught:
        audit(tsadc.Ensemble(length=LENGTH, kernels=2), history, folds=2)
    said = [str(warning.message) for warning in caught]
    assert len(said) == len(set(said)) == 2
    assert "constant" in said[0]
    assert said[1] == "Not judged, as they have at most 10 different values in the history: level, constant."
    with pytest.warns(TsadcNotice) as caught:
        tsadc.Ensemble(length=LENGTH, kernels=2).fit(history[["flow", "level", "power"]], clean=True)
    assert sum("Not judged" in str(warning.message) for warning in caught) == 1
