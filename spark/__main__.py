"""What spark-submit runs, as a file of its own; all else comes in the zip beside it."""

from __future__ import annotations

from spark.driver import main

if __name__ == "__main__":
    main()
