"""asdffs: mount one ASDF file as a directory.

The package is built in floors; imports go down only (docs/design/overview.md):

    cli -> mount -> vfs -> views -> document -> storage, codecs, dialects -> format -> registry, errors
"""

__version__ = "0.1.0"
