"""Bytes on disk: backends, the journal and recovery, growth of files, locks."""
