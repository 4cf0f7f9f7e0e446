"""What is trained on and what is scored, by data set. A detector gets the unlabelled `train`, `history` and `test` of a
`Task`; the `answers` are for measuring only.

Seeds from 100 on are for choosing settings, those below for reporting. On SMD, of which there is only one, choosing has
looked at the test labels of every other machine (causal, audit) and of two of four rotations (unseen): a quarter of the
machines is untouched by both, and reported beside the whole. Elsewhere the two share no draw.

    smd-causal      trained on the train parts of the machines; their labelled test parts are scored
    smd-audit       the same training; normalised on each machine's train and test part before scoring
    smd-audit-all   trained and normalised on train and test parts
    smd-unseen      trained on other machines, of which ETA_SMD is anomalous; normalised by the machine's train part
    sleep           half of the N3 epochs and ETA_SLEEP of W and REM; the rest of both is scored
    ludb, cinc      half of the normal records and about ETA_ECG of the paper's five types; the rest is scored
    plant           the simulated plant, another one for each seed

Some take options (`Protocol.options`): `eta`, the share of anomalous observations in the training part, and `kappa`, of
how many kinds they are. For one seed the test part is then the same whatever their values, and what a smaller value
takes is among what a larger one takes; of the plant by streams of random numbers of their own, of unseen machines as
the anomalous ones are of others, of sleep and ECG as `contaminated` sets them apart first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.config import nearest
from tsadc.data.cinc import PACK as CINC
from tsadc.data.cinc import CinC
from tsadc.data.dataset import DataSet
from tsadc.data.ecg import FIVE
from tsadc.data.faults import KINDS
from tsadc.data.halves import contaminated, halves, share
from tsadc.data.ludb import PACK as LUDB
from tsadc.data.packs import Pack, open_pack
from tsadc.data.plant import Plant
from tsadc.data.sleepedf import PACK as SLEEP
from tsadc.data.sleepedf import SleepEDF
from tsadc.data.smd import SMD, Blamed, parse_blamed, spans_of
from tsadc.data.task import Answers, Task, answers
from tsadc.errors import ConfigError, DataError
from tsadc.series import Booleans, Clock, Floats, Labelled, Series, Truth

VERSION = 1  # of the draws; records of another version are made anew
CHOOSING = 100  # the first seed for choosing settings
FOLDS = 4
EVERYWHERE = {"cleaned": 1}  # options of every data set, which are seen to where a detector is fitted
CHOSEN_FOLDS = (2, 3)  # of the unseen machines
ETA_SMD, ETA_SLEEP, ETA_ECG = 0.125, 0.2, 0.17
SMD19 = "smd19.npz"
LUDB_FLAGS = dict(zip(("AF", "IAVB", "RBBB_any", "PVC", "STE_or_STEMI"), FIVE, strict=True))


@dataclass(frozen=True)
class Protocol:
    """`source` is the pack it needs, empty if it is simulated. `trains_as` names the protocol with the same training.
    `options` are those that `build` takes, with their largest values."""

    name: str
    source: str
    length: int
    build: Callable[..., Task]
    report: tuple[int, ...] = (0, 1, 2, 3, 4)
    choose: tuple[int, ...] = (100, 101, 102)
    trains_as: str = ""
    options: Mapping[str, float] = field(default_factory=dict)

    def check(self, split: Mapping[str, Any]) -> dict[str, float]:
        """The options of a split, refused where they are unknown or out of range; without those that do nothing."""
        checked = {name: self._checked(name, value) for name, value in sorted(split.items())}
        return {name: value for name, value in checked.items() if name not in EVERYWHERE or value}

    def _checked(self, name: str, value: Any) -> float:
        known = {**self.options, **EVERYWHERE}
        if name in ("eta", "kappa") and self.name not in PROTOCOLS:
            raise ConfigError(
                f"`{name}` of the data set {self.name}, your own, is set when its manifest is made, by "
                f"`tsadc.data.Plan({name}=...)`; leave it out of `split`, and write a manifest for each value."
            )
        if name not in known:
            raise ConfigError(f"The data set {self.name} has no option `{name}`{nearest(name, list(known))}")
        most, least, counted = known[name], int(name == "kappa"), name in ("kappa", *EVERYWHERE)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        whole = not counted or (number and float(value).is_integer())
        if not number or not whole or not least <= value <= most:
            what = "a whole number" if counted else "a number"
            raise ConfigError(
                f"`{name}` of the data set {self.name} must be {what} from {least} to {most:g}, but got {value!r}."
            )
        return int(value) if counted else float(value)


def find(name: str) -> Protocol:
    if name not in PROTOCOLS:
        several = sum(one.startswith(name.casefold()) for one in PROTOCOLS) > 1
        # Of several with one beginning, as of SMD, the nearest is no better a guess than the others.
        hint = f"; there are {', '.join(f'`{one}`' for one in PROTOCOLS)}." if several else nearest(name, [*PROTOCOLS])
        raise ConfigError(f"There is no data set {name!r}{hint}")
    return PROTOCOLS[name]


@lru_cache(maxsize=2)
def draw(name: str, raw: Path, seed: int, split: tuple[tuple[str, float], ...] = ()) -> Task:
    """The task of a protocol; the latest are kept, as several detectors want the same."""
    return find(name).build(raw, seed, **{option: value for option, value in split if option not in EVERYWHERE})


def present(protocol: Protocol, raw: Path) -> bool:
    """Whether the data is there."""
    return not protocol.source or open_pack(raw, protocol.source) is not None


def _needed(raw: Path, name: str) -> Pack:
    pack = open_pack(raw, name)
    if pack is None:
        raise DataError(f"{raw} has no {name}; set TSADC_DATA to the folder that holds it.")
    return pack


@dataclass(frozen=True, eq=False)
class _Machine:
    """Both parts (time, variable) in whole observations, which points of the test part are labelled, and what is to
    blame in them."""

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
        """The observations of the test part that hold a labelled point."""
        length = SMD.card.length
        return [
            self.test[start : start + length]
            for start in range(0, len(self.test), length)
            if self.flags[start : start + length].any()
        ]


@lru_cache(maxsize=1)
def _machines(raw: Path) -> list[_Machine]:
    pack = _needed(raw, SMD19)
    length = SMD.card.length
    with np.load(pack.file, allow_pickle=False) as arrays:
        names = sorted(key.removesuffix("_train") for key in arrays.files if key.endswith("_train"))
    out = []
    for name in names:
        train, test = (_millionths(pack[f"{name}_{part}"], length) for part in ("train", "test"))
        flags = pack[f"{name}_test_label"]
        blamed = parse_blamed(str(pack[f"{name}_interpretation_label"]), len(flags), f"{pack.file}, {name},")
        out.append(_Machine(name, train, test, flags[: len(test)] == 1, blamed))
    return out


def _millionths(rows: NDArray[np.int32], length: int) -> Floats:
    whole: Floats = (rows[: len(rows) // length * length] / 1e6).astype(np.float32)
    return whole


def _scored(machines: Sequence[_Machine], chosen_on: Sequence[_Machine] = ()) -> tuple[tuple[Series, ...], Answers]:
    test = Labelled(
        tuple(machine.series(machine.test) for machine in machines),
        tuple(truth for machine in machines for truth in machine.truth),
    )
    found = answers(test, SMD.card.length)
    used = {machine.name for machine in chosen_on}
    others = np.array([entity not in used for entity in found.entities], dtype=bool)
    parts = {f"{len(machines) - len(used)} machines never chosen on": others} if used else {}
    return test.series, replace(found, parts=parts)


def _same_machines(raw: Path, seed: int) -> tuple[list[_Machine], list[_Machine]]:
    """The machines of a seed, and those among them on which settings may have been chosen, by this protocol or as
    unseen ones."""
    every = _machines(raw)
    seen = set(range(0, len(every), 2)) | {i for fold in CHOSEN_FOLDS for i in range(fold, len(every), FOLDS)}
    return (every[::2], []) if seed >= CHOOSING else (every, [every[i] for i in sorted(seen)])


def _smd_causal(raw: Path, seed: int) -> Task:
    machines, chosen_on = _same_machines(raw, seed)
    test, known = _scored(machines, chosen_on)
    return Task(tuple(machine.series(machine.train) for machine in machines), test, known)


def _smd_audit(raw: Path, seed: int) -> Task:
    machines, chosen_on = _same_machines(raw, seed)
    test, known = _scored(machines, chosen_on)
    train = tuple(machine.series(machine.train) for machine in machines)
    return Task(train, test, known, tuple(machine.series(machine.train, machine.test) for machine in machines))


def _smd_audit_all(raw: Path, seed: int) -> Task:
    machines, chosen_on = _same_machines(raw, seed)
    test, known = _scored(machines, chosen_on)
    return Task(tuple(machine.series(machine.train, machine.test) for machine in machines), test, known)


def rotation(seed: int) -> int:
    """Folds 0 and 1 are for reporting, 2 and 3 for choosing. The machines of fold 0 are among those that causal and
    audit choose on; those of fold 1 have been seen by no choice."""
    return seed % 2 + (CHOSEN_FOLDS[0] if seed >= CHOOSING else 0)


def _smd_unseen(raw: Path, seed: int, eta: float = ETA_SMD) -> Task:
    """The train parts count as normal, as they carry no labels; what is anomalous is drawn from all labelled
    observations of the training machines alike."""
    every = _machines(raw)
    unseen = every[rotation(seed) :: FOLDS]
    others = [machine for machine in every if machine not in unseen]
    pool = [(machine, values) for machine in others for values in machine.incidents()]
    normal = sum(len(machine.train) for machine in others) // SMD.card.length
    taken = share(eta, normal, len(pool), "smd-unseen")
    chosen = [pool[i] for i in sorted(np.random.default_rng(seed).permutation(len(pool))[:taken])]
    train = tuple(one.series(one.train, *(values for owner, values in chosen if owner is one)) for one in others)
    test, known = _scored(unseen)
    return Task(train, test, known, tuple(machine.series(machine.train) for machine in unseen))


def _observations(dataset: DataSet, raw: Path) -> tuple[Floats, list[tuple[str, ...]]]:
    pieces = [piece for record in dataset.records(raw) for piece in dataset.read(record).pieces]
    kinds = [tuple(dict.fromkeys(span.kind for span in piece.spans)) for piece in pieces]
    return np.stack([piece.values for piece in pieces]), kinds


def _sleep(raw: Path, seed: int, **split: Any) -> Task:
    _needed(raw, SLEEP)
    return _divided(*_observations(SleepEDF(), raw), ETA_SLEEP, seed, split)


def _cinc(raw: Path, seed: int, **split: Any) -> Task:
    _needed(raw, CINC)
    return _divided(*_observations(CinC(), raw), ETA_ECG, seed, split)


def _ludb(raw: Path, seed: int, **split: Any) -> Task:
    """By the pack's own flags, which count supposed NSTEMI among the five types; `data.ludb` does not."""
    pack = _needed(raw, LUDB)
    columns = [pack.find("class_names", flag) for flag in LUDB_FLAGS]
    flags, normal = pack["y"][:, columns] == 1, pack["normal"] == 1
    kinds = [tuple(kind for kind, on in zip(LUDB_FLAGS.values(), row, strict=True) if on) for row in flags]
    used = np.flatnonzero(normal | flags.any(axis=1))
    return _divided(pack["x100"][used].astype(np.float32) / 1000, [kinds[i] for i in used], ETA_ECG, seed, split)


def _divided(values: Floats, kinds: Sequence[tuple[str, ...]], eta: float, seed: int, split: Mapping[str, Any]) -> Task:
    if not split:
        return halves(values, kinds, eta, seed)
    return contaminated(values, kinds, split.get("eta", eta), seed, split.get("kappa"))


def _plant(raw: Path, seed: int, eta: float | None = None, kappa: int | None = None) -> Task:
    given = {name: value for name, value in (("contamination", eta), ("kinds", kappa)) if value is not None}
    config = replace(Plant.Config(seed=seed), **given)  # type: ignore[arg-type]
    split = Plant(config).split()
    return Task(split.train, split.test.series, answers(split.test, config.length))


TEN = tuple(range(10))
MOST = 0.4  # of eta: beyond it, what is anomalous would soon be the rule
PROTOCOLS = {
    one.name: one
    for one in (
        Protocol("smd-causal", SMD19, 600, _smd_causal),
        Protocol("smd-audit", SMD19, 600, _smd_audit, trains_as="smd-causal"),
        Protocol("smd-audit-all", SMD19, 600, _smd_audit_all),
        Protocol("smd-unseen", SMD19, 600, _smd_unseen, (0, 1, 2, 3), (100, 101), options={"eta": MOST}),
        Protocol("sleep", SLEEP, 3000, _sleep, options={"eta": MOST, "kappa": 2}),
        Protocol("ludb", LUDB, 1000, _ludb, TEN, options={"eta": MOST, "kappa": len(FIVE)}),
        Protocol("cinc", CINC, 1000, _cinc, TEN, options={"eta": MOST, "kappa": len(FIVE)}),
        Protocol("plant", "", Plant.Config().length, _plant, options={"eta": MOST, "kappa": len(KINDS)}),
    )
}
