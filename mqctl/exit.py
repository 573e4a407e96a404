"""What the exit status says. Scripts branch on these numbers, so they never change their meaning."""

from __future__ import annotations

from enum import IntEnum, unique
from typing import Final

from mqctl.errors import ConfigError, ConnectionFailed, MqError, NotFound, RequestTimeout, ResponseError


@unique
class ExitCode(IntEnum):
    DONE = 0
    REFUSED = 1  # the server said no, or the work failed here; the message says which
    USAGE = 2  # also what the parser of options ends with
    NOT_FOUND = 3
    UNREACHABLE = 4  # no connection, or no answer in time
    PARTIAL = 5  # some targets did it, some did not
    NO_PERMISSION = 6
    TOO_OLD = 7  # the server does not know this request
    ALERT = 8  # all was found out, and is worse than the command line allows


# By response code. 208 is what RocketMQ's own tools call an empty result of a query.
_BY_RESPONSE: Final = {
    3: ExitCode.TOO_OLD,
    16: ExitCode.NO_PERMISSION,
    17: ExitCode.NOT_FOUND,
    22: ExitCode.NOT_FOUND,
    24: ExitCode.NOT_FOUND,
    26: ExitCode.NOT_FOUND,
    206: ExitCode.NOT_FOUND,
    208: ExitCode.NOT_FOUND,
}

_BY_CLASS: Final[tuple[tuple[type[MqError], ExitCode], ...]] = (
    (NotFound, ExitCode.NOT_FOUND),
    (ConnectionFailed, ExitCode.UNREACHABLE),
    (RequestTimeout, ExitCode.UNREACHABLE),
    (ConfigError, ExitCode.USAGE),
)


def exit_code(error: MqError) -> ExitCode:
    """The status to end with when this error was the reason to stop."""
    if isinstance(error, ResponseError):
        return _BY_RESPONSE.get(error.code, ExitCode.REFUSED)
    return next((code for kind, code in _BY_CLASS if isinstance(error, kind)), ExitCode.REFUSED)
