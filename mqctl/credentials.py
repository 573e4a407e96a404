"""Who a command is for brokers with access control, the first of these that is there:

MQCTL_ACCESS_KEY, MQCTL_SECRET_KEY    variables; a secret on a command line could be read by other users
$ROCKETMQ_HOME/conf/tools.yml         what mqadmin reads, with accessKey and secretKey
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mqctl.errors import ConfigError

if TYPE_CHECKING:
    from mqctl.remoting.signing import Credentials

KEY_VARIABLE: Final = "MQCTL_ACCESS_KEY"
SECRET_VARIABLE: Final = "MQCTL_SECRET_KEY"
HOME_VARIABLE: Final = "ROCKETMQ_HOME"


def credentials_of(variables: Mapping[str, str]) -> Credentials | None:
    """Raises ConfigError for half of them."""
    if not any(variables.get(name) for name in (KEY_VARIABLE, SECRET_VARIABLE, HOME_VARIABLE)):
        return None  # most runs: without reading anything
    from mqctl.remoting.signing import Credentials

    key, secret = variables.get(KEY_VARIABLE), variables.get(SECRET_VARIABLE)
    if key and secret:
        return Credentials(key, secret)
    if key or secret:
        raise ConfigError(f"{KEY_VARIABLE} and {SECRET_VARIABLE} belong together, and one is not set")
    found = _tools_file(Path(variables[HOME_VARIABLE]) / "conf" / "tools.yml")
    if not (found.get("accessKey") and found.get("secretKey")):
        return None
    return Credentials(str(found["accessKey"]), str(found["secretKey"]))


def _tools_file(path: Path) -> dict[str, object]:
    try:
        text = path.read_text()
    except OSError:
        return {}  # as mqadmin has it: without the file, without a name
    import yaml

    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    return found if isinstance(found, dict) else {}
