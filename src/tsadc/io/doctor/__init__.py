"""The data doctor: finds problems of data before a model is fitted to it or applied to it.

`profile` goes through each series once; `facts` describes the variables; `columns`, `clocks` and `levels` hold the
rules. Each rule yields instances of `Finding`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import pandas as pd

from tsadc.io.doctor import clocks, columns, levels
from tsadc.io.doctor.facts import Column, VariableFacts, describe
from tsadc.io.doctor.finding import SEVERITIES, Finding
from tsadc.io.doctor.profile import Profile, profile_of
from tsadc.io.memory import as_series
from tsadc.series import Series
from tsadc.variables import match

__all__ = ["EntityFacts", "Examination", "Finding", "VariableFacts", "examine"]

CHECK = "Check the sensor and the export; the model needs it."
FORMAT = 1  # of `Examination.to_mapping`


class _Scaler(Protocol):
    @property
    def entities(self) -> Mapping[str, levels.Level]: ...


class Fitted(Protocol):
    """What the examination of new data needs of a fitted detector."""

    @property
    def variables_(self) -> tuple[str, ...]: ...
    @property
    def scaler_(self) -> _Scaler: ...


@dataclass(frozen=True)
class EntityFacts:
    """Size and clock of one entity. `start` and `end` (of the last row) are times, or row numbers without dates."""

    name: str
    rows: int
    empty_rows: int
    start: pd.Timestamp | int
    end: pd.Timestamp | int
    interval: int | None  # nanoseconds
    timezone: str | None


@dataclass(frozen=True)
class Examination:
    """The result of `examine`: facts about entities and variables, and findings, the most severe first."""

    entities: tuple[EntityFacts, ...]
    variables: tuple[VariableFacts, ...]
    findings: tuple[Finding, ...]

    @property
    def rows(self) -> int:
        """Rows of all entities."""
        return sum(entity.rows for entity in self.entities)

    def of(self, *severities: str) -> tuple[Finding, ...]:
        """Return the findings of these severities."""
        return tuple(finding for finding in self.findings if finding.severity in severities)

    @property
    def labels(self) -> tuple[str, ...]:
        """Variables that look like labels."""
        return tuple(variable.name for variable in self.variables if variable.kind == "label")

    def to_mapping(self) -> dict[str, Any]:
        """Return everything as plain data for JSON. Unknown numbers are None, times are ISO 8601."""
        return {
            "format": FORMAT,
            "rows": self.rows,
            "entities": [_for_json(asdict(entity)) for entity in self.entities],
            "variables": [_for_json(asdict(variable)) for variable in self.variables],
            "findings": [_for_json(asdict(finding)) for finding in self.findings],
        }


def examine(data: Any, detector: Fitted | None = None) -> Examination:
    """Examine data before a model is fitted to it or, with a fitted detector, new data before it is judged.

    Parameters
    ----------
    data : Series, sequence of Series, data frame, array, or mapping of entity names to such objects
        What `fit` and `detect` take; `tsadc.read` makes it from files.
    detector : fitted Detector, optional
        Compare entities with those of the same name in the detector's history, too. Its variables are examined.

    Returns
    -------
    Examination
        `variables`, `entities` and `findings`. Each finding says what was seen, what follows from it, and which option
        fixes it.

    Raises
    ------
    DataError
        If the data cannot be converted to series.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import tsadc
    >>> flow = np.random.default_rng(0).normal(30, 2, size=1000)
    >>> flow[100:150] = -200
    >>> [finding] = tsadc.examine(pd.DataFrame({"flow [l/min]": flow})).findings
    >>> finding.code, finding.severity, finding.remedy
    ('marker', 'warn', '--missing -200')
    >>> print(finding.evidence)
    The value -200 appears 50 times (5.0 % of the rows) in flow [l/min], far from all others there (22.201 to 36.132).
    """
    series = as_series(data)
    series = _known_variables(series, detector.variables_) if detector is not None else match(series, series[0].names)
    profiles = [profile_of(one, share=1 / len(series)) for one in series]
    described = describe(profiles)
    findings = list(_findings(profiles, described, detector))
    if detector is not None:  # leaving out a variable of the model would not help
        findings = [
            replace(finding, remedy=CHECK) if finding.remedy.startswith("--exclude") else finding
            for finding in findings
        ]
    found = sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
    return Examination(
        tuple(_entity(own) for own in profiles), tuple(column.facts for column in described), tuple(found)
    )


def _findings(profiles: list[Profile], described: list[Column], detector: Fitted | None) -> Iterator[Finding]:
    fitting = detector is None
    yield from columns.impossible(described, fitting=fitting)
    yield from columns.constants(described, fitting=fitting)
    yield from clocks.paces(profiles, fitting=fitting)
    if detector is not None:
        positions = [detector.variables_.index(column.facts.name) for column in described]
        yield from levels.other_machine(profiles, described, detector.scaler_.entities, positions)
    yield from columns.markers(described, profiles)
    if fitting:  # afterwards the variables are those of the model
        yield from columns.labels(described)
        yield from columns.counters(described, profiles)
        yield from columns.states(described)
        yield from columns.identical(described, profiles)
    known = () if detector is None else tuple(detector.scaler_.entities)
    yield from clocks.one_machine(profiles, described, known)
    yield from levels.mixed_units(profiles, described)
    yield from clocks.same_data(profiles)
    failing = list(columns.failing(described, profiles))
    yield from failing
    dead = {name for finding in failing for name in finding.variables}
    yield from columns.sparse(described, profiles, without=dead)
    yield from clocks.gaps(profiles)


def _known_variables(series: Sequence[Series], names: tuple[str, ...]) -> tuple[Series, ...]:
    """Return the series with the model's variables that all of them have; `detect` itself handles the others."""
    if all(len(one.names) == len(names) and not set(one.names) & set(names) for one in series):
        return match(series, names)  # columns of an array have no names
    shared = [name for name in names if all(name in one.names for one in series)]
    out = []
    for one in series:
        order = [one.names.index(name) for name in shared]
        out.append(
            one if one.names == tuple(shared) else replace(one, values=one.values[:, order], names=tuple(shared))
        )
    return tuple(out)


def _entity(own: Profile) -> EntityFacts:
    clock = own.series.clock
    start, end = clock.at([0, max(0, own.rows - 1)])
    return EntityFacts(
        own.series.entity,
        own.rows,
        own.rows - int(own.filled.sum()),
        start if clock.dated else int(start),
        end if clock.dated else int(end),
        clock.every,
        clock.timezone,
    )


def _for_json(value: Any) -> Any:
    """Return the value as strict JSON can hold it: NaN becomes None, a time becomes text."""
    if isinstance(value, Mapping):
        return {name: _for_json(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_for_json(item) for item in value]
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
