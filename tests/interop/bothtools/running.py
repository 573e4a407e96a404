"""Running one command line with both tools, and what of its output is compared.

A name in braces stands for something that is known only when a test runs, such as `{address}`. What is found is
compared as text, so that "2" and 2 are the same.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mqctl.exit import ExitCode
from tests.cli.running import Cli
from tests.interop.acting import make_topic, wait_for_topic
from tests.peers.apache import ApacheBroker
from tests.peers.driver import ClientDriver
from tests.peers.ours import OurBroker

AnyBroker = OurBroker | ApacheBroker
TOOLS: Final = ("mqadmin", "mqctl")

# What the brokers of the test suite are called.
CLUSTER: Final = "DefaultCluster"
BROKER: Final = "broker-a"

# What is found where there is nothing to find: by mqadmin in a trace of the stack, by mqctl in the exit status.
NOT_FOUND: Final = "not found"
_NOT_FOUND_CODES: Final = re.compile(r"CODE: (17|22) ")


@dataclass(frozen=True)
class Row:
    """`theirs` finds the facts in mqadmin's text, `ours` in the rows of mqctl's JSON."""

    line: str
    theirs: Callable[[str], Any]
    ours: Callable[[list[Any]], Any]
    facts: Any


@dataclass(frozen=True)
class Site:
    """A broker with its name server, and both tools to ask it with."""

    broker: AnyBroker
    java: ClientDriver
    cli: Cli
    names: Mapping[str, str]

    def naming(self, **names: str) -> Site:
        return Site(self.broker, self.java, self.cli, {**self.names, **names})

    def make_topics(self, *names: str) -> None:
        """With two queues each."""
        for name in names:
            topic = name.format_map(self.names)
            make_topic(self.broker, topic, 2)
            wait_for_topic(self.broker, topic)

    def found(self, tool: str, row: Row) -> Any:
        """The facts as this tool has them."""
        return (self._by_mqadmin if tool == "mqadmin" else self._by_mqctl)(row)

    def expected(self, row: Row) -> Any:
        return as_text(row.facts, self.names)

    def mqctl(self, line: str) -> list[Any]:
        """The rows that a command printed, which must succeed."""
        return rows_of(self.cli.ok(*self._words(line), "--output", "json").out)

    def _by_mqadmin(self, row: Row) -> Any:
        printed = self.java.call("mqadmin", args=[*self._words(row.line), "-n", self.broker.namesrv])
        if _NOT_FOUND_CODES.search(printed["stderr"]):
            return NOT_FOUND
        assert "Exception" not in printed["stdout"] + printed["stderr"], printed
        return as_text(row.theirs(printed["stdout"]))

    def _by_mqctl(self, row: Row) -> Any:
        ended = self.cli(*self._words(row.line), "--output", "json")
        if ended.status == ExitCode.NOT_FOUND:
            return NOT_FOUND
        assert ended.status == 0, ended
        return as_text(row.ours(rows_of(ended.out)))

    def _words(self, line: str) -> list[str]:
        return shlex.split(line.format_map(self.names))


def rows_of(out: str) -> list[Any]:
    """mqctl prints a table as one document, and what comes little by little as a document a line."""
    rows: list[Any] = json.loads(out) if out.startswith("[") else [json.loads(line) for line in out.splitlines()]
    return rows


def as_text(facts: Any, names: Mapping[str, str] | None = None) -> Any:
    if isinstance(facts, (list, tuple)):
        return [as_text(fact, names) for fact in facts]
    text = str(facts).lower() if isinstance(facts, bool) else str(facts)
    return text if names is None else text.format_map(names)
