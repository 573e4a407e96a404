"""Stores as columns: Arrow batches made by numpy, thousands of records at a time.

For those who read whole stores, such as Spark's executors, which load this package from a zip and have numpy and
pyarrow and nothing else: no module here imports more. Nothing writes, and a broker may run beside.

    storage     files, here or behind a URI        schema      the tables and their columns
    folder      what a store folder holds          plan        the parts a table is read in
    chain       where records begin                messages    the records of one part, as batches
    records     their fields                       tables      the other tables
    texts       their texts                        locate      which folders a location means
"""
