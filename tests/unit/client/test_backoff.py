"""How long an unreachable address is left alone."""

from __future__ import annotations

import random

import pytest

from mqctl.client.backoff import FIRST_SECONDS, LIMIT_SECONDS, Backoff
from mqctl.errors import ConnectionFailed


def test_pauses_double_up_to_a_limit_and_end_with_success() -> None:
    now = 0.0
    backoff = Backoff(clock=lambda: now, rng=random.Random(1))
    backoff.check("a")
    pause = FIRST_SECONDS
    for _ in range(10):
        backoff.failed("a", ConnectionFailed("refused"))
        with pytest.raises(ConnectionFailed, match="refused"):
            backoff.check("a")
        now += pause
        backoff.check("a")
        pause = min(2 * pause, LIMIT_SECONDS)
    backoff.failed("a", ConnectionFailed("refused"))
    backoff.check("b")
    backoff.succeeded("a")
    backoff.check("a")
