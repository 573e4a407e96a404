"""What went wrong in Spark, in one line. The whole of it goes to the log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pyspark.errors import AnalysisException, ParseException

from mqctl import errors
from mqctl.exit import ExitCode, exit_code

# The last line of a traceback that came through the JVM from a worker.
_OURS: Final = re.compile(r"^(?:.*: )?mqctl\.errors\.(\w+): (.+)$", re.MULTILINE)
_SYSTEM: Final = re.compile(
    r"^(?:.*: )?(PermissionError|FileNotFoundError|NotADirectoryError): \[Errno \d+\] ([^:\n]+): '([^'\n]+)'",
    re.MULTILINE,
)
_SUGGESTED: Final = re.compile(r"\s*Did you mean one of the following\? \[[^\]]*\]\.")
COLUMNS_HINT: Final = "`DESCRIBE messages` lists the columns of a table"
_TRACEBACK: Final = "Traceback (most recent call last)"
_RAISED: Final = re.compile(r"^[\w.]+(?:Error|Exception|Exit|Interrupt|Warning)\b.*$", re.MULTILINE)
# An exception of Java and its causes: all of the class, its last part, and what it says.
_JAVA: Final = re.compile(r"^(?:: |Caused by: )((?:\w+\.)+([\w$]+)): (.+)$", re.MULTILINE)
_SPARKS: Final = "org.apache.spark."
_JAVA_REFUSAL: Final = "Permission denied"
_MAX_CHARS: Final = 400


@dataclass(frozen=True, slots=True)
class Failure:
    message: str
    hint: str | None
    status: int
    expected: bool = True  # it says all there is to know; the log would add nothing


def failure_of(error: BaseException) -> Failure:
    """What to tell of an error that ended a job."""
    if isinstance(error, errors.MqError):
        return Failure(error.message, error.hint, exit_code(error))
    if isinstance(error, OSError):
        return _system_failure(type(error).__name__, error.strerror or str(error), str(error.filename or ""))
    text = str(error)
    if found := list(_OURS.finditer(text)):
        kind, message = found[-1].groups()
        return Failure(message, None, exit_code(_remade(kind, message)))
    if system := _SYSTEM.search(text):
        return _system_failure(*system.groups())
    if isinstance(error, (AnalysisException, ParseException)) and _TRACEBACK not in text:
        hint = COLUMNS_HINT if "UNRESOLVED_COLUMN" in text else None
        return Failure(_sql_text(text), hint, ExitCode.USAGE)
    if _TRACEBACK not in text and (java := _java_failure(text)):
        return java
    raised = _RAISED.findall(text.rpartition(_TRACEBACK)[2]) if _TRACEBACK in text else text.split("\n")
    told = next((line.strip() for line in raised if line.strip()), "")
    return Failure(f"{type(error).__name__}: {told[:_MAX_CHARS]}", None, ExitCode.REFUSED, expected=False)


def _remade(kind: str, message: str) -> errors.MqError:
    known: dict[str, type[errors.MqError]] = {
        each.__name__: each for each in (errors.NotFound, errors.StoreError, errors.ConfigError)
    }
    return known.get(kind, errors.MqError)(message)


def _system_failure(kind: str, reason: str, path: str) -> Failure:
    status = {"PermissionError": ExitCode.NO_PERMISSION, "FileNotFoundError": ExitCode.NOT_FOUND}
    return Failure(f"{path}: {reason.lower()}" if path else reason, None, status.get(kind, ExitCode.REFUSED))


def _java_failure(text: str) -> Failure | None:
    """What Spark ran into, which it wraps into exceptions of its own: those say that a task failed, and not why."""
    found = _JAVA.findall(text)
    if not found:
        return None
    _, kind, message = next((each for each in found if not each[0].startswith(_SPARKS)), found[0])
    status = ExitCode.NO_PERMISSION if _JAVA_REFUSAL in message else ExitCode.REFUSED
    return Failure(f"{kind}: {message[:_MAX_CHARS]}", None, status, expected=False)


def _sql_text(text: str) -> str:
    """Spark's explanation and the place it names; not its error class, and not the plan or the query that follow."""
    explained, _, rest = text.partition("SQLSTATE")
    place = re.search(r"line (\d+),? pos (\d+)", rest)
    # A view has the columns that the query names: to suggest one of those is no help.
    told = _SUGGESTED.sub("", re.sub(r"^\[[\w.]+\]\s*", "", explained))
    message = " ".join(told.split())[:_MAX_CHARS]
    return f"{message} (line {place[1]}, character {int(place[2]) + 1})" if place else message
