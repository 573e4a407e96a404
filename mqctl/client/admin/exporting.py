"""What mqadmin's exportConfigs and exportMetrics write: settings of all brokers, and how busy a cluster is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from mqctl.client.admin import Admin
from mqctl.client.admin.brokers import broker_config
from mqctl.client.admin.consumers import consumer_connection, version_text
from mqctl.client.admin.everywhere import Answers, ask_all, ask_each
from mqctl.client.admin.load import Load
from mqctl.client.admin.metadata import read_tables
from mqctl.client.admin.topicstats import day_sum, stats_data
from mqctl.client.clusters import Instance
from mqctl.errors import MqError
from mqctl.names import SCHEDULE_TOPIC, TRANS_HALF_TOPIC


def _masters(instances: list[Instance]) -> dict[str, str]:
    return {one.broker_name: one.address for one in instances if one.is_master}


async def configs(admin: Admin, instances: list[Instance]) -> tuple[dict[str, Any], dict[str, MqError]]:
    """All settings; mqadmin writes sixteen of them."""
    masters = _masters(instances)
    answers = await ask_all(masters, lambda address: broker_config(admin, address))
    scale = {
        "namesrvSize": len(admin.name_server_addresses),
        "masterBrokerSize": len(masters),
        "slaveBrokerSize": len(instances) - len(masters),
    }
    return {"brokerConfigs": answers.given, "clusterScale": scale}, answers.failed


async def metrics(admin: Admin, instances: list[Instance], now_ms: int) -> tuple[dict[str, Any], dict[str, MqError]]:
    answers: Answers[dict[str, Any]] = await ask_all(
        _masters(instances), lambda address: _report(admin, address, now_ms)
    )
    rates: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    for report in answers.given.values():
        quota = report["runtimeQuota"]
        rates.update({f"total{name[0].upper()}{name[1:]}": value for name, value in quota["tps"].items()})
        numbers.update(quota["oneDayNum"])
    total = {"totalTps": dict(rates), "totalOneDayNum": dict(numbers)}
    return {"evaluateReport": answers.given, "totalData": total}, answers.failed


async def _report(admin: Admin, address: str, now_ms: int) -> dict[str, Any]:
    runtime = await admin.runtime_info(address)
    settings = await broker_config(admin, address)
    tables = await read_tables(admin, address, special=False)
    clients = await _client_versions(admin, address, tables.groups)
    # Where mqadmin looks; the number of threads that a Java broker derives from its processors.
    environment = {
        "cpuNum": settings.get("clientCallbackExecutorThreads"),
        "totalMemKBytes": runtime.get("totalMemKBytes"),
    }
    return {
        "runtimeEnv": environment,
        "runtimeQuota": {
            **await _quota(admin, address, runtime, now_ms),
            "topicSize": len(tables.topics),
            "groupSize": len(tables.groups),
        },
        "runtimeVersion": {"rocketmqVersion": runtime.get("brokerVersionDesc"), "clientInfo": clients},
    }


async def _quota(admin: Admin, address: str, runtime: Mapping[str, str], now_ms: int) -> dict[str, Any]:
    load = Load.read(runtime, now_ms)
    half = await stats_data(admin, address, "TOPIC_PUT_NUMS", TRANS_HALF_TOPIC)
    delayed = await stats_data(admin, address, "TOPIC_PUT_NUMS", SCHEDULE_TOPIC)
    return {
        "diskRatio": {name: runtime.get(name) for name in ("commitLogDiskRatio", "consumeQueueDiskRatio")},
        "tps": {
            "normalInTps": load.in_tps,
            "normalOutTps": load.out_tps,
            "transInTps": half.stats_minute.tps,
            "scheduleInTps": delayed.stats_minute.tps,
        },
        "oneDayNum": {
            "normalOneDayInNum": load.in_yesterday,
            "normalOneDayOutNum": load.out_yesterday,
            "transOneDayInNum": day_sum(half),
            "scheduleOneDayInNum": day_sum(delayed),
        },
        "messageAverageSize": runtime.get("putMessageAverageSize"),
    }


async def _client_versions(admin: Admin, address: str, groups: Mapping[str, Any]) -> list[str]:
    found = await ask_each(groups, lambda group: consumer_connection(admin, address, group))
    clients = [client for connection in found if connection is not None for client in connection.connection_set]
    return sorted({f"{client.language}%{version_text(client.version)}" for client in clients})
