"""Real servers of ours for the commands to talk to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Cli
from tests.peers.ours import OurBroker, OurNamesrv


@pytest.fixture(scope="session")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurNamesrv]:
    with OurNamesrv(tmp_path_factory.mktemp("namesrv")) as server:
        yield server


@pytest.fixture(scope="session")
def broker(namesrv: OurNamesrv, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    """The one broker of cluster DefaultCluster, for tests that do not stop it."""
    with OurBroker(tmp_path_factory.mktemp("broker"), namesrv.address) as server:
        yield server


@pytest.fixture
def cli(broker: OurBroker) -> Cli:
    """mqctl, told by NAMESRV_ADDR where the servers are."""
    return Cli({"NAMESRV_ADDR": broker.namesrv})


@pytest.fixture
def offline() -> Cli:
    """mqctl without any servers."""
    return Cli({"NAMESRV_ADDR": "127.0.0.1:1"})


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of the test's own, since the servers are shared."""
    name = "".join(char if char.isalnum() else "-" for char in request.node.name)
    return f"{Path(str(request.path)).stem}-{name}"[:100]
