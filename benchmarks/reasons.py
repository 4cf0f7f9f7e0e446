"""Does the reason of an interval name the kind of fault that was planted, and the right variable?

    python benchmarks/reasons.py --seeds 0 1 2

The ensemble learns from the unlabelled history of the simulated plant and finds intervals in its test part. An interval
that overlaps a planted fault is a detected one, and is compared with the fault that it overlaps most:

    planted        named
    spike          spike
    level shift    level
    stuck          stuck
    quiet          spread, less than usual
    waveform       frequency
    decoupled      correlation

`kind` is the share of detected intervals with the right name, `blame` that in which the variable with the largest share
has the fault, and `usual` that in which the score falls below the threshold if blamed variables are as usual."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence

import pandas as pd

from tsadc import Ensemble
from tsadc.data.plant import Plant
from tsadc.detectors.counterfactual import counterfactual
from tsadc.detectors.reasons import Reason
from tsadc.series import Truth

NAMED = {
    "spike": "spike",
    "level shift": "level",
    "stuck": "stuck",
    "quiet": "spread",
    "waveform": "frequency",
    "decoupled": "correlation",
}


def is_named(reason: Reason | None, fault: Truth) -> bool:
    """Return whether a reason names the kind of a planted fault."""
    if reason is None or reason.kind != NAMED[fault.kind]:
        return False
    return reason.kind != "spread" or reason.value < 1


def measure(config: Plant.Config) -> pd.DataFrame:
    """Return one row per detected interval: planted kind, named kind, and whether kind, blame and `usual` are right."""
    split = Plant(config).split()
    detector = Ensemble(length=config.length).fit(split.train)
    rows = []
    for part in detector.detect(split.test.series).parts:
        faults = [fault for fault in split.test.truth if fault.entity == part.series.entity]
        for interval in part.intervals:
            overlap = {
                min(fault.stop, interval.stop) - max(fault.start, interval.start): fault for fault in reversed(faults)
            }
            if not overlap or max(overlap) <= 0:
                continue
            fault = overlap[max(overlap)]
            otherwise = counterfactual(detector, part, interval)
            rows.append(
                {
                    "planted": fault.kind,
                    "named": interval.reason.kind if interval.reason else "other",
                    "kind": is_named(interval.reason, fault),
                    "blame": next(iter(interval.variables), "") in fault.variables,
                    "usual": otherwise is not None and otherwise.after <= detector.threshold_,
                }
            )
    return pd.DataFrame(rows)


def table(found: pd.DataFrame) -> str:
    """Return the shares by planted kind, and of all, as a Markdown table."""
    lines = ["| planted | intervals | kind | blame | usual | named otherwise |", "|---|---|---|---|---|---|"]
    others: dict[str, list[str]] = defaultdict(list)
    for planted, wrong in found[~found["kind"]].groupby("planted"):
        others[str(planted)] = [f"{name} {count}" for name, count in wrong["named"].value_counts().items()]
    for planted, group in [*found.groupby("planted"), ("all", found)]:
        shares = " | ".join(f"{group[name].mean():.3f}" for name in ("kind", "blame", "usual"))
        lines.append(f"| {planted} | {len(group)} | {shares} | {', '.join(others[str(planted)])} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table of some seeds together."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    chosen = parser.parse_args(arguments)
    print(table(pd.concat([measure(Plant.Config(seed=seed)) for seed in chosen.seeds], ignore_index=True)))


if __name__ == "__main__":
    main()
