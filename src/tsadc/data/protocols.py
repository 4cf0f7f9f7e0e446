"""Benchmark protocols: which observations of a data set train a detector, and which are scored.

A detector gets the unlabelled `train`, `history` and `test` of a `Task`; its `answers` are for measuring only.

    smd-causal      train on the train parts of the machines, score their labelled test parts
    smd-audit       the same training; each machine is normalised on its train and test part before scoring
    smd-audit-all   train and normalise on train and test parts
    smd-unseen      train on other machines with a share ETA_SMD of anomalies, normalise on the machine's train part
    sleep           train on half of the N3 epochs and a share ETA_SLEEP of W and REM, score the rest of both
    ludb, cinc      train on half of the normal records and a share ETA_ECG of the paper's five types, score the rest
    plant, plant-process, plant-telemetry    the kinds of the simulated plant, another one for each seed
    skab, gecco, batadal    train on the unlabelled history of each entity, score the rows that follow it
    tsb-dev         train on the first rows of each series, anew for each of them, score all of its rows

Seeds from 100 on are for choosing settings, those below for reporting. There is only one SMD: choosing has seen the
test labels of every other machine (causal, audit) and of two of four rotations (unseen). A quarter of the machines is
untouched by both and is reported beside the whole. There is only one draw of SKAB, GECCO, BATADAL and TSB-dev: the
seed is the detector's, and figures that owe nothing to their labels need settings chosen on other families. Nine series
of TSB-dev are machines of SMD; the others are reported beside the whole. On the other data sets reporting and choosing
share no draw.

Some protocols take options: `eta`, the share of anomalous observations in the training part, and `kappa`, the number
of their kinds. For one seed the test part is then the same for all values, and a smaller value takes a subset of what
a larger one takes. `catalogue.PROTOCOLS` lists all protocols by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.config import nearest
from tsadc.data import cinc, ludb, sleepedf
from tsadc.data.contaminate import anomalous_count, halves
from tsadc.data.dataset import DataSet
from tsadc.data.packs import require_pack
from tsadc.data.plant import Plant, PlantKind
from tsadc.data.row_labels import BATADAL, GECCO, SKAB, read_histories, tsb_series
from tsadc.data.smd import SMD, Blamed, parse_blamed, spans_of
from tsadc.data.task import Answers, RowTasks, Task, answers
from tsadc.errors import ConfigError
from tsadc.series import Booleans, Clock, Floats, Labelled, Series, Truth

CHOOSING = 100  # the first seed for choosing settings
FOLDS = 4
CHOSEN_FOLDS = (2, 3)  # of the unseen machines
ETA_SMD, ETA_SLEEP, ETA_ECG = 0.125, 0.2, 0.17
SMD19 = "smd19.npz"
LENGTH_SKAB, LENGTH_GECCO, LENGTH_BATADAL = 60, 100, 24  # a minute, 100 minutes, a day
LENGTH_TSB = 100
TSB_OF_SMD = "dev_SMD_"  # how the names of series begin that are machines of SMD


@dataclass(frozen=True)
class Protocol:
    """One way to draw a training and a test part from a data set.

    Attributes
    ----------
    name
        Its name in plans.
    source
        The pack that it reads; empty if it needs none.
    length
        Rows of an observation.
    build
        Makes the task from the folder of packs, a seed and the options.
    report, choose
        Seeds for reporting and for choosing settings.
    trains_as
        The protocol with the same training part.
    family
        Protocols on data of one origin have one family, so that a study can leave all of them out; by default the name.
    options
        The options that `build` takes, with their largest values.
    own
        Whether it is the user's own data, whose parts are fixed by a manifest.
    """

    name: str
    source: str
    length: int
    build: Callable[..., Task | RowTasks]
    report: tuple[int, ...] = (0, 1, 2, 3, 4)
    choose: tuple[int, ...] = (100, 101, 102)
    trains_as: str = ""
    options: Mapping[str, float] = field(default_factory=dict)
    own: bool = False
    family: str = ""

    def __post_init__(self) -> None:
        if not self.family:
            object.__setattr__(self, "family", self.name)

    def check(self, split: Mapping[str, Any]) -> dict[str, float]:
        """Return the options; raise if one is unknown or out of range."""
        return {name: self._checked(name, value) for name, value in sorted(split.items())}

    def _checked(self, name: str, value: Any) -> float:
        if name in ("eta", "kappa") and self.own:
            raise ConfigError(
                f"`{name}` of your own data set {self.name} is set when its manifest is made, by "
                f"`tsadc.data.ContaminationSpec({name}=...)`; leave it out of `split`, and write a manifest for each "
                "value."
            )
        if not self.options:
            raise ConfigError(f"The data set {self.name} has no options, but got `{name}`; leave it out of `split`.")
        if name not in self.options:
            raise ConfigError(f"The data set {self.name} has no option `{name}`{nearest(name, list(self.options))}")
        most, least, counted = self.options[name], int(name == "kappa"), name == "kappa"
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        whole = not counted or (number and float(value).is_integer())
        if not number or not whole or not least <= value <= most:
            expected = "a whole number" if counted else "a number"
            raise ConfigError(
                f"`{name}` of the data set {self.name} must be {expected} from {least} to {most:g}, but got {value!r}."
            )
        return int(value) if counted else float(value)


@dataclass(frozen=True, eq=False)
class _Machine:
    """An SMD machine: both parts (time, variable) in whole observations, the labelled points of the test part, and
    the variables to blame for them."""

    name: str
    train: Floats
    test: Floats
    flags: Booleans
    blamed: Blamed

    def series(self, *parts: Floats) -> Series:
        return Series(np.concatenate(parts), SMD.card.variables, Clock(), self.name)

    @property
    def truth(self) -> list[Truth]:
        spans = spans_of(self.flags, self.blamed, SMD.card.variables)
        return [Truth(self.name, span.start, span.stop, span.kind, span.variables) for span in spans]

    def incidents(self) -> list[Floats]:
        """Return the observations of the test part that hold a labelled point."""
        length = SMD.card.length
        return [
            self.test[start : start + length]
            for start in range(0, len(self.test), length)
            if self.flags[start : start + length].any()
        ]


@lru_cache(maxsize=1)
def _machines(raw: Path) -> list[_Machine]:
    pack = require_pack(raw, SMD19)
    length = SMD.card.length
    with np.load(pack.file, allow_pickle=False) as arrays:
        names = sorted(key.removesuffix("_train") for key in arrays.files if key.endswith("_train"))
    machines = []
    for name in names:
        train, test = (_from_millionths(pack[f"{name}_{part}"], length) for part in ("train", "test"))
        flags = pack[f"{name}_test_label"]
        blamed = parse_blamed(str(pack[f"{name}_interpretation_label"]), len(flags), f"{pack.file}, {name},")
        machines.append(_Machine(name, train, test, flags[: len(test)] == 1, blamed))
    return machines


def _from_millionths(rows: NDArray[np.int32], length: int) -> Floats:
    values: Floats = (rows[: len(rows) // length * length] / 1e6).astype(np.float32)
    return values


def _scored(machines: Sequence[_Machine], chosen_on: Sequence[_Machine] = ()) -> tuple[tuple[Series, ...], Answers]:
    test = Labelled(
        tuple(machine.series(machine.test) for machine in machines),
        tuple(truth for machine in machines for truth in machine.truth),
    )
    truth = answers(test, SMD.card.length)
    used = {machine.name for machine in chosen_on}
    others = np.array([entity not in used for entity in truth.entities], dtype=bool)
    parts = {f"{len(machines) - len(used)} machines never chosen on": others} if used else {}
    return test.series, replace(truth, parts=parts)


def _machines_of(raw: Path, seed: int) -> tuple[list[_Machine], list[_Machine]]:
    """Return the machines of a seed, and those among them on which settings may have been chosen, by this protocol or
    as unseen ones."""
    every = _machines(raw)
    seen = set(range(0, len(every), 2)) | {i for fold in CHOSEN_FOLDS for i in range(fold, len(every), FOLDS)}
    return (every[::2], []) if seed >= CHOOSING else (every, [every[i] for i in sorted(seen)])


def smd_causal(raw: Path, seed: int) -> Task:
    machines, chosen_on = _machines_of(raw, seed)
    return Task(tuple(machine.series(machine.train) for machine in machines), *_scored(machines, chosen_on))


def smd_audit(raw: Path, seed: int) -> Task:
    history = tuple(machine.series(machine.train, machine.test) for machine in _machines_of(raw, seed)[0])
    return replace(smd_causal(raw, seed), history=history)


def smd_audit_all(raw: Path, seed: int) -> Task:
    machines, chosen_on = _machines_of(raw, seed)
    return Task(
        tuple(machine.series(machine.train, machine.test) for machine in machines), *_scored(machines, chosen_on)
    )


def rotation(seed: int) -> int:
    """Return the fold of unseen machines: 0 and 1 for reporting, 2 and 3 for choosing. The machines of fold 0 are among
    those that causal and audit choose on; no choice has seen those of fold 1."""
    return seed % 2 + (CHOSEN_FOLDS[0] if seed >= CHOOSING else 0)


def smd_unseen(raw: Path, seed: int, eta: float = ETA_SMD) -> Task:
    """Draw anomalies from all labelled observations of the training machines. Their train parts carry no labels and
    count as normal."""
    every = _machines(raw)
    unseen = every[rotation(seed) :: FOLDS]
    others = [machine for machine in every if machine not in unseen]
    pool = [(machine, values) for machine in others for values in machine.incidents()]
    normal = sum(len(machine.train) for machine in others) // SMD.card.length
    count = anomalous_count(eta, normal, len(pool), "smd-unseen")
    chosen = [pool[i] for i in sorted(np.random.default_rng(seed).permutation(len(pool))[:count])]
    train = tuple(
        machine.series(machine.train, *(values for owner, values in chosen if owner is machine)) for machine in others
    )
    return Task(train, *_scored(unseen), tuple(machine.series(machine.train) for machine in unseen))


def sleep(raw: Path, seed: int, **split: Any) -> Task:
    return _halves(sleepedf.SleepEDF(), sleepedf.PACK, ETA_SLEEP, raw, seed, split)


def cinc_ecg(raw: Path, seed: int, **split: Any) -> Task:
    return _halves(cinc.CinC(), cinc.PACK, ETA_ECG, raw, seed, split)


def ludb_ecg(raw: Path, seed: int, **split: Any) -> Task:
    return _halves(ludb.LUDB(), ludb.PACK, ETA_ECG, raw, seed, split)


def _halves(dataset: DataSet, pack: str, eta: float, raw: Path, seed: int, split: Mapping[str, Any]) -> Task:
    """Read the observations of a pack and divide them; with options, the test part is the same for all their values."""
    require_pack(raw, pack)
    pieces = [piece for record in dataset.records(raw) for piece in dataset.read(record).pieces]
    kinds = [tuple(dict.fromkeys(span.kind for span in piece.spans)) for piece in pieces]
    values = np.stack([piece.values for piece in pieces])
    return halves(values, kinds, split.get("eta", eta), seed, kappa=split.get("kappa"), fixed_test=bool(split))


def skab(raw: Path, seed: int) -> Task:
    return _histories(raw, SKAB, LENGTH_SKAB, "fault")


def gecco(raw: Path, seed: int) -> Task:
    return _histories(raw, GECCO, LENGTH_GECCO, "event")


def batadal(raw: Path, seed: int) -> Task:
    return _histories(raw, BATADAL, LENGTH_BATADAL, "attack")


def _histories(raw: Path, pack: str, length: int, kind: str) -> Task:
    split = read_histories(raw, pack, length, kind)
    return Task(split.train, split.test.series, answers(split.test, length))


def tsb_dev(raw: Path, seed: int) -> RowTasks:
    series = tuple(tsb_series(raw))
    others = np.array([not task.name.startswith(TSB_OF_SMD) for task in series], dtype=bool)
    return RowTasks(series, {} if others.all() else {f"{others.sum()} series not of SMD": others})


def plant(
    raw: Path, seed: int, eta: float | None = None, kappa: int | None = None, *, kind: PlantKind = "plant"
) -> Task:
    given = {name: value for name, value in (("contamination", eta), ("kinds", kappa)) if value is not None}
    config = replace(Plant.Config(seed=seed, kind=kind), **given)  # type: ignore[arg-type]
    split = Plant(config).split()
    return Task(split.train, split.test.series, answers(split.test, config.length))
