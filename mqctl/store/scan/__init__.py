"""Stores as columns: Arrow batches made by numpy, thousands of records at a time.

For those who read whole stores, such as Spark's executors, which load this package from a zip and have numpy and
pyarrow and nothing else: no module here imports more. Nothing writes, and a broker may run beside.

    storage      files, here or behind a URI       locate      which folders a location means
    folder       what a store folder holds         schema      the tables and their columns
    chain        where records begin               records     their fields
    texts        their texts and properties        messages    their columns, as batches
    logreader    the records of a part of a log    plan        the parts in which messages are read
    queuefiles   consume queues                    bounds      their ends, and times of single records
    indexes      the index                         tables      all other tables
    counts       how many there are of each kind
"""
