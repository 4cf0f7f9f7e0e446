"""Ask pip-audit for known vulnerabilities of the installed packages: `make audit`.

Without access to its database the audit is skipped. It is stopped when `SECONDS` are over, because a slow network can
keep it busy for any time."""

import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence

SECONDS = 300.0
ADDRESS = "https://pypi.org/pypi/pip/json"
COMMANDS = (
    (sys.executable, "-m", "pip", "install", "--quiet", "pip-audit"),
    (sys.executable, "-m", "pip_audit", "--skip-editable", "--progress-spinner", "off"),
)


def main(commands: Sequence[Sequence[str]] = COMMANDS, address: str = ADDRESS, seconds: float = SECONDS) -> int:
    """Run the commands one after the other until one fails; return 0 if none does or the address cannot be reached."""
    end = time.monotonic() + seconds
    try:
        urllib.request.urlopen(address, timeout=min(10, seconds)).close()
    except OSError:
        print("The audit is skipped, because its database cannot be reached.")
        return 0
    for command in commands:
        try:
            code = subprocess.run(command, check=False, timeout=max(end - time.monotonic(), 0)).returncode
        except subprocess.TimeoutExpired:
            print(
                f"The audit was stopped after {seconds:g} seconds without an answer; try again with a faster network."
            )
            return 1
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
