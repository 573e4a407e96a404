"""How far Spark is, told while it works."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark import SparkContext, StatusTracker

    from spark.channel import Channel

INTERVAL_S: Final = 0.5

# A cluster that has taken no task for so long is busy, or has fewer cores or less memory than asked for.
PATIENCE_S: Final = 15.0
WAITING: Final = "no worker has taken a task yet: the cluster is busy, or smaller than what is asked of each executor"


class Progress:
    """Tells the tasks done and known while it is entered, from a thread of its own."""

    def __init__(self, context: SparkContext, channel: Channel) -> None:
        self._context = context
        self._channel = channel
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        tracker = self._context.statusTracker()
        idle_s, told = 0.0, None
        while not self._stop.wait(INTERVAL_S):
            done, active, total = _tasks(tracker)
            if total and (done, total) != told:
                told = (done, total)
                self._channel.send("progress", done=done, total=total)
            idle_s = idle_s + INTERVAL_S if total and not done and not active else 0.0
            if PATIENCE_S <= idle_s < PATIENCE_S + INTERVAL_S:
                self._channel.send("note", text=WAITING)


def _tasks(tracker: StatusTracker) -> tuple[int, int, int]:
    """Done, running and known tasks of the jobs that run now."""
    jobs = [tracker.getJobInfo(number) for number in tracker.getActiveJobsIds()]
    stages = [tracker.getStageInfo(number) for job in jobs if job is not None for number in job.stageIds]
    known = [stage for stage in stages if stage is not None]
    return (
        sum(stage.numCompletedTasks for stage in known),
        sum(stage.numActiveTasks for stage in known),
        sum(stage.numTasks for stage in known),
    )
