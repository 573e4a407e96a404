"""The broker inside a test, and the pytest plugin that brings it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import mqctl.testing
from mqctl.client import Message
from mqctl.client.blocking import Producer
from mqctl.errors import ConfigError

REPOSITORY = Path(__file__).resolve().parents[2]


def test_a_producer_finds_it_and_messages_can_be_looked_at() -> None:
    with mqctl.testing.broker() as mq:
        mq.create_topic("orders", queues=2)
        with Producer("shop", mq.namesrv) as producer:
            sent = [producer.send(Message("orders", b"%d" % number)) for number in range(5)]
        stored = mq.messages("orders")
        assert sorted(message.body for message in stored) == [b"0", b"1", b"2", b"3", b"4"]
        assert {message.msg_id for message in stored} == {result.msg_id for result in sent}
        assert {message.queue_id for message in stored} == {0, 1}
        assert mq.messages("nothing-there") == []


def test_nothing_is_left_behind() -> None:
    threads = threading.active_count()
    with mqctl.testing.broker() as mq:
        folder = mq.store
        assert folder.is_dir()
    assert not folder.parent.exists()
    assert threading.active_count() == threads


def test_two_at_a_time_know_nothing_of_each_other() -> None:
    with mqctl.testing.broker() as first, mqctl.testing.broker() as second:
        first.create_topic("t")
        with Producer("g", first.namesrv) as producer:
            producer.send(Message("t", b"x"))
        assert first.namesrv != second.namesrv
        assert len(first.messages("t")) == 1
        assert second.messages("t") == []


def test_settings_are_the_broker_s_and_a_wrong_one_is_named() -> None:
    with mqctl.testing.broker(autoCreateTopicEnable=False, maxMessageSize=1000) as mq:
        mq.create_topic("t")
    with pytest.raises(ConfigError, match="autoCreateTopicEnabel"), mqctl.testing.broker(autoCreateTopicEnabel=False):
        pass


def test_the_broker_goes_away_and_comes_back_with_its_store() -> None:
    with mqctl.testing.broker() as mq:
        mq.create_topic("t")
        address = mq.address
        with Producer("g", mq.namesrv) as producer:
            producer.send(Message("t", b"before"))
            mq.stop()
            with pytest.raises(RuntimeError, match="stopped"):
                mq.messages("t")
            mq.start()
            producer.send(Message("t", b"after"))
        assert mq.address == address
        assert sorted(message.body for message in mq.messages("t")) == [b"after", b"before"]


def test_time_can_be_moved() -> None:
    with mqctl.testing.broker() as mq:
        mq.create_topic("t", queues=1)
        before = mq.clock.time()
        mq.clock.advance(3600)
        assert mq.clock.time() >= before + 3600
        with Producer("g", mq.namesrv) as producer:
            producer.send(Message("t", b"x"))
        assert mq.messages("t")[0].store_timestamp >= (before + 3600) * 1000


PLUGIN_TEST = """
def test_own(mqctl_broker):
    mqctl_broker.create_topic("t")
    assert mqctl_broker.messages("t") == []

def test_shared(mqctl_shared_broker):
    assert mqctl_shared_broker.namesrv.startswith("127.0.0.1:")

def test_light():
    pass
"""


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # `-p` stands for the entry point of an installed mqctl, and loads it no second time where it is installed.
    command = [sys.executable, "-m", "pytest", "-p", "mqctl.testing.plugin", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True, timeout=60
    )


def test_the_plugin_brings_fixtures(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(PLUGIN_TEST)
    done = run_pytest(tmp_path)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_the_plugin_loads_no_server_for_tests_that_use_none(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\ndef test_light():\n    assert 'mqctl.server' not in sys.modules\n"
    )
    done = run_pytest(tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
