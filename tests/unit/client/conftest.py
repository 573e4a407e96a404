"""A broker for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import mqctl.testing
from mqctl.testing import EmbeddedBroker


@pytest.fixture
def mq() -> Iterator[EmbeddedBroker]:
    with mqctl.testing.broker() as running:
        yield running
