"""The key index: finds messages by topic and key, or unique key, within a span of time.

A key takes three steps, so that sending costs next to nothing and the disk sees large batches:

    add     the text is put on a list: pending
    drain   pending texts become entries of the tail (`indextail`), still in memory
    settle  the tail goes to the newest file; drain does so too whenever the tail is large enough

A lookup sees all three. Everything here is derived data: the log alone can rebuild it, and what was not in a
file at a crash is added again from `last_indexed_offset` on.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mqctl.errors import StoreError
from mqctl.store.checkpoint import IndexPosition
from mqctl.store.indexfile import NAME_DIGITS, DamagedIndex, Geometry, Header, IndexFile, matching_offsets
from mqctl.store.indexrepair import repair
from mqctl.store.javahash import java_hash
from mqctl.store.properties import KEY_SEPARATOR, KEYS, UNIQ_KEY, parse_properties
from mqctl.store.smallfiles import sync_directory

if TYPE_CHECKING:
    from mqctl.store.indextail import Tail

log = logging.getLogger(__name__)

# How many keys the tail gathers before it is written; `indextail` says why.
TAIL_KEYS: Final = 16384

# How many texts are hashed in one piece: about a millisecond of work.
PIECE: Final = 1024

# RocketMQ's maxMsgsNumBatch: no lookup returns more, whatever it asks for.
MAX_RESULTS: Final = 64

# How many candidates of a lookup may turn out not to match. Each is a read from the log, and keys with equal
# hashes are easily made on purpose ("Aa" and "BB"), so that one lookup could keep the broker busy for minutes.
MAX_REJECTED: Final = 10_000

BAD_SUFFIX: Final = ".bad"


def indexed_keys(properties: str) -> list[str]:
    """The keys under which a message with this property text is filed, in RocketMQ's order."""
    return keys_among(parse_properties(properties))


def keys_among(properties: Mapping[str, str]) -> list[str]:
    """`indexed_keys` of properties that were parsed already."""
    unique, keys = properties.get(UNIQ_KEY), properties.get(KEYS)
    found = [unique] if unique else []
    if keys:
        found += [key for key in keys.split(KEY_SEPARATOR) if key] if KEY_SEPARATOR in keys else (keys,)
    return found


def key_hash(topic: str, key: str) -> int:
    """What a key is filed under: `keyhash` has the same for many."""
    value = abs(java_hash.__wrapped__(f"{topic}#{key}"))
    return 0 if value == 1 << 31 else value


def _accept(phys_offset: int) -> bool:
    return True


class KeyIndex:
    """Owned by one thread, except `flush`."""

    def __init__(
        self,
        directory: Path,
        geometry: Geometry = Geometry(),  # noqa: B008 (immutable)
        *,
        max_results: int = MAX_RESULTS,
        tail_keys: int = TAIL_KEYS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._directory = directory
        self._geometry = geometry
        self._max_results = max_results
        self._tail_keys = tail_keys
        self._clock = clock
        self._files: list[IndexFile] = []
        self._pending: list[tuple[int, int, str, Sequence[str]]] = []  # as `add` gets them
        self._tail: Tail | None = None
        self._merging: Iterator[int] | None = None
        self._newest_offset = 0
        # checkpoint.indexMsgTimestamp: the end of the last full file that is known to be on disk.
        self.flushed_timestamp = 0

    # -- life ---------------------------------------------------------------------------------------

    def open(
        self, *, was_clean: bool = True, flushed_timestamp: int = 0, position: IndexPosition | None = None
    ) -> None:
        """Loads the files that are there. `flushed_timestamp` and `position` come from the checkpoint; after an
        unclean stop what lies behind them is checked entry by entry. Raises StoreError when the disk fails."""
        self.flushed_timestamp = flushed_timestamp
        try:
            for path in self._paths():
                self._open_file(path)
            if not was_clean:
                self._repair(position or IndexPosition(0, 0, 0))
        except StoreError:
            self.release()
            raise
        self._newest_offset = self.last_indexed_offset

    def _paths(self) -> list[Path]:
        """By age: the name is the time of making."""
        if not self._directory.is_dir():
            return []
        names = (path for path in self._directory.iterdir() if path.is_file() and path.name.isdecimal())
        return sorted(path for path in names if len(path.name) == NAME_DIGITS)

    def _open_file(self, path: Path) -> None:
        try:
            file = IndexFile.open(path, self._geometry)
        except DamagedIndex as error:
            _set_aside(path, str(error))
            return
        file.is_dirty = file.header.end_timestamp > self.flushed_timestamp
        self._files.append(file)

    def _repair(self, position: IndexPosition) -> None:
        """Checks what is not known to be on disk. A file without entries becomes like new: part of an entry may
        have reached it. A cut leaves a gap that only adding again from there can fill, and for that nothing
        newer may be kept."""
        before: Header | None = None
        for file in tuple(self._files):
            is_known = file.number < position.file or file.header.end_timestamp <= self.flushed_timestamp
            sound = position.entries if file.number == position.file else 0
            is_empty = file.header.is_empty
            if is_empty:
                file.write_header(Header.following(before))
            if (is_empty or not is_known) and self._cut(file, sound=sound):
                for newer in [other for other in self._files if other.path > file.path]:
                    self._give_up(newer, f"{file.path.name} before it was cut")
                return
            before = file.header

    def _cut(self, file: IndexFile, below: int | None = None, sound: int = 0) -> bool:
        """Removes what `repair` does not keep; False if that is nothing."""
        entries = file.entry_count
        left = repair(file, below, sound)
        if left == entries:
            return False
        log.warning("index %s: %d of %d entries cut", file.path, entries - left, entries)
        if not left:
            self._give_up(file, "none of its entries is sound")
        return True

    def _give_up(self, file: IndexFile, reason: str) -> None:
        self._files.remove(file)
        file.close()
        _set_aside(file.path, reason)

    def close(self) -> None:
        """Writes everything (without waiting for the disk) and closes the files. Raises StoreError if not
        all could be written; the index must then be treated as after an unclean stop."""
        try:
            self.settle()
        finally:
            self._tail = self._merging = None
            self.release()

    def release(self) -> None:
        """Closes the files; nothing is written."""
        while self._files:
            self._files.pop().close()

    # -- adding -------------------------------------------------------------------------------------

    def add(self, phys_offset: int, store_timestamp: int, topic: str, keys: Sequence[str]) -> None:
        """Takes a message's keys (`indexed_keys`), but not those of a rolled back one. Messages come in the
        order of the log; one that lies before the newest known is indexed already and passed over. The very
        newest is taken again: only some of its keys may be there. Lookups show it once all the same."""
        if phys_offset < self._newest_offset:
            return
        self._newest_offset = phys_offset
        if keys:
            self._pending.append((phys_offset, store_timestamp, topic, keys))

    @property
    def backlog(self) -> int:
        """How many messages with keys wait for `drain`. Each takes some 400 bytes."""
        return len(self._pending)

    @property
    def last_indexed_offset(self) -> int:
        """The log offset of the newest message with a key in the files or the tail, 0 if there is none. After
        an unclean stop what lies there or behind must be added (again)."""
        ends = [file.header.end_phys_offset for file in self._files]
        if self._tail is not None:
            ends.append(self._tail.header.end_phys_offset)
        return max(ends, default=0)

    @property
    def first_unfiled_offset(self) -> int | None:
        """The log offset of the oldest message of which a key is not in the files yet; None if there is none."""
        if self._tail is not None and len(self._tail):
            return self._tail.begin_phys_offset
        return self._pending[0][0] if self._pending else None

    def position(self, log_offset: int) -> IndexPosition:
        """The place behind all that is in the files, slots included. Good for `open` once it is flushed. The caller
        knows that no message before `log_offset` is unfiled."""
        if self._tail is not None:
            return IndexPosition(self._tail.file.number, self._tail.entries_before, log_offset)
        if self._files:
            return IndexPosition(self._files[-1].number, self._files[-1].entry_count, log_offset)
        return IndexPosition(0, 0, log_offset)

    def complete_until(self, position: IndexPosition | None) -> int:
        """A log offset before which the keys of all messages are filed; `position` is the checkpoint's."""
        known = position.log_offset if position is not None and self._reaches(position) else 0
        return max(known, self.last_indexed_offset)

    def _reaches(self, position: IndexPosition) -> bool:
        """Whether what was at that position is (still) there."""
        if position.file == 0:
            return True
        return any(file.number == position.file and file.entry_count >= position.entries for file in self._files)

    def drain(self, limit: int | None = None) -> bool:
        """Turns pending keys into entries and writes them when there are enough. With a limit it stops after
        the work of about that many keys and returns whether more is to be done.

        Raises StoreError when the disk refuses. Nothing is lost then, and the next call tries again.
        """
        return self._work(limit, all_to_file=False)

    def settle(self, limit: int | None = None) -> bool:
        """Like `drain`, until everything is in the files: for idle moments and before a flush."""
        return self._work(limit, all_to_file=True)

    def _work(self, limit: int | None, *, all_to_file: bool) -> bool:
        done = 0
        while limit is None or done < limit:
            if self._merging is not None:
                done += self._merge_some(self._merging)
            elif self._pending and (room := self._room()) > 0:
                done += self._append_some(min(room, PIECE))
            elif self._tail is not None and (self._pending or all_to_file):
                self._merging = self._tail.merge()
            else:
                return False
        return bool(self._pending) or self._merging is not None or (all_to_file and self._tail is not None)

    def _room(self) -> int:
        if self._tail is None:
            from mqctl.store.indextail import Tail  # brings numpy along, which a command has no need of

            self._tail = Tail(self._writable_file(), self._tail_keys)
        return self._tail.room

    def _append_some(self, count: int) -> int:
        assert self._tail is not None
        return self._tail.append(self._take(count))

    def _take(self, count: int) -> list[tuple[int, int, str, Sequence[str]]]:
        """Pending messages with at most that many keys. The keys of one message may belong into two files."""
        messages = self._pending[:count]
        whole = bisect_right(list(accumulate(len(message[3]) for message in messages)), count)
        if whole:
            del self._pending[:whole]
            return messages[:whole]
        phys_offset, timestamp, topic, keys = messages[0]
        self._pending[0] = (phys_offset, timestamp, topic, keys[count:])
        return [(phys_offset, timestamp, topic, keys[:count])]

    def _merge_some(self, merging: Iterator[int]) -> int:
        try:
            return next(merging)
        except StopIteration:
            self._tail = self._merging = None
            return 0
        except StoreError:
            self._merging = None
            raise

    def _writable_file(self) -> IndexFile:
        last = self._files[-1] if self._files else None
        if last is None or last.is_full:
            path = self._directory / self._new_name(last)
            last = IndexFile.create(path, self._geometry, last.header if last else None)
            self._files.append(last)
        return last

    def _new_name(self, last: IndexFile | None) -> str:
        """The local time; but names must ascend even when that is set back, as it is every autumn."""
        now_ms = int(self._clock() * 1000)
        name = time.strftime("%Y%m%d%H%M%S", time.localtime(now_ms // 1000)) + f"{now_ms % 1000:03d}"
        if last is not None and name <= last.path.name:
            return f"{int(last.path.name) + 1:0{NAME_DIGITS}d}"
        return name

    # -- looking up ---------------------------------------------------------------------------------

    def query(
        self,
        topic: str,
        key: str,
        max_count: int,
        begin_ms: int,
        end_ms: int,
        matches: Callable[[int], bool] = _accept,
    ) -> list[int]:
        """The log offsets of the newest messages with this key that were stored within the time, ascending.

        Different keys can have one hash, so `matches` must look at the message: whatever it refuses does not
        count against `max_count`. Times are compared by the second, as in RocketMQ: a message counts as
        stored up to 999 ms before it was. Raises StoreError when a file cannot be read.
        """
        self._drain_for_lookup()
        found: list[int] = []
        seen: set[int] = set()
        max_count = min(max_count, self._max_results)
        for phys_offset in self._candidates(topic, key, begin_ms, end_ms):
            if len(found) >= max_count:
                break
            if phys_offset in seen:
                continue
            seen.add(phys_offset)
            if matches(phys_offset):
                found.append(phys_offset)
            elif len(seen) - len(found) >= MAX_REJECTED:
                log.warning("index %s: gave up on key %r after %d others of its hash", topic, key, MAX_REJECTED)
                break
        return sorted(found)

    def _drain_for_lookup(self) -> None:
        try:
            self.drain()
        except StoreError as error:
            log.warning("index: %s; what is not written is looked up in memory", error)

    def _candidates(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[int]:
        for phys_offset, timestamp, pending_topic, keys in reversed(self._pending):
            if key in keys and pending_topic == topic and begin_ms <= timestamp <= end_ms:
                yield phys_offset
        hashed = key_hash(topic, key)
        for file in reversed(self._files):
            tail = self._tail if self._tail is not None and self._tail.file is file else None
            header = file.header if tail is None else tail.header
            if header.overlaps(begin_ms, end_ms):
                slot = hashed % self._geometry.hash_slots
                chain = file.chain(file.newest(slot)) if tail is None else tail.chain(slot)
                yield from matching_offsets(header, chain, hashed, begin_ms, end_ms)
            if header.begin_timestamp < begin_ms:
                return

    # -- keeping in step with the log ---------------------------------------------------------------

    def truncate_after(self, phys_offset: int) -> None:
        """Forgets what is filed for messages at or beyond an offset: the log ends there. Raises StoreError
        when the disk fails; then it must be done again before the index is used."""
        self._pending = [pending for pending in self._pending if pending[0] < phys_offset]
        self.settle()
        while self._files and self._files[-1].header.end_phys_offset >= phys_offset:
            file = self._files[-1]
            if not file.header.is_empty and file.header.begin_phys_offset < phys_offset:
                self._cut(file, phys_offset)
                break
            self._remove(file, _unlink)
        self._newest_offset = self.last_indexed_offset

    def remove_before(self, min_phys_offset: int, unlink: Callable[[Path], None] | None = None) -> int:
        """Deletes the oldest files, never the last, that only know messages before the log's begin. Returns
        how many. `unlink` may hand the path to another thread; after a crash the file is found again."""
        removed = 0
        while len(self._files) > 1 and self._files[0].header.end_phys_offset < min_phys_offset:
            self._remove(self._files[0], unlink or _unlink)
            removed += 1
        return removed

    def _remove(self, file: IndexFile, unlink: Callable[[Path], None]) -> None:
        self._files.remove(file)
        file.close()
        unlink(file.path)

    def flush(self) -> None:
        """Waits until what is in the files is on disk; `settle` puts it there. Any thread may call this, one
        at a time. Raises StoreError."""
        files = tuple(self._files)
        for file in files:
            # Asked before the sync: the last slots of a full file may be written while it runs.
            tail = self._tail
            is_complete = file.is_full and (tail is None or tail.file is not file)
            if file.is_dirty:
                file.sync()
            if is_complete:
                self.flushed_timestamp = max(self.flushed_timestamp, file.header.end_timestamp)
        if files:
            _sync_folder(self._directory)


def _sync_folder(folder: Path) -> None:
    """A file that is new in its folder is not safe before the folder is."""
    try:
        sync_directory(folder)
    except OSError as error:
        raise StoreError(f"cannot sync {folder}: {error.strerror}") from error


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"cannot delete {path}: {error.strerror}") from error


def _set_aside(path: Path, reason: str) -> None:
    """Renames a file that cannot be used, for a human to look at; Java, too, passes over such a name."""
    aside = path.with_name(path.name + BAD_SUFFIX)
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}{BAD_SUFFIX}{number}")
    try:
        path.rename(aside)
    except OSError as error:
        raise StoreError(f"cannot rename {path}: {error.strerror}") from error
    log.warning("index %s: %s; kept as %s", path, reason, aside.name)
