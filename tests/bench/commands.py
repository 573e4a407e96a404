"""``python -m tests.bench.commands``: mqctl and mqadmin 4.9.7, in turn, asking the same servers the same things.

Wall time of the whole process, as an operator or a script waits for it. mqadmin's virtual machine is started with flags
that make it quicker than Apache's own script does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqctl.client import Message, Producer
from tests.peers.apache import mqadmin
from tests.peers.ours import REPOSITORY, OurBroker, OurNamesrv

from . import sides, usage
from .rounds import FOREIGN_SHARE, say

ROUNDS: Final = 3
TARGET: Final = 0.1
TIMEOUT_S: Final = 300
KEYED: Final = 1000
TOPICS: Final = 5000
GROUPS: Final = 500
QUEUES: Final = 4


@dataclass(frozen=True, slots=True)
class Question:
    """A row: the same question in both languages, and a text that a right answer of either holds."""

    mqadmin: tuple[str, ...]
    mqctl: tuple[str, ...]
    holds: str

    @property
    def label(self) -> str:
        return self.mqadmin[0]


SMALL: Final = (
    Question(("clusterList",), ("cluster", "list"), "bench-commands"),
    Question(("topicList",), ("topic", "list"), "bench-keys"),
    Question(
        ("updateTopic", "-t", "bench-made", "-c", "bench-cluster", "-w", "8", "-r", "4"),
        ("topic", "update", "bench-made", "-c", "bench-cluster", "-w", "8", "-r", "4"),
        "",
    ),
    Question(("consumerProgress", "-g", "bench-group"), ("consumer", "progress", "bench-group"), "bench-keys"),
    Question(
        ("queryMsgByKey", "-t", "bench-keys", "-k", "key-7"), ("msg", "query", "bench-keys", "--key", "key-7"), ""
    ),
)
LARGE: Final = (
    Question(("topicList",), ("topic", "list"), f"many-{TOPICS - 1}"),
    Question(("consumerProgress",), ("consumer", "progress"), f"group-{GROUPS - 1}"),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.commands", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    clock = usage.ForeignClock()
    with tempfile.TemporaryDirectory(prefix="mqctl-bench-") as folder:
        work = Path(folder)
        with OurNamesrv(work / "namesrv") as namesrv:
            print(f"{'':<44}{'mqadmin s':>12}{'mqctl s':>10}{'ratio':>8}  target")
            with _broker(work / "small", namesrv.address, topics=0, groups=1):
                asyncio.run(_fill(namesrv.address))
                _compare("", SMALL, namesrv.address, options.rounds)
        with OurNamesrv(work / "namesrv-2") as namesrv:
            say(f"{TOPICS} topics, {GROUPS} groups")
            with _broker(work / "large", namesrv.address, TOPICS, GROUPS):
                _compare(f" of {TOPICS:,} topics, {GROUPS} groups", LARGE, namesrv.address, options.rounds)
    if (share := clock.share()) > FOREIGN_SHARE:
        print(f"note: other processes used {share:.0%} of the machine; measure again when it is idle")
    return 0


def _broker(workdir: Path, namesrv: str, topics: int, groups: int) -> OurBroker:
    broker = OurBroker(workdir, namesrv, "bench-commands", "bench-cluster", sides.SETTINGS)
    config = broker.store_dir / "config"
    config.mkdir(parents=True)
    names = ["bench-keys", *(f"many-{number}" for number in range(topics))]
    members = ["bench-group", *(f"group-{number}" for number in range(groups))]
    queues = {str(queue_id): 0 for queue_id in range(QUEUES)}
    _write(config / "topics.json", topicConfigTable={name: _topic(name, QUEUES) for name in names} | _retry(members))
    _write(config / "subscriptionGroup.json", subscriptionGroupTable={name: {"groupName": name} for name in members})
    consumed = {f"{names[number % len(names)]}@{member}": queues for number, member in enumerate(members)}
    _write(config / "consumerOffset.json", offsetTable=consumed)
    return broker


def _retry(groups: list[str]) -> dict[str, object]:
    """mqadmin finds groups by these topics."""
    names = [f"%RETRY%{group}" for group in groups]
    return {name: _topic(name, 1) for name in names}


def _topic(name: str, queues: int) -> object:
    return {"topicName": name, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6}


def _write(path: Path, **content: object) -> None:
    path.write_text(json.dumps(content))


async def _fill(namesrv: str) -> None:
    async with Producer("bench-commands", namesrv) as producer:
        for number in range(KEYED):
            await producer.send(Message("bench-keys", b"0" * 128, keys=[f"key-{number}"]))


def _compare(where: str, questions: tuple[Question, ...], namesrv: str, rounds: int) -> None:
    for question in questions:
        theirs, ours = [], []
        for _ in range(rounds):
            theirs.append(_mqadmin(question, namesrv))
            ours.append(_mqctl(question, namesrv))
        one, other = statistics.median(theirs), statistics.median(ours)
        verdict = "ok" if other / one <= TARGET else "miss"
        label = question.label + where
        print(f"{label:<44}{one:>12.2f}{other:>10.2f}{other / one:>7.2f}x  <= {TARGET:g}x {verdict}", flush=True)


def _mqadmin(question: Question, namesrv: str) -> float:
    begin = time.monotonic()
    done = mqadmin(sides.APACHE_VERSION, namesrv, *question.mqadmin, timeout=TIMEOUT_S)
    return _checked(begin, question.mqadmin, question.holds, done.stdout, done.stderr)


def _mqctl(question: Question, namesrv: str) -> float:
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "mqctl", *question.mqctl, "-n", namesrv],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    return _checked(begin, question.mqctl, question.holds, done.stdout, done.stderr)


def _checked(begin: float, command: tuple[str, ...], holds: str, stdout: str, stderr: str) -> float:
    """An answer that is quick because it is wrong is no answer."""
    elapsed = time.monotonic() - begin
    if holds not in stdout or not stdout.strip():
        raise SystemExit(f"{' '.join(command)}: {holds!r} is not in its answer\n{stdout[-2000:]}\n{stderr[-2000:]}")
    return elapsed


if __name__ == "__main__":
    sys.exit(main())
