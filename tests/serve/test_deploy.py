"""The container and the systemd unit: linted, without rights, and with the commands that the service has."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from live import Served, batch

ROOT = Path(__file__).parents[2]


def program(name: str) -> str:
    """Return the path of a program, also one that pip installed; skip where it is absent."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is not installed here")
    return found


def test_the_dockerfile_has_no_complaints() -> None:
    done = subprocess.run([program("hadolint"), ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_container_runs_without_rights() -> None:
    text = (ROOT / "Dockerfile").read_text()
    last = text.rpartition("\nFROM ")[2]
    assert re.search(r"^USER [1-9]\d*$", last, re.MULTILINE)
    assert 'ENTRYPOINT ["tsadc", "serve"]' in last
    assert last.index("USER ") < last.index("ENTRYPOINT")
    assert "--read-only" in text  # in the command that runs it


def test_the_health_check_of_the_container_understands_the_service(serve: object) -> None:
    served: Served = serve()  # type: ignore[operator]
    check = json.loads((ROOT / "Dockerfile").read_text().partition("CMD ")[2].splitlines()[0])
    code = check[-1].replace(":8731", f":{served.client.base_url.port}")
    assert served.push(batch("pump 0", 0, 1)).status_code == 200
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    served.kill()
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 1


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (ROOT / "deploy" / "tsadc.service").read_text()
    for command in re.findall(r"^Exec\w+=/opt/tsadc/bin/tsadc (.*)$", text, re.MULTILINE):
        assert re.fullmatch(r"serve (--check )?/etc/tsadc/config.toml", command)
    unit = tmp_path / "tsadc.service"
    unit.write_text(text.replace("/opt/tsadc/bin/tsadc", "/bin/true"))
    done = subprocess.run(
        [program("systemd-analyze"), "verify", unit], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
