"""Files in object stores and on web servers, which are read through a cache on the disk.

``urls`` and ``options``: what is opened, and how; ``transport``: one request, by ``web_transport`` (which uses
``connections``) or ``store_transport``; ``answers``: what servers say, checked; ``fetching``: which requests are
made; ``cache``: the bytes that are here; ``backend``: the storage protocol on all of these.
"""
