"""The options of producers and consumers, for those who pass them on."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from mqctl.client.held import Limits
from mqctl.client.offsets import Start
from mqctl.client.rebalance import Strategy
from mqctl.remoting.compression import Compression
from mqctl.remoting.signing import Credentials


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
    credentials: Credentials | None


class ConsumerOptions(TypedDict, total=False):
    """The keyword arguments that all consumers have; what they mean is said at `PushConsumer`."""

    broadcast: bool
    start: Start
    limits: Limits
    strategy: Strategy
    pull_batch: int
    instance: str | None
    offsets_dir: Path | None
    credentials: Credentials | None


class PushOptions(ConsumerOptions, total=False):
    orderly: bool
    concurrency: int
    batch: int | None
    max_reconsume_times: int | None
    consume_timeout: float
    finish_seconds: float
    trace: bool


class PullOptions(ConsumerOptions, total=False):
    auto_commit: bool
