"""The configurations of examples/operations, run as they are but for ports, files and the number of processes."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOST = "data.example.com"
CONFIGURATIONS = Path(__file__).parents[2] / "examples" / "operations"
PATIENCE = 60.0


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return int(bound.getsockname()[1])


@dataclass(frozen=True)
class Certificate:
    """A certificate of HOST that signs itself."""

    certificate: Path
    key: Path
    both: Path

    def trusted(self) -> ssl.SSLContext:
        """What a caller needs to trust it."""
        return ssl.create_default_context(cafile=self.certificate)


def make_certificate(folder: Path) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    actual = Certificate(folder / "host.crt", folder / "host.key", folder / "host.pem")
    certificate = made.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    actual.certificate.write_bytes(certificate)
    actual.key.write_bytes(private)
    actual.both.write_bytes(certificate + private)
    return actual


@dataclass(frozen=True)
class Ports:
    """Where the proxy listens, and where it finds the server and its health."""

    front: int
    back: int
    admin: int


def _nginx(text: str, ports: Ports, folder: Path) -> tuple[str, list[str]]:
    text = text.replace("worker_processes auto;", "worker_processes 1; daemon off;")
    text = text.replace("/run/nginx.pid", f"{folder}/nginx.pid").replace("/var/log/nginx", str(folder))
    text = text.replace("listen 443 ", f"listen 127.0.0.1:{ports.front} ")
    # Where it would write what it cannot send, so that the test sees it.
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"    {kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    return text.replace("http {\n", f"http {{\n{paths}", 1), ["-p", str(folder), "-c"]


def _caddy(text: str, ports: Ports, folder: Path) -> tuple[str, list[str]]:
    own = f"\tadmin off\n\tauto_https disable_redirects\n\tstorage file_system {folder}\n"
    text = text.replace("\tadmin off\n", own)
    text = text.replace(f"https://{HOST} {{", f"https://{HOST}:{ports.front} {{\n\tbind 127.0.0.1")
    return text, ["run", "--adapter", "caddyfile", "--config"]


def _haproxy(text: str, ports: Ports, _: Path) -> tuple[str, list[str]]:
    text = text.replace("bind :443 ", f"bind 127.0.0.1:{ports.front} ").replace(
        "check port 8001", f"check port {ports.admin}"
    )
    return text, ["-db", "-f"]


Prepare = Callable[[str, Ports, Path], tuple[str, list[str]]]

PROXIES: dict[str, tuple[str, Prepare]] = {
    "nginx": ("nginx.conf", _nginx),
    "caddy": ("Caddyfile", _caddy),
    "haproxy": ("haproxy.cfg", _haproxy),
}


def require(name: str) -> str:
    """The proxy's program; the test is skipped where it is not installed."""
    actual = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/local/sbin")
    if actual is None:
        pytest.skip(f"{name} is not installed (Debian: apt-get install nginx-light caddy haproxy)")
    return actual


@asynccontextmanager
async def proxying(name: str, ports: Ports, certificate: Certificate, folder: Path) -> AsyncIterator[None]:
    """The proxy with its configuration of examples/operations, once it listens."""
    file, prepare = PROXIES[name]
    text = (CONFIGURATIONS / file).read_text(encoding="utf-8")
    for path, written in (
        ("/etc/ssl/data.example.com.crt", certificate.certificate),
        ("/etc/ssl/data.example.com.key", certificate.key),
        ("/etc/ssl/data.example.com.pem", certificate.both),
    ):
        text = text.replace(path, str(written))
    text, flags = prepare(text.replace("127.0.0.1:8000", f"127.0.0.1:{ports.back}"), ports, folder)
    configuration = folder / file
    configuration.write_text(text, encoding="utf-8")
    log = folder / "said"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            require(name), *flags, str(configuration), stdout=output, stderr=output, env={"HOME": str(folder)}
        )
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                assert process.returncode is None, log.read_text()
                with suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", ports.front)
                    writer.close()
                    break
        yield
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
