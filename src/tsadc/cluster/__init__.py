"""Many machines: data and results in any storage, work by entity, and Ray, which runs it.

    storage      addresses such as `s3://bucket/folder` -> files, and files -> addresses, each whole or not at all
    partitions   files -> groups of files that hold whole entities, the units of work
    engine       a function and its inputs -> outcomes, by tasks that Ray runs and repeats if a node is lost
    models       a fitted detector -> files -> the same detector in each process of a worker
    manifest     what a job was, what became of each entity, and whether all of it is there

Ray is imported when it is used.
"""
