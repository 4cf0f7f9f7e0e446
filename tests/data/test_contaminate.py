from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from data.test_smd import write_machine
from tsadc.data import ContaminationSpec, contaminate, prepare
from tsadc.data.contaminate import largest_size
from tsadc.errors import ConfigError, DataError, TsadcNotice

KINDS = ("u", "v", "w", "x", "y")
SLOW = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture
def patients(prepared_of):
    """30 entities with 10 normal observations and one of every kind, one of them with two kinds at once."""
    return prepared_of({f"p{i:02d}": [()] * 10 + [(kind,) for kind in KINDS] + [("u", "v")] for i in range(30)})


def kinds_of(draw, part):
    labels = draw.prepared.labels
    return {kind for entity, indices in draw.parts[part].items() for i in indices for kind in labels[entity][i].kinds}


@SLOW
@given(st.floats(0.05, 0.4), st.integers(1, 5), st.integers(0, 3))
def test_shares_kinds_and_entities_are_as_asked_for(patients, eta, kappa, seed):
    draw = contaminate(patients, ContaminationSpec(eta=eta, kappa=kappa, seed=seed, shares=(0.4, 0.4, 0.2)))
    for part in ("train", "validation"):
        count, anomalous = draw.count(part)
        assert abs(anomalous - eta * count) <= 0.5
        assert kinds_of(draw, part) == set(draw.kinds)
    assert len(draw.kinds) == kappa
    assert kinds_of(draw, "test") == set(KINDS)
    entities = [entity for part in draw.parts.values() for entity in part]
    assert len(entities) == len(set(entities))


@SLOW
@given(st.floats(0, 1), st.integers(0, 30), st.integers(0, 30))
def test_as_many_as_the_share_allows(eta, normal, anomalous):
    def possible(n):
        return round(eta * n) <= anomalous and n - round(eta * n) <= normal

    most = largest_size(eta, normal, anomalous)
    assert possible(most)
    assert not any(possible(n) for n in range(most + 1, normal + anomalous + 2))


def test_a_clean_draw(patients):
    draw = contaminate(patients, ContaminationSpec(eta=0, kappa=0))
    assert draw.kinds == ()
    assert draw.count("train")[1] == draw.count("validation")[1] == 0
    assert draw.count("test")[1] > 0
    assert contaminate(patients, ContaminationSpec(eta=0)).parts == draw.parts


def test_fewer_kinds_are_some_of_more(patients):
    drawn = [
        contaminate(patients, ContaminationSpec(eta=0.1, kappa=kappa, seed=4, shares=(0.4, 0.4, 0.2)))
        for kappa in range(1, 6)
    ]
    for fewer, more in pairwise(drawn):
        assert more.kinds[: len(fewer.kinds)] == fewer.kinds
        assert fewer.parts["test"] == more.parts["test"]


def test_a_smaller_draw_is_part_of_a_larger_one(patients):
    small, large = (contaminate(patients, ContaminationSpec(eta=0.25, train_size=size)) for size in (40, 80))
    assert small.count("train") == (40, 10)
    assert large.count("train") == (80, 20)
    pairs = [{(e, i) for e, indices in draw.parts["train"].items() for i in indices} for draw in (small, large)]
    assert pairs[0] < pairs[1]


def test_several_kinds_at_once_need_all_of_them(patients):
    for seed in range(5):
        draw = contaminate(patients, ContaminationSpec(eta=0.1, kappa=1, seed=seed, shares=(0.4, 0.4, 0.2)))
        labels = patients.labels
        drawn = Counter(labels[entity][i].kinds for entity, indices in draw.parts["train"].items() for i in indices)
        assert set(drawn) == {(), draw.kinds}


def test_the_series_are_the_observations_drawn(patients):
    draw = contaminate(patients, ContaminationSpec(eta=0.2, train_size=50))
    values = {
        value for entity, indices in draw.parts["train"].items() for value in 1000 * int(entity[1:]) + np.array(indices)
    }
    series = draw.series("train")
    assert {value for one in series for value in np.unique(one.values)} == values
    split = draw.split()
    assert [one.entity for one in split.train] == [one.entity for one in series]
    assert not {one.entity for one in split.train} & {one.entity for one in split.test.series}
    assert len(split.test.truth) == sum(
        len(patients.labels[entity][i].kinds) for entity, indices in draw.parts["test"].items() for i in indices
    )


def test_the_test_part_can_have_a_share_too(patients):
    draw = contaminate(patients, ContaminationSpec(eta=0.2, test_eta=0.6, test_size=40))
    assert draw.count("test") == (40, 24)


def test_the_test_part_can_be_one_of_the_archive(patients):
    with pytest.raises(DataError, match="no observations of its part 'labelled'"):
        contaminate(patients, ContaminationSpec(test_part="labelled"))


def test_a_plain_draw_shows_every_kind(patients):
    draw = contaminate(patients)
    assert set(draw.kinds) == kinds_of(draw, "train") == set(KINDS)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kappa": 6}, "has 5 kinds of anomaly in both .* but 6 were requested"),
        ({"train_size": 5000}, "too few for 5000 with a share of 0.2"),
        # round(0.2 * 23) = round(4.6) = 5, round(0.2 * 22) = round(4.4) = 4
        ({"train_size": 10}, "is 2, too few to show 5 kinds of anomaly, which takes 23 observations in that part; get"),
    ],
)
def test_what_cannot_be_drawn_is_refused(patients, spec, message):
    with pytest.raises(DataError, match=message):
        contaminate(patients, ContaminationSpec(**spec))


@pytest.mark.parametrize(
    "spec", [{"eta": 0.5}, {"eta": -0.1}, {"kappa": -1}, {"kappa": 0}, {"train_size": 0}, {"test_size": 5}]
)
def test_settings_out_of_range_are_refused(spec):
    with pytest.raises(ConfigError):
        ContaminationSpec(**spec)


@SLOW
@given(st.data())
def test_whatever_the_labels_a_draw_keeps_its_promise_or_says_why(prepared_of, data):
    observation = st.sampled_from([(), (), (), ("u",), ("v",), ("u", "v")])
    lists = data.draw(st.lists(st.lists(observation, min_size=1, max_size=6), min_size=3, max_size=9))
    eta = data.draw(st.floats(0, 0.4))
    prepared = prepared_of({f"e{i}": one for i, one in enumerate(lists)})
    try:
        draw = contaminate(prepared, ContaminationSpec(eta=eta, kappa=1 if eta > 0 else None))
    except DataError:
        assume(False)
    for part in ("train", "validation"):
        count, anomalous = draw.count(part)
        assert count > 0
        assert abs(anomalous - eta * count) <= 0.5
        assert kinds_of(draw, part) == set(draw.kinds)


def test_the_test_part_depends_on_neither_eta_nor_kappa(patients):
    specs = [{"eta": 0.0}, {"eta": 0.1}, {"eta": 0.3}, *({"eta": 0.1, "kappa": kappa} for kappa in range(1, 6))]
    drawn = [
        contaminate(patients, ContaminationSpec(test_eta=0.5, test_size=30, seed=7, shares=(0.4, 0.4, 0.2), **spec))
        for spec in specs
    ]
    assert all(draw.parts["test"] == drawn[0].parts["test"] for draw in drawn)
    assert drawn[0].count("test") == (30, 15)


def test_normal_observations_do_not_depend_on_kappa(patients):
    def normal(kappa):
        draw = contaminate(patients, ContaminationSpec(eta=0.2, kappa=kappa, train_size=40, shares=(0.4, 0.4, 0.2)))
        labels = patients.labels
        return {(e, i) for e, indices in draw.parts["train"].items() for i in indices if not labels[e][i].kinds}

    assert len(normal(1)) == 32
    assert normal(1) == normal(3) == normal(5)


def test_kinds_that_cannot_be_drawn_are_named(prepared_of):
    kinds = {f"p{i}": [()] * 9 + [("u",), ("v",)] for i in range(9)}
    prepared = prepared_of({**kinds, "rare": [()] * 9 + [("u",), ("z", "u")]})
    with pytest.warns(TsadcNotice, match=r"does not have z alone in both .* the kinds that do are u, v\."):
        draw = contaminate(prepared, ContaminationSpec(eta=0.15, shares=(0.4, 0.4, 0.2)))
    assert set(draw.kinds) == {"u", "v"}


def test_the_test_part_takes_only_what_is_labelled(tmp_path):
    raw = tmp_path / "raw"
    for number in range(1, 7):
        labels = np.zeros(40)
        labels[12:14] = 1
        write_machine(raw, f"machine-1-{number}", np.zeros((40, 38)), np.zeros((40, 38)), labels)
    prepared = prepare("smd", raw, tmp_path / "out", length=10)
    both, labelled = (contaminate(prepared, ContaminationSpec(eta=0.1, test_part=part)) for part in ("", "test"))
    parts = {prepared.labels[entity][i].part for entity, indices in labelled.parts["test"].items() for i in indices}
    assert parts == {"test"}
    assert labelled.parts["test"].keys() == both.parts["test"].keys()
    assert labelled.count("test")[0] * 2 == both.count("test")[0]
    assert labelled.count("test")[1] == both.count("test")[1] == len(both.parts["test"])
    assert labelled.parts["train"] == both.parts["train"]
