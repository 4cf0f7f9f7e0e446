"""`make audit` always ends, and never calls an audit without an answer a success."""

import sys
import time

from vulnerabilities import main

PASS, FAIL, HANG = ((sys.executable, "-c", code) for code in ("pass", "exit(3)", "import time; time.sleep(60)"))


def test_an_audit_that_hangs_is_stopped(tmp_path, capfd):
    begin = time.monotonic()
    assert main([PASS, HANG], tmp_path.as_uri(), seconds=1) == 1
    assert time.monotonic() - begin < 30
    assert "The audit was stopped after 1 seconds without an answer" in capfd.readouterr().out


def test_findings_fail_and_none_pass(tmp_path):
    assert main([PASS, FAIL, PASS], tmp_path.as_uri()) == 3
    assert main([PASS, PASS], tmp_path.as_uri()) == 0


def test_without_the_database_the_audit_is_skipped(tmp_path, capfd):
    assert main([FAIL], (tmp_path / "absent").as_uri()) == 0
    assert capfd.readouterr().out == "The audit is skipped, because its database cannot be reached.\n"
