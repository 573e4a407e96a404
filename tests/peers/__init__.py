"""Real RocketMQ servers and clients, started from pytest.

cache    what is expensive to make, kept across runs; skip or fail when a peer cannot be had
jars     Maven classpaths, resolved once into a cache
jvm      how the Java programs are started
wire     one raw remoting request, enough to ask "are you there?"
process  a server process: start, readiness, stop, kill, restart, logs
apache   Apache's name server, broker and mqadmin
ours     mqctl's name server and broker behind the same surface
driver   Java and Go clients driven by JSON lines
"""
