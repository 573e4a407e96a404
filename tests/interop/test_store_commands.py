"""`mqctl store` on folders that Apache's brokers wrote, and Apache's broker on folders that it has changed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from mqctl.store.consumequeue import ENTRY, ENTRY_SIZE
from mqctl.store.indexfile import HEADER
from mqctl.store.offline.folder import StoreFolder
from tests.cli.running import Cli, Ended
from tests.interop.acting import make_topic, start_consumer, start_producer
from tests.peers.apache import ApacheBroker
from tests.peers.cache import require
from tests.peers.driver import ClientDriver, Message
from tests.peers.ours import OurNamesrv

pytestmark = pytest.mark.interop

Unique = Callable[[str], str]

# Small files of every kind: several of each, and index tables of another size than the usual.
SIZES: Final = {
    "mappedFileSizeCommitLog": 64 * 1024,
    "mappedFileSizeConsumeQueue": 20 * 50,
    "maxHashSlotNum": 101,
    "maxIndexNum": 300,
}
COUNT: Final = 200
QUEUES: Final = 2

cli = Cli({})


def run(verb: str, root: Path, *options: str) -> Ended:
    return cli("store", verb, str(root), *options)


class Filled(NamedTuple):
    """A store without a broker."""

    root: Path
    topic: str
    broker: ApacheBroker
    bodies: dict[tuple[int, int], bytes]  # by queue and queue offset


@pytest.fixture(scope="module")
def stores(
    java55: ClientDriver, our_namesrv: OurNamesrv, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Filled]:
    """The store that a broker of some version wrote."""
    return cache(lambda version: fill(version, java55, our_namesrv, tmp_path_factory.mktemp("apache")))


def fill(version: str, client: ClientDriver, namesrv: OurNamesrv, folder: Path) -> Filled:
    name = f"kept_{os.getpid()}_{version.replace('.', '')}"
    topic = f"{name}_topic"
    broker = require(ApacheBroker, version, folder, namesrv.address, name, f"c-{name}", SIZES)
    broker.start()
    try:
        make_topic(broker, topic, QUEUES)
        start_producer(client, broker, name)
        template = {"topic": topic, "body": bytes(500), "tags": ["A", "漢字"], "keys": "key-{i} many"}
        # One after the other, so that each queue gets as many.
        sent = client.call("send_many", name="p", count=COUNT, concurrency=1, template=template)
        assert sent["statuses"] == {"SEND_OK": COUNT}
        client.call("send", name="p", topic=topic, body=b"later", delayLevel=1)
        start_consumer(client, broker, topic, name)
        client.wait_messages("c", COUNT + 1)
        client.reset()
    finally:
        broker.kill()
    # All of it is in the files, which a kill leaves to the kernel: judge it like a store that was closed.
    (broker.store_dir / "abort").unlink()
    bodies = {(queue_id, offset): bytes(500) + b"%d" % index for index, _, _, _, queue_id, offset in sent["results"]}
    return Filled(broker.store_dir, topic, broker, bodies)


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


# -- damage, and what is said about it ------------------------------------------------------------------


def second_file(folder: Path) -> Path:
    return sorted(folder.iterdir())[1]


def place(root: Path, topic: str, queue_offset: int) -> tuple[Path, int]:
    store = StoreFolder(root)
    entry = store.queues_of(topic, 0)[0].entry(queue_offset)
    assert entry is not None
    file = store.log.file_at(entry[0])
    assert file is not None
    return file.path, entry[0] - file.start


def damage_body(root: Path, topic: str) -> None:
    path, position = place(root, topic, 20)
    overwrite(path, position + 100, b"?")


def damage_head(root: Path, topic: str) -> None:
    path, position = place(root, topic, 20)
    overwrite(path, position, b"\xff" * 16)


def damage_queue_offset(root: Path, topic: str) -> None:
    path, position = place(root, topic, 20)
    overwrite(path, position + 27, b"\7")


def damage_queue(root: Path, topic: str) -> None:
    overwrite(second_file(root / "consumequeue" / topic / "0"), 2 * ENTRY_SIZE, ENTRY.pack(1, 2, 3))


def lose_queue_file(root: Path, topic: str) -> None:
    second_file(root / "consumequeue" / topic / "0").unlink()


def damage_slot(root: Path, topic: str) -> None:
    """Slot 0 may be empty, so naming no entry there could be right; the first entry is nobody's newest."""
    overwrite(second_file(root / "index"), HEADER.size, b"\0\0\0\1" + b"\0" * 36)


def damage_link(root: Path, topic: str) -> None:
    path = second_file(root / "index")
    overwrite(path, HEADER.size + 4 * 101 + 20 * 100 + 16, b"\0\0\0\x64")


def lose_index_file(root: Path, topic: str) -> None:
    second_file(root / "index").unlink()


def lose_log_file(root: Path, topic: str) -> None:
    second_file(root / "commitlog").unlink()


def damage_config(root: Path, topic: str) -> None:
    (root / "config" / "topics.json").write_text("{")


DAMAGES: Final[dict[str, Callable[[Path, str], None]]] = {
    "CRC does not match": damage_body,
    "no record, nor a blank": damage_head,
    "the queue offset cannot be right": damage_queue_offset,
    "points to log offset 1,": damage_queue,
    "entries are missing, from queue offset 50 on": lose_queue_file,
    "slot 0 names entry 1": damage_slot,
    "entry 100: links to entry 100": damage_link,
    "keys are not filed": lose_index_file,
    "nothing is there between": lose_log_file,
    "is not JSON": damage_config,
}


@pytest.mark.parametrize("version", ["4.9.7", pytest.param("5.5.0", marks=pytest.mark.long)])
def test_verify_and_repair(version: str, stores: Callable[[str], Filled], tmp_path: Path) -> None:
    filled = stores(version)
    assert len(list((filled.root / "index").iterdir())) > 1
    sound = run("verify", filled.root, "-o", "json")
    assert (sound.status, sound.json) == (0, [])
    assert int(sound.err.split()[0]) >= COUNT + 2
    for said, damage in DAMAGES.items():
        root = Path(shutil.copytree(filled.root, tmp_path / "copy"))
        damage(root, filled.topic)
        ended = run("verify", root, "-o", "json")
        assert ended.status == 1
        assert any(said in row["what"] for row in ended.json if row["severity"] == "damage"), (said, ended.json)
        repaired = run("repair", root, "--yes")
        assert repaired.status == 0, (said, repaired)
        assert run("verify", root).status == 0, said
        shutil.rmtree(root)


# -- Apache's broker on what we changed -----------------------------------------------------------------


@contextmanager
def restarted(broker: ApacheBroker) -> Iterator[ApacheBroker]:
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def place_of(message: Message) -> tuple[int, int]:
    return message.queue_id, message.queue_offset


def test_apaches_broker_goes_on(
    java49: ClientDriver, stores: Callable[[str], Filled], tmp_path: Path, unique: Unique
) -> None:
    """The last test: what it changes is the store itself."""
    filled = stores("4.9.7")
    stream = tmp_path / "stream"
    assert run("export", filled.root, str(stream), "--topic", filled.topic, "--queue", "1").status == 0
    damage_head(filled.root, filled.topic)
    damage_slot(filled.root, filled.topic)
    lose_queue_file(filled.root, filled.topic)
    assert run("repair", filled.root, "--yes").status == 0
    assert run("rebuild", filled.root, "--yes").status == 0
    assert run("import", filled.root, str(stream)).status == 0
    left = {at: body for at, body in filled.bodies.items() if at != (0, 20)}
    doubled = [body for (queue_id, _), body in sorted(filled.bodies.items()) if queue_id == 1]
    with restarted(filled.broker) as broker:
        start_consumer(java49, broker, filled.topic, unique("group"))
        wanted = len(left) + 1 + len(doubled) + 1

        def all_there(got: list[Message]) -> bool:
            return len(set(map(place_of, got))) >= wanted

        got = {place_of(each): each.body for each in java49.wait_messages("c", wanted, all_there)}
        assert {at: got[at] for at in left} == left
        in_queue = [body for (queue_id, _), body in sorted(got.items()) if queue_id == 1 and body != b"later"]
        assert in_queue == doubled * 2
        where: dict[str, Any] = {"namesrv": broker.namesrv, "topic": filled.topic}
        for queue_offset in (0, 19, 21, 60):
            index = filled.bodies[0, queue_offset][500:].decode()
            [found] = java49.call("query_key", **where, key=f"key-{index}")["messages"]
            assert found["queueOffset"] == queue_offset
        start_producer(java49, broker, unique("producers"))
        sent = java49.call("send", name="p", topic=filled.topic, body=b"new", queueId=1, brokerName=broker.name)
        assert sent["queueOffset"] >= 2 * len(doubled)
