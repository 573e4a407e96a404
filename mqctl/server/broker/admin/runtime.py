"""The broker about itself: the figures that GET_BROKER_RUNTIME_INFO lists.

Tools of either generation stop with an error where a key is missing that they know, so all keys of 4.9.7 are here and
those that 5.x tools read. What Apache's broker has and this one has not, such as queues of requests that wait for a
thread, is 0.
"""

from __future__ import annotations

from typing import Final

import psutil

from mqctl import __version__
from mqctl.remoting import bodies
from mqctl.remoting.bodies import KVTable
from mqctl.remoting.bodies_admin import HaRuntimeInfo
from mqctl.remoting.codes import VERSION_4_9_7, RequestCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.server.broker.acks import Acks
from mqctl.server.broker.config import BrokerConfig
from mqctl.server.broker.delay.delays import Delays
from mqctl.server.broker.stats import BrokerStats
from mqctl.server.clock import Clock
from mqctl.server.loop import HandlerTable
from mqctl.store.clean import used_ratio
from mqctl.store.store import MessageStore

VERSION_NAME: Final = "V4_9_7"  # the level of behaviour we announce; tools show it
MAX_INT: Final = 2**31 - 1  # what Apache's broker reports for a pool of buffers that is off

POOLS: Final = ("send", "pull", "litePull", "query", "ack")
UNITS: Final = "KMGTPE"


class RuntimeAdmin:
    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        acks: Acks,
        stats: BrokerStats,
        delays: Delays,
        clock: Clock,
    ) -> None:
        self._config = config
        self._store = store
        self._acks = acks
        self._stats = stats
        self._delays = delays
        self._clock = clock
        self._boot_ms = clock.now_ms()

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.GET_BROKER_RUNTIME_INFO: (None, self.on_runtime_info),
            RequestCode.GET_BROKER_HA_STATUS: (None, self.on_ha_status),
        }

    def on_runtime_info(self, connection: Connection, request: Command, _: None) -> Command:
        table = {
            **self._identity(),
            **self._rates(),
            **self._totals(),
            **self._times(),
            **self._disk(),
            **self._timers(),
            **_pools(),
            **self._delays.levels.progress(),
        }
        return request.reply(body=bodies.encode(KVTable(table=table)))

    def on_ha_status(self, connection: Connection, request: Command, _: None) -> Command:
        """5.x tools ask for it. No slave follows this broker."""
        return request.reply(body=bodies.encode(HaRuntimeInfo(master_commit_log_max_offset=self._store.log.end)))

    def _identity(self) -> dict[str, str]:
        return {
            "brokerActive": "true",
            "brokerVersionDesc": VERSION_NAME,
            "brokerVersion": str(VERSION_4_9_7),
            "mqctlVersion": __version__,
            "bootTimestamp": str(self._boot_ms),
            "runtime": duration_text((self._clock.now_ms() - self._boot_ms) // 1000),
            "startAcceptSendRequestTimeStamp": str(self._config.start_accept_send_request_time_stamp),
        }

    def _rates(self) -> dict[str, str]:
        stats = self._stats
        pulls = zip(stats.found_rate.per_second(), stats.missed_rate.per_second(), strict=True)
        return {
            "putTps": stats.put_rate.text(),
            "getFoundTps": stats.found_rate.text(),
            "getMissTps": stats.missed_rate.text(),
            "getTotalTps": " ".join(f"{found + missed:.6f}" for found, missed in pulls),
            "getTransferedTps": stats.pulled_rate.text(),  # 4.9.7 spells it so, 5.x as the next
            "getTransferredTps": stats.pulled_rate.text(),
        }

    def _totals(self) -> dict[str, str]:
        stats, store = self._stats, self._store
        return {
            # Apache's is never 0 either: tools divide by it.
            "putMessageTimesTotal": str(max(1, store.messages_put)),
            "putMessageFailedTimes": str(self._acks.refused),
            "putMessageSizeTotal": str(store.bytes_put),
            "putMessageAverageSize": str(store.bytes_put / max(1, store.messages_put)),
            "msgPutTotalYesterdayMorning": str(stats.put_days.yesterday_morning),
            "msgPutTotalTodayMorning": str(stats.put_days.today_morning),
            "msgPutTotalTodayNow": str(store.messages_put),
            "msgGetTotalYesterdayMorning": str(stats.pulled_days.yesterday_morning),
            "msgGetTotalTodayMorning": str(stats.pulled_days.today_morning),
            "msgGetTotalTodayNow": str(stats.messages_pulled),
        }

    def _times(self) -> dict[str, str]:
        writes = self._stats.write_times
        return {
            "putMessageEntireTimeMax": f"{writes.longest_ms:.0f}",
            "putMessageDistributeTime": writes.distribution(),
            "putLatency99": f"{writes.percentile_ms(0.99):.2f}",
            "putLatency999": f"{writes.percentile_ms(0.999):.2f}",
            "getMessageEntireTimeMax": f"{self._stats.slowest_fetch_s * 1000:.0f}",
            "pageCacheLockTimeMills": "0",
        }

    def _disk(self) -> dict[str, str]:
        log, config = self._store.log, self._store.config
        root = psutil.disk_usage(str(config.root))
        log_ratio = f"{used_ratio(config.commitlog_dir):.2f}"
        first = log.store_timestamp(log.begin) if log.end > log.begin else None
        return {
            "commitLogMinOffset": str(log.begin),
            "commitLogMaxOffset": str(log.end),
            "commitLogDiskRatio": log_ratio,
            f"commitLogDiskRatio_{config.commitlog_dir}": log_ratio,
            "consumeQueueDiskRatio": f"{used_ratio(config.root):.2f}",
            "commitLogDirCapacity": f"Total : {size_text(root.total)}, Free : {size_text(root.free)}.",
            "dispatchBehindBytes": "0",
            "dispatchMaxBuffer": "0",
            "remainHowManyDataToFlush": size_text(log.end - log.flushed),
            "remainTransientStoreBufferNumbs": str(MAX_INT),
            "earliestMessageTimeStamp": str(-1 if first is None else first),
        }

    def _timers(self) -> dict[str, str]:
        return {
            "timerReadBehind": "0",
            "timerOffsetBehind": "0",
            "timerCongestNum": str(self._delays.timers.pending),
            "timerEnqueueTps": "0.0",
            "timerDequeueTps": "0.0",
        }


def _pools() -> dict[str, str]:
    """Nothing queues for threads here."""
    table = {"EndTransactionQueueSize": "0", "EndTransactionThreadPoolQueueCapacity": "0"}
    for pool in POOLS:
        for figure in ("Size", "Capacity", "HeadWaitTimeMills"):
            table[f"{pool}ThreadPoolQueue{figure}"] = "0"
    return table


def duration_text(seconds: int) -> str:
    """As Apache's broker writes it, which tools show as it is."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def size_text(size_bytes: int) -> str:
    """As Apache's broker writes it: `512 B`, `2.1 KiB`. Exporters take the number and the unit apart."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    exponent = min((size_bytes.bit_length() - 1) // 10, len(UNITS))
    return f"{size_bytes / 1024**exponent:.1f} {UNITS[exponent - 1]}iB"
