import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import norm

from tsadc.config import build, to_mapping
from tsadc.detectors.threshold import (
    CUSTOMARY,
    LARGEST_SAMPLE,
    QUARTER,
    Contamination,
    Normal,
    Threshold,
    _allowed,
    _excess,
    calibrate,
    check,
    choose,
    explain,
    observations_per_day,
    refuse_unused,
    unused_setting,
)
from tsadc.errors import ConfigError
from tsadc.series import Clock

# Kept in its upper quarter are 6 and 7, on average 1.5 above the quartile 5. One is negative: no logarithms.
LADDER = np.arange(-1.0, 8.0)
MINUTES = Clock(0, 60 * 10**9, dated=True)
NONE = Contamination(0.0, 0.0, 0.0, False)
Config = Threshold.Config


def mixture(count: int, share: float, seed: int, apart: float = 6.0) -> np.ndarray:
    """Gaussian scores, the share given of them `apart` standard deviations higher."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=count) + apart * (generator.random(count) < share)


def pick(config: Threshold.Config, contamination: Contamination = NONE, clock: Clock = MINUTES) -> float:
    normal = Normal(LADDER, contamination.share if contamination.stated else 0.0)
    return choose(config, contamination, normal, (LADDER, np.arange(10.0), LADDER), clock, 60)


def test_shares_of_normal_scores_by_hand():
    normal = Normal(LADDER, 0.0)
    assert [normal.above(score) for score in (-9, -1, 1, 1.5, 5)] == [1, 1, 0.75, 0.6875, 0.25]
    assert normal.above(6.5) == pytest.approx(0.25 / math.e)
    assert normal.above(5 + 1.5 * math.log(250)) == pytest.approx(0.001)
    assert [normal.at(share) for share in (1, 0.75, 0.5, 0.25)] == [-1, 1, 3, 5]
    assert normal.at(0.25 / math.e) == pytest.approx(6.5)


def test_positive_scores_count_by_their_logarithm():
    normal = Normal(np.exp(LADDER), 0.0)
    assert [normal.above(math.exp(u)) for u in (-1, 1, 5)] == pytest.approx([1, 0.75, 0.25])
    assert normal.above(math.exp(6.5)) == pytest.approx(0.25 / math.e)
    assert normal.above(0.0) == normal.above(-3.0) == 1
    assert normal.at(0.25 / math.e) == pytest.approx(math.exp(6.5))
    assert math.isfinite(normal.at(1e-300))


def test_a_score_of_exactly_zero_does_not_change_the_scale():
    scores = np.random.default_rng(0).lognormal(0, 1.5, 200)
    _, normal = calibrate(scores, "auto", 0)
    scores[17] = 0.0
    contamination, with_zero = calibrate(scores, "auto", 0)
    assert contamination.share < 0.02
    threshold = choose(Config(), contamination, with_zero, (scores,) * 3, Clock(), 10)
    assert threshold == pytest.approx(choose(Config(), contamination, normal, (scores,) * 3, Clock(), 10), rel=0.05)
    # A zero counts as the smallest of the others.
    same = Normal(np.where(scores == 0, scores[scores > 0].min(), scores), 0.0)
    zero = Normal(scores, 0.0)
    assert [zero.above(one) for one in (0.1, 1, 9)] == [same.above(one) for one in (0.1, 1, 9)]
    assert zero.above(0.0) == 1
    assert zero.fence == same.fence


def test_scores_that_are_mostly_zero_count_as_they_are():
    assert Normal(np.array([0.0, 0, 0, 1, 2, 3]), 0.0).at(0.5) == 0.5
    # With one more that is positive, by the logarithm: the middle of 1, 1, 1, 1, 2, 3, 4 is 1.
    assert Normal(np.array([0.0, 0, 0, 1, 2, 3, 4]), 0.0).at(0.5) == 1
    assert Normal(np.array([-1.0, 2, 3, 4, 5]), 0.0).at(0.5) == 3


def test_what_is_contaminated_is_left_out_of_the_normal():
    clean, cleaned = Normal(LADDER, 0.0), Normal(np.concatenate([[100.0, 300.0, 200.0], LADDER]), 0.25)
    for score in (-1.0, 3.3, 6.5, 50.0):
        assert cleaned.above(score) == clean.above(score)
    middle, low = 0.75 * 0.5 * 11, 0.75 * 0.1587 * 11  # places among the 12, whose scores are less by 1
    assert cleaned.fence == pytest.approx(middle - 1 + 3 * (middle - low))


def test_what_may_be_normal_counts_as_normal_but_does_not_stretch_the_tail():
    scores = np.concatenate([LADDER, [9.0, 1e6, 1e6]])
    certain, doubtful = Normal(scores, 0.25), Normal.of(scores, Contamination(0.25, 1 / 12, 0.4, False))
    assert doubtful.kept.tolist() == [*range(-1, 8), 9.0, pytest.approx(3.125 + 6 * (4.125 - 0.75 * 0.1587 * 11))]
    assert certain.at(0.01) < doubtful.at(0.01) < 60


@given(
    arrays(np.float64, st.integers(5, 40), elements=st.floats(-1e6, 1e6)),
    st.floats(0, 0.5),
    st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=20),
)
def test_severity_and_return_period_rise_with_the_score(scores, share, asked):
    threshold = Threshold(0.0, 0.0, Normal(scores, share), per_week=168)
    found = [threshold.severity(score) for score in sorted(asked)]
    assert all(0 <= severity <= 100 for severity in found)
    assert found == sorted(found)
    assert threshold.severity(-np.inf) == pytest.approx(0, abs=1e-60)
    assert threshold.severity(np.inf) == 100
    periods = [threshold.return_period(score) for score in sorted(asked)]
    assert periods == sorted(periods)
    assert (threshold.return_period(-np.inf), threshold.return_period(np.inf)) == (1, 1e12)


@given(st.integers(0, 10**6), st.floats(1e-9, 0.999))
def test_the_share_above_a_score_and_the_score_above_which_a_share_lies(seed, share):
    normal = Normal(np.random.default_rng(seed).normal(size=50), 0.1)
    assert normal.above(normal.at(share)) == pytest.approx(share, rel=1e-6)


def test_severity_orders_what_lies_beyond_all_data():
    threshold = Threshold(0.0, 0.0, Normal(LADDER, 0.0), per_week=168)
    found = [threshold.severity(score) for score in (8, 10, 15, 25)]
    assert all(a < b < 100 for a, b in itertools.pairwise(found))
    # A tenth of the quarter above 5 scores higher than this: one observation in 40, 4.2 in a week.
    score = 5 + 1.5 * math.log(10)
    assert threshold.return_period(score) == pytest.approx(40)
    assert threshold.severity(score) == pytest.approx(100 * math.exp(-4.2))


@pytest.mark.parametrize(("factor", "offset"), [(1.0, 0.0), (1e-4, 0.0), (50.0, -700.0)])
def test_shares_of_new_data_mean_the_same_on_any_scale(factor, offset):
    history, new = mixture(20_000, 0.1, 0), np.random.default_rng(1).normal(size=20_000)
    contamination, normal = calibrate(factor * history + offset, "auto", 0)
    for share in (0.5, 0.1, 0.05):
        assert np.mean(factor * new + offset > normal.at(share)) == pytest.approx(share, abs=0.015)
    # An exponential is the longer tail: it does not promise too little.
    assert 0.002 < np.mean(factor * new + offset > normal.at(0.01)) < 0.012
    assert contamination.share == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0])
def test_scores_that_are_all_alike(value):
    contamination, normal = calibrate(np.full(20, value), "auto", 0)
    assert (contamination.share, contamination.low, contamination.high) == (0, 0, 0)
    assert normal.above(value - 1e-6) > normal.above(value) >= normal.above(value + 1e-6)
    assert choose(Config(), contamination, normal, (np.full(4, value),) * 3, Clock(), 10) == pytest.approx(
        value, abs=1e-6
    )


def test_what_stands_out_by_hand():
    even = np.linspace(-1, 1, 101)
    assert _excess(even) == 0
    assert _excess(np.sort(np.append(even, [50.0] * 10))) == 10 / 111
    # As many as lie as far below are what normal scores do, too.
    assert _excess(np.sort(np.concatenate([even, [50.0] * 10, [-50.0] * 4]))) == 6 / 115
    assert _excess(np.sort(np.concatenate([even, [-50.0] * 4]))) == 0
    # With the 30 farthest, the fence is at 3.3; without them, at 2.4.
    assert _excess(np.sort(np.concatenate([even, [50.0] * 30, [3.0] * 10]))) == 40 / 141
    assert _excess(np.sort(np.append(even, [50.0] * 99))) <= 0.5


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_the_interval_holds_the_share_that_stands_out(share):
    found = [Contamination.find(mixture(300, share, seed), "auto", seed) for seed in range(30)]
    truth = [float((mixture(300, share, seed) > 3).mean()) for seed in range(30)]
    assert np.mean([one.share for one in found]) == pytest.approx(share, abs=0.015)
    assert sum(one.low <= share <= one.high for one in found) >= 24  # of 30, of which 27 are meant to
    for one, true in zip(found, truth, strict=True):
        assert one.low <= one.share <= one.high
        assert not one.stated
        assert one.share == pytest.approx(true, abs=0.06)
    assert np.mean([one.high - one.low for one in found]) < 0.12


def test_where_nothing_stands_out_none_is_found():
    found = [Contamination.find(mixture(300, 0.0, seed), "auto", 0) for seed in range(20)]
    assert max(one.share for one in found) < 0.03
    assert sum(one.low == 0 for one in found) >= 18
    # What scores like the rest cannot be told from it: less is found than there is, never more.
    hidden = [Contamination.find(mixture(300, 0.2, seed, apart=1.0), "auto", 0) for seed in range(20)]
    assert np.mean([one.share for one in hidden]) < 0.05


def test_a_skew_that_positive_scores_have_is_no_contamination():
    scores = np.exp(0.6 * mixture(2000, 0.0, 5))
    assert Contamination.find(scores, "auto", 0).share < 0.01
    assert Contamination.find(np.append(scores, -1.0), "auto", 0).share > 0.03


def test_an_estimate_is_the_same_for_a_seed_and_quick_for_many_scores():
    scores = mixture(10 * LARGEST_SAMPLE, 0.1, 3)
    found = Contamination.find(scores, "auto", 7)
    assert found == Contamination.find(scores[::-1], "auto", 7)
    assert found.share == pytest.approx((scores > 3).mean(), abs=0.005)
    assert 0.005 < found.high - found.low < 0.03


def test_a_stated_share_is_taken():
    assert Contamination.find(LADDER, 0.3, 0) == Contamination(0.3, 0.3, 0.3, True)
    assert str(Contamination(0.3, 0.3, 0.3, True)) == "30 % (stated)"
    assert str(Contamination(0.0831, 0.0612, 0.1, False)) == "8.3 % (estimated; 90% interval 6.1 to 10.0 %)"


def test_quantile_by_hand():
    stated = Contamination(0.2, 0.2, 0.2, True)
    # Of 10 validation scores 0 to 9, two in the tail: place 0.8 * 9.
    assert pick(Config(method="quantile"), stated) == pytest.approx(7.2)
    # Only one would be in the tail: all scores are asked, -1 to 7, with place 0.9 * 8.
    assert pick(Config(), Contamination(0.1, 0.1, 0.1, True)) == pytest.approx(6.2)
    assert pick(Config(method="quantile"), Contamination(0.25, 0.1, 0.4, False)) == pytest.approx(0.75 * 9)


def test_tail_by_hand():
    assert pick(Config(method="tail", share=0.5)) == 3
    assert pick(Config(method="tail", share=0.1)) == pytest.approx(5 + 1.5 * math.log(2.5))
    # A stated contamination cleans: of 9 scores -1 to 5 are kept, with 4 and 5 above the quartile 3.5.
    stated = Contamination(0.2, 0.2, 0.2, True)
    assert pick(Config(method="tail", share=0.1), stated) == pytest.approx(3.5 + math.log(2.5))


def test_alarms_by_hand():
    # Observations of 60 minutes: 24 a day, of which 2.4 are a tenth.
    assert observations_per_day(MINUTES, 60) == 24
    assert observations_per_day(Clock(pace=10**9), 60) == 1440
    assert observations_per_day(Clock(), 60) is None
    for alarms in ("4.8/day", ".2 / hour", "33.6/week"):
        assert pick(Config(method="alarms", alarms=alarms)) == pytest.approx(5 + 1.5 * math.log(1.25))
    assert pick(Config(method="alarms", alarms="12/day")) == pytest.approx(3)


def test_a_short_history_promises_only_as_few_alarms_as_it_can():
    # Of 9 observations, none can promise fewer than one in nine.
    assert pick(Config()) == pick(Config(method="alarms", alarms="1/year")) == pytest.approx(5 + 1.5 * math.log(9 / 4))
    plenty = np.random.default_rng(0).normal(size=5000)
    normal = Normal(plenty, 0.0)
    hourly = choose(Config(), NONE, normal, (plenty,) * 3, MINUTES, 60)
    assert normal.above(hourly) * 168 == pytest.approx(1)  # observations of an hour: one in a week
    # A day that has only one observation: one a week would be a seventh of them.
    assert normal.above(choose(Config(), NONE, normal, (plenty,) * 3, MINUTES, 1440)) == pytest.approx(0.05)
    assert normal.above(choose(Config(), NONE, normal, (plenty,) * 3, Clock(), 60)) == pytest.approx(0.01)


def test_balanced_allows_a_quarter_unless_something_stands_out():
    def balanced(contamination: Contamination) -> float:
        scores = np.concatenate([LADDER, np.full(round(9 * contamination.share / (1 - contamination.share)), 50.0)])
        return choose(Config(method="balanced"), contamination, Normal(LADDER, 0.0), (scores,) * 3, MINUTES, 60)

    assert balanced(NONE) == 5
    assert balanced(Contamination(0.25, 0.04, 0.3, False)) == pytest.approx(5 + 1.5 * math.log(1 / 0.36))
    middle, low = 0.75 * 0.5 * 11, 0.75 * 0.1587 * 11  # places among the 12, whose scores are less by 1
    fence = middle - 1 + 3 * (middle - low)
    for low in (0.1, 0.25, 0.1 - 1e-6):  # never beyond the fence, however little is allowed
        assert balanced(Contamination(0.25, low, 0.4, False)) == pytest.approx(fence)


@pytest.mark.parametrize("alike", [0.0, 0.2, 0.4, 0.6, 0.8])
def test_what_is_allowed_has_the_highest_f1_on_average_over_what_is_unknown(alike):
    allowed = np.geomspace(0.001, 0.6, 300)
    prevalence = np.linspace(0.01, 0.99, 50)[:, None, None]
    apart = math.sqrt(2) * norm.ppf(np.linspace(0.75, 0.995, 50))[:, None]  # of Gaussians with that AUROC
    recall = alike + (1 - alike) * norm.sf(norm.isf(allowed) - apart)
    f1 = (2 * prevalence * recall / (prevalence * (1 + recall) + (1 - prevalence) * allowed)).mean(axis=(0, 1))
    asked = _allowed(Contamination(0.5, alike * CUSTOMARY, 0.5, False))
    assert np.interp(asked, allowed, f1) > f1.max() - 0.002
    assert _allowed(Contamination(0.5, 0.4, 0.5, False)) == 0


def test_the_method_in_force():
    assert Config().resolve(stated=True) == "quantile"
    assert Config().resolve(stated=False) == "alarms"
    assert Config(method="balanced").resolve(stated=True) == "quantile"
    assert Config(method="balanced").resolve(stated=False) == "balanced"
    for method in ("quantile", "tail", "alarms"):
        assert Config(method=method).resolve(stated=True) == Config(method=method).resolve(stated=False) == method


def test_settings_come_back_from_plain_data():
    config = Config(method="alarms", share=0.05, alarms="3/day")
    assert build(Config, to_mapping(config)) == config
    assert to_mapping(Config()) == {"method": "auto", "alarms": "1/week", "share": 0.01}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"method": "best"},
            "`method` must be one of 'auto', 'alarms', 'balanced', 'tail', 'quantile', but got 'best'",
        ),
        ({"share": 0}, "`share` must be between 0 and 1, both excluded, but got 0.0"),
        ({"share": 1}, "`share` must be between"),
        ({"share": "some"}, "`share` must be a finite number, but got 'some'"),
        ({"alarms": "0/day"}, "`alarms` must be a number per period such as 1/week or 2/day, but got '0/day'"),
        ({"alarms": "2 daily"}, "`alarms` must be a number per period such as 1/week or 2/day, but got '2 daily'"),
        ({"alarms": "-1/day"}, "`alarms` must be a number per period"),
        ({"per_day": 1}, '`per_day` is now `alarms`; write "2/day" for 2'),
    ],
)
def test_settings_that_are_wrong(settings, expected):
    with pytest.raises(ConfigError, match=expected):
        build(Config, settings)


def test_alarms_need_days_with_enough_observations():
    check(Config(method="alarms", alarms="23/day"), False, MINUTES, 60)
    check(Config(), False, Clock(), 60)
    check(Config(alarms="1/day"), True, Clock(), 60)
    check(Config(method="tail"), False, Clock(), 60)
    for asked in (Config(method="alarms"), Config(alarms="1/day")):
        with pytest.raises(ConfigError, match=r"counts alarms per time, but the data has no timestamps"):
            check(asked, False, Clock(), 60)
    with pytest.raises(
        ConfigError, match=r"must be below 24/day, the number of observations of 60 rows in a day, but got 1/hour\."
    ):
        check(Config(method="alarms", alarms="1/hour"), False, MINUTES, 60)


@pytest.mark.parametrize(
    ("given", "stated", "needed", "came"),
    [
        ({"alarms": "1/week", "method": "balanced"}, False, "alarms", "balanced"),
        ({"alarms": "2/day"}, True, "alarms", "quantile"),
        ({"share": 0.01}, True, "tail", "quantile"),
        ({"share": 0.01, "method": "alarms"}, False, "tail", "alarms"),
        ({"alarms": "2/day", "method": "tail"}, False, "alarms", "tail"),
    ],
)
def test_a_setting_that_does_not_apply_to_the_method_is_refused(given, stated, needed, came):
    with pytest.raises(
        ConfigError, match=f"only applies to `threshold.method={needed}`, but the method is {came}; set "
    ):
        refuse_unused(build(Config, given), stated, given)


def test_a_setting_that_applies_or_is_left_from_before_is_not_refused():
    left = Config(method="tail", share=0.01, alarms="2/day")
    refuse_unused(left, False, {"method": "tail", "share": 0.01})
    refuse_unused(left, True, {})
    refuse_unused(Config(method="alarms"), True, {"alarms": "1/day"})
    refuse_unused(Config(), False, {"alarms": "1/day"})
    assert unused_setting(Config(), True) == unused_setting(Config(alarms="1/day"), False) == ""
    assert unused_setting(left, False).startswith("`threshold.alarms` only applies to `threshold.method=alarms`")


def test_an_estimate_at_its_ceiling_is_doubted():
    half = np.concatenate([np.zeros(49), np.linspace(5, 50, 51)])
    found = Contamination.find(half + np.linspace(-1, 0, 100), "auto", 0)
    assert found.share == 0.5
    assert found.doubt.startswith("An estimate of 50% is the upper limit and says nothing")
    assert Contamination(0.49, 0.4, 0.5, False).doubt == ""
    assert Contamination(0.5, 0.5, 0.5, True).doubt == ""


def test_a_threshold_in_words():
    normal, stated = Normal(LADDER, 0.0), Contamination(0.1, 0.1, 0.1, True)

    def words(config: Threshold.Config, above: float, clock: Clock = MINUTES, of: Contamination = NONE) -> str:
        return explain(config, of, normal, normal.at(above), clock, 60)

    balanced, alarms = Config(method="balanced"), Config(method="alarms", alarms="1/week")
    expected = "about 25 % of normal observations expected above it (method balanced)"
    assert words(balanced, QUARTER, Clock()) == expected
    assert words(Config(), 0.0123, of=stated) == "about 2.1 false alarms a week expected per entity (method quantile)"
    assert words(balanced, QUARTER, Clock(pace=10**9)).startswith("about 15 false alarms an hour")
    assert words(alarms, 1 / 168) == "about 1 false alarm a week expected per entity (method alarms)"
    assert words(alarms, 1 / 9) == (
        "about 2.7 false alarms a day expected per entity (method alarms; 1/week was wanted, but 9 normal observations "
        "of history cannot promise fewer)"
    )
