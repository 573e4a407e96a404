"""Logging set-up for the servers: readable lines, to stderr or to a file that rotates."""

from __future__ import annotations

import logging
import logging.handlers
from pathlib import Path
from typing import Final

LINE: Final = "%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s: %(message)s"
TIME: Final = "%Y-%m-%d %H:%M:%S"

# What Apache's logback files keep for a broker: ten files, here of a size one still likes to open.
FILE_BYTES: Final = 64 * 1024 * 1024
FILES_KEPT: Final = 10


def configure(log_file: Path | None, level: str = "INFO") -> None:
    """Without a file only warnings and errors show up, on stderr."""
    handler: logging.Handler
    if log_file is None:
        handler = logging.StreamHandler()
        handler.setLevel(logging.WARNING)
    else:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.handlers.RotatingFileHandler(
            log_file, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8"
        )
    handler.setFormatter(_ShortNames(LINE, TIME))
    logging.basicConfig(level=level, handlers=[handler], force=True)


class _ShortNames(logging.Formatter):
    """`mqctl.server.broker.send` reads as `broker.send`."""

    def format(self, record: logging.LogRecord) -> str:
        record.name = record.name.removeprefix("mqctl.").removeprefix("server.")
        return super().format(record)
