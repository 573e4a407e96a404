"""Where Spark, Java and a Python for them are on this machine; or what to do about it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from mqctl.errors import ConfigError, NotFound

INSTALL: Final = "pip install 'mqctl[analyze]', or set SPARK_HOME to a Spark 4.1 or later"
JAVA_HINT: Final = "install a Java runtime 17 or later, or set JAVA_HOME to one"

MIN_SPARK: Final = (4, 1)  # the first with arrow_udf
MIN_JAVA: Final = 17  # that of Spark 4

_LIMIT_S: Final = 30.0
# Beside pyspark, for the columns of the stores.
MODULES: Final = ("numpy", "pyarrow")

_WHICH_MISSING: Final = "import importlib.util as u, sys; print(*(n for n in sys.argv[1:] if u.find_spec(n) is None))"
_WHERE_PYSPARK: Final = "import importlib.util as u; s = u.find_spec('pyspark'); print(s.origin if s else '')"


@dataclass(frozen=True, slots=True)
class Spark:
    """`home` is what SPARK_HOME names: the folder that holds bin/spark-submit."""

    home: Path
    python: str
    version: str

    @property
    def submit(self) -> Path:
        return self.home / "bin" / "spark-submit"


@dataclass(frozen=True, slots=True)
class Java:
    program: str
    version: int


def find_spark(variables: Mapping[str, str]) -> Spark:
    """That of the extra `analyze`, of SPARK_HOME, or of the PATH. Raises NotFound if there is none, or no Java
    or Python for it, and ConfigError if one is too old."""
    spark = installed_spark(variables)
    find_java(variables)
    return spark


def installed_spark(variables: Mapping[str, str]) -> Spark:
    """The same, whatever Java there is."""
    python = find_python(variables)
    home = _home(variables, python)
    if home is None:
        raise NotFound("there is no Spark on this machine", hint=INSTALL)
    version = _spark_version(home)
    if version is not None and version < MIN_SPARK:
        raise ConfigError(f"{home} holds Spark {_dotted(version)}, which is too old", hint=INSTALL)
    return Spark(home, python, _dotted(version) if version is not None else "of an unknown version")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def find_python(variables: Mapping[str, str]) -> str:
    """What PYSPARK_PYTHON names, else the one that runs this. A program made into one file is no Python: then that of
    the PATH."""
    if named := variables.get("PYSPARK_PYTHON"):
        return named
    if not getattr(sys, "frozen", False):
        return sys.executable
    found = shutil.which("python3", path=variables.get("PATH"))
    if found is None:
        raise NotFound("there is no python3 for Spark to run", hint="install one, or name it in PYSPARK_PYTHON")
    return found


def _home(variables: Mapping[str, str], python: str) -> Path | None:
    if python == sys.executable:
        spec = find_spec("pyspark")
        packages = [spec.origin] if spec is not None else []
    else:
        packages = [_output([python, "-c", _WHERE_PYSPARK], variables).strip()]
    homes = [Path(package).parent for package in packages if package]
    if named := variables.get("SPARK_HOME"):
        homes.append(Path(named))
    if on_path := shutil.which("spark-submit", path=variables.get("PATH", os.defpath)):
        homes.append(Path(on_path).resolve().parent.parent)
    return next((home for home in homes if (home / "bin" / "spark-submit").is_file()), None)


def _spark_version(home: Path) -> tuple[int, ...] | None:
    """None if it does not say."""
    for place in (home / "version.py", home / "python" / "pyspark" / "version.py"):
        if place.is_file() and (found := re.search(r"__version__[^\"']*[\"'](\d+)\.(\d+)", place.read_text())):
            return int(found[1]), int(found[2])
    return None


def find_java(variables: Mapping[str, str]) -> Java:
    """Where Spark's own scripts look for it. Raises NotFound, or ConfigError for one that is too old."""
    home = variables.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=variables.get("PATH", os.defpath))
    if java is None or not os.access(java, os.X_OK):
        raise NotFound(f"there is no Java at {java}" if java else "there is no Java on this machine", hint=JAVA_HINT)
    said = _output([java, "-version"], variables)
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None:
        raise ConfigError(f"{java} does not say which Java it is", hint=JAVA_HINT)
    if int(found[1]) < MIN_JAVA:
        raise ConfigError(f"{java} is Java {found[1]}; Spark needs {MIN_JAVA} or later", hint=JAVA_HINT)
    return Java(java, int(found[1]))


def missing_modules(spark: Spark, variables: Mapping[str, str]) -> list[str]:
    """What jobs need that its Python does not have."""
    told = _output([spark.python, "-c", _WHICH_MISSING, *MODULES], variables).split()
    return [name for name in MODULES if name in told]


def _output(command: list[str], variables: Mapping[str, str]) -> str:
    """All that it prints; nothing if it cannot be run."""
    try:
        ended = subprocess.run(
            command,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_LIMIT_S,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ended.stdout
