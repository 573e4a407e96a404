"""A broker's own figures (GET_BROKER_RUNTIME_INFO), read out of the texts it sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Load:
    """`hours` is the age of the oldest message, None when there is none."""

    version: str
    in_tps: float
    out_tps: float
    send_waiting: int
    send_wait_ms: int
    pull_waiting: int
    pull_wait_ms: int
    page_cache_wait_ms: int
    hours: float | None
    disk_ratio: float
    in_yesterday: int
    out_yesterday: int
    in_today: int
    out_today: int
    active: bool

    @classmethod
    def read(cls, runtime: Mapping[str, str], now_ms: int) -> Load:
        def number(*names: str) -> float:
            """The first of several, such as the rates over 10, 60 and 600 seconds. The names are one key as releases
            spell it."""
            text = next((runtime[name] for name in names if runtime.get(name)), "0")
            try:
                return float(text.split()[0])
            except (ValueError, IndexError):
                return 0.0

        def whole(name: str) -> int:
            return int(number(name))

        def day(kind: str) -> tuple[int, int]:
            morning = whole(f"msg{kind}TotalTodayMorning")
            yesterday = morning - whole(f"msg{kind}TotalYesterdayMorning")
            return yesterday, whole(f"msg{kind}TotalTodayNow") - morning

        earliest = whole("earliestMessageTimeStamp")
        in_yesterday, in_today = day("Put")
        out_yesterday, out_today = day("Get")
        return cls(
            version=runtime.get("brokerVersionDesc", ""),
            in_tps=number("putTps"),
            out_tps=number("getTransferedTps", "getTransferredTps"),
            send_waiting=whole("sendThreadPoolQueueSize"),
            send_wait_ms=whole("sendThreadPoolQueueHeadWaitTimeMills"),
            pull_waiting=whole("pullThreadPoolQueueSize"),
            pull_wait_ms=whole("pullThreadPoolQueueHeadWaitTimeMills"),
            page_cache_wait_ms=whole("pageCacheLockTimeMills"),
            # A broker without messages says -1, or the end of time.
            hours=round((now_ms - earliest) / HOUR_MS, 2) if 0 < earliest <= now_ms else None,
            disk_ratio=number("commitLogDiskRatio"),
            in_yesterday=in_yesterday,
            out_yesterday=out_yesterday,
            in_today=in_today,
            out_today=out_today,
            active=runtime.get("brokerActive", "true") == "true",
        )
