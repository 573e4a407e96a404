"""What is told of an error, by its kind or its text. That Spark raises such ones, test_driver shows."""

from __future__ import annotations

import pytest

from mqctl.errors import StoreError
from mqctl.exit import ExitCode
from spark.failures import failure_of

WORKER = """An error occurred while calling o1.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Traceback (most recent call last):
  File "storage.py", line 80, in read
PermissionError: [Errno 13] Failed to open local file '/data/log'. Detail: [errno 13] Permission denied

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "storage.py", line 83, in read
PermissionError: [Errno 13] Permission denied: '/data/log'
"""
UNWRITABLE = """An error occurred while calling o55.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2856)
Caused by: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/proc/x.
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailed(QueryExecutionErrors.scala:775)
Caused by: java.io.IOException: Mkdirs failed to create file:/proc/x (exists=false, cwd=file:/tmp)
\tat org.apache.hadoop.fs.ChecksumFileSystem.create(ChecksumFileSystem.java:774)
"""
CLOSED = """An error occurred while calling o32.exists.
: org.apache.hadoop.security.AccessControlException: Permission denied: user=me, access=WRITE, inode="/lake"
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: org.apache.hadoop.ipc.RemoteException: Permission denied: user=me
"""


@pytest.mark.parametrize(
    ("error", "message", "status", "expected"),
    [
        (PermissionError(13, "Permission denied", "/a"), "/a: permission denied", ExitCode.NO_PERMISSION, True),
        (RuntimeError(WORKER), "/data/log: permission denied", ExitCode.NO_PERMISSION, True),
        (StoreError("cannot read /a: no"), "cannot read /a: no", ExitCode.REFUSED, True),
        (
            RuntimeError(UNWRITABLE),
            "IOException: Mkdirs failed to create file:/proc/x (exists=false, cwd=file:/tmp)",
            ExitCode.REFUSED,
            False,
        ),
        (
            RuntimeError(CLOSED),
            'AccessControlException: Permission denied: user=me, access=WRITE, inode="/lake"',
            ExitCode.NO_PERMISSION,
            False,
        ),
        (RuntimeError("just so"), "RuntimeError: just so", ExitCode.REFUSED, False),
    ],
)
def test_one_line(error: Exception, message: str, status: ExitCode, expected: bool) -> None:
    told = failure_of(error)
    assert (told.message, told.hint, told.status, told.expected) == (message, None, status, expected)
