"""The program that runs where Spark's driver runs: one request, its answer, and for a prompt more of them."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import traceback
from dataclasses import asdict, replace

from pyspark.sql import SparkSession

from mqctl.store.scan.locate import locate
from spark.channel import Channel
from spark.failures import failure_of
from spark.plain import columns, rows
from spark.progress import Progress
from spark.request import Request
from spark.result import Ask, Result
from spark.stores import Stores
from spark.vanishing import Vanishing
from spark.writing import write


def main() -> None:
    request = Request.decode(sys.argv[1])
    channel = Channel(request.socket)
    if request.socket and not request.prompt:
        threading.Thread(target=_end_with, args=(channel,), daemon=True).start()
    sys.exit(serve(request, channel))


def _end_with(channel: Channel) -> None:
    """A job whose answer nobody waits for any more would only keep a cluster busy."""
    channel.until_hung_up()
    os._exit(1)


def serve(request: Request, channel: Channel) -> int:
    """The exit status."""
    try:
        spark = SparkSession.builder.appName(f"mqctl analyze {request.job}").getOrCreate()
        spark.sparkContext.setLogLevel("WARN")
        stores = Stores(spark, request.stores)
    except Exception as error:  # whatever it is, someone waits for a line
        return tell(channel, error)
    if request.prompt:
        channel.send("done", status=0)  # ready for the first question
        for query in channel.queries():
            answer(request, replace(request.ask, query=query), stores, channel)
        status = 0
    else:
        status = answer(request, request.ask, stores, channel)
    spark.stop()
    return status


def answer(request: Request, ask: Ask, stores: Stores, channel: Channel) -> int:
    try:
        with Progress(stores.spark.sparkContext, channel):
            vanishing = Vanishing([*stores.folders(), *(locate(ask.other) if ask.other else ())])
            result: Result = importlib.import_module(f"spark.{request.job}").run(stores, ask)
            send(request, result, vanishing, channel)
    except Exception as error:
        return tell(channel, error)
    channel.send("done", status=result.exit_code)
    return result.exit_code


def send(request: Request, result: Result, vanishing: Vanishing, channel: Channel) -> None:
    """The rows, or that they are written. Everything is computed before the first word, so that there is either an
    answer or an error."""
    head = {
        "title": result.title,
        "columns": columns(result.frame),
        "plot": None if result.plot is None else asdict(result.plot),
    }
    frame = result.frame.persist() if request.out and request.rows else result.frame
    if request.out:
        write(frame, request.format, request.out, request.run)
    found = list(rows(frame.limit(request.max_rows + 1))) if request.rows else []
    notes = [*result.notes, *vanishing.notes()]
    channel.send("result", **head)
    for row in found[: request.max_rows]:
        channel.send("row", values=row)
    for note in notes:
        channel.send("note", text=note)
    if len(found) > request.max_rows:
        channel.send("note", text=f"these are the first {request.max_rows} rows; --out DIR takes all of them")


def tell(channel: Channel, error: BaseException) -> int:
    traceback.print_exception(error)
    failure = failure_of(error)
    channel.send("error", **asdict(failure))
    return failure.status
