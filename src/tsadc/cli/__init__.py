"""The command line: files in, files out, one sentence for each mistake.

`main` is the entry point of the command `tsadc`; `app.py` lists the commands, `commands/` defines them and their
options, and the other files do what they ask for."""

from tsadc.cli.app import main

__all__ = ["main"]
