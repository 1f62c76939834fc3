"""What the mount looks like, without FUSE and without errno.

Level 0: namespace; 1: scratch handles; 2: staging ending; 3: vfs.
"""
