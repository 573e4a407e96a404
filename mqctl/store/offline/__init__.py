"""Stores from outside, Apache's or ours: looked into beside a broker that runs, changed where none does.

No configuration is needed: what a file holds follows from its name (the offset of its first byte) and its size.
"""
