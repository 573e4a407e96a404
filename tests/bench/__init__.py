"""mqctl and Apache RocketMQ 4.9.7 under the same load: ``python -m tests.bench`` (see docs/benchmarks.md).

__main__  options, order of the brokers
rounds    one round: the phases on one fresh broker
sides     how each broker is started; the settings both share
phases    what is measured, in which order and with what counts
equal     whether a broker does all the work it is timed for
driver    the Java load generator as a child process
usage     CPU time and memory of a broker process
report    medians, ratios, targets; table and JSON
java/     the load generator, on Apache's 5.5.0 client
"""
