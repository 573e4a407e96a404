"""One job from the command line to its answer."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from mqctl.commands.analyze.cluster import is_local
from mqctl.commands.analyze.places import absolute, check_writable, is_uri, locations, new_folder
from mqctl.commands.analyze.shared import Options, Shape, options_of
from mqctl.commands.common import Session, session_of
from mqctl.errors import ConfigError
from mqctl.output import Format

if TYPE_CHECKING:
    from mqctl.commands.analyze.answering import Answer
    from mqctl.commands.analyze.submitting import Place
    from spark.request import Request
    from spark.result import Ask

FILE_SHAPES: Final = (Shape.PARQUET, Shape.JSON, Shape.CSV)


def run_job(ctx: typer.Context, job: str, *, stores: tuple[str, ...] | None = None, **asked: Any) -> None:
    """Submits the job, prints or writes its answer, and ends the program with the job's status. `asked` are members of
    `spark.result.Ask`."""
    from mqctl.commands.analyze.answering import Refused, read_answer
    from mqctl.commands.analyze.picture import check_plot
    from mqctl.commands.analyze.submitting import submitted
    from spark.result import Ask

    session, options = session_of(ctx), options_of(ctx)
    place = _place(options)
    ask = Ask(now_ms=int(session.env.clock() * 1000), **asked)
    request = _request(session, options, job, ask, stores or options.stores)
    if options.plot is not None:
        check_plot(options.plot)
    try:
        with submitted(session.env.variables, place, request) as running:
            events = running.events()
            answer = read_answer(session, running, events)
            _tell(session, options, request, answer)
            for _ in events:  # until Spark has put its things away
                pass
    except Refused as refused:
        session.env.report(refused.message, refused.hint)
        raise typer.Exit(refused.status) from None
    finally:
        _clean(request)
    if answer.status:
        raise typer.Exit(answer.status)


def run_prompt(ctx: typer.Context) -> None:
    """Statements from the terminal until there are no more; one that fails is told, and the next may come."""
    from mqctl.commands.analyze.answering import Refused, read_answer
    from mqctl.commands.analyze.prompting import statements
    from mqctl.commands.analyze.showing import show
    from mqctl.commands.analyze.submitting import JobFailed, submitted
    from spark.result import Ask

    session, options = session_of(ctx), options_of(ctx)
    place = _place(options)
    if options.out is not None or place.remote:
        raise ConfigError("a prompt prints what it finds", hint="give the query as an argument")
    request = replace(_request(session, options, "sql", Ask(), options.stores), prompt=True)
    with submitted(session.env.variables, place, request) as running:
        events = running.events()
        session.env.say("starting Spark ...")
        read_answer(session, running, events)
        session.env.say("a statement ends with ; at the end of a line, Ctrl-D ends it all")
        for query in statements():
            running.ask(query)
            try:
                answer = read_answer(session, running, events)
            except Refused as refused:
                session.env.report(refused.message, refused.hint)
                continue
            if not answer.complete:
                raise JobFailed("Spark has ended", hint=running.keep_log())
            show(session, answer)


def _place(options: Options) -> Place:
    from mqctl.commands.analyze.submitting import Place

    place = Place(options.master, options.deploy_mode, options.conf, tuple(map(absolute, options.py_files)))
    if place.remote and options.plot is not None:
        raise ConfigError("--plot needs the rows here, and --deploy-mode cluster leaves them there")
    return place


def _request(session: Session, options: Options, job: str, ask: Ask, stores: tuple[str, ...]) -> Request:
    from spark.request import Request

    here = options.deploy_mode != "cluster"
    shape = _shape(session, options)
    if not here and options.out is None and not ask.out:
        raise ConfigError(
            "with --deploy-mode cluster the rows must go to --out", hint="name a folder that both can reach"
        )
    out = "" if options.out is None else new_folder(options.out, here)
    for written in filter(None, (out, ask.out)):
        if is_local(options.master) and not is_uri(written):  # elsewhere a path may be one of HDFS
            check_writable(session, written)
    return Request(
        job=job,
        stores=locations(session, stores, here),
        ask=ask,
        format="" if options.out is None else str(shape),
        out=out,
        run=uuid.uuid4().hex[:8],
        rows=options.out is None or options.plot is not None,
    )


def _shape(session: Session, options: Options) -> Shape:
    """Parquet is for files alone, tables and YAML are for standard output alone."""
    given = options.output or (Shape(session.output.value) if session.output is not None else None)
    if options.out is not None:
        shape = given or Shape.PARQUET
        if shape not in FILE_SHAPES:
            raise ConfigError(f"--out takes -o {'|'.join(FILE_SHAPES)}, not {shape}")
        return shape
    if given is Shape.PARQUET:
        raise ConfigError("-o parquet makes files", hint="name a folder for them with --out")
    shape = given or Shape.TABLE
    session.output = Format(shape.value)
    return shape


def _tell(session: Session, options: Options, request: Request, answer: Answer) -> None:
    from mqctl.commands.analyze.picture import write_plot
    from mqctl.commands.analyze.showing import columns_of, show

    if request.out:
        session.env.say(f"written to {request.out}")
    elif answer.columns:
        show(session, answer)
    if options.plot is not None:
        drawn = write_plot(options.plot, answer, columns_of(answer))
        session.env.say(f"drawn in {options.plot}" if drawn else "nothing to draw")


def _clean(request: Request) -> None:
    """A driver that was killed while it wrote could not clear up."""
    if request.out and not is_uri(request.out):
        from spark.request import staging_name

        shutil.rmtree(Path(staging_name(request.out, request.run)), ignore_errors=True)
