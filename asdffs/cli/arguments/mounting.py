"""The arguments of the commands that mount and unmount."""

from __future__ import annotations

import argparse
from typing import Any, Final

from asdffs.cli.arguments.base import add_command, add_json, add_remote

_MOUNT_EPILOG: Final = """\
example:
  asdffs mount data.asdf /mnt/x && vim /mnt/x/tree.yaml && asdffs umount /mnt/x
  asdffs mount archive /mnt/x && vim /mnt/x/night1/data.asdf.d/tree.yaml

options for -o (comma-separated), basic:
  ro, rw                  mount read-only, or for writing (default)
  uid=N gid=N umask=OCTAL show files as owned by this user and group, without these permissions
  allow_other, allow_root let other users, or root, see the mount
  default_permissions     let the kernel check the permissions of files
  nonempty, fsname=NAME   as for every FUSE mount
  layout=daf              show the FilesDaf store of the file as the root; same as --layout daf
  fits=on|off, npy=on|off show arrays as .fits and .npy files, or not (default: on)
  log=syslog | log=FILE   where the daemon logs (default: in the state directory; see status.json)

safety:
  strict                  refuse a tree with arrays that do not fit their blocks
  schema                  refuse a tree that violates the schemas of its tags (needs the asdf library)
  verify                  check a block's checksum before its first read; a wrong one is EIO
  checksum=keep|zero      renew the checksums of changed blocks, or set them to none (default: keep)
  lease                   let programs that open the ASDF file wait until the mount has finished it
  nojournal               write without a crash journal (unsafe)

tuning:
  pad=SIZE | pad=N%       room to leave after a tree that had to grow: 64K, or 20% of it
  growth=auto|clone|insert|copy|shift   how to move blocks when something outgrows its room
  spool=DIR               where to keep scratch files and decoded blocks (default: state directory)
  spool_max=SIZE          most bytes of decoded blocks there (default: half of the free space)

archives, if FILE is a directory (docs/catalog.md):
  open_max=N              how many files stay open (default: 100)
  idle=SECONDS            finish and close a file that nothing used for so long (default: 5)
  passthrough             let the kernel read whole files itself: as fast as the disk (root, Linux 6.9)

remote files (docs/remote.md), read-only:
  anonymous, endpoint=URL, region=NAME   as --anonymous and so on
  timeout=SECONDS         give up a read after so long (default: 60)
  nocache, cache_max=SIZE keep nothing for later mounts; most bytes of the cache (default: 10G)
  whole_max=SIZE          largest download if a server sends no parts of files (default: 1G)

fstab:
  /data/a.asdf  /mnt/x  fuse.asdffs  ro,noauto,user  0  0

systemd: docs/howto.md, and the unit asdffs@.service
"""


def add_mount(commands: Any) -> argparse.ArgumentParser:
    """``asdffs mount``."""
    parser = add_command(commands, "mount", "show FILE as a directory", _MOUNT_EPILOG)
    parser.add_argument("file", metavar="FILE", help="the ASDF file, its URL, or a directory of files")
    parser.add_argument("mountpoint", metavar="MNT", help="an empty directory to mount on")
    parser.add_argument("-f", "--foreground", action="store_true", help="stay in the foreground until unmounted")
    parser.add_argument("-d", "--debug", action="store_true", help="stay in the foreground and log everything")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only errors")
    parser.add_argument("-s", dest="single", action="store_true", help="ignored; accepted for other programs' sake")
    parser.add_argument("--layout", metavar="VIEW", help="show this view as the root: daf")
    parser.add_argument("--systemd", action="store_true", help="stay in the foreground and notify systemd when ready")
    parser.add_argument(
        "-o", dest="options", action="append", default=[], metavar="OPT[,OPT...]", help="mount options, see below"
    )
    parser.add_argument("--binding", choices=("auto", "mfusepy", "fusepy"), help="FUSE binding to use")
    add_remote(parser)
    return parser


def add_umount(commands: Any) -> argparse.ArgumentParser:
    """``asdffs umount``."""
    epilog = """\
example:
  asdffs umount /mnt/x
  asdffs umount data.asdf   the same, wherever the file is mounted
  asdffs umount -a          all mounts of this user; for root, of everybody

Exit code 7: something could not be written into the file; it is kept, and the message says where.
'asdffs unmount' is the same.
"""
    parser = add_command(commands, "umount", "write pending changes and unmount", epilog)
    parser.add_argument("mountpoints", metavar="MNT", nargs="*", help="mount point, or the file that is mounted")
    parser.add_argument("-a", "--all", action="store_true", help="unmount all")
    return parser


def add_ls(commands: Any) -> argparse.ArgumentParser:
    """``asdffs ls``."""
    epilog = """\
example:
  asdffs ls | cut -f 2           the mount points

In a pipe it prints one line for each: file, mount point, rw or ro, state, separated by tabs.
"""
    parser = add_command(commands, "ls", "list mounted files", epilog)
    add_json(parser, "a JSON array")
    return parser


def add_cache(commands: Any) -> argparse.ArgumentParser:
    """``asdffs cache``."""
    epilog = """\
example:
  asdffs cache --clear

The cache is in $XDG_CACHE_HOME/asdffs, or ~/.cache/asdffs.  It may be removed at any time.  Files that a mount or a
command reads just now stay.
"""
    parser = add_command(commands, "cache", "show or clear what is kept of remote files", epilog)
    parser.add_argument("--clear", action="store_true", help="remove everything that is not in use")
    add_json(parser)
    return parser


def add_doctor(commands: Any) -> argparse.ArgumentParser:
    """``asdffs doctor``."""
    epilog = """\
example:
  asdffs doctor             run it as the user who will mount

Mounts a small file to be sure.  Exit code 0: mounting works; 6: it does not.
"""
    parser = add_command(commands, "doctor", "check your setup and suggest fixes", epilog)
    add_json(parser)
    return parser
