"""Access control lists: this broker has none, and says so to whoever asks about them.

Apache's 4.9.7 broker answers some of these requests not at all while aclEnable is off, and the tool waits in vain.
"""

from __future__ import annotations

from typing import Final

from mqctl.errors import RequestFailed
from mqctl.remoting.codes import RequestCode, ResponseCode
from mqctl.remoting.command import Command
from mqctl.remoting.connection import Connection
from mqctl.server.loop import HandlerTable

_FAILURES: Final = {
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED,
    RequestCode.DELETE_ACL_CONFIG: ResponseCode.DELETE_ACL_CONFIG_FAILED,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED,
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO: ResponseCode.SYSTEM_ERROR,
    RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG: ResponseCode.SYSTEM_ERROR,
}


def handlers() -> HandlerTable:
    return dict.fromkeys(_FAILURES, (None, _refuse))


def _refuse(connection: Connection, request: Command, _: None) -> Command:
    raise RequestFailed(
        _FAILURES[RequestCode(request.code)],
        "access control is not enabled on this broker: every client may do everything, and there are no accounts",
    )
