"""The broker's config/*.json tables on disk: replaced whole, off the event loop, many changes in one write."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from mqctl.store.smallfiles import load_file_or_backup, replace_file

log = logging.getLogger(__name__)

T = TypeVar("T")


class ConfigFile:
    """One file. `encode` is called on the loop to take a consistent picture; the write happens in a thread,
    one at a time. Changes made while a write runs share the next one."""

    def __init__(self, path: Path, encode: Callable[[], bytes]) -> None:
        self._path = path
        self._encode = encode
        self._wanted: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def load(self, parse: Callable[[bytes], T]) -> T | None:
        """The content, or that of the backup when the file is gone or unreadable; None when both are."""
        return load_file_or_backup(self._path, parse)

    def save_soon(self) -> asyncio.Future[None]:
        """A write that includes all changes made so far. The future ends when it is on disk, with StoreError
        when the disk refused; whoever does not care may ignore it."""
        if self._wanted is None:
            self._wanted = asyncio.get_running_loop().create_future()
            self._wanted.add_done_callback(self._report)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write_all())
        return self._wanted

    def save_now(self) -> None:
        """For the first write at start, before the loop has anything else to do."""
        replace_file(self._path, self._encode())

    async def save_last(self) -> None:
        """For shutdown: after this the file holds the last state. Raises StoreError."""
        while self._task is not None:
            await asyncio.wait((self._task,))
        await asyncio.to_thread(replace_file, self._path, self._encode())

    async def _write_all(self) -> None:
        while self._wanted is not None:
            waiting, self._wanted = self._wanted, None
            failure: Exception | None = None
            try:
                await asyncio.to_thread(replace_file, self._path, self._encode())
            except Exception as error:  # whatever it is, those who wait must hear of it
                failure = error
            if waiting.cancelled():  # with the task that waited for it
                continue
            if failure is None:
                waiting.set_result(None)
            else:
                waiting.set_exception(failure)
        self._task = None

    def _report(self, done: asyncio.Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None:
            log.error("cannot write %s: %s", self._path, error)
