"""`mqctl` and `python -m mqctl`."""

from __future__ import annotations

import sys


def main() -> None:
    from mqctl.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
