"""The features beside the core: each directory is one, and the rest works without it.

A feature has its commands (``commands/``), views, array formats, codecs, dialects, containers and backends, which the
registry finds, and what they need.  Its package has the functions that the core calls if the feature is there
(``registry.feature``).  The core imports no feature.
"""
