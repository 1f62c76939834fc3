"""The FUSE adapter.  It decodes requests, calls ``vfs``, and turns errors into errno."""
