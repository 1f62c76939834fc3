"""Changes the tree of an object in S3: a copy is changed here, and takes its place only if nobody else changed it.

The copy of a small object is whole.  That of a larger one has the header, the tree, the headers of the blocks and the
index; the contents of the blocks are holes.  The ordinary command changes the copy.  Then

* a small object is stored by one PUT with ``If-Match``;
* of a larger one, a multipart upload gets the new head as its first part, the blocks as ranges that the store copies
  by itself, and the new index; ``If-Match`` is with the request that completes it.  After any failure it is aborted.

So whoever reads the object sees the old one or the new one, and a change by somebody else in between is refused, not
overwritten.  Content type, other headers, metadata, tags and storage class stay.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any, Final, NamedTuple, NoReturn
from urllib.parse import urlencode

from asdffs.document.document import Document
from asdffs.document.opening import open_document
from asdffs.errors import (
    AsdffsError,
    DamagedFileError,
    LockedError,
    MissingFileError,
    NotSupportedError,
    Remedy,
    RemoteError,
    StaleFileError,
    UsageError,
)
from asdffs.features.remote.environment import stated_endpoint, stated_region
from asdffs.features.remote.object_stores import key_of
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.own_files import cache_folder
from asdffs.storage.urls import Url, parse_url

#: Objects of at most so many bytes are stored by one PUT; the least of a part of an upload but the last, by S3.
WHOLE: Final = 8 << 20
LEAST: Final = 5 << 20
#: The largest range that one request copies; S3 allows 5 GiB.
_RANGE: Final = 1 << 30
#: Headers of an object that its successor gets.
_KEPT: Final = (
    *("CacheControl", "ContentDisposition", "ContentEncoding", "ContentLanguage", "ContentType", "Expires"),
    *("Metadata", "StorageClass", "WebsiteRedirectLocation"),
    *("ServerSideEncryption", "SSEKMSKeyId", "BucketKeyEnabled"),
)
#: Errors of botocore before a server answers.
_NONE: Final = "there are no credentials for S3; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or choose a profile"
_BEFORE: Final = {
    "NoCredentialsError": _NONE,
    "PartialCredentialsError": _NONE,
    "EndpointConnectionError": "the server cannot be reached",
    "ProfileNotFound": "the profile that AWS_PROFILE names is not there",
}
#: The name of the copy: that of an object may be too long for a file.
_COPY: Final = "copy.asdf"
#: How the names of their directories begin.
_PREFIX: Final = "changing-"
_CHANGED: Final = "was changed in the store meanwhile, and is not overwritten; give the command again"


def change_object(url: str, change: Callable[[str], None]) -> None:
    """Let ``change(path)`` change a local copy of the object at ``url``, and store what it made.

    Nothing is stored if the copy is as it was.  Raises what ``change`` raises, ``NotSupportedError`` for other places
    than S3 or without botocore, ``StaleFileError`` if somebody else changed the object, ``MissingFileError``,
    ``RemoteError``, ``OSError``.
    """
    place = parse_url(url)
    with _translated_errors(place), _opened(place) as store, _folder() as folder:
        path = os.path.join(folder, _COPY)
        copy = _whole_copy(store, path) if store.size <= WHOLE else _hollow_copy(store, url, path)
        before = os.stat(path)
        try:
            change(path)
        except (AsdffsError, OSError) as err:
            _name(err, path, place.shown)
            raise
        now = os.stat(path)
        if (before.st_ino, before.st_size, before.st_mtime_ns) != (now.st_ino, now.st_size, now.st_mtime_ns):
            copy.store(path)


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    """Make a directory for copies, which may be large files of holes: where the cache is, not in memory."""
    os.makedirs(cache_folder(), mode=0o700, exist_ok=True)
    _remove_left()
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=_PREFIX) as folder, FileFolder(folder).exclusive():
        yield folder


def _remove_left() -> None:
    """Remove the copies of commands that were killed: those of a live command are locked."""
    for name in os.listdir(cache_folder()):
        if name.startswith(_PREFIX):
            folder = os.path.join(cache_folder(), name)
            with contextlib.suppress(LockedError, OSError), FileFolder(folder).exclusive():
                shutil.rmtree(folder)


def _name(err: AsdffsError | OSError, path: str, shown: str) -> None:
    """Tell an error of the copy by the name of the object."""
    if isinstance(err, AsdffsError):
        err.path = shown if err.path in (None, path, os.path.realpath(path)) else err.path
    elif err.filename in (path, os.path.realpath(path)):
        err.filename = shown


class _Object(NamedTuple):
    """An object in S3: ``client`` of botocore, where it is, its version, and what its successor gets of it."""

    client: Any
    where: Mapping[str, str]
    size: int
    tag: str
    kept: Mapping[str, Any]

    def read(self, start: int, stop: int) -> bytes:
        """Return a range of its bytes, in this version."""
        if start >= stop:
            return b""
        answer = self.client.get_object(**self.where, IfMatch=self.tag, Range=f"bytes={start}-{stop - 1}")
        found: bytes = answer["Body"].read()
        if len(found) != stop - start:
            raise RemoteError("the server sends other bytes than it was asked for")
        return found


@contextlib.contextmanager
def _opened(url: Url) -> Iterator[_Object]:
    """Ask for an object and its tags."""
    if url.text != url.shown:
        raise UsageError("has a query or a user; write ? in the name of an object as %3F", path=url.shown)
    if url.scheme != "s3":
        sentence = "only objects in S3 (s3://) can be changed where they are"
        raise NotSupportedError(sentence, path=url.shown, remedy=Remedy.MAKE_LOCAL)
    try:
        from botocore.config import Config
        from botocore.session import Session
    except ModuleNotFoundError as err:
        sentence = "to change objects needs botocore, which is not installed: pip install 'asdffs[s3]'"
        raise NotSupportedError(sentence, path=url.shown) from err
    config = Config(connect_timeout=10, read_timeout=60, retries={"max_attempts": 3, "mode": "standard"})
    region = stated_region() or "us-east-1"
    client = Session().create_client("s3", region_name=region, endpoint_url=stated_endpoint("s3"), config=config)
    with closing(client):
        where = {"Bucket": url.host, "Key": key_of(url)}
        head = client.head_object(**where)
        kept = {name: head[name] for name in _KEPT if head.get(name) is not None}
        tags = client.get_object_tagging(**where)["TagSet"] if head.get("TagCount", 1) else []
        if tags:
            kept["Tagging"] = urlencode({tag["Key"]: tag["Value"] for tag in tags})
        yield _Object(client, where, int(head["ContentLength"]), head["ETag"], kept)


class _WholeCopy(NamedTuple):
    """The copy of a small object."""

    object: _Object

    def store(self, path: str) -> None:
        """Store the file ``path`` in the place of the object."""
        one = self.object
        with open(path, "rb") as file:
            one.client.put_object(**one.where, **one.kept, Body=file.read(), IfMatch=one.tag)


def _whole_copy(store: _Object, path: str) -> _WholeCopy:
    with open(path, "xb") as file:
        file.write(store.read(0, store.size))
    return _WholeCopy(store)


class _HollowCopy(NamedTuple):
    """The copy of a larger object, whose blocks are at ``offsets`` and end at ``end``; their contents are holes."""

    object: _Object
    offsets: list[int]
    end: int

    def store(self, path: str) -> None:
        """Store the head and the tail of ``path``, and the blocks of the object between them: all or nothing."""
        offsets, end = _layout(path)
        moved = offsets[0] - self.offsets[0]
        if offsets != [offset + moved for offset in self.offsets] or end != self.end + moved:
            raise RemoteError("its blocks would not only move together; change a copy, and upload that")
        with open(path, "rb") as file:
            head = file.read(offsets[0])
            file.seek(end)
            tail = file.read()
        one = self.object
        upload = one.client.create_multipart_upload(**one.where, **one.kept)["UploadId"]
        try:
            parts = list(self._parts(upload, head, tail))
            one.client.complete_multipart_upload(
                **one.where, UploadId=upload, MultipartUpload={"Parts": parts}, IfMatch=one.tag
            )
        except BaseException:  # also an interrupt: nothing is left that costs money
            with contextlib.suppress(Exception):
                one.client.abort_multipart_upload(**one.where, UploadId=upload)
            raise

    def _parts(self, upload: str, head: bytes, tail: bytes) -> Iterator[dict[str, Any]]:
        """Make all parts, and yield what completes the upload."""
        start, stop = self.offsets[0], self.end
        more = max(0, LEAST - len(head))
        head, start = head + self.object.read(start, min(stop, start + more)), min(stop, start + more)
        if 0 < stop - start < LEAST and tail:  # too small for a part that is not the last one
            tail, stop = self.object.read(start, stop) + tail, start
        number = 1
        yield self._put(upload, number, head)
        for first, last in _ranges(start, stop):
            number += 1
            yield self._copy(upload, number, first, last)
        if tail:
            yield self._put(upload, number + 1, tail)

    def _put(self, upload: str, number: int, body: bytes) -> dict[str, Any]:
        one = self.object
        answer = one.client.upload_part(**one.where, UploadId=upload, PartNumber=number, Body=body)
        return {"PartNumber": number, "ETag": answer["ETag"]}

    def _copy(self, upload: str, number: int, start: int, stop: int) -> dict[str, Any]:
        one = self.object
        answer = one.client.upload_part_copy(
            **one.where,
            UploadId=upload,
            PartNumber=number,
            CopySource=dict(one.where),
            CopySourceRange=f"bytes={start}-{stop - 1}",
            CopySourceIfMatch=one.tag,
        )
        return {"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]}


def _ranges(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of about the same length, of at most ``_RANGE`` bytes."""
    count = -(-(stop - start) // _RANGE)
    for number in range(count):
        yield start + (stop - start) * number // count, start + (stop - start) * (number + 1) // count


def _hollow_copy(store: _Object, url: str, path: str) -> _HollowCopy:
    with closing(open_document(url, writable=False)) as document:
        if str(document.validators().get("etag")) != store.tag:
            raise StaleFileError(_CHANGED)
        if document.embedded is not None:
            raise NotSupportedError("an ASDF file inside another one can be changed in S3 only up to 8 MiB")
        table, backend = document.table, document.contents.transaction.backend
        offsets = [table.offset(number) for number in range(len(table))]
        if not offsets or table.header(len(table) - 1).streamed:
            raise NotSupportedError(
                "without blocks, or with a streamed one, it can be changed in S3 only up to 8 MiB"
            )
        sizes = [table.header(number).full_size for number in range(len(table))]
        end = _end(document)
        with open(path, "xb") as file:
            file.truncate(store.size)
            for start, length in ((0, offsets[0]), *zip(offsets, sizes, strict=True), (end, store.size - end)):
                file.seek(start)
                file.write(backend.read_at(start, length))
    return _HollowCopy(store, offsets, end)


def _layout(path: str) -> tuple[list[int], int]:
    """Return where the blocks of a local file are, and where the last one ends."""
    with closing(open_document(path, writable=False)) as document:
        table = document.table
        if not len(table):
            raise DamagedFileError("has no block any more")
        return [table.offset(number) for number in range(len(table))], _end(document)


def _end(document: Document) -> int:
    """Return where the last block ends, with the room that it does not use."""
    last = len(document.table) - 1
    header = document.table.header(last)
    return min(document.table.start(last, header) + header.allocated_size, document.signature.size)


@contextlib.contextmanager
def _translated_errors(url: Url) -> Iterator[None]:
    """Raise errors of botocore as ours."""
    try:
        yield
    except (AsdffsError, OSError):
        raise
    except Exception as err:  # noqa: BLE001  # botocore makes the classes of its errors when they happen
        _tell(err, url)


def _tell(err: Exception, url: Url) -> NoReturn:
    """Raise ``err``, if it is of botocore, as an error with a sentence."""
    if not type(err).__module__.startswith("botocore."):
        raise err
    answer = getattr(err, "response", {})
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    code = str(answer.get("Error", {}).get("Code", ""))
    if status in (409, 412):
        raise StaleFileError(_CHANGED, path=url.shown) from err
    if status == 404:
        raise MissingFileError("does not exist (404)", path=url.shown) from err
    if status == 501 or code == "NotImplemented":
        sentence = "the store cannot write only if nobody else has (If-Match), so nothing is changed there"
        raise NotSupportedError(sentence, path=url.shown) from err
    if status is None and type(err).__name__ in _BEFORE:
        raise RemoteError(_BEFORE[type(err).__name__], path=url.shown) from err
    told = f"{code} ({status})" if status else type(err).__name__
    raise RemoteError(f"the store refused the change: {told}", path=url.shown) from err
