"""Contexts: names for clusters, so that nobody has to remember addresses.

Which name servers a command talks to, the first of these that is there:

    -n ADDR                on the command line
    --context NAME         likewise
    MQCTL_CONTEXT          a variable that names a context
    NAMESRV_ADDR           the variable that RocketMQ's own tools read
    the current context    chosen with `mqctl context use`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mqctl.errors import ConfigError, NotFound
from mqctl.userfiles import config_folder, replace

VARIABLE: Final = "MQCTL_CONTEXT"
FILE_NAME: Final = "contexts.json"


@dataclass(slots=True)
class Contexts:
    """What the file holds: name servers by the context's name, and which one is current."""

    path: Path | None
    name_servers: dict[str, str] = field(default_factory=dict)
    current: str | None = None

    def find(self, name: str) -> str:
        """Raises NotFound."""
        if name not in self.name_servers:
            known = ", ".join(sorted(self.name_servers)) or "none"
            raise NotFound(
                f"there is no context {name}", hint=f"known: {known}; make it with `mqctl context set {name} -n ADDR`"
            )
        return self.name_servers[name]

    def save(self) -> None:
        import json

        if self.path is None:
            raise ConfigError("contexts are kept in the home directory, and HOME is not set")
        contexts = {name: {"namesrv": address} for name, address in sorted(self.name_servers.items())}
        text = json.dumps({"current": self.current, "contexts": contexts}, indent=2)
        try:
            replace(self.path, text.encode() + b"\n")
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be written: {error.strerror}") from None


def load(variables: Mapping[str, str]) -> Contexts:
    """Those of this user. Raises ConfigError for a file that cannot be understood."""
    folder = config_folder(variables)
    if folder is None:
        return Contexts(None)
    path = folder / FILE_NAME
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Contexts(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    return _parse(path, data)


def _parse(path: Path, data: bytes) -> Contexts:
    import json

    try:
        content: Any = json.loads(data)
        servers = {str(name): str(context["namesrv"]) for name, context in content["contexts"].items()}
        current = content.get("current")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(f"{path} is not a file of contexts", hint="repair it, or move it away") from None
    return Contexts(path, servers, current if current in servers else None)


def name_servers(variables: Mapping[str, str], chosen: str | None) -> str | None:
    """The addresses by what the module's head says, beginning with --context; None when nothing names any."""
    named = chosen or variables.get(VARIABLE)
    if named:
        return load(variables).find(named)
    if address := variables.get("NAMESRV_ADDR"):
        return address
    contexts = load(variables)
    return None if contexts.current is None else contexts.name_servers[contexts.current]
