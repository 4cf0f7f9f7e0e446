"""What can go wrong by a user's hand. Each message is one sentence: what was expected, what came, how to fix it."""


class TsadcError(Exception):
    """Base of every error the project raises on purpose; the command line prints it and exits with code 2."""


class DataError(TsadcError, ValueError):
    """The input series cannot be used as it is."""


class ConfigError(TsadcError, ValueError):
    """A setting is unknown or out of range."""


class NotFittedError(TsadcError, AttributeError):
    """A detector was asked to score before it was fitted."""


class ModelFileError(TsadcError, OSError):
    """A saved model cannot be read or written."""


class OutputError(TsadcError, OSError):
    """What was to be written cannot be, or is there already."""


class TsadcNotice(UserWarning):
    """Something was left out or assumed; the result stands."""
