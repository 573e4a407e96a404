"""The power goes: only what a sync has confirmed is left, or that and any of the pages that were not.

The broker runs with SYNC_FLUSH under `powerless`, which records what each sync has made safe. After every round its
store is replaced by what the disk would have. An acknowledged message is there, once, at its place, with its keys.
MQCTL_CRASH_ROUNDS (4) and MQCTL_CRASH_SEED are as in test_kill.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from mqctl.store.checkpoint import read_checkpoint
from mqctl.store.index import KeyIndex
from mqctl.store.indexfile import Geometry
from tests.aio import in_loop
from tests.crash.powerless import lose_power
from tests.crash.test_kill import LOG_FILE, QUEUE_FILE, SEED, Journal, _make_topics, check, read_all, send_until_killed
from tests.peers.ours import OurBroker

ROUNDS: Final = int(os.environ.get("MQCTL_CRASH_ROUNDS", "4"))
INDEX: Final = Geometry(hash_slots=500, max_entries=3000)


class PowerlessBroker(OurBroker):
    """Our broker, with a record of what is on disk. `safe_offsets` are those that its checkpoints vouched for."""

    def __init__(self, workdir: Path, conf: dict[str, object]) -> None:
        super().__init__(workdir, "", conf=conf)
        self.safe_offsets: list[int | None] = []

    @property
    def shadow(self) -> Path:
        return self.workdir / "shadow"

    def command(self) -> Sequence[str]:
        broker = [*super().command()][3:]  # without: python -m mqctl
        return [sys.executable, "-m", "tests.crash.powerless", str(self.shadow), str(self.store_dir), *broker]

    def lose_power(self, rng: random.Random | None) -> None:
        """What follows a kill: the store becomes what the disk has of it."""
        left = self.workdir / "left"
        lose_power(self.shadow, self.store_dir, left, rng)
        shutil.rmtree(self.shadow)
        shutil.rmtree(self.store_dir)
        left.rename(self.store_dir)
        self.safe_offsets.append(read_checkpoint(self.store_dir / "checkpoint").safe_offset)


@in_loop
async def _one_round(broker: PowerlessBroker, rng: random.Random, journal: Journal, *, nothing_else: bool) -> None:
    await send_until_killed(broker, rng, journal)
    broker.lose_power(None if nothing_else else rng)
    broker.start()
    check(journal, await read_all(broker.address))


def check_keys(journal: Journal, index_folder: Path) -> None:
    """Each acknowledged message is filed under its key."""
    wanted: defaultdict[tuple[str, str], int] = defaultdict(int)
    for place, (_, _, keys) in journal.acked.items():
        wanted[place.topic, keys] += 1
    index = KeyIndex(index_folder, INDEX, max_results=sys.maxsize)
    index.open()
    found = {(topic, key): len(index.query(topic, key, sys.maxsize, 0, 1 << 62)) for topic, key in wanted}
    index.close()
    assert {key: count for key, count in wanted.items() if found[key] < count} == {}


@pytest.mark.timeout(60 + 20 * ROUNDS)
def test_what_was_acknowledged_survives_the_loss_of_power(tmp_path: Path) -> None:
    print(f"MQCTL_CRASH_SEED={SEED}")
    rng = random.Random(SEED)
    journal = Journal()
    conf: dict[str, object] = {
        "mappedFileSizeCommitLog": LOG_FILE,
        "mappedFileSizeConsumeQueue": QUEUE_FILE,
        "maxHashSlotNum": INDEX.hash_slots,
        "maxIndexNum": INDEX.max_entries,
        "flushDiskType": "SYNC_FLUSH",
    }
    broker = PowerlessBroker(tmp_path, conf)
    broker.store_dir.mkdir()
    with broker:
        in_loop(_make_topics)(broker.address)
        for number in range(ROUNDS):
            _one_round(broker, rng, journal, nothing_else=number % 2 == 0)
    check_keys(journal, broker.store_dir / "index")
    assert len(journal.acked) > 10 * ROUNDS, "the kills came before anything happened"
    assert any(broker.safe_offsets), "no start began at a checkpoint"
