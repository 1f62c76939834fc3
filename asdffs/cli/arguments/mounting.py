"""The commands that mount and unmount."""

from __future__ import annotations

import argparse
from typing import Any

from asdffs.cli.arguments.base import add_command, add_json


def add_mount(commands: Any) -> argparse.ArgumentParser:
    """``asdffs mount``."""
    epilog = """\
example:
  asdffs mount data.asdf /mnt/x && vim /mnt/x/tree.yaml && asdffs umount /mnt/x

options for -o (comma-separated):
  ro, rw                  read-only, or for writing (the default)
  strict                  refuse a tree with arrays that do not fit their blocks
  schema                  refuse a tree that does not fit the schemas of its tags (needs the asdf library)
  pad=SIZE | pad=N%       room to leave after a tree that had to grow: 64K, or 20% of it
  growth=auto|clone|insert|copy|shift   how blocks are moved when something outgrows its room
  lease                   programs that open the file wait until the mount has finished it
  nojournal               write even where no journal can be kept beside the file
  uid=N gid=N umask=OCTAL show files as this user's and group's, without these permissions
  allow_other, allow_root, default_permissions, nonempty, fsname=NAME   as for every FUSE mount
  layout=daf              the FilesDaf store in the file as the root of the mount (docs/daf.md); as --layout daf
  fits=on|off             show arrays as .fits files as well, or not (default: on)
  verify                  look at a block's checksum before its first read; EIO when it is wrong
  checksum=keep|zero      changed blocks that had a checksum get a new one, or none (default: keep)
  spool=DIR               for scratch files and decoded blocks (default: the state directory)
  spool_max=SIZE          bytes that decoded blocks may take there (default: half of what is free)
  log=FILE | log=syslog   for the daemon's log (default: in the state directory; see status.json)

fstab:
  /data/a.asdf  /mnt/x  fuse.asdffs  ro,noauto,user  0  0

systemd: docs/howto.md, and the unit asdffs@.service
"""
    parser = add_command(commands, "mount", "show an ASDF file as a directory", epilog)
    parser.add_argument("file", help="the ASDF file")
    parser.add_argument("mountpoint", metavar="MNT", help="an empty directory")
    parser.add_argument("-f", "--foreground", action="store_true", help="stay in the foreground until unmounted")
    parser.add_argument("-d", "--debug", action="store_true", help="stay there and say everything")
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing but errors")
    parser.add_argument("-s", dest="single", action="store_true", help="accepted: a mount has one loop anyway")
    parser.add_argument("--layout", metavar="VIEW", help="show this view as the root: daf, the FilesDaf store")
    parser.add_argument("--systemd", action="store_true", help="stay there, and tell systemd when it is ready")
    parser.add_argument("-o", dest="options", action="append", default=[], metavar="OPT[,OPT...]", help="see below")
    parser.add_argument("--binding", choices=("auto", "mfusepy", "fusepy"), help="the FUSE binding to use")
    return parser


def add_umount(commands: Any) -> argparse.ArgumentParser:
    """``asdffs umount``."""
    epilog = """\
example:
  asdffs umount /mnt/x
  asdffs umount -a          all that this user has mounted; of root everybody's

Exit code 7 says that some edits are not in the file and where they were kept.
"""
    parser = add_command(commands, "umount", "finish the file and take the mount away", epilog)
    parser.add_argument("mountpoints", metavar="MNT", nargs="*", help="where the file is mounted")
    parser.add_argument("-a", "--all", action="store_true", help="all mounts of asdffs")
    return parser


def add_ls(commands: Any) -> argparse.ArgumentParser:
    """``asdffs ls``."""
    epilog = """\
example:
  asdffs ls | cut -f 2           the mount points

Elsewhere than on a terminal a line each: file, mount point, rw or ro, state, with tabs between.
"""
    parser = add_command(commands, "ls", "list the files that are mounted", epilog)
    add_json(parser, "a JSON array")
    return parser


def add_doctor(commands: Any) -> argparse.ArgumentParser:
    """``asdffs doctor``."""
    epilog = """\
example:
  asdffs doctor             as the user who is to mount

Mounts a small file to be sure.  Exit code 0: mounting works; 6: it does not.  What else is missing is told.
"""
    parser = add_command(commands, "doctor", "say what is there for mounting, and what to install", epilog)
    add_json(parser)
    return parser
