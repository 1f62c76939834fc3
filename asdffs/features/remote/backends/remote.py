"""The backend of files on web servers and in object stores."""

from asdffs.features.remote.backend import RemoteFolder

PLUGIN = RemoteFolder
