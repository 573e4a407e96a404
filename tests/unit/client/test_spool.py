"""The spool file: order, bounds, and what a kill leaves behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mqctl.client import spool as spool_module
from mqctl.client.outgoing import Encoder
from mqctl.client.spool import Entry, Spool
from mqctl.errors import StoreError
from mqctl.remoting.bodies import MessageQueue
from mqctl.remoting.message import Message

ENCODER = Encoder("g")


def entries(count: int, start: int = 0) -> list[Entry]:
    return [Entry(ENCODER.single(Message("t", b"%d" % number)), None) for number in range(start, start + count)]


def opened(path: Path) -> Spool:
    spool = Spool(path)
    spool.open()
    return spool


def test_entries_come_back_whole_and_in_order(tmp_path: Path) -> None:
    spool = opened(tmp_path / "deep" / "spool")
    queue = MessageQueue("t", "broker-ä", 3)
    kept = [*entries(2), Entry(ENCODER.single(Message("t", bytes(5000), keys="k"), "order"), queue)]
    spool.append([entry.pack() for entry in kept[:1]])
    spool.append([entry.pack() for entry in kept[1:]])
    assert spool.pending == 3
    assert [*spool.peek(2), *spool.peek(2)] == kept
    spool.close()


def test_an_empty_spool_is_an_empty_file(tmp_path: Path) -> None:
    spool = opened(tmp_path / "spool")
    spool.append([entry.pack() for entry in entries(3)])
    spool.peek(3)
    spool.mark_sent(2)
    assert (tmp_path / "spool").stat().st_size == spool.size_bytes > 0
    spool.mark_sent(1)
    assert (spool.pending, spool.size_bytes, (tmp_path / "spool").stat().st_size) == (0, 0, 0)
    more = entries(1)
    spool.append([more[0].pack()])
    assert spool.peek(9) == more
    spool.close()


def test_a_new_run_goes_on_where_the_last_one_marked(tmp_path: Path) -> None:
    kept = entries(5)
    spool = opened(tmp_path / "spool")
    spool.append([entry.pack() for entry in kept])
    spool.peek(2)
    spool.mark_sent(2)
    spool.close()
    again = opened(tmp_path / "spool")
    assert again.pending == 3
    late = entries(1, start=5)
    again.append([late[0].pack()])
    assert again.peek(9) == [*kept[2:], *late]
    again.close()


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_what_a_kill_cut_off_is_dropped(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "spool"
    kept = entries(3)
    spool = opened(path)
    spool.append([entry.pack() for entry in kept])
    spool.close()
    path.write_bytes(path.read_bytes()[:-cut])
    again = opened(path)
    assert again.pending == 2
    late = entries(1, start=3)
    again.append([late[0].pack()])
    assert again.peek(9) == [*kept[:2], *late]
    again.close()


def test_damage_ends_the_file_and_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    kept = entries(2)
    damaged = kept[1].pack().replace(b"WAIT", b"WAXT") + b"\xc1garbage"
    path.write_bytes(kept[0].pack() + damaged)
    spool = opened(path)
    assert spool.peek(9) == kept[:1]
    spool.close()
    assert (tmp_path / "spool.damaged").read_bytes() == damaged, "a human may still want to see it"


def test_one_producer_at_a_time(tmp_path: Path) -> None:
    spool = opened(tmp_path / "spool")
    with pytest.raises(StoreError, match="in use by another producer"):
        opened(tmp_path / "spool")
    spool.close()
    opened(tmp_path / "spool").close()


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot open the spool"):
        opened(tmp_path)


def test_refused_messages_are_kept_beside(tmp_path: Path) -> None:
    spool = opened(tmp_path / "spool")
    kept = entries(2)
    paths = {spool.set_aside(entry) for entry in kept}
    spool.close()
    assert paths == {tmp_path / "spool.refused"}
    refused = opened(tmp_path / "spool.refused")
    assert refused.peek(9) == kept
    refused.close()


def test_large_messages_are_looked_at_few_at_a_time(tmp_path: Path) -> None:
    encoder = Encoder("g", compress_over=10**9)
    kept = [Entry(encoder.single(Message("t", bytes(600_000))), None) for _ in range(5)]
    spool = opened(tmp_path / "spool")
    spool.append([entry.pack() for entry in kept])
    assert [len(spool.peek(64)) for _ in range(4)] == [2, 2, 1, 0]
    spool.mark_sent(4)
    assert (spool.pending, spool.waiting_bytes) == (1, len(kept[4].pack()))
    spool.close()


@pytest.fixture
def cuts_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "CUT_OVER", 100)


@pytest.mark.usefixtures("cuts_early")
def test_what_is_sent_is_cut_off_and_the_rest_stays_in_order(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    spool = opened(path)
    kept = entries(10)
    spool.append([entry.pack() for entry in kept])
    for step in range(200):
        assert spool.peek(2) == kept[:2]
        del kept[:2]
        spool.mark_sent(2)
        late = entries(2, start=10 + 2 * step)
        spool.append([entry.pack() for entry in late])
        kept += late
        assert path.stat().st_size == spool.size_bytes < 40 * len(kept[0].pack())
        assert spool.waiting_bytes <= spool.size_bytes
    spool.close()
    again = opened(path)
    assert (again.pending, again.peek(99)) == (10, kept)
    again.mark_sent(10)
    assert path.stat().st_size == 0
    again.close()


@pytest.mark.usefixtures("cuts_early")
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_kill_while_the_sent_part_is_cut_off_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def killed(*_: object) -> None:
        raise OSError(28, "No space left on device")

    kept = entries(4)
    spool = opened(tmp_path / "spool")
    spool.append([entry.pack() for entry in kept])
    spool.peek(4)
    with monkeypatch.context() as disk:
        disk.setattr(os if step == "fsync" else Path, step, killed)
        with pytest.raises(StoreError, match="No space left"):
            spool.mark_sent(3)
    late = entries(1, start=4)
    spool.append([late[0].pack()])
    spool.close()
    assert (tmp_path / "spool.new").exists()
    again = opened(tmp_path / "spool")
    assert again.peek(9) == [*kept, *late], "what was sent may come twice, under its ids"
    assert not (tmp_path / "spool.new").exists()
    again.close()


@pytest.mark.usefixtures("cuts_early")
def test_another_producer_that_opened_the_file_before_it_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = opened(tmp_path / "spool")
    spool.append([entry.pack() for entry in entries(4)])
    spool.peek(4)
    flock = spool_module.fcntl.flock

    def late(descriptor: int, operation: int) -> None:
        monkeypatch.undo()
        monkeypatch.setattr(spool_module, "CUT_OVER", 100)
        spool.mark_sent(3)
        flock(descriptor, operation)

    monkeypatch.setattr(spool_module.fcntl, "flock", late)
    with pytest.raises(StoreError, match="in use by another producer"):
        opened(tmp_path / "spool")
    spool.close()
