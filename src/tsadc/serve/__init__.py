"""The live service: rows come in, verdicts and episodes go out, and nothing that was acknowledged is lost."""
