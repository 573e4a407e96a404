"""`mqctl` and `python -m mqctl`."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    from mqctl.cli import run

    status = run(sys.argv[1:])
    # Ctrl-C reaches the one-file executable twice: from the terminal, and passed on by the process that unpacked it.
    # The second must not kill an interpreter that is only clearing up.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(status)


if __name__ == "__main__":
    main()
