"""A throw-away CA, and TLS in front of servers that were built without it."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import ssl
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.loop_thread import LoopThread

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Certificates:
    """PEM files: a CA, a server certificate for localhost and 127.0.0.1, and a client's certificate."""

    ca_file: Path
    cert_file: Path
    key_file: Path
    client_cert_file: Path
    client_key_file: Path

    def server_context(self, *, require_client: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.ca_file)
        context.load_cert_chain(self.cert_file, self.key_file)
        context.verify_mode = ssl.CERT_REQUIRED if require_client else ssl.CERT_NONE
        return context

    def client_context(self, *, with_certificate: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca_file)
        if with_certificate:
            context.load_cert_chain(self.client_cert_file, self.client_key_file)
        return context


def make_certificates(
    directory: Path, *, hosts: tuple[str, ...] = ("localhost", "127.0.0.1")
) -> Certificates:
    """Make a new CA and certificates signed by it. Another call gives a CA that the first one's do not trust."""
    directory.mkdir(parents=True, exist_ok=True)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = _sign("Test CA", ca_key, issuer=None, issuer_key=ca_key)
    ca_file = directory / "ca.pem"
    ca_file.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    files: list[Path] = []
    for name, names in (("server", hosts), ("client", ())):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _sign(f"Test {name}", key, issuer=ca, issuer_key=ca_key, hosts=names)
        cert_file, key_file = directory / f"{name}.pem", directory / f"{name}.key"
        cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        files += [cert_file, key_file]
    return Certificates(ca_file, *files)


def _sign(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    *,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey,
    hosts: tuple[str, ...] = (),
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    is_ca = issuer is None
    # The key usage and identifiers are what Python 3.13's strict verification asks for.
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
    )
    if hosts:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False
        )
    return builder.sign(issuer_key, hashes.SHA256())


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


class TlsFront:
    """Takes TLS off and passes the rest on: `with TlsFront(server.port, certificates) as front: front.url`.

    Behind it may also stand a FaultProxy. `require_client` asks clients for a certificate of the same CA.
    """

    def __init__(self, target_port: int, certificates: Certificates, *, require_client: bool = False) -> None:
        self._target_port = target_port
        self._context = certificates.server_context(require_client=require_client)
        self._thread = LoopThread("tls-front")
        self._server = self._thread.run(self._listen())
        self.port: int = self._server.sockets[0].getsockname()[1]

    @property
    def url(self) -> str:
        return f"rediss://localhost:{self.port}/0"

    def close(self) -> None:
        if not self._thread.loop.is_closed():
            self._thread.call(self._server.close)
            self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
            writers.append(up_writer)
            # TLS has no half-close here: the first side to end ends both.
            pumps = [
                asyncio.ensure_future(_pump(reader, up_writer)),
                asyncio.ensure_future(_pump(up_reader, writer)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass  # ended below; asyncio would log a handler that was cancelled
        finally:
            for each in writers:
                each.close()
                with suppress(OSError, asyncio.CancelledError):
                    await asyncio.wait_for(each.wait_closed(), 1)
                each.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
