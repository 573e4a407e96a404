"""The pages about the command line are those that the commands make."""

from __future__ import annotations

import pytest

from mqctl.manual import MQADMIN_4_9_7, PAGES
from tests.peers.ours import REPOSITORY


@pytest.mark.parametrize("name", PAGES)
def test_the_pages_are_current(name: str) -> None:
    """If not: make docs"""
    assert (REPOSITORY / "docs" / name).read_text() == PAGES[name]()


def test_all_of_mqadmin_is_looked_at() -> None:
    assert len(set(MQADMIN_4_9_7.split())) == 57
