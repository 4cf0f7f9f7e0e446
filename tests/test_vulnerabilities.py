"""`make audit` always ends, and never calls an audit without an answer a success."""

import sys
import time
from pathlib import Path

from vulnerabilities import main

DATABASE = Path(__file__).as_uri()  # any address that can be reached
PASS, FAIL, HANG = ((sys.executable, "-c", code) for code in ("pass", "exit(3)", "import time; time.sleep(60)"))


def test_an_audit_that_hangs_is_stopped(capfd):
    begin = time.monotonic()
    assert main([PASS, HANG], DATABASE, seconds=1) == 1
    assert time.monotonic() - begin < 30
    assert "The audit was stopped after 1 seconds without an answer" in capfd.readouterr().out


def test_findings_fail_and_none_pass():
    assert main([PASS, FAIL, PASS], DATABASE) == 3
    assert main([PASS, PASS], DATABASE) == 0


def test_without_the_database_the_audit_is_skipped(tmp_path, capfd):
    assert main([FAIL], (tmp_path / "absent").as_uri()) == 0
    assert capfd.readouterr().out == "The audit is skipped, because its database cannot be reached.\n"
