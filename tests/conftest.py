"""Settings of the whole suite, and who runs what when it runs in several processes."""

from __future__ import annotations

import signal
from typing import Any, Final

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

# A busy machine is not a failure: hypothesis would count an example that takes longer than 200 ms as one.
settings.register_profile("mqctl", deadline=None, max_examples=50)
settings.load_profile("mqctl")

# A run in the background starts with Ctrl-C switched off, and would hand that down to the programs under test.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What takes longest, first: the rest fills the gaps at the end.
FIRST: Final = ("tests/spark/", "tests/interop/", "tests/binary/", "tests/crash/")


class ByFile(LoadScopeScheduling):
    """One process runs a whole file, which starts its brokers once; and one runs all that shares a Spark session."""

    def _split_scope(self, nodeid: str) -> str:
        return FIRST[0] if nodeid.startswith(FIRST[0]) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    config.option.loadscopereorder = False
    return ByFile(config, log)


def _mark_what_needs_java(item: pytest.Item) -> None:
    """The jobs' tests all want Spark; some of them a broker of Apache's as well, by a fixture or by a parameter."""
    item.add_marker("spark")
    if "apache" in item.name or any(name.startswith("apache") for name in getattr(item, "fixturenames", ())):
        item.add_marker("interop")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(FIRST[0]):
            _mark_what_needs_java(item)
    items.sort(key=lambda item: next((rank for rank, at in enumerate(FIRST) if item.nodeid.startswith(at)), len(FIRST)))
