"""The commands that mount and unmount."""

from __future__ import annotations

import argparse
from typing import Any

from asdffs.cli.arguments.base import add_command


def add_mount(commands: Any) -> argparse.ArgumentParser:
    """``asdffs mount``."""
    epilog = """\
example:
  asdffs mount data.asdf /mnt/x && vim /mnt/x/tree.yaml && asdffs umount /mnt/x

options for -o (comma-separated):
  ro, rw                  read-only, or for writing (the default)
  strict                  refuse a tree with arrays that do not fit their blocks
  pad=SIZE | pad=N%       room to leave after a tree that had to grow: 64K, or 20% of it
  growth=auto|clone|insert|copy|shift   how blocks are moved when something outgrows its room
  lease                   programs that open the file wait until the mount has finished it
  nojournal               write even where no journal can be kept beside the file
  uid=N gid=N umask=OCTAL show files as this user's and group's, without these permissions
  allow_other, allow_root, default_permissions, fsname=NAME   as for every FUSE mount
  verify                  look at a block's checksum before its first read; EIO when it is wrong
  checksum=keep|zero      changed blocks that had a checksum get a new one, or none (default: keep)
  spool=DIR               for scratch files and decoded blocks (default: the state directory)
  spool_max=SIZE          bytes that decoded blocks may take there (default: half of what is free)
  log=FILE | log=syslog   for the daemon's log (default: in the state directory; see status.json)

fstab:
  /data/a.asdf  /mnt/x  fuse.asdffs  ro,noauto,user  0  0
"""
    parser = add_command(commands, "mount", "show an ASDF file as a directory", epilog)
    parser.add_argument("file", help="the ASDF file")
    parser.add_argument("mountpoint", metavar="MNT", help="an empty directory")
    parser.add_argument("-f", "--foreground", action="store_true", help="stay in the foreground until unmounted")
    parser.add_argument("-o", dest="options", action="append", default=[], metavar="OPT[,OPT...]", help="see below")
    parser.add_argument("--binding", choices=("auto", "mfusepy", "fusepy"), help="the FUSE binding to use")
    return parser


def add_umount(commands: Any) -> argparse.ArgumentParser:
    """``asdffs umount``."""
    epilog = """\
example:
  asdffs umount /mnt/x

Exit code 7 says that some edits are not in the file and where they were kept.
"""
    parser = add_command(commands, "umount", "finish the file and take the mount away", epilog)
    parser.add_argument("mountpoint", metavar="MNT", help="where the file is mounted")
    return parser
