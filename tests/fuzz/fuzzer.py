"""Read thousands of damaged files, models and requests, and report every traceback, crash, hang and excess of memory.

    python tests/fuzz/fuzzer.py --files 10000 --models 1000 --requests 10000 --processes 2

Case i is the same in every run: it is made from i alone. Each case runs in a process with a limit of 1 GB more memory
than it has when it starts, and of `--seconds` of time. A case is fine if the file is read, or refused by a TsadcError
of one line. `--case files:123` runs one case here, with its traceback."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import io
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

EXCESS = 2**30  # bytes of memory a case may take
ROWS, LENGTH = 60, 8
NUMBERS = (0, 1, 0x7F, 0x80, 0xFF)
WORDS = (
    b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\0\0\0\0", b"\xff" * 8,
    b"\xff" * 7 + b"\x7f", b"\1\0\0\0",
)  # fmt: skip
TOKENS = (
    b"1e400", b"-1e308", b"1e308", b"nan", b"inf", b"=1+1", b"\0", b"\xed\xa0\x80", b'"', b"\n", b",,,,", b";",
    b"9" * 400, b"2024-01-01", b"9999-99-99", b"[" * 50, b"\x1b[2J", b"-", b"1e-320", b" ", b"\r", b"0x10",
    b"99999999", b"-1", b"1/0",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    0, -1, 1, 2, 1000, 10**6, 10**9, 2**62, 2**63, 1.5, -0.5, 1e308, 5e-324, "", "x", "auto", "\x1b[2J", None, True,
    [], {}, [0], [[1.0]], {"a": 1}, ["a", "a"],
)  # fmt: skip


# Made on purpose, to test that they are seen.
FAULTS: dict[str, Callable[[], Any]] = {
    "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "hang": lambda: time.sleep(1000),
    "memory": lambda: np.ones(2 * EXCESS, np.uint8),
}


def frame() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    times = pd.date_range("2024-01-01", periods=ROWS, freq="min")
    values = generator.normal(size=(ROWS, 3)).cumsum(axis=0)
    return pd.DataFrame({"time": times, **{name: values[:, i] for i, name in enumerate("abc")}})


@cache
def samples() -> dict[str, dict[str, bytes]]:
    """A small valid file of each kind with its companions, by name; the first is the one to read."""
    import h5py
    import pyarrow as pa
    from pyarrow import ipc
    from scipy.io import savemat

    from tsadc.io.read import ENDINGS

    table, values = frame(), np.random.default_rng(0).normal(size=(ROWS, 3))
    text = table.to_csv(index=False).encode()

    def written(write: Callable[[Any], Any]) -> bytes:
        out = io.BytesIO()
        write(out)
        return out.getvalue()

    def hdf5(out: Any) -> None:
        with h5py.File(out, "w") as file:
            file["signals/eeg"] = values
            file["signals/eeg"].attrs["fs"] = 250
            file.create_dataset("packed", data=values[:, 0], chunks=(10,), compression="gzip")

    def stream(out: Any) -> None:
        content = pa.Table.from_pandas(table)
        with ipc.new_stream(out, content.schema) as writer:
            writer.write_table(content)

    ecg = {"ECG": {"sex": "Female", "age": 49, "data": values[:50].T.repeat(4, axis=0)}}
    header = b"a 2 250 60\na.dat 16 200(0)/mV 16 0 0 0 0 I\na.dat 16 200(0)/mV 16 0 0 0 0 II\n# Age: 3\n"
    signal = (values[:, :2] * 100).astype("<i2").tobytes()
    found = {
        "csv": {"a.csv": text},
        "semicolon": {"a.csv": table.to_csv(index=False, sep=";", decimal=",").encode()},
        "tsv": {"a.tsv": table.to_csv(index=False, sep="\t").encode()},
        "gz": {"a.csv.gz": gzip.compress(text)},
        "parquet": {"a.parquet": written(lambda out: table.assign(site="x").to_parquet(out))},
        "arrow": {"a.arrow": written(stream)},
        "feather": {"a.feather": written(lambda out: table.to_feather(out))},
        "npy": {"a.npy": written(lambda out: np.save(out, values))},
        "npz": {"a.npz": written(lambda out: np.savez(out, x=values, y=values))},
        "packed npz": {"a.npz": written(lambda out: np.savez_compressed(out, x=values, y=values.astype(np.int8)))},
        "wfdb": {"a.hea": header, "a.dat": signal},
        "edf": {"a.edf": _edf(values)},
        "hdf5": {"a.h5": written(hdf5)},
        "mat": {"a.mat": written(lambda out: savemat(out, ecg))},
        "packed mat": {"a.mat": written(lambda out: savemat(out, ecg, do_compression=True))},
    }
    if ".xlsx" in ENDINGS:
        found["xlsx"] = {"a.xlsx": written(lambda out: _write_xlsx(table, out))}
    return found


def _write_xlsx(table: pd.DataFrame, out: Any) -> None:
    """Write the smallest workbook there is: one sheet, whose texts are in its cells."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    sheet = "application/vnd.openxmlformats-officedocument.spreadsheetml"

    def cell(value: Any) -> str:
        text = str(value)
        return f"<c><v>{text}</v></c>" if isinstance(value, float) else f'<c t="inlineStr"><is><t>{text}</t></is></c>'

    rows = [list(table.columns), *table.itertuples(index=False)]
    lines = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Override PartName="/xl/workbook.xml" '
        f'ContentType="{sheet}.sheet.main+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
        f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets><sheet name="a" sheetId="1" '
        'r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
        f'Type="{office}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{lines}</sheetData></worksheet>',
    }
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{content}')


def _edf(values: Any) -> bytes:
    signals = [(label, *("", "uV", "-192", "192", "-2048", "2047", "", "20", "")) for label in ("EEG", "EMG")]
    head = f"{'0':8}{'X X X X':80}{'Startdate X X X X':80}24.04.8916.13.00{256 * 3:<8}{'':44}{3:<8}{'0.5':8}{2:<4}"
    for place, width in enumerate((16, 80, 8, 8, 8, 8, 8, 80, 8, 32)):
        head += "".join(f"{signal[place]:{width}}" for signal in signals)
    return head.encode("latin-1") + (values[:60, :2] * 100).astype("<i2").tobytes()


def mutate(content: bytes, chance: random.Random) -> bytes:
    """Damage the content in one to four places."""
    out = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 4))):
        if not out:
            return b""
        # Half of the damage goes to the first bytes, where the structure of most formats is.
        place = chance.randrange(min(len(out), 600)) if chance.random() < 0.5 else chance.randrange(len(out))
        kind = chance.randrange(8)
        if kind == 0:
            out[place] = chance.choice(NUMBERS)
        elif kind == 1:
            out[place] ^= 1 << chance.randrange(8)
        elif kind == 2:
            word = chance.choice(WORDS)
            out[place : place + len(word)] = word
        elif kind == 3:
            out[place:place] = chance.choice(TOKENS)
        elif kind == 4:
            token = chance.choice(TOKENS)
            out[place : place + len(token)] = token
        elif kind == 5:
            del out[place : place + chance.choice((1, 2, 8, 64, 1000))]
        elif kind == 6:
            out[place:place] = out[place : place + chance.choice((1, 8, 64, 1000))]
        elif chance.random() < 0.3:
            del out[place:]
        else:
            out[place] = chance.randrange(256)
    return bytes(out)


def damaged(name: str, content: bytes, chance: random.Random) -> bytes:
    """Damage a file, or what is packed in it."""
    inside = chance.random() < 0.6
    if name.endswith(".gz") and inside:
        return gzip.compress(mutate(gzip.decompress(content), chance))
    if name.endswith((".npz", ".xlsx")) and inside:
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
            names = archive.namelist()
            chosen = chance.choice(names)
            for entry in names:
                new.writestr(entry, mutate(archive.read(entry), chance) if entry == chosen else archive.read(entry))
        return out.getvalue()
    return mutate(content, chance)


def read_damaged_file(number: int, folder: Path) -> str:
    """Run case `number` of the files and return what became of it."""
    from tsadc.errors import TsadcError
    from tsadc.io.read import read

    chance = random.Random(number)
    kinds = sorted(samples())
    files = dict(samples()[kinds[number % len(kinds)]])
    main, hurt = next(iter(files)), chance.choice(list(files))
    files[hurt] = damaged(hurt, files[hurt], chance)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    try:
        for series in read(folder / main):
            np.asarray(series.values).sum()
    except TsadcError as error:
        return _refused(error)
    return "read"


def fit_models(folder: Path) -> None:
    """Write the models that are damaged later."""
    from tsadc.detectors import find

    small = {"decontaminator": {"channels": 2, "state": 2}, "dependencies": {"features": 2, "state": 2, "graphs": 1}}
    network = {**small, "training": {"epochs": 1}, "inference": {"masks": 2}}
    settings = {"robust-z": {}, "ensemble": {}, "ridge": {}, "pca": {}, "tsadc": network}
    for name, chosen in settings.items():
        cls = find(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = frame().set_index("time")
            cls(config=cls.Config(length=LENGTH, **chosen)).fit(data).save(folder / name)


def load_damaged_model(number: int, folder: Path, models: Path) -> str:
    """Run case `number` of the models and return what became of it: it is loaded, and used if that succeeds."""
    from tsadc.detectors.store import load
    from tsadc.errors import TsadcError

    chance = random.Random(number)
    names = sorted(path.name for path in models.iterdir())
    source = models / names[number % len(names)]
    settings = json.loads((source / "config.json").read_text())
    data = (source / "model.safetensors").read_bytes()
    kind = chance.randrange(5)
    if kind == 0:
        data = mutate(data, chance)
    elif kind == 1:
        data = _damaged_arrays(data, chance)
    elif kind < 4:
        for _ in range(chance.choice((1, 1, 3))):
            _damage_tree(settings, chance)
    if "arrays" in settings and kind < 2 and chance.random() < 0.9:
        settings["arrays"] = hashlib.sha256(data).hexdigest()
    text = json.dumps(settings).encode()
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_bytes(mutate(text, chance) if kind == 4 else text)
    (model / "model.safetensors").write_bytes(data)
    try:
        detector = load(model)
        detector.detect(frame().set_index("time")).intervals  # noqa: B018 (it is built when it is used)
    except TsadcError as error:
        return _refused(error)
    return "loaded"


@cache
def requests() -> dict[str, tuple[bytes, str]]:
    """A small valid body of each kind of request, uncompressed, and its `Content-Encoding`."""
    from serve.wire import NOW, metric, series

    written = [
        series(metric("load", host, cpu=str(cpu)), [(NOW + 1000 * i, i * 0.5) for i in range(3)])
        for host in "ab"
        for cpu in range(4)
    ]
    times = [(host, i) for host in "ab" for i in range(9)]
    lines = [f"cpu,host={host},cpu=cpu{i % 2} user={i}.5,system={i}i,idle=t {10**18 + i}" for host, i in times]
    text = 'my\\ disk,host=a,path=C:\\x free=1,label="a\\"b",used=2 17\n'
    body = "\n".join([*lines, text, *lines]).encode()
    return {
        "remote write": (b"".join(written), "snappy"),
        "lines": (body, ""),
        "packed lines": (body, "gzip"),
        "text": (text.encode() * 9, ""),
    }


def decode_damaged_request(number: int) -> str:
    """Run case `number` of the requests and return what became of it."""
    import cramjam

    from tsadc.errors import TsadcError
    from tsadc.serve.readers.line_protocol import LineProtocolDecoder
    from tsadc.serve.readers.remote_write import RemoteWriteDecoder

    pack = {"snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)), "gzip": gzip.compress, "": bytes}
    chance = random.Random(number)
    kinds = sorted(requests())
    kind = kinds[number % len(kinds)]
    body, encoding = requests()[kind]
    inside = chance.random() < 0.8
    body = pack[encoding](mutate(body, chance)) if inside else mutate(pack[encoding](body), chance)
    try:
        if kind == "remote write":
            decoded = RemoteWriteDecoder().decode(body, encoding)
        else:
            decoded = LineProtocolDecoder().decode(body, 0, encoding=encoding)
    except TsadcError as error:
        return _refused(error)
    if not all(np.isfinite(batch.values).all() for batch in decoded.batches):
        return "FAILED: a value is not finite"
    return "decoded"


def _damage_tree(tree: Any, chance: random.Random) -> None:
    while True:
        places = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        if not places:
            return
        place = chance.choice(places)
        below = tree[place]
        if isinstance(below, dict | list) and below and chance.random() < 0.85:
            tree = below
            continue
        if chance.random() < 0.1:
            del tree[place]
        else:
            tree[place] = chance.choice(VALUES)
        return


def _damaged_arrays(data: bytes, chance: random.Random) -> bytes:
    from safetensors.numpy import load as load_arrays
    from safetensors.numpy import save as save_arrays

    arrays = {name: np.array(array) for name, array in load_arrays(data).items()}
    name = chance.choice(sorted(arrays))
    array = arrays.pop(name)
    kind = chance.randrange(7)
    if kind == 0:
        arrays[name + "x"] = array
    elif kind == 1 and array.size:
        array.flat[chance.randrange(array.size)] = np.nan if array.dtype.kind == "f" else 1
        arrays[name] = array
    elif kind == 2:
        arrays[name] = array.reshape(-1)[: array.size // 2]
    elif kind == 3:
        arrays[name] = np.concatenate([array.reshape(-1)] * 2)
    elif kind == 4:
        arrays[name] = array.astype(chance.choice((np.float64, np.int32, np.uint8, np.bool_)))
    elif kind == 5 and array.size and array.dtype.kind == "f":
        arrays[name] = array * chance.choice((1e30, -1.0, 0.0))
    return save_arrays(arrays)


def _refused(error: Exception) -> str:
    message = str(error)
    if "\n" in message or not message.endswith((".", "?")) or len(message) > 2000:
        return f"FAILED: the message is not one sentence: {message[:300]!r}"
    return "refused"


def run_case(case: str, models: Path) -> str:
    """Run a case such as `files:7`; return `read`, `loaded`, `decoded`, `refused` or what failed."""
    part, number = case.split(":")
    with tempfile.TemporaryDirectory() as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if part in FAULTS:
                FAULTS[part]()
            if part == "files":
                return read_damaged_file(int(number), Path(temporary))
            if part == "requests":
                return decode_damaged_request(int(number))
            return load_damaged_model(int(number), Path(temporary), models)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            own = [frame for frame in frames if f"{os.sep}tsadc{os.sep}" in frame.filename]
            where = ", ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in (*own[-1:], frames[-1]))
            return f"FAILED: {type(error).__name__} at {where}: {' '.join(str(error).split())[:200]}"


def work(models: Path) -> None:
    """Run the cases named on stdin, one answer per line; limit the memory of this process first."""
    import resource

    import tsadc.detectors.store
    import tsadc.io.read  # noqa: F401

    samples()
    if any(models.iterdir()):
        run_case("models:4", models)  # imports torch
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + EXCESS, used + EXCESS))
    print("ready", flush=True)
    for line in sys.stdin:
        print(run_case(line.strip(), models).replace("\n", " "), flush=True)


@dataclass
class Worker:
    """A process that runs cases, and is replaced after a crash or a hang."""

    models: Path
    seconds: float

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1", "ARROW_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", str(self.models)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        if self._answer(120) != "ready":
            raise RuntimeError("the worker does not start")

    def run(self, case: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{case}\n")
        self.process.stdin.flush()
        answer = self._answer(self.seconds)
        if answer:
            return answer
        self.stop()
        code = self.process.returncode
        self.start()
        return f"FAILED: no answer within {self.seconds:g} s" if answer is None else f"FAILED: it ended with {code}"

    def _answer(self, seconds: float) -> str | None:
        """Return a line, nothing if the process has ended, and None if the time is up."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        return self.process.stdout.readline().strip() if ready else None

    def stop(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):  # after a crash, wait for the code
            self.process.wait(0.2)
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self.process.wait()


def run(
    cases: Sequence[str], *, processes: int = 1, seconds: float = 20, deadline: float | None = None
) -> dict[str, str]:
    """Run the cases, until `deadline` seconds have passed, and return what became of each."""
    answers: dict[str, str] = {}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        models = Path(temporary)
        if any(case.startswith("models") for case in cases):
            fit_models(models)
        waiting: Iterator[str] = iter(cases)
        lock = threading.Lock()

        def consume() -> None:
            worker = Worker(models, seconds)
            try:
                while deadline is None or time.monotonic() - began < deadline:
                    with lock:
                        case = next(waiting, None)
                    if case is None:
                        return
                    answers[case] = worker.run(case)
            finally:
                worker.stop()

        threads = [threading.Thread(target=consume) for _ in range(processes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20, help="time limit of a case")
    parser.add_argument("--deadline", type=float, help="stop after this many seconds")
    parser.add_argument("--case", help="run one case in this process")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker)
        return
    if options.case:
        with tempfile.TemporaryDirectory() as temporary:
            fit_models(Path(temporary))
            part, number = options.case.split(":")
            with tempfile.TemporaryDirectory() as folder:
                if part == "files":
                    print(read_damaged_file(int(number), Path(folder)))
                elif part == "requests":
                    print(decode_damaged_request(int(number)))
                else:
                    print(load_damaged_model(int(number), Path(folder), Path(temporary)))
        return
    numbers = {"files": options.files, "models": options.models, "requests": options.requests}
    last = options.first + max(numbers.values())
    cases = [f"{part}:{i}" for i in range(options.first, last) for part in numbers if i < options.first + numbers[part]]
    answers = run(cases, processes=options.processes, seconds=options.seconds, deadline=options.deadline)
    failures = {case: answer for case, answer in answers.items() if answer.startswith("FAILED")}
    for case, answer in failures.items():
        print(f"{case}  {answer}")
    for part in numbers:
        found = Counter("failed" if a.startswith("FAILED") else a for c, a in answers.items() if c.startswith(part))
        counts = ", ".join(f"{count} {what}" for what, count in found.most_common())
        print(f"{part}: {sum(found.values())} cases: {counts}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[1]))  # for what the tests of the service share
    main()
