"""A broker's configuration file: can it be used, and does every line of it mean something?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mqctl.commands.doctor.apache_keys import APACHE_KEYS
from mqctl.commands.doctor.finding import Finding, note, ok, wrong
from mqctl.config import bind
from mqctl.errors import ConfigError
from mqctl.properties import load_properties
from mqctl.server.broker.config import BrokerConfig


def read(file: Path) -> tuple[BrokerConfig | None, list[Finding]]:
    """The configuration, unless it cannot be used."""
    subject = str(file)
    try:
        properties = load_properties(file)
        config, _ = bind(BrokerConfig, properties, subject)
    except ConfigError as error:
        return None, [wrong(subject, _short(error.message, subject), "correct it; no broker starts with it")]
    findings = [*_unknown_keys(properties, subject), *_name_servers(config, subject), *_address(config, subject)]
    return config, findings or [ok(subject, f"{len(properties)} keys, all known")]


def _short(told: str, subject: str) -> str:
    return told.removeprefix(f"{subject}: ")


def _unknown_keys(properties: dict[str, str], subject: str) -> Iterator[Finding]:
    for key, value in properties.items():
        _, unknown = bind(BrokerConfig, {key: value}, subject)
        if not unknown:
            continue
        if key in APACHE_KEYS:
            yield note(subject, f"{key} is a key of Apache's brokers", "leave it out; it has no effect here")
        else:
            yield wrong(subject, _short(unknown[0], subject), f"correct {key}: as it stands, the line has no effect")


def _name_servers(config: BrokerConfig, subject: str) -> Iterator[Finding]:
    if not config.namesrv_addr:
        yield note(
            subject,
            "it names no name server: unless -n or NAMESRV_ADDR does, clients cannot find this broker",
            "namesrvAddr=host:9876",
        )


def _address(config: BrokerConfig, subject: str) -> Iterator[Finding]:
    """Whatever a broker registers as, clients must reach."""
    try:
        host, _ = config.store_host()
    except ConfigError as error:
        yield wrong(subject, error.message, "set brokerIP1 to an address under which clients reach this machine")
        return
    if host not in local_addresses():
        yield note(
            subject,
            f"brokerIP1 {config.broker_ip1} is none of this machine's addresses",
            "right behind NAT or in a container whose port is published; else one of: "
            + ", ".join(sorted(local_addresses())),
        )


def local_addresses() -> set[str]:
    import psutil

    return {entry.address.partition("%")[0] for entries in psutil.net_if_addrs().values() for entry in entries} - {""}
