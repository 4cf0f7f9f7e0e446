"""What the data doctor finds in small data written for the purpose, and that it finds nothing in clean data."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tsadc
from tsadc.data.plant import Plant
from tsadc.io.doctor import Examination, Finding, examine
from tsadc.io.doctor.facts import unit_of
from tsadc.io.doctor.finding import names, option
from tsadc.io.doctor.profile import BLOCKS, profile_of
from tsadc.scale import Scaler, Statistics
from tsadc.series import Clock, Series

MINUTE = 60 * 10**9
MONDAY = int(pd.Timestamp("2024-03-04").value)


def clean(rows: int = 2000, seed: int = 0, names: str = "abc") -> dict[str, np.ndarray]:
    """Noisy waves at different levels, with three decimals."""
    generator, clock = np.random.default_rng(seed), np.arange(rows)
    waves = {name: np.sin(clock / (20 + 7 * k)) for k, name in enumerate(names)}
    noise = {name: 0.3 * generator.standard_normal(rows) for name in names}
    return {name: np.round(50 * (k + 1) + 5 * (waves[name] + noise[name]), 3) for k, name in enumerate(names)}


def series(columns: dict[str, np.ndarray], entity: str = "pump", start: int = MONDAY, every: int = MINUTE) -> Series:
    values = np.column_stack([np.asarray(column, dtype=np.float64) for column in columns.values()])
    return Series(values, tuple(columns), Clock(start, every, dated=True), entity)


def codes(found: Examination) -> dict[str, Finding]:
    assert len({finding.code for finding in found.findings}) == len(found.findings)
    return {finding.code: finding for finding in found.findings}


def only(found: Examination) -> Finding:
    (finding,) = found.findings
    return finding


def at(values: np.ndarray, rows: slice | np.ndarray, value: float) -> np.ndarray:
    out = values.copy()
    out[rows] = value
    return out


def test_nothing_is_found_in_clean_data() -> None:
    assert examine(series(clean())).findings == ()
    assert examine([series(clean(seed=k), f"pump-{k}") for k in range(4)]).findings == ()


@pytest.mark.parametrize("kind", ["plant", "process"])
def test_nothing_is_found_in_the_simulated_plant(kind: str) -> None:
    split = Plant(Plant.Config(kind=kind)).split()
    assert examine(split.train).findings == ()
    assert examine(split.test.series).findings == ()


def test_nothing_but_notes_is_found_in_server_metrics(shared_data: Path) -> None:
    pack = np.load(shared_data / "smd19.npz")
    machines = [
        Series(pack[key].astype(np.float64), tuple(f"v{i}" for i in range(38)), entity=key)
        for key in pack
        if key.endswith("_train")
    ]
    found = examine(machines)
    assert len(machines) == 19
    assert {finding.code for finding in found.findings} == {"constant", "state", "identical"}
    assert {finding.severity for finding in found.findings} == {"note"}


def test_the_facts_of_a_variable() -> None:
    columns = clean(1000)
    columns["a"] = at(columns["a"], slice(0, 100), np.nan)
    columns["a"][500:600] = columns["a"][500]
    found = examine(series({"flow (l/min)": columns["a"], "b": columns["b"]}))
    facts, values = found.variables[0], columns["a"][100:]
    assert (facts.name, facts.kind, facts.unit) == ("flow (l/min)", "continuous", "l/min")
    assert facts.minimum == values.min()
    assert facts.maximum == values.max()
    assert (facts.percentile_1, facts.median, facts.percentile_99) == pytest.approx(
        np.quantile(values, [0.01, 0.5, 0.99])
    )
    assert facts.missing == pytest.approx(0.1)
    assert facts.repeated == pytest.approx((np.diff(values) == 0).mean())
    assert facts.resolution == 0.001
    assert facts.first == pd.Timestamp("2024-03-04 01:40")
    assert facts.last == pd.Timestamp("2024-03-04 16:39")
    assert np.isnan(facts.sparkline[0])
    assert np.nanmean(facts.sparkline) == pytest.approx(values.mean(), abs=1)
    assert found.rows == 1000


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("Temp [°C]", "°C"), ("flow (l/min)", "l/min"), ("p[bar]", "bar"), ("CO(GT)", None), ("speed", None),
        ("v (2)", None), ("[x]", None), ("power ( kW )", "kW"),
    ],
)  # fmt: skip
def test_units_in_headers(name: str, unit: str | None) -> None:
    assert unit_of(name) == unit


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.full(500, 3.0), "constant"),
        (np.full(500, np.nan), "empty"),
        (np.arange(500) // 50 % 3, "state"),
        (np.arange(500), "row number"),
        (1e9 + 60 * np.arange(500), "row number"),
        (np.cumsum(np.arange(500) % 3), "counter"),
        (-np.cumsum(np.arange(500) % 3), "counter"),
        (np.cumsum(np.arange(3000) % 3) % 1000, "counter"),
        (np.sin(np.arange(500)), "continuous"),
    ],
)
def test_types(values: np.ndarray, kind: str) -> None:
    assert examine(series({"x": values})).variables[0].kind == kind


@pytest.mark.parametrize("marker", [-200, -9999, 9999, 65535, 2147483647, -999.25, 500])
def test_a_value_that_means_not_measured(marker: float) -> None:
    columns = clean()
    columns["b"][[100, 300, 301, 302, 900]] = marker
    finding = only(examine(series(columns)))
    assert (finding.code, finding.severity, finding.variables) == ("marker", "warn", ("b",))
    assert finding.remedy == f"--missing {marker}"
    low, high = np.sort(np.delete(columns["b"], [100, 300, 301, 302, 900]))[[0, -1]]
    assert finding.evidence == (
        f"The value {marker} appears 5 times (0.25 % of the rows) in b, far from all others there ({low:.5g} to "
        f"{high:.5g})."
    )


def test_a_marker_that_no_sample_would_meet() -> None:
    columns = clean(200_000)
    columns["a"][[7, 70_001, 130_003]] = -9999
    assert only(examine(series(columns))).remedy == "--missing -9999"


def test_two_markers_and_one_in_several_variables() -> None:
    columns = clean()
    for name in "ab":
        columns[name] = at(columns[name], slice(0, 400), -200)
    columns["a"][1000:1010] = 9999
    found = examine(series(columns)).findings
    assert {finding.remedy for finding in found} == {"--missing -200", "--missing 9999"}
    assert {finding.variables for finding in found} == {("a", "b"), ("a",)}
    assert any("400 times (20 % of the rows) in a and b, most often in a" in finding.evidence for finding in found)


def test_dropouts_to_zero_are_markers_but_a_machine_that_is_off_is_not() -> None:
    columns = clean()
    dropouts = columns | {"a": at(columns["a"], np.arange(50, 2000, 100), 0)}
    assert only(examine(series(dropouts))).remedy == "--missing 0"
    assert examine(series(columns | {"a": at(columns["a"], slice(300, 700), 0)})).findings == ()
    also_zero = {name: at(columns[name], np.arange(50, 2000, 100), 0) for name in "ab"}
    assert examine(series(columns | also_zero | {"c": np.round(columns["c"] - 150)})).of("warn") == ()


def test_a_marker_that_is_a_value_elsewhere_has_no_option() -> None:
    columns = clean()
    columns["a"] = at(columns["a"], slice(0, 20), 200)
    columns["d"] = np.round(200 + 10 * np.sin(np.arange(2000) / 30))
    finding = only(examine(series(columns)))
    assert finding.variables == ("a",)
    assert finding.remedy == "Leave the cell empty where it means not measured; d holds it as a value."


@pytest.mark.parametrize("shape", ["spikes", "saturated", "skewed"])
def test_extremes_that_are_measured_are_no_markers(shape: str) -> None:
    columns = clean()
    if shape == "spikes":
        columns["a"][::200] = 50 + 100 * np.arange(1, 11)
    if shape == "saturated":
        columns["a"] = np.minimum(columns["a"], 54)
    if shape == "skewed":
        columns["a"] = np.round(np.random.default_rng(0).exponential(3, 2000) ** 2, 2)
    assert examine(series(columns)).findings == ()


@pytest.mark.parametrize("name", ["anomaly", "label", "Is_Anomaly", "changepoint", "alarm_1", "fault", "status", "y"])
def test_labels(name: str) -> None:
    flags = (np.arange(2000) % 500 > 450).astype(float)
    found = examine(series(clean() | {name: flags}))
    finding = only(found)
    assert (finding.code, finding.severity, finding.variables) == ("label", "warn", (name,))
    assert finding.remedy == f"--exclude {name}"
    assert found.labels == (name,)


def test_a_label_without_anomalies_is_one_too() -> None:
    assert examine(series(clean() | {"anomaly": np.zeros(2000)})).labels == ("anomaly",)


@pytest.mark.parametrize("name", ["pump_status", "valve", "mode", "labour", "default"])
def test_states_are_no_labels(name: str) -> None:
    finding = only(examine(series(clean() | {name: (np.arange(2000) % 500 > 250).astype(float)})))
    assert (finding.code, finding.severity, finding.variables) == ("state", "note", (name,))


def test_an_alarm_that_is_measured_is_no_label() -> None:
    columns = clean()
    assert examine(series({"alarm level": columns["a"], "b": columns["b"]})).findings == ()


def test_counters_and_row_numbers() -> None:
    generator = np.random.default_rng(1)
    hours = np.round(1200 + np.cumsum(generator.uniform(0, 0.02, 2000)), 2)
    columns = clean() | {
        "pump hours": hours,
        "energy": np.cumsum(generator.integers(0, 3, 2000)),
        "id": np.arange(2000),
    }
    found = codes(examine(series(columns)))
    assert set(found) == {"counter", "row-number"}
    assert found["counter"].remedy == "--difference 'pump hours,energy'"
    assert found["row-number"].remedy == "--exclude id"


def test_a_counter_that_is_reset_is_only_noted() -> None:
    daily = np.cumsum(np.random.default_rng(0).integers(0, 5, 6000))
    daily = np.concatenate([part - part[0] for part in np.split(daily, 4)])
    finding = only(examine(series(clean(6000) | {"parts": daily})))
    assert (finding.code, finding.severity, finding.remedy) == ("resetting-counter", "note", "--difference parts")


def test_a_warming_machine_is_no_counter() -> None:
    warming = 20 + 60 * (1 - np.exp(-np.arange(2000) / 500)) + 0.1 * np.random.default_rng(0).standard_normal(2000)
    assert examine(series(clean() | {"temperature": warming})).findings == ()


def hourly(rows: int = 840, files: int = 4, stem: str = "pump-3_") -> list[Series]:
    """One record cut into consecutive files."""
    columns, each = clean(rows), rows // files
    return [
        series({n: c[i * each : (i + 1) * each] for n, c in columns.items()}, f"{stem}{i}", MONDAY + i * each * MINUTE)
        for i in range(files)
    ]


def test_one_machine_in_several_files() -> None:
    finding = only(examine(hourly()))
    assert (finding.code, finding.severity) == ("one-machine", "warn")
    assert finding.entities == ("pump-3_0", "pump-3_1", "pump-3_2", "pump-3_3")
    assert "look like one machine in 4 files" in finding.evidence
    assert finding.remedy == "--entity-name pump-3"


def test_one_machine_in_several_new_files() -> None:
    known = series(clean(2400), "pump 3")
    detector = tsadc.Ensemble(length=40, kernels=8).fit(known)
    finding = only(examine(hourly(files=2, stem="night-"), detector))
    assert (finding.code, finding.remedy) == ("one-machine", "--entity-name 'pump 3'")
    assert "an event that lasts from one file to the next is cut" in finding.consequence
    named = [replace(one, entity=name) for one, name in zip(hourly(files=2), ("pump 3", "pump 4"), strict=True)]
    assert examine(named, detector).findings == ()


def test_machines_in_several_files_each() -> None:
    second = [replace(one, values=one.values[:, ::-1] + 3) for one in hourly(stem="pump_b_2024-03-04T0")]
    finding = only(examine([*hourly(stem="pump_a_2024-03-04T0"), *second]))
    assert "look like 2 machines in 8 files" in finding.evidence
    assert finding.remedy == r"--entity-from '(.+)_[-\dTt.:]+'"


def test_machines_one_after_the_other_are_not_one() -> None:
    several = hourly()
    others = [replace(one, values=one.values + 100 * i) for i, one in enumerate(several)]
    assert "one-machine" not in codes(examine(others))
    apart = [
        replace(one, clock=replace(one.clock, start=one.clock.start + i * 10**15)) for i, one in enumerate(several)
    ]
    assert examine(apart).findings == ()
    together = [replace(one, clock=replace(one.clock, start=MONDAY)) for one in several]
    assert examine(together).findings == ()


def test_sensors_that_fail() -> None:
    columns = clean(names="abcd")
    late, dead, stuck = (columns[name].copy() for name in "abc")
    late[:500], dead[1500:], stuck[1600:] = np.nan, np.nan, stuck[1600]
    found = codes(examine(series(columns | {"a": late, "b": dead, "c": stuck})))
    assert set(found) == {"late", "dead", "stuck"}
    assert (
        "a of pump has its first value at 2024-03-04 08:20:00, 500 rows (8h) after the start" in found["late"].evidence
    )
    assert "b of pump has no value after 2024-03-05 00:59:00, 500 rows (8h) before the end" in found["dead"].evidence
    assert found["stuck"].evidence.startswith(
        "c of pump does not change for 400 rows (6h) from 2024-03-05 02:40:00 on, to"
    )
    assert {finding.severity for finding in found.values()} == {"warn"}


def test_a_sensor_that_one_file_does_not_have() -> None:
    files = [series(clean(seed=k), f"pump-{k}") for k in range(3)]
    files[1].values[:, 2] = np.nan
    finding = only(examine(files))
    assert (finding.code, finding.variables, finding.entities) == ("absent", ("c",), ("pump-1",))
    assert finding.remedy == "--exclude c"


def test_a_column_without_any_value_is_refused_only_in_the_history() -> None:
    data = series(clean() | {"d": np.full(2000, np.nan)})
    finding = only(examine(data))
    assert (finding.code, finding.severity) == ("empty", "refuse")
    assert finding.refusal == "d has no values in the history; fix it with --exclude d."
    assert only(examine(data, Model.of(data))).severity == "warn"


def test_impossible_values() -> None:
    columns = clean()
    columns["a"][5] = 1e35
    finding = next(finding for finding in examine(series(columns)).findings if finding.code == "impossible")
    assert (finding.severity, finding.variables) == ("refuse", ("a",))
    assert float(finding.remedy.removeprefix("--missing ")) == 1e35


def test_negative_values_are_possible() -> None:
    columns = clean()
    columns["a"][5] = -3
    assert examine(series(columns)).findings == ()


def test_a_variable_that_is_mostly_missing() -> None:
    columns = clean()
    columns["a"] = at(columns["a"], np.arange(2000) % 3 > 0, np.nan)
    finding = only(examine(series(columns)))
    assert (finding.code, finding.severity, finding.variables) == ("sparse", "note", ("a",))
    assert finding.evidence == "a is missing in most rows, 67 % at worst."


def test_gaps() -> None:
    columns = {name: at(column, slice(400, 500), np.nan) for name, column in clean().items()}
    finding = only(examine(series(columns)))
    assert (finding.code, finding.severity) == ("gap", "note")
    assert finding.evidence == (
        "100 of 2,000 rows (5.0 %) have no value, in 1 gap; the longest, 100 rows (100min), begins at "
        "2024-03-04 06:40:00 in pump."
    )
    columns = {name: at(column, slice(400, 1500), np.nan) for name, column in clean().items()}
    assert only(examine(series(columns))).severity == "warn"


def test_a_pace_that_changes() -> None:
    columns = {name: at(column, slice(1001, None, 2), np.nan) for name, column in clean().items()}
    finding = codes(examine(series(columns)))["changing-sampling"]
    assert finding.remedy == "--every 2min"
    assert "every 1min in one part and only every 2min in another" in finding.evidence


def test_entities_with_different_paces_are_refused() -> None:
    found = examine([series(clean(), "x"), series(clean(seed=1), "y", every=5 * 10**9)])
    finding = found.of("refuse")[0]
    assert finding.evidence == "y is sampled every 5s, but x every 1min."
    assert finding.remedy == "--every 1min"


def test_the_hour_that_local_clocks_skip() -> None:
    start = pd.Timestamp("2024-03-30").value
    gap = slice(1440 + 120, 1440 + 180)
    columns = {name: at(column, gap, np.nan) for name, column in clean().items()}
    assert set(codes(examine(series(columns, start=start)))) == {"gap", "daylight-saving"}
    assert set(codes(examine(series(columns, start=start - 86_400 * 10**9)))) == {"gap"}
    zoned = replace(series(columns, start=start), clock=Clock(start, MINUTE, dated=True, timezone="UTC"))
    assert set(codes(examine(zoned))) == {"gap"}


@pytest.mark.parametrize(("factor", "offset"), [(1.8, 32), (3.6, 0), (1000, 0), (0.001, 0), (1, 273.15)])
def test_units_that_differ_between_files(factor: float, offset: float) -> None:
    files = [series(clean(seed=k), f"pump-{k}") for k in range(3)]
    files[2].values[:, 0] = files[2].values[:, 0] * factor + offset
    finding = only(examine(files))
    assert (finding.code, finding.variables, finding.entities) == ("mixed-units", ("a",), ("pump-2",))


def test_machines_of_different_size_have_the_same_units() -> None:
    files = [series(clean(seed=k), f"pump-{k}") for k in range(3)]
    files[2].values[:] *= 1.5
    files[1].values[:] += 20
    assert examine(files).findings == ()


def test_copies() -> None:
    columns = clean()
    finding = only(examine(series(columns | {"a_2": columns["a"]})))
    assert (finding.code, finding.severity, finding.remedy) == ("identical", "note", "--exclude a_2")
    finding = only(examine([series(columns, "x"), series(columns, "y")]))
    assert (finding.code, finding.severity, finding.entities) == ("same-data", "warn", ("x", "y"))


@dataclass(frozen=True)
class Model:
    """What an examination needs of a fitted detector."""

    variables_: tuple[str, ...]
    scaler_: Scaler

    @classmethod
    def of(cls, *history: Series) -> "Model":
        kept = [replace(one, values=np.nan_to_num(one.values)) for one in history]
        return cls(history[0].names, Scaler.fit(kept, Scaler.Config()))


def test_the_same_name_but_another_machine() -> None:
    first, second = series(clean(), "0"), series({n: c[::-1] + 60 for n, c in clean(seed=5).items()}, "1")
    model = Model.of(first, second)
    assert examine(replace(series(clean(seed=3)), entity="0"), model).findings == ()
    finding = only(examine(replace(second, entity="0"), model))
    assert (finding.code, finding.severity, finding.entities) == ("other-machine", "warn", ("0",))
    assert finding.evidence.startswith(
        "0 does not look like entity '0' of the model: a, b and c lie far from its history"
    )
    assert finding.evidence.endswith("it looks like entity '1'.")
    assert finding.remedy == "--entity-name 1"
    assert examine(replace(second, entity="new"), model).findings == ()


def test_new_data_in_another_unit_than_the_history() -> None:
    history = series(clean(names="abcde"))
    new = series(clean(seed=2, names="abcde"))
    new.values[:, 1] = 1.8 * new.values[:, 1] + 32
    finding = only(examine(new, Model.of(history)))
    assert (finding.code, finding.variables) == ("mixed-units", ("b",))
    assert "°C and °F" in finding.evidence
    assert finding.remedy == "If so, convert b of pump to the unit of the model's history: (b - 32) / 1.8."


@pytest.mark.parametrize(
    ("factor", "offset", "formula"),
    [
        (1.8, 32.0, "(a - 32) / 1.8"),
        (1 / 1.8, -32 / 1.8, "a * 1.8 + 32"),
        (1.0, 273.15, "a - 273.15"),
        (1.0, -273.15, "a + 273.15"),
        (3.6, 0.0, "a / 3.6"),
        (0.001, 0.0, "a * 1000"),
    ],
)
def test_the_remedy_for_other_units_is_the_formula_back(factor: float, offset: float, formula: str) -> None:
    history, new = series(clean()), series(clean(seed=2))
    new.values[:, 0] = factor * new.values[:, 0] + offset
    finding = only(examine(new, Model.of(history)))
    assert (finding.code, finding.variables) == ("mixed-units", ("a",))
    assert finding.remedy.endswith(f": {formula}.")


def test_other_units_are_found_in_an_entity_that_the_model_does_not_know() -> None:
    model, new = Model.of(series(clean())), series(clean(seed=2), "pump-march")
    assert examine(new, model).findings == ()
    new.values[:, 0] = 1.8 * new.values[:, 0] + 32
    finding = only(examine(new, model))
    assert (finding.code, finding.variables, finding.entities) == ("mixed-units", ("a",), ("pump-march",))
    assert finding.remedy.endswith("the unit of the model's history: (a - 32) / 1.8.")
    new.values[:, 0] += 500
    assert examine(new, model).findings == ()


def test_an_anomaly_is_not_another_machine() -> None:
    history = series(clean(names="abcde"))
    new = series(clean(seed=2, names="abcde"))
    new.values[800:1000] += 40
    assert examine(new, Model.of(history)).findings == ()


def test_new_data_is_compared_by_the_variables_it_shares() -> None:
    history, columns = series(clean(names="abcd")), clean(seed=2, names="abcd")
    del columns["b"]
    found = examine(series({"anomaly": np.zeros(2000)} | columns), Model.of(history))
    assert [facts.name for facts in found.variables] == ["a", "c", "d"]
    assert found.findings == ()
    array = examine(series(clean(seed=2, names="abcd")).values, Model.of(history))
    assert [facts.name for facts in array.variables] == ["a", "b", "c", "d"]


def test_json_is_strict_and_stable() -> None:
    columns = clean() | {"d": np.full(2000, np.nan)}
    columns["a"][:5] = -200
    mapping = examine(series(columns)).to_mapping()
    again = json.loads(json.dumps(mapping, allow_nan=False))
    assert again == mapping
    assert list(mapping) == ["format", "rows", "entities", "variables", "findings"]
    assert list(mapping["findings"][0]) == [
        "code", "severity", "variables", "entities", "evidence", "consequence", "remedy",
    ]  # fmt: skip
    assert mapping["variables"][3]["minimum"] is None
    assert mapping["entities"][0] == {
        "name": "pump", "rows": 2000, "empty_rows": 0, "start": "2024-03-04T00:00:00", "end": "2024-03-05T09:19:00",
        "interval": MINUTE, "timezone": None,
    }  # fmt: skip
    assert [finding["severity"] for finding in mapping["findings"]] == ["refuse", "warn"]


def test_a_pass_counts_exactly() -> None:
    generator = np.random.default_rng(3)
    values = np.round(generator.normal(size=(BLOCKS * 20 + 7, 3)), 1)
    values[generator.random(values.shape) < 0.3] = np.nan
    values[100:130] = np.nan
    own = profile_of(Series(values, ("a", "b", "c")))
    steps = np.diff(values, axis=0)
    assert own.known.tolist() == np.isfinite(values).sum(axis=0).tolist()
    assert own.minimum.tolist() == np.nanmin(values, axis=0).tolist()
    assert own.maximum.tolist() == np.nanmax(values, axis=0).tolist()
    for counted, flags in ((own.repeated, steps == 0), (own.rising, steps > 0), (own.falling, steps < 0)):
        assert counted.tolist() == flags.sum(axis=0).tolist()
    empty = ~np.isfinite(values).any(axis=1)
    assert sum(stop - start for start, stop in own.gaps) == empty.sum()
    assert all(empty[start:stop].all() and not empty[start - 1 : start].any() for start, stop in own.gaps)
    assert own.total.sum(axis=0) == pytest.approx(np.nansum(values, axis=0))
    for k in range(3):
        rows = np.flatnonzero(np.isfinite(values[:, k]))
        assert own.span(k) == (rows[0], rows[-1])


def test_blocks_do_not_change_what_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    data = series(clean(5000))
    whole = profile_of(data)
    monkeypatch.setattr("tsadc.io.doctor.profile.PIECE_CELLS", 100)
    pieces = profile_of(data)
    assert (pieces.rising == whole.rising).all()
    assert (pieces.maximum == whole.maximum).all()
    assert (pieces.sample == whole.sample).all()


def test_names_and_options_in_sentences() -> None:
    assert names(["a"]) == "a"
    assert names(["a", "b"]) == "a and b"
    assert names(["a", "b", "c"]) == "a, b and c"
    assert names(list("abcde")) == "a, b, c and 2 more"
    assert option("exclude", ["a", "b"]) == "--exclude a,b"
    assert option("exclude", ["it's"]) == """--exclude 'it'"'"'s'"""


def test_anything_that_fit_takes_can_be_examined() -> None:
    frame = pd.DataFrame(clean())
    assert tsadc.examine({"left": frame, "right": pd.DataFrame(clean(seed=1))}).findings == ()
    assert tsadc.examine(frame.to_numpy()).rows == 2000


def test_statistics_are_levels() -> None:
    known = Statistics(np.zeros(1), np.ones(1))
    model = Model(("a",), Scaler(Scaler.Config(), known, np.ones(1), {"pump": known}))
    assert examine(series({"a": clean()["a"]}), model).findings == ()  # a single variable is no proof
