"""How far slaves are behind their masters.

All releases tell how far each log goes; what the slaves have acknowledged only masters of 5.x know, and ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mqctl.client.admin import Admin
from mqctl.client.admin.everywhere import ask_all
from mqctl.client.clusters import Instance
from mqctl.errors import MqError, ResponseError
from mqctl.remoting.bodies_admin import HaRuntimeInfo
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command


@dataclass(frozen=True, slots=True)
class Replica:
    """`behind` is in bytes of the log; None where the master is away. `connected` and `in_sync` are slaves, as the
    master counts them; None where that is not told."""

    instance: Instance
    log_end: int
    behind: int | None
    connected: int | None = None
    in_sync: int | None = None


async def replicas(admin: Admin, instances: Sequence[Instance]) -> tuple[list[Replica], dict[str, MqError]]:
    answers = await ask_all({one.address: one.address for one in instances}, lambda address: _state(admin, address))
    ends = {address: end for address, (end, _) in answers.given.items()}
    masters = {one.broker_name: ends[one.address] for one in instances if one.is_master and one.address in ends}
    found = [_replica(one, answers.given, masters) for one in instances if one.address in ends]
    return found, answers.failed


async def _state(admin: Admin, address: str) -> tuple[int, HaRuntimeInfo | None]:
    runtime = await admin.runtime_info(address)
    try:
        answer = await admin.call(address, Command(RequestCode.GET_BROKER_HA_STATUS))
    except ResponseError as error:
        if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
        return int(runtime.get("commitLogMaxOffset", "0")), None
    return int(runtime.get("commitLogMaxOffset", "0")), admin.decode(HaRuntimeInfo, answer)


def _replica(
    one: Instance, states: Mapping[str, tuple[int, HaRuntimeInfo | None]], masters: Mapping[str, int]
) -> Replica:
    end, status = states[one.address]
    behind = masters[one.broker_name] - end if one.broker_name in masters else None
    if status is None or not one.is_master:
        return Replica(one, end, behind)
    return Replica(one, end, behind, len(status.ha_connection_info), status.in_sync_slave_nums)
