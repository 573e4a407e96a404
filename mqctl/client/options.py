"""The options of producers, for those who pass them on."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from mqctl.remoting.compression import Compression


class ProducerOptions(TypedDict, total=False):
    """The keyword arguments of `Producer`; what they mean is said there."""

    timeout: float
    retries: int
    max_in_flight: int
    avoid_slow_brokers: bool
    compress_over: int
    compression: Compression
    max_message_size: int
    trace: bool
    spool: str | Path | None
    max_spool_bytes: int
    client_id: str | None
