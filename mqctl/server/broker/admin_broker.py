"""The broker about itself: runtime figures and configuration."""

from __future__ import annotations

import time
from typing import Final

import msgspec
import psutil

from mqctl import config as properties_file
from mqctl.remoting import bodies
from mqctl.remoting.bodies import DataVersion, KVTable
from mqctl.remoting.codes import VERSION_4_9_7, RequestCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.delay import Delays
from mqctl.server.broker.stats import BrokerStats
from mqctl.server.loop import HandlerTable
from mqctl.store.store import MessageStore

VERSION_NAME: Final = "V4_9_7"  # the level of behaviour we announce; tools show it
GIB: Final = 1024**3


class BrokerAdmin:
    def __init__(self, config: BrokerConfig, store: MessageStore, stats: BrokerStats, delays: Delays) -> None:
        self._config = config
        self._store = store
        self._stats = stats
        self._delays = delays
        self._boot_ms = int(time.time() * 1000)
        self._data_version = DataVersion(counter=0, timestamp=self._boot_ms)

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.GET_BROKER_RUNTIME_INFO: (None, self.on_runtime_info),
            RequestCode.GET_BROKER_CONFIG: (None, self.on_get_config),
        }

    def on_get_config(self, connection: Connection, request: Command, _: None) -> Command:
        version = msgspec.json.encode(self._data_version).decode()
        return request.reply(ext={"version": version}, body=properties_file.dump(self._config).encode())

    def on_runtime_info(self, connection: Connection, request: Command, _: None) -> Command:
        table = {**self._identity(), **self._traffic(), **self._disk(), **self._delays.levels.progress()}
        return request.reply(body=bodies.encode(KVTable(table=table)))

    def _identity(self) -> dict[str, str]:
        return {
            "brokerVersionDesc": VERSION_NAME,
            "brokerVersion": str(VERSION_4_9_7),
            "bootTimestamp": str(self._boot_ms),
            "runtime": _duration_text(int(time.time() - self._boot_ms / 1000)),
            "startAcceptSendRequestTimeStamp": str(self._config.start_accept_send_request_time_stamp),
        }

    def _traffic(self) -> dict[str, str]:
        """Only what this broker counts is reported, except the queue figures that mqadmin's clusterList
        cannot do without: requests do not queue for threads here."""
        stats = self._stats
        table = {
            "putTps": stats.put_rate.text(),
            "getFoundTps": stats.found_rate.text(),
            "getMissTps": stats.missed_rate.text(),
            "getTotalTps": " ".join(
                f"{found + missed:.6f}"
                for found, missed in zip(stats.found_rate.per_second(), stats.missed_rate.per_second(), strict=True)
            ),
            "getTransferedTps": stats.pulled_rate.text(),
            "getTransferredTps": stats.pulled_rate.text(),
            "putMessageTimesTotal": str(self._store.messages_put),
            "putMessageSizeTotal": str(self._store.bytes_put),
            "putMessageAverageSize": str(self._store.bytes_put / max(1, self._store.messages_put)),
        }
        for pool in ("send", "pull"):
            table[f"{pool}ThreadPoolQueueSize"] = "0"
            table[f"{pool}ThreadPoolQueueCapacity"] = "0"
            table[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = "0"
        return table

    def _disk(self) -> dict[str, str]:
        log, root = self._store.log, self._store.config.root
        usage = psutil.disk_usage(str(root))
        ratio = f"{usage.percent / 100:.2f}"
        first = log.store_timestamp(log.begin) if log.end > log.begin else None
        return {
            "commitLogMinOffset": str(log.begin),
            "commitLogMaxOffset": str(log.end),
            "commitLogDiskRatio": ratio,
            "consumeQueueDiskRatio": ratio,
            "commitLogDirCapacity": f"Total : {usage.total / GIB:.1f} GiB, Free : {usage.free / GIB:.1f} GiB.",
            "pageCacheLockTimeMills": "0",
            "dispatchBehindBytes": "0",
            "earliestMessageTimeStamp": str(-1 if first is None else first),
        }


def _duration_text(seconds: int) -> str:
    """As Apache's broker writes it, which tools show as it is."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"
