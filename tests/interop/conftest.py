"""Fixtures: real clients for all tests of this folder, Apache's servers for those who ask.

Starting a Java client costs a moment and a server several seconds, so both are shared; after each test every
client is reset, which stops all producers and consumers the test left running. A test that kills a client makes
its own with ``new_client``. Topics and groups must be unique per test; ``unique`` names them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.peers.apache import ApacheBroker, ApacheNamesrv
from tests.peers.cache import require
from tests.peers.driver import ClientDriver, GoDriver, JavaDriver
from tests.peers.ours import OurBroker, OurNamesrv

KINDS: dict[str, Callable[[], ClientDriver]] = {
    "java49": lambda: JavaDriver("4.9.7"),
    "java55": lambda: JavaDriver("5.5.0"),
    "go": GoDriver,
}

# Filters are off by default, and questions about half messages come after a minute.
APACHE_SETTINGS = {"enablePropertyFilter": True, "transactionTimeOut": 1000, "transactionCheckInterval": 1000}

_live: list[ClientDriver] = []
_numbers = itertools.count(1)


def _client(kind: str) -> Iterator[ClientDriver]:
    driver = require(KINDS[kind])
    _live.append(driver)
    yield driver
    _live.remove(driver)
    driver.close()


@pytest.fixture(scope="package")
def java49() -> Iterator[ClientDriver]:
    """The Java client 4.9.7."""
    yield from _client("java49")


@pytest.fixture(scope="package")
def java55() -> Iterator[ClientDriver]:
    """The Java client 5.5.0."""
    yield from _client("java55")


@pytest.fixture(scope="package")
def go() -> Iterator[ClientDriver]:
    """The Go client."""
    yield from _client("go")


@pytest.fixture(params=list(KINDS))
def client(request: pytest.FixtureRequest) -> ClientDriver:
    """Each of the three clients in turn; only those asked for are started."""
    driver = request.getfixturevalue(request.param)
    assert isinstance(driver, ClientDriver)
    return driver


@pytest.fixture
def new_client() -> Iterator[Callable[[str], ClientDriver]]:
    """A function that starts a client of its own ("java49", "java55", "go") for tests that kill it."""
    started: list[ClientDriver] = []

    def start(kind: str) -> ClientDriver:
        started.append(require(KINDS[kind]))
        return started[-1]

    yield start
    for driver in started:
        driver.close()


@pytest.fixture(autouse=True)
def _reset_clients() -> Iterator[None]:
    """Leave no consumer of one test running in the next."""
    yield
    for driver in _live:
        if driver.alive:
            driver.reset()


@pytest.fixture
def unique() -> Callable[[str], str]:
    """A function that makes a topic or group name nobody else uses, whatever store it meets."""
    return lambda word: f"{word}_{os.getpid()}_{next(_numbers)}"


@pytest.fixture(scope="package")
def apache_namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheNamesrv]:
    """Apache's name server 4.9.7."""
    with require(ApacheNamesrv, "4.9.7", tmp_path_factory.mktemp("namesrv")) as server:
        yield server


@pytest.fixture(scope="package")
def apache_broker(apache_namesrv: ApacheNamesrv, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheBroker]:
    """Apache's broker 4.9.7 with SQL92 filters enabled, registered at ``apache_namesrv``."""
    workdir = tmp_path_factory.mktemp("broker")
    with require(ApacheBroker, "4.9.7", workdir, apache_namesrv.address, conf=APACHE_SETTINGS) as server:
        yield server


@pytest.fixture(scope="package")
def apache55_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheBroker]:
    """Apache's broker 5.5.0 which lets producers take messages back, with a name server of its own."""
    conf = {**APACHE_SETTINGS, "recallMessageEnable": True}
    with (
        require(ApacheNamesrv, "5.5.0", tmp_path_factory.mktemp("namesrv55")) as namesrv,
        require(ApacheBroker, "5.5.0", tmp_path_factory.mktemp("broker55"), namesrv.address, conf=conf) as server,
    ):
        yield server


@pytest.fixture(params=["apache_broker", "apache55_broker", "our_broker"])
def any_broker(request: pytest.FixtureRequest) -> ApacheBroker | OurBroker:
    """Each of the brokers in turn: Apache's 4.9.7 and 5.5.0, and ours."""
    broker = request.getfixturevalue(request.param)
    assert isinstance(broker, (ApacheBroker, OurBroker))
    return broker


@pytest.fixture(scope="package")
def our_namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurNamesrv]:
    """mqctl's name server."""
    with OurNamesrv(tmp_path_factory.mktemp("our-namesrv")) as server:
        yield server


@pytest.fixture(scope="package")
def our_broker(our_namesrv: OurNamesrv, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    """mqctl's broker, registered at ``our_namesrv``; shared, so tests use names of their own."""
    with OurBroker(tmp_path_factory.mktemp("our-broker"), our_namesrv.address) as server:
        yield server


@pytest.fixture
def own_broker(our_namesrv: OurNamesrv, tmp_path: Path) -> Iterator[OurBroker]:
    """A broker for one test alone, which may stop, kill and restart it; a cluster of its own."""
    name = f"own-{next(_numbers)}"
    with OurBroker(tmp_path, our_namesrv.address, name=name, cluster=f"cluster-{name}") as server:
        yield server
