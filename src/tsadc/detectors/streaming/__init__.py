"""Streaming: rows that arrive one by one -> the verdicts of `Detector.detect`, as soon as they are final.

    name          meaning
    row number    position of a row on the clock: since 1970 for dates, otherwise the row number of the input
    newest        latest row number that has arrived
    tick          row number at which verdicts are made, from all rows before it: the end of every observation, and
                  every `every` rows within it for provisional verdicts
    section       consecutive anomalous observations, whose intervals may still grow
    settled       a section that ended: an observation that is not anomalous, or was left out, followed it
    margin        rows around an interval that its reason is decided from

Everything that is emitted is decided at ticks, from rows that can no longer change. It is therefore a function of the
rows of an entity in the order of their arrival, and does not depend on the sizes of pushes or on other entities.

State is bounded: about two observations of values per entity, and while a section lasts, its values and its evidence,
at most `LONGEST` observations. There, an interval is cut in two. Apart from that, what is final equals what `detect`
says about the whole series, to the bit. Past episodes that resemble an interval (`Result.similar`) and `Result.drift`
need the whole series, and are not part of a stream.

Read in this order:

    update.py   what a stream says: verdicts and intervals
    rows.py     the latest rows of an entity
    gaps.py     where its sensors stop reporting
    track.py    its state: rows, gaps, sections
    judge.py    what is decided about it at a tick
    pushed.py   the arguments of `push` as arrays
    stream.py   takes rows, finds the ticks that they complete, and returns what is decided
    state.py    the state as bytes
"""

from tsadc.detectors.streaming.stream import Stream
from tsadc.detectors.streaming.update import LiveInterval, LiveVerdict, StreamUpdate

__all__ = ["LiveInterval", "LiveVerdict", "Stream", "StreamUpdate"]
