"""`tsadc bench impurity` and `tsadc bench approximation`: experiments of the paper that compare no detectors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tsadc.atomic import write_file
from tsadc.bench import approximation, impurity
from tsadc.bench.machine import circumstances
from tsadc.config import parse_assignments, to_mapping, update
from tsadc.data import catalogue
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.errors import ConfigError, DataError
from tsadc.show import approximation_figure
from tsadc.show.bench_markdown import insert
from tsadc.show.shell import write_page
from tsadc.show.words import count

STUDIES = {"impurity": impurity, "approximation": approximation}


def impurity_to(out: Path, raw: Path, *, seed: int, draws: int, into: Path | None = None) -> str:
    """Measure what masks leave of the anomalies, keep the record, and say it as a table."""
    for name, least, value in (("--draws", 2, draws), ("--seed", 0, seed)):
        if value < least:
            raise ConfigError(f"{name} takes a whole number from {least}, but got {value}.")
    if not raw.exists():
        raise DataError(
            f"There is no folder {raw}, but the folder with the data sets was expected; name it by --raw or TSADC_DATA."
        )
    _keep(out, {"study": "impurity", **impurity.study(raw, seed=seed, draws=draws)})
    return study_table(out, into)


@dataclass(frozen=True)
class Pictured:
    """What `tsadc bench approximation` is asked for; `record` is where its numbers go, if anywhere."""

    data: str
    page: Path
    raw: Path
    record: Path | None = None
    preset: str = "default"
    settings: Sequence[str] = ()
    seed: int = 0


def approximation_to(asked: Pictured) -> str:
    """Train on a data set, and show a normal and an anomalous observation beside what the modules make of them."""
    protocol = catalogue.find(asked.data, "benchmark")
    if not catalogue.present(protocol, asked.raw):
        raise DataError(f"{asked.raw} has no {protocol.source}; set TSADC_DATA to the folder that holds it.")
    # The imputation is wanted, and neither the other views nor the threshold are.
    given = {"length": protocol.length, "seed": asked.seed, "scoring": "own"}
    config = update(update(TSADC.Config.preset(asked.preset), given), parse_assignments(asked.settings))
    found = approximation.approximations(catalogue.draw(asked.data, asked.raw, asked.seed), config)
    kept = approximation.record(found, asked.seed)
    title = f"Normal approximation: {asked.data}, seed {asked.seed}"
    made = circumstances()
    write_page(approximation_figure.render(found, title=title, facts=_facts(asked, config, made)), asked.page)
    if asked.record is not None:
        about = {"study": "approximation", "data": asked.data, "seed": asked.seed, "preset": asked.preset}
        _keep(asked.record, {**about, "settings": to_mapping(config), **kept, **made})
    return f"{approximation.markdown(kept)}\n\nThe page is {asked.page}."


def _facts(asked: Pictured, config: TSADC.Config, made: Mapping[str, Any]) -> dict[str, str]:
    """What a page says of where its numbers come from."""
    epochs = count(config.training.epochs, "epoch", "epochs")
    given = f", set {', '.join(asked.settings)}" if asked.settings else ""
    return {
        "Data": f"{asked.data}, seed {asked.seed}",
        "Detector": f"tsadc, preset {asked.preset}, {epochs}{given}",
        "Version": f"tsadc {made['versions']['tsadc']} at commit {made['commit'] or 'unknown'}",
        "Packages": ", ".join(f"{package} {version}" for package, version in made["versions"].items()),
        "Machine": f"{made['machine']['processor']}, {count(made['machine']['cores'], 'core', 'cores')}",
        "Made": made["made"],
    }


def study_table(file: Path, into: Path | None = None) -> str:
    """The record of a study as a table; with `into` it goes between the marks that bear the file's name there."""
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        text = STUDIES[record["study"]].markdown(record)
    except OSError:
        raise DataError(f"There is no record {file}; run the study first.") from None
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{file} is damaged or no record of a study; delete it and run the study again.") from None
    if into is not None:
        insert(into, text, file.stem)
    return str(text)


def _keep(file: Path, record: dict[str, Any]) -> None:
    write_file(file, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())
