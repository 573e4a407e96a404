"""The ports a server wants: free, or held by whom?"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from pathlib import Path

from mqctl.commands.doctor.finding import Finding, note, ok, wrong
from mqctl.processes import server_noun
from mqctl.server.broker.app import VIP_PORT_DISTANCE
from mqctl.server.broker.config import BrokerConfig

PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def broker_ports(config: BrokerConfig) -> Iterator[Finding]:
    port = config.listen_port
    yield check_port("listenPort", config.bind_address, port)
    yield check_port("VIP port", config.bind_address, port - VIP_PORT_DISTANCE)
    yield from _taken_by_chance(port)


def check_port(name: str, host: str, port: int) -> Finding:
    subject = f"port {port} ({name})"
    try:
        _bind(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return _held(subject, port)
        if error.errno == errno.EADDRNOTAVAIL:
            return wrong(subject, f"{host} is no address of this machine", "correct bindAddress, or leave it out")
        if error.errno == errno.EACCES:
            return wrong(subject, "this user may not listen there", "choose a port above 1023")
        return wrong(subject, f"{host}: {error.strerror or error}", "correct bindAddress and listenPort")
    return ok(subject, "free")


def _bind(host: str, port: int) -> None:
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do
        probe.bind(address)
        probe.listen(1)


def _held(subject: str, port: int) -> Finding:
    import psutil

    fix = "stop that program, or choose another listenPort"
    try:
        sockets = [each for each in psutil.net_connections("tcp") if each.laddr and each.laddr.port == port]
        pid = next((each.pid for each in sockets if each.pid is not None), None)
        if pid is None:
            return wrong(subject, "held by a program of another user", f"{fix}; `sudo ss -ltnp` says which it is")
        process = psutil.Process(pid)
        words, name = process.cmdline(), process.name()
    except psutil.Error:
        return wrong(subject, "held by a program that cannot be looked at", f"{fix}; `sudo ss -ltnp` says which it is")
    noun = server_noun(words)
    if noun is not None:
        return ok(subject, f"held by mqctl {noun}, process {pid}")
    if any(word.startswith("org.apache.rocketmq.") for word in words):
        return ok(subject, f"held by a server of Apache's, process {pid}")
    return wrong(subject, f"held by {name}, process {pid}: {' '.join(words)[:80]}", fix)


def _taken_by_chance(port: int) -> Iterator[Finding]:
    """While the broker is down, any outgoing connection of this machine may get a port of that range."""
    if not PORT_RANGE.exists():
        return
    low, high = map(int, PORT_RANGE.read_text().split())
    if low <= port <= high:
        yield note(
            f"port {port} (listenPort)",
            f"lies among those the kernel hands to clients, {low} to {high}: one may hold it when the broker restarts",
            f"choose one below {low}, or reserve it: sysctl net.ipv4.ip_local_reserved_ports={port}",
        )
