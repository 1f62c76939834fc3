"""Bytes on disk: backends, the journal and recovery, growth of files, locks.

From the bottom up: ``backend`` (protocols), ``file_backend``, ``linux_calls``, ``descriptors``, ``copying``;
``sidecars`` and ``record`` (what lies beside a file), ``journal``, ``unfinished``, ``recovery``; ``open_file`` and
``growth`` (a change, step by step); ``lock``, ``new_file``.  Beside these: ``beneath``, ``mount_table``,
``own_files``, ``permissions``, ``urls``, ``watch``.
"""
