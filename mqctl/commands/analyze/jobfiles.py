"""The few modules that Spark's driver and executors need, as they lie beside this program, and the zip of them.

They are the jobs and all that these import of ours, found by reading, so that no list can be out of date. Executors
have numpy and pyarrow and nothing else: what the jobs import must be content with that. A program made into one file
has to carry these sources as data, under the same paths.
"""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import mqctl

MAIN: Final = "spark/__main__.py"
PACKAGES: Final = ("spark", "mqctl")


def job_files() -> dict[str, bytes]:
    """Content by path within the zip."""
    root = Path(mqctl.__file__).parent.parent
    found: dict[str, bytes] = {}
    pending = [f"spark.{path.stem}" for path in sorted((root / "spark").glob("*.py"))]
    while pending:
        name = pending.pop()
        path = _source(root, name)
        place = "" if path is None else path.relative_to(root).as_posix()
        if path is None or place in found:
            continue
        found[place] = path.read_bytes()
        pending += _imported(found[place])
        pending += [name.rpartition(".")[0]] if "." in name else []  # a package comes with its modules
    return found


def _source(root: Path, name: str) -> Path | None:
    base = root.joinpath(*name.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def _imported(source: bytes) -> Iterator[str]:
    """Modules of ours, and names that may be modules, wherever they are imported but for the sake of types."""
    pending: list[ast.AST] = [ast.parse(source)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.split(".")[0] in PACKAGES)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in PACKAGES:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        pending += ast.iter_child_nodes(node)


def write_zip(path: Path, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(name, content)
