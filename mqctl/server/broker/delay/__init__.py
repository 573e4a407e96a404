"""Messages that are not for now: by level, by a time of their own, and those taken back in time."""
