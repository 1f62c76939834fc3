"""Answers that are not followed or not used: redirects from https to http, bytes from another place, local files."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from support.commands import command
from support.mounts import LIMIT, environment_in
from support.remote_files import arrays, make
from support.web_server import Answer, Request, WebServer

from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document
from asdffs.errors import AsdffsError
from asdffs.features.remote import connections, transport, web
from asdffs.features.remote.transport import RequestError
from asdffs.scheduling import SerialCalls
from asdffs.storage.urls import RemoteOptions
from asdffs.workflows.references import find_externals, find_unresolved

HEAD = "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
PATIENT = RemoteOptions(timeout=LIMIT)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked for twice, because the first pause would be longer than all that is waited."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(transport, "_FIRST_PAUSE", 2 * LIMIT)


@pytest.fixture
def server() -> Iterator[WebServer]:
    with WebServer().running() as found:
        yield found


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    """A server that speaks TLS, with a certificate that is trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(tmp_path / "host.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "host.pem"))
    connections.certificates.cache_clear()
    with WebServer(context=context).running() as found:
        yield found
    connections.certificates.cache_clear()


def certificate(path: Path) -> Path:
    """A new certificate of 127.0.0.1, signed by itself, with its key."""
    x509 = pytest.importorskip("cryptography.x509", reason="makes the certificate")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    pem = (
        made.add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    form = serialization.PrivateFormat.PKCS8
    path.write_bytes(pem + key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return path


def opened(url: str, remote: RemoteOptions = PATIENT) -> Document:
    return open_document(url, writable=False, settings=Settings(scheduler=SerialCalls(), remote=remote))


@pytest.mark.parametrize("place", ["http://host/a", "ftp://host/a", "file:///a"])
def test_a_redirect_to_what_is_not_https_is_not_followed(place: str) -> None:
    """Without a server that speaks TLS, so without a certificate."""
    secure = web._Place("https://host/a?secret", "login")
    with pytest.raises(RequestError, match="not https, which is not followed"):
        secure.moved(place)
    for location, text, login in (
        ("https://me:word@other/a#part", "https://other/a", {}),
        ("b c", "https://host/b%20c", {"Authorization": "login"}),
    ):
        assert secure.moved(location).text == text
        assert secure.moved(location).headers({}) == login


@pytest.mark.long  # a certificate
@pytest.mark.parametrize("endpoint", [None, "http://127.0.0.1:1"])
@pytest.mark.parametrize("later", [False, True])
def test_https_never_falls_to_http(
    server: WebServer, secure: WebServer, tmp_path: Path, *, later: bool, endpoint: str | None
) -> None:
    """Neither the first request nor a later one; ``endpoint`` is for object stores."""
    url = secure.put("/data.asdf", make(tmp_path / "data.asdf"))
    server.objects = secure.objects
    plain = f"{server.url}/data.asdf"
    secure.fault = lambda request: Answer(302, {"Location": plain}) if bool(request.first) == later else None
    with pytest.raises(AsdffsError), opened(url, PATIENT._replace(endpoint=endpoint)) as document:
        assert document.arrays["a"][...].size
    assert secure.requests
    assert server.requests == []
    secure.fault = lambda request: None
    with opened(url) as document:
        assert np.array_equal(document.arrays["a"][...], arrays()["a"])


class Tunnel(socketserver.StreamRequestHandler):
    """A proxy for https: connects to where it is told, and passes bytes on."""

    asked: ClassVar[list[bytes]] = []

    def handle(self) -> None:
        line = self.rfile.readline()
        self.asked.append(line)
        while self.rfile.readline().strip():
            pass
        host, _, port = line.split()[1].decode().partition(":")
        with socket.create_connection((host, int(port))) as server:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=self.pass_on, args=(server, self.connection))
            back.start()
            self.pass_on(self.connection, server)
            back.join()

    def pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)


@pytest.mark.long  # a certificate
def test_https_goes_through_a_proxy(secure: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By CONNECT, so that the proxy sees neither the path nor the query."""
    url = secure.put("/data.asdf", make(tmp_path / "data.asdf")) + "?secret"
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Tunnel) as proxy:
        proxy.daemon_threads = True
        thread = threading.Thread(target=proxy.serve_forever, args=(0.02,))
        thread.start()
        monkeypatch.setenv("https_proxy", f"127.0.0.1:{proxy.server_address[1]}")
        monkeypatch.setenv("no_proxy", "")
        try:
            with opened(url) as document:
                assert np.array_equal(document.arrays["a"][...], arrays()["a"])
        finally:
            connections.close_idle()
            proxy.shutdown()
            thread.join()
    assert Tunnel.asked
    assert {line.split()[1].decode() for line in Tunnel.asked} == {secure.url.removeprefix("https://")}
    assert not any(b"secret" in line for line in Tunnel.asked)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("moved", [1 << 14, 1 << 20])
@pytest.mark.parametrize("later", [False, True])
def test_an_answer_that_begins_elsewhere_is_refused(
    server: WebServer, tmp_path: Path, *, later: bool, moved: int, known: bool
) -> None:
    """Whatever is asked for: the head or a part, on a new or a kept connection."""
    raw = make(tmp_path / "data.asdf")
    url = server.put("/data.asdf", raw)
    if known:
        opened(url, PATIENT._replace(cache=False)).close()

    def answer(request: Request) -> Answer | None:
        first, last = request.first, request.last
        if first is None or last is None or (first > 0) != later or first + moved >= len(raw):
            return None
        piece = raw[first + moved : last + 1 + moved]
        stated = f"bytes {first + moved}-{first + moved + len(piece) - 1}/{len(raw)}"
        return Answer(body=piece, headers={"Content-Range": stated})

    server.fault = answer
    with pytest.raises(AsdffsError, match="other bytes than it was asked for"), opened(url) as document:
        assert np.array_equal(document.arrays["a"][...], arrays()["a"])
    server.fault = lambda request: None
    with opened(url) as document:
        assert np.array_equal(document.arrays["a"][...], arrays()["a"])


@pytest.mark.parametrize(
    "source", ["file://{0}", "{0}", "..{0}", "../../../../../../../..{0}", "%2e%2e/..{0}", "x.asdf"]
)
def test_regression_a_remote_file_leads_to_no_local_file(
    server: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """Neither by the source of an array nor by ``$ref``, whatever lies in the working directory."""
    private = tmp_path / "x.asdf"
    make(private)
    here = tmp_path / "http:" / server.url.removeprefix("http://") / "d"
    for place in (tmp_path / "d", here, here.parent):  # to which a path made of the URL would lead
        place.mkdir(parents=True, exist_ok=True)
        (place / "x.asdf").write_bytes(private.read_bytes())
    monkeypatch.chdir(tmp_path)
    uri = source.format(private)
    array = f"{{source: '{uri}', datatype: int32, byteorder: little, shape: [512, 512]}}"
    tree = f"a: !core/ndarray-1.1.0 {array}\nb: {{$ref: '{uri}#/a'}}\nc: {{$ref: '{uri}#/b'}}\n"
    url = server.put("/d/remote.asdf", f"{HEAD}{tree}...\n".encode())
    with opened(url) as document:
        with pytest.raises(AsdffsError, match="is not followed" if "file:" in source else "does not exist"):
            document.arrays["a"][...]
        for name in "bc":
            with pytest.raises((AsdffsError, KeyError)):
                document.arrays[name][...]
        assert [one.followed for one in find_unresolved(document)] == ["file:" not in source] * 2
        [external] = find_externals(document, document.tree.arrays())
        assert external.data_size is None
        assert external.path is None or external.path.startswith(f"{server.url}/")
        assert document.linked_files._opened == {}
    environment = environment_in(tmp_path)
    for words in (
        ["check", url],
        ["info", url],
        ["diff", url, url],
        ["refs", url],
        ["explode", url, tmp_path / "out"],
    ):
        command(*words, environment=environment)
    copy = (tmp_path / "out/remote.asdf").read_text()
    assert uri in copy
    assert not list((tmp_path / "out").glob("*0000.asdf"))
