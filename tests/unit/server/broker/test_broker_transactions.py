"""Transactions in a running broker: hidden, then visible once or never, whatever happens in between."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mqctl.errors import StoreError
from mqctl.remoting.message import ReceivedMessage, decode_records
from mqctl.server.broker.transactions.halves import OP_BLOCK, _OpBlocks, read_record
from mqctl.server.broker.transactions.messages import half_copy, op_message
from mqctl.store import record
from mqctl.store.fetch import Limits, fetch
from mqctl.store.files import Segments
from tests.aio import in_loop
from tests.unit.server.broker.harness import SECONDS, Client, House, heartbeat, running, serving

HALF, OP, GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
GROUP = "buyers"
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
PREPARED = 4


def long_ago() -> int:
    """A time of birth for which a producer may be asked by now."""
    return int(time.time() * 1000) - 10_000


class Sent(NamedTuple):
    queue_offset: int
    phys_offset: int

    def end(self, outcome: int, group: str = GROUP) -> dict[str, Any]:
        return {
            "producerGroup": group,
            "tranStateTableOffset": self.queue_offset,
            "commitLogOffset": self.phys_offset,
            "commitOrRollback": outcome,
            "fromTransactionCheck": "false",
            "msgId": "whatever",
        }


def half_fields(key: str = "k", born: int | None = None, **properties: str) -> dict[str, Any]:
    own = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": key, "TAGS": "tag", **properties}
    return {"properties": own, "f": PREPARED, "g": long_ago() if born is None else born}


async def begin(client: Client, body: bytes = b"body", key: str = "k", **fields: Any) -> Sent:
    answer = await client.send(body, **half_fields(key, **fields))
    assert answer.code == 0, answer.remark
    ext = answer.fields()
    return Sent(int(ext["queueOffset"]), record.decode_msg_id(ext["msgId"])[1])


async def end(client: Client, half: Sent, outcome: int) -> int:
    return (await client.ask(37, half.end(outcome))).code


async def visible(client: Client) -> list[ReceivedMessage]:
    """What a consumer gets."""
    found: list[ReceivedMessage] = []
    while len(found) < await client.max_offset():
        found += (await client.pull(len(found))).messages
    return found


async def bodies(client: Client) -> list[bytes]:
    return [message.body for message in await visible(client)]


def stored(house: House, topic: str) -> list[ReceivedMessage]:
    """What a topic of the broker's own holds."""
    store = house.broker.store
    found: list[ReceivedMessage] = []
    while len(found) < store.queue(topic, 0).max_offset:
        found += decode_records(fetch(store, topic, 0, len(found), Limits(1000, 1_000_000)).records)
    return found


async def join(client: Client) -> None:
    await client.ok(34, body=heartbeat(client.name, producers=[GROUP]))


class Question(NamedTuple):
    half: Sent
    message: ReceivedMessage
    ext: dict[str, str]


async def asked(client: Client) -> Question:
    """The next question that the broker puts to this producer."""
    async with asyncio.timeout(SECONDS):
        push = await client.pushed.get()
    assert (push.code, push.is_oneway) == (39, True)
    ext = push.fields()
    (message,) = decode_records(push.body, check_crc=True)
    return Question(Sent(int(ext["tranStateTableOffset"]), int(ext["commitLogOffset"])), message, ext)


async def check(house: House) -> None:
    await house.broker.transaction_checks.round()


def crashed(house: House, folder: Path) -> Path:
    """What a broker finds that starts where this one was killed."""
    shutil.copytree(house.broker.config.root, folder, ignore=shutil.ignore_patterns("*.tmp"))
    return folder


# -- half, commit, rollback -----------------------------------------------------------------------------


@in_loop
async def test_a_half_message_is_seen_by_nobody_until_it_is_committed(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        half = await begin(client, b"paid", "key-1")
        assert await bodies(client) == []
        assert await end(client, half, COMMIT) == 0
        (message,) = await visible(client)
        assert message.body == b"paid"
        assert message.msg_id == "key-1"
        assert (message.sys_flag & 0xC, message.prepared_offset) == (COMMIT, half.phys_offset)
        assert message.tags == "tag"
        assert (await client.pull(tags="tag")).bodies == [b"paid"]
        assert (await client.pull(tags="other")).bodies == []


@in_loop
async def test_half_and_op_are_stored_as_apache_stores_them(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        half = await begin(client, b"paid")
        await end(client, half, COMMIT)
        (half_stored,) = stored(house, HALF)
        assert (half_stored.body, half_stored.sys_flag & 0xC, half_stored.queue_id) == (b"paid", 0, 0)
        expected = {"REAL_TOPIC": "t", "REAL_QID": "0", "TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": "k"}
        assert expected.items() <= half_stored.properties.items()
        (op,) = stored(house, OP)
        assert (op.body, op.properties) == (str(half.queue_offset).encode(), {"TAGS": "d", "WAIT": "true"})
        assert op.born_host == op.store_host


@in_loop
async def test_a_rolled_back_message_is_never_seen(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        half = await begin(client)
        assert await end(client, half, ROLLBACK) == 0
        await check(house)
        assert await bodies(client) == []
        assert [op.body for op in stored(house, OP)] == [b"0"]
        assert len(stored(house, HALF)) == 1


@in_loop
async def test_a_producer_that_does_not_know_yet_changes_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        half = await begin(client)
        await client.oneway(37, half.end(UNKNOWN))
        assert len(stored(house, OP)) == 0
        assert await end(client, half, COMMIT) == 0
        assert await bodies(client) == [b"body"]


@in_loop
async def test_many_transactions_end_as_they_were_told(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        halves = [await begin(client, b"%d" % number, f"k{number}") for number in range(30)]
        await asyncio.gather(
            *(end(client, half, COMMIT if half.queue_offset % 3 else ROLLBACK) for half in reversed(halves))
        )
        assert sorted(map(int, await bodies(client))) == [number for number in range(30) if number % 3]
        await check(house)
        assert len(stored(house, HALF)) == 30


# -- what does not fit ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"producerGroup": "sellers"},
        {"tranStateTableOffset": 7},
        {"commitLogOffset": 3},
        {"commitLogOffset": 2**62},
        {"commitLogOffset": -1},
        {"tranStateTableOffset": "many"},
        {"producerGroup": None},
    ],
)
@in_loop
async def test_an_end_that_fits_no_half_message_stores_nothing(tmp_path: Path, wrong: dict[str, Any]) -> None:
    async with serving(tmp_path) as (house, client):
        half = await begin(client)
        fields = {name: value for name, value in {**half.end(COMMIT), **wrong}.items() if value is not None}
        answer = await client.ask(37, fields)
        assert answer.code == 1
        assert answer.remark
        assert await bodies(client) == []
        assert len(stored(house, OP)) == 0
        assert await end(client, half, COMMIT) == 0


@in_loop
async def test_a_message_that_is_no_half_cannot_be_committed(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        answer = await client.send(b"plain", properties={"PGROUP": GROUP, "REAL_TOPIC": "t", "REAL_QID": "0"})
        place = record.decode_msg_id(answer.fields()["msgId"])[1]
        assert await end(client, Sent(0, place), COMMIT) == 1
        assert await bodies(client) == [b"plain"]


@in_loop
async def test_halves_that_the_broker_does_not_take(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        assert (await client.send(f=PREPARED)).code == 13  # Apache's broker stores it where nobody finds it
        fields = half_fields()
        fields["properties"]["long"] = "x" * 32_640
        assert (await client.send(**fields)).code == 13
        house.broker.config.reject_transaction_message = True
        assert (await client.send(**half_fields())).code == 16
        assert len(stored(house, HALF)) == 0


@in_loop
async def test_a_delay_and_the_brokers_counters_do_not_come_from_producers(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        extra = {"DELAY": "3", "TIMER_DELAY_SEC": "9", "TRANSACTION_CHECK_TIMES": "15", "REAL_TOPIC": "elsewhere"}
        half = await begin(client, **extra)
        (half_stored,) = stored(house, HALF)
        assert extra.keys() & half_stored.properties.keys() == {"REAL_TOPIC"}
        assert await end(client, half, COMMIT) == 0
        assert await bodies(client) == [b"body"]


@pytest.mark.parametrize("claimed", [PREPARED, ROLLBACK])
@in_loop
async def test_a_message_that_a_consumer_sends_again_is_no_half(tmp_path: Path, claimed: int) -> None:
    async with serving(tmp_path) as (_, client):
        fields = half_fields() | {"f": claimed, "j": 1}
        assert await client.sent(b"again", **fields) == 0
        (message,) = await visible(client)
        assert message.sys_flag & 0xC == 0


# -- twice ----------------------------------------------------------------------------------------------


@in_loop
async def test_a_repeated_end_changes_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        half = await begin(client)
        answers = await asyncio.gather(*(client.ask(37, half.end(COMMIT)) for _ in range(3)))
        assert [answer.code for answer in answers] == [0, 0, 0]
        assert await end(client, half, ROLLBACK) == 1
        assert await bodies(client) == [b"body"]
        assert len(stored(house, OP)) == 1


@in_loop
async def test_a_commit_that_crosses_a_question_is_seen_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        await join(client)
        half = await begin(client)
        await check(house)
        question = await asked(client)
        assert await end(client, half, COMMIT) == 0
        assert await end(client, question.half, COMMIT) == 0
        assert await bodies(client) == [b"body"]
        await check(house)
        assert client.pushed.empty()


@in_loop
async def test_an_end_while_the_question_is_being_written_waits_for_it(tmp_path: Path) -> None:
    async with serving(tmp_path, flush_disk_type="SYNC_FLUSH") as (house, client):
        await join(client)
        half = await begin(client)
        await asyncio.gather(check(house), end(client, half, COMMIT))
        assert await bodies(client) == [b"body"]
        await check(house)
        assert len(stored(house, HALF)) <= 2


@in_loop
async def test_an_end_that_the_disk_refuses_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Segments, position: int, data: bytes) -> None:
        raise StoreError("no room")

    async with serving(tmp_path) as (house, client):
        half = await begin(client)
        with monkeypatch.context() as patched:
            patched.setattr(Segments, "write", refuse)
            assert await end(client, half, COMMIT) == 14
            with pytest.raises(StoreError):
                await check(house)
        assert await bodies(client) == []
        assert await end(client, half, COMMIT) == 0
        assert await bodies(client) == [b"body"]


# -- asking ---------------------------------------------------------------------------------------------


@in_loop
async def test_a_producer_is_asked_and_its_answer_counts(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        await join(client)
        half = await begin(client, b"paid", "key-1")
        await check(house)
        question = await asked(client)
        assert question.ext["msgId"] == question.ext["transactionId"] == "key-1"
        assert record.decode_msg_id(question.ext["offsetMsgId"])[1] == question.half.phys_offset
        assert question.half.queue_offset == half.queue_offset + 1
        message = question.message
        assert (message.topic, message.queue_id, message.body) == ("t", 0, b"paid")
        assert (message.queue_offset, message.phys_offset) == question.half
        assert message.properties["TRANSACTION_CHECK_TIMES"] == "1"
        assert await end(client, question.half, COMMIT) == 0
        (seen,) = await visible(client)
        assert (seen.body, seen.prepared_offset) == (b"paid", question.half.phys_offset)


@in_loop
async def test_a_young_or_patient_half_is_not_asked_about(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        await join(client)
        now = int(time.time() * 1000)
        await begin(client, b"young", "k1", born=now)
        await begin(client, b"patient", "k2", born=now - 60_000, CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
        await begin(client, b"early", "k3", born=now - 2000, CHECK_IMMUNITY_TIME_IN_SECONDS="1")
        await begin(client, b"ahead", "k4", born=now + 60_000)
        await check(house)
        assert {(await asked(client)).message.body for _ in range(2)} == {b"early", b"ahead"}
        assert client.pushed.empty()


@in_loop
async def test_who_never_answers_is_asked_as_often_as_configured(tmp_path: Path) -> None:
    async with serving(tmp_path, transaction_check_max=3) as (house, client):
        await join(client)
        await begin(client, b"lost", "key-1")
        for _ in range(5):
            await check(house)
        counts = [(await asked(client)).message.properties["TRANSACTION_CHECK_TIMES"] for _ in range(3)]
        assert counts == ["1", "2", "3"]
        assert client.pushed.empty()
        (given_up,) = stored(house, GIVEN_UP)
        assert (given_up.body, given_up.properties["REAL_TOPIC"]) == (b"lost", "t")
        assert (await client.ask(323, {"msgId": "nonsense"})).code == 1
        assert (await client.ask(323, {"msgId": record.encode_msg_id(b"12345678", 3)})).code == 1
        assert (await client.ok(323, {"msgId": given_up.offset_msg_id})).code == 0
        await check(house)
        question = await asked(client)
        assert question.message.properties["TRANSACTION_CHECK_TIMES"] == "1"
        assert await end(client, question.half, COMMIT) == 0
        assert await bodies(client) == [b"lost"]


@in_loop
async def test_another_producer_of_the_group_answers_for_a_dead_one(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, first):
        second, stranger = house.client("second"), house.client("stranger")
        await join(first)
        await join(second)
        await stranger.ok(34, body=heartbeat(stranger.name, producers=["sellers"]))
        half = await begin(first)
        await first.close()
        while len(house.broker.membership.clients.producers[GROUP]) > 1:
            await asyncio.sleep(0)
        await check(house)
        question = await asked(second)
        assert question.half != half
        assert await end(second, question.half, COMMIT) == 0
        assert await bodies(second) == [b"body"]
        assert stranger.pushed.empty()


@in_loop
async def test_living_producers_are_asked_in_turn(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, first):
        second = house.client("second")
        await join(first)
        await join(second)
        for number in range(4):
            await begin(first, key=f"k{number}")
        await check(house)
        assert (first.pushed.qsize(), second.pushed.qsize()) == (2, 2)


# -- over restarts --------------------------------------------------------------------------------------


def saved_positions(root: Path) -> dict[str, dict[str, int]]:
    table = json.loads((root / "config" / "consumerOffset.json").read_text())["offsetTable"]
    return {name.partition("@")[0]: place for name, place in table.items() if name.endswith("@CID_RMQ_SYS_TRANS")}


@in_loop
async def test_open_transactions_survive_a_clean_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        await join(client)
        ended = await begin(client, b"ended", "k1")
        await begin(client, b"open", "k2")
        asked_about = await begin(client, b"asked", "k3", CHECK_IMMUNITY_TIME_IN_SECONDS="1")
        await end(client, ended, COMMIT)
        await check(house)
        await asked(client)
        question = await asked(client)
        assert question.message.body == b"asked"
    assert saved_positions(tmp_path) == {HALF: {"0": 3}, OP: {"0": 3}}
    async with running(tmp_path) as house:
        client = house.client()
        assert await end(client, question.half, COMMIT) == 0
        assert await end(client, asked_about, COMMIT) == 1
        assert await bodies(client) == [b"ended", b"asked"]
        await join(client)
        await check(house)
        question = await asked(client)
        assert question.message.properties["TRANSACTION_CHECK_TIMES"] == "2"
        assert await end(client, question.half, COMMIT) == 0
        assert await bodies(client) == [b"ended", b"asked", b"open"]
        await check(house)
        ops = len(stored(house, OP))
    assert saved_positions(tmp_path) == {HALF: {"0": 6}, OP: {"0": ops}}


@in_loop
async def test_a_producer_may_end_by_its_first_half_after_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        half = await begin(client)
        for _ in range(3):
            await check(house)
    async with running(tmp_path) as house:
        client = house.client()
        await join(client)
        assert await end(client, half, COMMIT) == 0
        assert await end(client, half, COMMIT) == 0
        assert await end(client, half, ROLLBACK) == 1
        await check(house)
        assert client.pushed.empty()
        assert await bodies(client) == [b"body"]


@in_loop
async def test_a_crash_at_any_step_neither_loses_nor_repeats(tmp_path: Path) -> None:
    pictures: dict[str, tuple[Path, Sent]] = {}

    def take(name: str, half: Sent) -> None:
        pictures[name] = crashed(house, tmp_path / name), half

    async with serving(tmp_path / "first") as (house, client):
        await join(client)
        half = await begin(client)
        take("half", half)
        await check(house)
        question = await asked(client)
        take("asked", question.half)
        await end(client, question.half, COMMIT)
        take("committed", question.half)
        await check(house)
        take("checked", question.half)
    for name, (root, half) in pictures.items():
        async with running(root) as house:
            client = house.client()
            await join(client)
            await check(house)
            if name in ("half", "asked"):
                question = await asked(client)
                assert await end(client, question.half, COMMIT) == 0
            else:
                await end(client, half, COMMIT)
            assert client.pushed.empty(), name
            await check(house)
            assert await bodies(client) == [b"body"], name


@in_loop
async def test_a_crash_between_commit_and_op_is_mended(tmp_path: Path) -> None:
    async with serving(tmp_path / "first") as (house, client):
        half = await begin(client)
        await end(client, half, COMMIT)
        (op,) = stored(house, OP)
        root = crashed(house, tmp_path / "second")
    with (root / "commitlog" / f"{0:020}").open("r+b") as log:
        log.seek(op.phys_offset)
        log.write(bytes(op.size_bytes))
    async with running(root) as house:
        client = house.client()
        await join(client)
        assert [op.body for op in stored(house, OP)] == [b"0"]
        await check(house)
        assert client.pushed.empty()
        assert await bodies(client) == [b"body"]


@in_loop
async def test_a_commit_is_mended_at_the_start_even_if_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path / "first") as (house, client):
        await end(client, await begin(client), COMMIT)
        (op,) = stored(house, OP)
        root = crashed(house, tmp_path / "second")
    with (root / "commitlog" / f"{0:020}").open("r+b") as log:
        log.seek(op.phys_offset)
        log.write(bytes(op.size_bytes))

    def refuse(segments: Segments, position: int, data: bytes) -> None:
        raise StoreError("no space left")

    with monkeypatch.context() as full:
        full.setattr(Segments, "write", refuse)
        async with running(root) as house:
            client = house.client()
            await join(client)
            await check(house)
            assert client.pushed.empty()
            assert await bodies(client) == [b"body"]


@in_loop
async def test_a_committed_message_that_was_sent_back_says_nothing_of_other_halves(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        first = await begin(client, b"first", key="k1")
        assert first.phys_offset == 0, "what a record says that says nothing"
        assert await end(client, await begin(client, b"second", key="k2"), COMMIT) == 0
        (second,) = await visible(client)
        await client.ok(36, {"offset": second.phys_offset, "group": "g", "delayLevel": 0})
    async with running(tmp_path) as house:
        client = house.client()
        assert await end(client, first, COMMIT) == 0
        assert await bodies(client) == [b"second", b"first"]


@in_loop
async def test_a_crash_between_copy_and_op_leaves_one_transaction(tmp_path: Path) -> None:
    async with serving(tmp_path / "first") as (house, client):
        await join(client)
        half = await begin(client)
        await check(house)
        (op,) = stored(house, OP)
        root = crashed(house, tmp_path / "second")
    with (root / "commitlog" / f"{0:020}").open("r+b") as log:
        log.seek(op.phys_offset)
        log.write(bytes(op.size_bytes))
    async with running(root) as house:
        client = house.client()
        await join(client)
        await check(house)
        question = await asked(client)
        assert question.message.properties["TRANSACTION_CHECK_TIMES"] == "2"
        assert client.pushed.empty()
        assert await end(client, half, COMMIT) == 0
        assert await end(client, question.half, COMMIT) == 0
        assert await bodies(client) == [b"body"]
        assert {op.body for op in stored(house, OP)} == {b"0", b"1", b"2"}


@in_loop
async def test_what_has_ended_is_not_read_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, client):
        for number in range(20):
            half = await begin(client, key=f"k{number}")
            await end(client, half, COMMIT)
        await check(house)
        offsets = house.broker.offsets
        assert offsets.get("CID_RMQ_SYS_TRANS", HALF, 0) == 20
        assert offsets.get("CID_RMQ_SYS_TRANS", OP, 0) == 20
        late = await begin(client, b"late", "late", born=int(time.time() * 1000))
        for number in range(20, 25):
            await end(client, await begin(client, key=f"k{number}"), ROLLBACK)
        await check(house)
        assert offsets.get("CID_RMQ_SYS_TRANS", HALF, 0) == late.queue_offset
        assert offsets.get("CID_RMQ_SYS_TRANS", OP, 0) == 20
        assert await end(client, late, COMMIT) == 0


@pytest.mark.parametrize("ended", [False, True])
@in_loop
async def test_the_copies_that_apaches_broker_makes_are_understood(tmp_path: Path, ended: bool) -> None:
    """It moves a half that is not to be asked about yet out of its way, and ends it by its first place alone."""
    async with serving(tmp_path / "first") as (house, client):
        half = await begin(client)
        store = house.broker.store
        found = read_record(store, half.phys_offset)
        assert found is not None
        copy = half_copy(found, 0)
        copy.properties = f"{found.properties}\x02TRAN_PREPARED_QUEUE_OFFSET\x010".encode()
        place = store.put(copy)
        if ended:
            store.put(op_message(half.queue_offset, 0, store.store_host))
        store.commit()
        root = crashed(house, tmp_path / "second")
    async with running(root) as house:
        client = house.client()
        await join(client)
        if ended:
            assert await end(client, Sent(place.queue_offset, place.phys_offset), COMMIT) == 1
        else:
            assert await end(client, half, COMMIT) == 0
            assert await end(client, Sent(place.queue_offset, place.phys_offset), COMMIT) == 0
        await check(house)
        assert client.pushed.empty()
        assert await bodies(client) == ([] if ended else [b"body"])


@in_loop
async def test_halves_without_a_unique_key_are_kept_apart(tmp_path: Path) -> None:
    async with serving(tmp_path / "first") as (house, client):
        born = long_ago()
        for number in range(3):
            fields = half_fields(born=born)
            del fields["properties"]["UNIQ_KEY"]
            await client.sent(b"%d" % number, **fields)
        await check(house)
        root = crashed(house, tmp_path / "second")
    async with running(root) as house:
        client = house.client()
        await join(client)
        await check(house)
        questions = [await asked(client) for _ in range(3)]
        assert "msgId" not in questions[0].ext
        for question in questions:
            assert await end(client, question.half, COMMIT) == 0
        assert sorted(await bodies(client)) == [b"0", b"1", b"2"]


def test_ops_are_noted_by_the_block() -> None:
    ops = _OpBlocks()
    for number in range(5000):
        ops.add(number, number)
    assert ops.first_needed(0) == 0
    assert ops.first_needed(2500) == 2 * OP_BLOCK
    ops.add(6 * OP_BLOCK, 6000)  # was not written: its place is given to another
    ops.add(5000, 7000)
    assert ops.first_needed(5000) == 5000
    assert ops.first_needed(7001) is None
