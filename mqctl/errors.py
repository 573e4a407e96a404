"""What can go wrong, as classes: the code is for programs, the text for people.

Whether it is worth trying again is known where the error is made, so it sits on the error.
"""

from __future__ import annotations

from typing import ClassVar


class MqError(Exception):
    """Root of everything mqctl raises on purpose. `hint` says what to do next, where there is something."""

    retriable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint is not None:
            self.add_note(f"hint: {hint}")  # for tracebacks


class ConfigError(MqError):
    """A configuration file or option that cannot be used as it is."""


class FilterError(MqError):
    """A filter expression that cannot be understood; the text says where."""


class NotFound(MqError):
    """What was named does not exist: a topic, a cluster, a process. Unlike a time-out, asking again is no use."""


class RequestFailed(MqError):
    """A request cannot be served; raised by a handler, answered with `code` to the one who asked."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class ResponseError(MqError):
    """A peer answered with a code other than success."""

    def __init__(self, code: int, remark: str | None, peer: str) -> None:
        from mqctl.remoting.codes import response_name

        super().__init__(f"{peer} answered {response_name(code)}: {remark or 'no reason given'}")
        self.code = code
        self.remark = remark


class RetriableResponse(ResponseError):
    """A refusal that another broker, or this one a little later, need not repeat."""

    retriable = True


class NoBroker(MqError):
    """Name servers answer, but no broker has registered with them, or none that takes the message."""

    retriable = True


class SpoolFull(MqError):
    """The cluster is gone and the spool file has reached its size: the message is kept nowhere."""


class ConnectionFailed(MqError):
    """No connection to the peer, or it was lost before the answer came."""

    retriable = True


class RequestTimeout(MqError):
    """The peer did not answer in time. Whether it acted on the request is unknown."""

    retriable = True


class StoreError(MqError):
    """The store could not do what was asked of it: the disk refused, or the files are not what they should be."""
