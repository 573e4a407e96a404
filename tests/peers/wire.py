"""One remoting request over a plain socket.

Readiness must not depend on the client library under test, so the harness brings this much of the protocol.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Final, NamedTuple

SUCCESS: Final = 0
GET_BROKER_RUNTIME_INFO: Final = 28
GET_BROKER_CLUSTER_INFO: Final = 106

# length of what follows; header length, whose top byte 0 says "JSON header"
_PREFIX: Final = struct.Struct(">II")
_LENGTH_BYTES: Final = 4
_HEADER_LENGTH_MASK: Final = 0xFFFFFF


class Reply(NamedTuple):
    """A response: its code, its remark if any, its body."""

    code: int
    remark: str | None
    body: bytes
    ext: dict[str, str]


def request(address: str, code: int, timeout: float = 3.0, **ext: str) -> Reply:
    """Ask ``address`` ("host:port") once on a fresh connection; OSError when it does not answer in time."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=timeout) as sock:
        sock.sendall(_encode(code, ext))
        total, header_word = _PREFIX.unpack(_read(sock, _PREFIX.size))
        rest = _read(sock, total - _LENGTH_BYTES)
    header_length = header_word & _HEADER_LENGTH_MASK
    header = json.loads(rest[:header_length])
    return Reply(header["code"], header.get("remark"), rest[header_length:], header.get("extFields") or {})


def answers(address: str, code: int, *, successfully: bool = False) -> bool:
    """Tell whether ``address`` gives any reply to request ``code``, or a SUCCESS if so wanted."""
    try:
        reply = request(address, code)
    except OSError:
        return False
    return reply.code == SUCCESS or not successfully


def registered(namesrvs: str, broker_address: str) -> bool:
    """Tell whether every name server of "host:port;host:port" lists a broker at ``broker_address``."""
    return all(_lists(namesrv, broker_address) for namesrv in namesrvs.split(";") if namesrv)


def _lists(namesrv: str, broker_address: str) -> bool:
    """Ask one name server.

    The body is searched as text: Java writes its integer keys without quotes, so it is not JSON.
    """
    try:
        reply = request(namesrv, GET_BROKER_CLUSTER_INFO)
    except OSError:
        return False
    return f'"{broker_address}"'.encode() in reply.body


def _encode(code: int, ext: dict[str, str]) -> bytes:
    fields = {"code": code, "language": "PYTHON", "version": 407, "opaque": 1, "flag": 0, "extFields": ext}
    header = json.dumps(fields).encode()
    return _PREFIX.pack(_LENGTH_BYTES + len(header), len(header)) + header


def _read(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = sock.recv(size - len(data))
        if not chunk:
            raise ConnectionError(f"connection closed after {len(data)} of {size} bytes")
        data += chunk
    return bytes(data)
