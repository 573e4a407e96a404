"""What small commands must not pay for. Modules are counted, not seconds: those depend on the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import python
from tests.peers.ours import OurBroker

# What the interpreter begins with does not count: it is another's, and `make coverage` adds to it.
CODE = """
import sys
before = set(sys.modules)
import contextlib, io
from mqctl.cli import run
with contextlib.redirect_stdout(io.StringIO()):
    assert run(sys.argv[1:]) == 0
print("\\n".join(set(sys.modules) - before))
"""

HEAVY = ("rich", "numpy", "uvloop", "mqctl.server", "mqctl.store", "pyarrow", "psutil", "yaml", "lz4", "zstandard")


def loaded(modules: set[str], name: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for module in modules)


@pytest.mark.parametrize(
    ("args", "also_not"),
    [
        (["--help"], ("asyncio", "msgspec", "mqctl.client", "mqctl.remoting", "logging")),
        (["topic", "--help"], ("asyncio", "msgspec", "mqctl.client", "mqctl.remoting", "logging")),
        (["store", "--help"], ("asyncio", "msgspec", "msgpack", "mqctl.client", "mqctl.remoting", "logging")),
        (["version"], ("asyncio", "msgspec", "mqctl.client")),
        (["topic", "list", "-o", "json"], ("mqctl.commands.msg", "mqctl.config")),
        (["topic", "list"], ("mqctl.commands.msg", "mqctl.config")),
    ],
)
def test_not_imported(broker: OurBroker, tmp_path: Path, args: list[str], also_not: tuple[str, ...]) -> None:
    modules = set(python(CODE, "-n", broker.namesrv, *args, cwd=tmp_path))
    assert [name for name in (*HEAVY, *also_not) if loaded(modules, name)] == []


def test_modules_of_a_listing_stay_few(broker: OurBroker, tmp_path: Path) -> None:
    """187 when this was written. Look before raising it."""
    assert len(python(CODE, "-n", broker.namesrv, "topic", "list", cwd=tmp_path)) < 195
