"""The result of an SQL query -> a data frame. It needs SQLAlchemy, which the extra `sql` installs, and the database's
driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from tsadc.errors import DataError
from tsadc.io.reading import Reading, reason

# Statements that forbid a connection to write, by database.
READ_ONLY = {
    "sqlite": "PRAGMA query_only = ON",
    "postgresql": "SET TRANSACTION READ ONLY",
    "mysql": "SET SESSION TRANSACTION READ ONLY",
    "mariadb": "SET SESSION TRANSACTION READ ONLY",
}
ENTITY = "query"  # the name of the entity, unless the options name it


def read_query(reading: Reading) -> pd.DataFrame:
    """Return the result of `reading.query`, which may not write. No message contains the password of the URL."""
    assert reading.sql is not None
    assert reading.query is not None
    with opened(reading.sql) as (connection, shown, password):
        import sqlalchemy

        try:
            frame: pd.DataFrame = pd.read_sql(sqlalchemy.text(reading.query), connection)
        except Exception as error:
            raise DataError(
                f"The query to {shown} failed: {safe(error, password)}; correct the URL or the query."
            ) from None
    return frame


@contextmanager
def opened(address: str) -> Iterator[tuple[Any, str, object]]:
    """Yield a connection that may not write, the database's URL without its password, for messages, and the password,
    which must not be in them."""
    try:
        import sqlalchemy
    except ImportError:
        raise DataError("A database needs one more package: pip install 'tsadc[sql]'.") from None
    try:
        url = sqlalchemy.engine.make_url(address)
    except Exception:  # the message may quote all of the URL
        raise DataError(
            "`sql` should be the URL of a database, such as postgresql://user@host/name or sqlite:///file.db, but "
            "cannot be parsed; correct it."
        ) from None
    shown = url.render_as_string(hide_password=True)
    backend = url.get_backend_name()
    if backend == "sqlite" and url.database and not Path(url.database).is_file():
        raise DataError(f"There is no database file {url.database}; check the name.")
    try:
        engine = sqlalchemy.create_engine(url)
    except ImportError as error:
        raise DataError(f"{shown} needs the driver of its database: {reason(error)}; install it with pip.") from None
    except Exception as error:
        raise DataError(f"{shown} cannot be opened: {safe(error, url.password)}.") from None
    try:
        with _connected(engine, shown, url.password) as connection:
            if backend in READ_ONLY:
                connection.exec_driver_sql(READ_ONLY[backend])
            yield connection, shown, url.password
    finally:
        engine.dispose()


@contextmanager
def _connected(engine: Any, shown: str, password: object) -> Iterator[Any]:
    try:
        connection = engine.connect()
    except Exception as error:
        raise DataError(
            f"The query to {shown} failed: {safe(error, password)}; correct the URL or the query."
        ) from None
    with connection:
        yield connection


def safe(error: Exception, password: object) -> str:
    """Return the database's own message without the password, the query and links."""
    cause = error.__cause__ or error  # pandas wraps the error of SQLAlchemy, which wraps that of the driver
    message = reason(getattr(cause, "orig", None) or cause)
    return message.replace(str(password), "***") if password else message
