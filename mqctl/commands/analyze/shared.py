"""What all jobs take: which stores, which Spark, where the answer goes. Declared once, kept aside for `running`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import typer
from typer.core import TyperCommand, TyperGroup

from mqctl.commands.analyze.cluster import LOCAL
from mqctl.commands.common import noun, parameters

app = noun("Ask the stores of one broker or of a whole cluster, with Spark.", cls=TyperGroup)


class Shape(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    PARQUET = "parquet"


class DeployMode(StrEnum):
    CLIENT = "client"
    CLUSTER = "cluster"


_KEPT: Final = f"{__name__}."


def _keep(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    ctx.meta[_KEPT + str(param.name)] = value
    return value


_ASIDE: Final[dict[str, Any]] = {"callback": _keep, "expose_value": False}


def _stores(
    stores: Annotated[
        list[str],
        typer.Option(
            "--store",
            metavar="[NAME=]DIR",
            help="A store folder, one that holds several, a pattern or a URI; may be given several times.",
            **_ASIDE,
        ),
    ],
) -> None:
    """Never called: its signature declares the options, as do those below."""


def _spark(
    master: Annotated[
        str,
        typer.Option(
            metavar="URL", help="local[N], spark://HOST:PORT, yarn or k8s://URL.", show_default=True, **_ASIDE
        ),
    ] = LOCAL,
    deploy_mode: Annotated[
        DeployMode | None, typer.Option("--deploy-mode", help="Where Spark's driver runs.", **_ASIDE)
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; may be given several times.", **_ASIDE),
    ] = None,
    py_files: Annotated[
        list[str] | None,
        typer.Option("--py-files", metavar="FILE", help="Another zip or module for executors.", **_ASIDE),
    ] = None,
    output: Annotated[
        Shape | None, typer.Option("-o", "--output", help="How to print data, or what to write to --out.", **_ASIDE)
    ] = None,
) -> None: ...


def _out(
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="DIR", help="Write the rows into this new folder; a path or a URI.", **_ASIDE),
    ] = None,
) -> None: ...


def _plot(
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Also draw it: FILE.html, or FILE.png with matplotlib.", **_ASIDE),
    ] = None,
) -> None: ...


class _Command(TyperCommand):
    declared: ClassVar[tuple[Any, ...]] = ()

    def __init__(self, name: str | None, *, params: list[Any] | None = None, **attrs: Any) -> None:
        shared = [param for declared_by in self.declared for param in parameters(declared_by)]
        super().__init__(name, params=[*(params or ()), *shared], **attrs)


class JobCommand(_Command):
    """A question about stores, with rows as its answer."""

    declared: ClassVar[tuple[Any, ...]] = (_stores, _spark, _out)


class PlotCommand(JobCommand):
    """One whose answer can be looked at."""

    declared = (_stores, _spark, _out, _plot)


class PairCommand(_Command):
    """One that names its stores itself."""

    declared = (_spark, _out)


class ExportCommand(_Command):
    """One that writes files by itself."""

    declared = (_stores, _spark)


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line said."""

    stores: tuple[str, ...]
    master: str
    deploy_mode: str | None
    conf: tuple[str, ...]
    py_files: tuple[str, ...]
    output: Shape | None
    out: str | None
    plot: Path | None


def options_of(ctx: typer.Context) -> Options:
    def kept(name: str) -> Any:
        return ctx.meta.get(_KEPT + name)

    return Options(
        stores=tuple(kept("stores") or ()),
        master=kept("master"),
        deploy_mode=kept("deploy_mode") and str(kept("deploy_mode")),
        conf=tuple(kept("conf") or ()),
        py_files=tuple(kept("py_files") or ()),
        output=kept("output"),
        out=kept("out"),
        plot=kept("plot"),
    )
