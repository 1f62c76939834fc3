"""Files in object stores and on web servers, which are read through a cache on the disk.

``transport``: one request, by ``web`` (which uses ``connections``) or ``object_stores``; ``fetching``: which requests
are made; ``cache``: the bytes that are here; ``backends/remote``: the storage protocol on all of these.
"""
