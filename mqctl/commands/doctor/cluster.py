"""Name servers and brokers: who answers, under which address, with what clock and version."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqctl import __version__
from mqctl.client.admin import Admin
from mqctl.client.admin.brokers import broker_config
from mqctl.client.clusters import Instance, instances
from mqctl.commands.doctor.finding import Finding, note, ok, wrong
from mqctl.errors import ConnectionFailed, MqError
from mqctl.remoting.bodies import ClusterInfo
from mqctl.remoting.codes import RequestCode
from mqctl.remoting.command import Command
from mqctl.remoting.pool import split_address

# Beyond this, delays, times to begin at and the age of messages are visibly off. Brokers tell whole seconds.
CLOCK_SECONDS: Final = 2.0
CLOCK_FIX: Final = "run NTP (chrony, systemd-timesyncd) on all machines: delays and times of messages follow clocks"

_RUNTIME: Final = re.compile(r"\[ (\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]")


@dataclass(slots=True)
class Answer:
    """What a broker said of itself, between which two moments of our clock; or why not, and who answers elsewhere."""

    instance: Instance
    runtime: dict[str, str] = field(default_factory=dict)
    asked: float = 0.0
    answered: float = 0.0
    error: MqError | None = None
    elsewhere: str | None = None


async def cluster(admin: Admin, clock: Callable[[], float], *, named: bool) -> list[Finding]:
    """`named`: somebody said where the name servers are, so that it matters when there are none."""
    addresses = admin.name_server_addresses
    infos = dict(zip(addresses, await asyncio.gather(*(_cluster_info(admin, each) for each in addresses)), strict=True))
    found = {address: info for address, info in infos.items() if isinstance(info, ClusterInfo)}
    findings = [_name_server(address, info, named) for address, info in infos.items()]
    seen = {instance.address: instance for info in found.values() for instance in instances(info)}
    if found and not seen:
        findings.append(wrong("brokers", "none has registered", f"start one: mqctl broker -n '{';'.join(found)}'"))
    findings += _registered_everywhere(found)
    answers = await asyncio.gather(*(_ask(admin, instance, clock) for instance in seen.values()))
    for answer in answers:
        findings += _broker(answer, list(found))
    return [*findings, *_versions(answers)]


# -- name servers ---------------------------------------------------------------------------------------


async def _cluster_info(admin: Admin, address: str) -> ClusterInfo | MqError:
    try:
        return admin.decode(ClusterInfo, await admin.call(address, Command(RequestCode.GET_BROKER_CLUSTER_INFO)))
    except MqError as error:
        return error


def _name_server(address: str, info: ClusterInfo | MqError, named: bool) -> Finding:
    subject = f"name server {address}"
    if isinstance(info, ClusterInfo):
        return ok(subject, f"answers, {len(info.broker_addr_table)} brokers registered")
    if not named:
        return note(subject, "nobody is there", "`mqctl quickstart` starts servers, -n host:port names others")
    if isinstance(info, ConnectionFailed):
        return wrong(subject, info.message, "start it, correct the address, or open the port in firewalls between")
    return wrong(subject, info.message, "is it a name server (and no broker) that listens there?")


def _registered_everywhere(found: dict[str, ClusterInfo]) -> Iterator[Finding]:
    """Name servers do not talk to each other: a client sees what the one it asks was told."""
    tables = {address: {each.address for each in instances(info)} for address, info in found.items()}
    for broker in sorted(set().union(*tables.values())):
        missing = [address for address, table in tables.items() if broker not in table]
        if missing:
            yield wrong(
                f"broker {broker}",
                f"not registered with {', '.join(missing)}: clients that ask there do not find it",
                f"namesrvAddr={';'.join(tables)} in its configuration; and see that it reaches all of them",
            )


# -- brokers --------------------------------------------------------------------------------------------


async def _ask(admin: Admin, instance: Instance, clock: Callable[[], float]) -> Answer:
    answer = Answer(instance)
    answer.asked = clock()
    try:
        answer.runtime = await admin.runtime_info(instance.address)
        answer.answered = clock()
    except MqError as error:
        answer.error = error
        answer.elsewhere = await _look_elsewhere(admin, instance)
    return answer


async def _look_elsewhere(admin: Admin, instance: Instance) -> str | None:
    """The broker often runs where a name server does, or here, under another address than it told."""
    port = split_address(instance.address)[1]
    hosts = {split_address(each)[0] for each in admin.name_server_addresses} | {"127.0.0.1"}
    for host in sorted(hosts):
        try:
            settings = await broker_config(admin, f"{host}:{port}")
        except MqError:
            continue
        if settings.get("brokerName") == instance.broker_name:
            return host
    return None


def _broker(answer: Answer, name_servers: Sequence[str]) -> Iterator[Finding]:
    instance = answer.instance
    subject = f"broker {instance.broker_name}:{instance.broker_id} {instance.address}"
    if answer.error is not None:
        yield _unreachable(subject, answer)
        return
    host = split_address(instance.address)[0]
    remote = [each for each in name_servers if not _is_loopback(split_address(each)[0])]
    if _is_loopback(host) and remote:
        yield wrong(
            subject,
            f"registered with {remote[0]} as {host}, which means another machine on each machine",
            "set brokerIP1 in its configuration to an address that clients reach, and start it again",
        )
        return
    yield ok(subject, f"answers, {answer.runtime.get('brokerVersionDesc', 'unknown version')}")
    yield from clock_of(subject, answer)


def _unreachable(subject: str, answer: Answer) -> Finding:
    assert answer.error is not None
    if answer.elsewhere is not None:
        return wrong(
            subject,
            f"{answer.error.message}; this broker answers at {answer.elsewhere}, and tells clients another address",
            f"brokerIP1={answer.elsewhere} in its configuration, and start it again",
        )
    return wrong(
        subject,
        answer.error.message,
        "if it runs: brokerIP1 is an address that cannot be reached from here (set it), or a firewall is between; "
        "if its machine is gone, name servers forget it within two minutes",
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def clock_of(subject: str, answer: Answer) -> Iterator[Finding]:
    """A broker tells when it started and for how long it has been running: the sum is its clock."""
    running = _RUNTIME.fullmatch(answer.runtime.get("runtime", ""))
    boot = answer.runtime.get("bootTimestamp", "")
    if running is None or not boot.isdecimal():
        return
    days, hours, minutes, seconds = map(int, running.groups())
    theirs = int(boot) / 1000 + ((days * 24 + hours) * 60 + minutes) * 60 + seconds  # and less than a second more
    off = max(answer.asked - (theirs + 1), theirs - answer.answered, 0.0)
    if off > CLOCK_SECONDS:
        way = "behind" if theirs < answer.asked else "ahead of"
        yield wrong(subject, f"its clock is {off:.0f} s {way} ours", CLOCK_FIX)


def _versions(answers: Sequence[Answer]) -> Iterator[Finding]:
    """Different ones work together; what only the newer know, does not work everywhere."""
    by_version: dict[str, list[str]] = {}
    for answer in answers:
        if answer.runtime:
            mqctl = answer.runtime.get("mqctlVersion")
            version = f"mqctl {mqctl}" if mqctl else f"Apache's {answer.runtime.get('brokerVersionDesc', '?')}"
            by_version.setdefault(version, []).append(answer.instance.broker_name)
    if len(by_version) > 1:
        told = "; ".join(f"{version}: {', '.join(sorted(names))}" for version, names in sorted(by_version.items()))
        yield note("versions", told, "bring all brokers to one version; until then use only what all of them know")
    elif by_version:
        yield ok("versions", f"all {next(iter(by_version))}; this is mqctl {__version__}")


# -- our own clock --------------------------------------------------------------------------------------


class Steady:
    """Whether the clock went its way while we were looking."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begin = (clock(), time.monotonic())

    def finding(self) -> Finding:
        wall, steady = self._clock() - self._begin[0], time.monotonic() - self._begin[1]
        if abs(wall - steady) > CLOCK_SECONDS:
            return wrong("clock", f"it jumped by {wall - steady:+.1f} s while this looked", CLOCK_FIX)
        return ok("clock", "goes steadily")
