"""What `mqctl analyze` and the driver it has started say to each other: lines of JSON over a socket.

    from the driver                                             means
    {"event": "progress", "done": 3, "total": 64}               so many tasks of those known yet
    {"event": "note", "text": ...}                              for people, beside the data
    {"event": "result", "title", "columns", "plot", ...}        what the rows that follow are
    {"event": "row", "values": [...]}                           one row
    {"event": "error", "message", "hint", "status"}             instead of a result, or of the rest of it
    {"event": "done", "status"}                                 the answer is complete

    to the driver
    {"query": ...}                                              the next question of a prompt

Neither standard output nor inherited files would do: the JVM between the two closes what it does not know, and may end
before it has passed on the last lines.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from typing import IO, Any


class Channel:
    """The driver's end. Any thread may send. Without a path, as when the driver runs elsewhere, it is only heard in the
    driver's log, and there is nobody to ask."""

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._out: IO[str] = sys.stdout
        self._in: IO[str] | None = None
        if path:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.connect(path)
            self._out = connection.makefile("w", encoding="utf-8")
            self._in = connection.makefile("r", encoding="utf-8")

    def send(self, event: str, **members: Any) -> None:
        line = json.dumps({"event": event, **members}) + "\n"
        with self._lock:
            self._out.write(line)
            if event != "row":
                self._out.flush()

    def until_hung_up(self) -> None:
        """Waits until the one who asked is gone."""
        for _ in self.queries():
            pass

    def queries(self) -> Iterator[str]:
        for line in self._in or ():
            yield json.loads(line)["query"]
