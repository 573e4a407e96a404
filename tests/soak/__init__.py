"""A long run with many clients: is anything lost, does anything grow? ``python -m tests.soak --help``.

The parent runs a name server and a broker, restarts the broker in the middle and watches its memory. Some worker
processes hold the clients. What each client was promised and what it saw goes into ledgers, and the parent compares.
"""
