"""What the mount looks like, without FUSE and without errno."""
