"""Train other detectors on data that TSAD-C has cleaned: does decontamination help them?

    python benchmarks/paper/cleaned.py                  # run the jobs of plans/paper/cleaned.toml on cleaned data
    python benchmarks/paper/cleaned.py --table FILE     # write the table of its records only

TSAD-C is fitted on the unlabelled training part. Complementary masks then hide every cell once, and module 1 imputes it
from the rest of its observation. The residual of a cell is its distance to the imputed value, in z units of its entity,
relative to the median of its variable, so that a variable that nothing predicts does not count as anomalous throughout.
The share of cells with the largest residuals is replaced by the imputed values; all others stay as they were measured.

That share is TSAD-C's estimate of the contamination, which counts observations. An anomalous observation is seldom
anomalous in every cell, so rather too many cells are replaced than too few; a cell that is replaced in error moves by
no more than its residual. No label is used. A threshold from cleaned data is lower than one from data as
they come, so compare the order of scores (AUROC, AP).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tsadc.atomic import write_file
from tsadc.bench.execute import beginning, execute
from tsadc.bench.job import Job, Record
from tsadc.bench.plan import read
from tsadc.bench.records import Store, current, exclusive, key_of, load, stale
from tsadc.cli.bench_select import selected, traits_of
from tsadc.config import update
from tsadc.data.task import Data, subsample
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.io.memory import as_series
from tsadc.series import Booleans, Floats, Observations
from tsadc.show.bench_markdown import markdown
from tsadc.windows import cut

HERE = Path(__file__).parent
PLAN = HERE.parents[1] / "plans" / "paper" / "cleaned.toml"
RESULTS = HERE.parent / "results" / "paper"
OPTION = {"cleaned": 1}  # marks the records of cleaned data
MASKS = 5


@dataclass(frozen=True)
class Cleaned:
    """The training data with `count` cells replaced, which are `share` of the measured ones."""

    data: Data
    share: float
    count: int


def clean(train: Data, config: TSADC.Config, seed: int) -> Cleaned:
    """Fit TSAD-C and clean the training data. Entities, names, clocks, lengths and unmeasured cells stay."""
    masks = {} if config.inference.masks else {"inference": {"masks": MASKS}}
    detector = TSADC(config=update(config, {"seed": seed, **masks})).fit(train)
    return replaced(train, detector, detector.contamination_.share)


def replaced(data: Data, detector: TSADC, share: float) -> Cleaned:
    """Replace the `share` of measured cells with the largest residuals by what a fitted TSAD-C imputes."""
    series = as_series(data, detector.settings.length)
    observations = cut(series, detector.settings.length, detector.settings.coverage).observations
    imputed = [estimate.decontaminated for estimate in detector.module_outputs(data)]
    residuals = _residuals(observations, imputed, detector)
    chosen = most_extreme(residuals, share)
    values = [np.array(one.values, dtype=np.result_type(one.values.dtype, np.float32)) for one in series]
    for i, place in enumerate(observations.places):
        first = max(place.start, 0)
        rows = values[place.series][first : place.start + observations.length]
        inside = slice(first - place.start, first - place.start + len(rows))
        rows[chosen[i, :, inside].T] = imputed[i][:, inside].T[chosen[i, :, inside].T]
    return Cleaned(as_given(data, values), share, int(chosen.sum()))


def _residuals(observations: Observations, imputed: Sequence[Floats], detector: TSADC) -> Floats:
    """Return the residuals (observation, variable, time), NaN where nothing was measured."""
    scale, residuals = detector.scaler_, []
    for i, expected in enumerate(imputed):
        entity = observations.entity(i)
        residuals.append(np.abs(scale(entity, observations.read(i).T) - scale(entity, expected.T)).T)
    return np.stack(residuals)


def most_extreme(residuals: Floats, share: float) -> Booleans:
    """Return the `share` of the measured cells with the largest residuals, relative to the median of their variable."""
    known = np.isfinite(residuals)
    count = round(share * known.sum())
    usual = np.nanmedian(np.where(known, residuals, np.nan), axis=(0, 2), keepdims=True)
    # The median is zero if a variable is nearly always imputed exactly; any residual is then extreme.
    ratio = np.where(known, residuals, -1.0) / np.maximum(usual, np.finfo(np.float32).tiny)
    chosen = np.zeros(residuals.size, dtype=bool)
    if count:
        chosen[np.argpartition(ratio.ravel(), -count)[-count:]] = True
    return chosen.reshape(residuals.shape)


def as_given(data: Data, values: Sequence[Floats]) -> Data:
    """Return the values in the form of the data."""
    if isinstance(data, np.ndarray):
        return values[0].reshape(data.shape)  # observations are read as one series, end to end
    return tuple(replace(one, values=new) for one, new in zip(data, values, strict=True))


def run(job: Job, raw: Path) -> tuple[Record, dict[str, Any]]:
    """Run a job on the cleaned training part."""
    made = _cleaned_part(job.dataset, raw, job.seed, job.observations, _cleaner(job))
    task = replace(job.task(raw), train=made.data)
    measured, scores = execute(replace(job, observations=None), task)
    record = {**beginning(job, raw), **measured, "cleaned_share": made.share, "cleaned_cells": made.count}
    return {**record, "split": OPTION}, scores


def _cleaner(job: Job) -> TSADC.Config:
    """Return the default TSAD-C with the length, coverage and epochs of the job."""
    own = job.config()
    epochs = {"training": {"epochs": own.training.epochs}} if job.network else {}  # type: ignore[attr-defined]
    config: TSADC.Config = update(TSADC.Config(), {"length": own.length, "coverage": own.coverage, **epochs})
    return config


@lru_cache(maxsize=4)
def _cleaned_part(dataset: str, raw: Path, seed: int, observations: int | None, config: TSADC.Config) -> Cleaned:
    train = Job(dataset, "random", seed).task(raw).train
    if observations is not None:
        train = subsample(train, config.length, observations, config.coverage)
    return clean(train, config, seed)


def table() -> str:
    """Return the records of cleaned data beside those of the same jobs on data as they come, from the main study."""
    plan = read(PLAN)
    jobs = {job.key: job for job in plan.jobs()}
    cleaned = load(RESULTS / "cleaned")
    done = {_plain_key(record) for record in cleaned}
    plain = [{**one, "label": jobs[key_of(one)].label} for one in load(RESULTS / "main") if key_of(one) in done]
    records = [*plain, *cleaned]
    old = sum(stale(record, jobs[_plain_key(record)]) for record in records)
    remarks = [f"{len(jobs) - len(done)} of {len(jobs)} jobs not run."] if len(done) < len(jobs) else []
    remarks += [f"{old} of {len(records)} records are stale."] if old else []
    text = markdown(records, metrics=plan.metrics, brief=True)
    return "\n\n".join(filter(None, [f"# {plan.title}", plan.note, " ".join(remarks), text])) + "\n"


def _plain_key(record: Record) -> tuple[str, str, int]:
    """Return the key of the job without the mark of cleaned data."""
    return key_of({**record, "split": {}})


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train other detectors on data that TSAD-C has cleaned.")
    parser.add_argument("--only", action="append", default=[], help="only these jobs, as data=NAME, detector=NAME, ...")
    parser.add_argument("--out", type=Path, default=RESULTS / "cleaned", help="the folder for records")
    parser.add_argument("--raw", type=Path, default=Path(os.environ.get("TSADC_DATA") or "."), help="the data sets")
    parser.add_argument("--table", type=Path, metavar="FILE", help="only write the records as a table to this file")
    options = parser.parse_args(arguments)
    if options.table:
        write_file(options.table, table().encode())
        return
    jobs = read(PLAN).jobs()
    jobs = selected(jobs, [traits_of(job) for job in jobs], options.only, "The plan has")
    with exclusive(options.out):
        kept = {_plain_key(record): record for record in load(options.out)}
        for job in jobs:
            if current(kept.get(job.key), job, options.raw):
                continue
            record, scores = run(job, options.raw)
            Store(options.out).keep(record, scores)
            print(f"{job.data} {job.label} seed {job.seed}: AUROC {record['auroc']:.3f}, AP {record['ap']:.3f}")


if __name__ == "__main__":
    main()
