"""The pytest plugin, found by its entry point wherever mqctl is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mqctl.testing.embedded import EmbeddedBroker


@pytest.fixture
def mqctl_broker() -> Iterator[EmbeddedBroker]:
    """A name server and a broker for this test alone."""
    from mqctl.testing import broker

    with broker() as mq:
        yield mq


@pytest.fixture(scope="session")
def mqctl_shared_broker() -> Iterator[EmbeddedBroker]:
    """A name server and a broker for all tests of the run; they need topics and groups of their own."""
    from mqctl.testing import broker

    with broker() as mq:
        yield mq
