"""Connections: addresses, TLS, keys, limits."""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import re
from collections.abc import Sequence

import grpc

#: Largest message of a call, request or reply, in either direction.
MAX_MESSAGE_BYTES = 64 << 20

#: A PEM file, or its contents.
Pem = str | os.PathLike[str] | bytes


@dataclasses.dataclass(frozen=True)
class TlsConfig:
    """TLS with own certificates. Each is the path of a PEM file, or its contents as bytes."""

    #: Certificates of the authorities that the server's certificate is checked against; None: those of the system.
    ca: Pem | None = None
    #: The client's own certificate and its private key, where the server asks for one.
    cert: Pem | None = None
    key: Pem | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            given, missing = ("cert", "key") if self.key is None else ("key", "cert")
            raise ValueError(f"`{missing}`: expected with `{given}`, got None. Give both, or neither")

    def credentials(self) -> grpc.ChannelCredentials:
        """The credentials of a channel."""
        return grpc.ssl_channel_credentials(_pem("ca", self.ca), _pem("key", self.key), _pem("cert", self.cert))


def _pem(name: str, value: Pem | None) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str) and "-----BEGIN" in value:
        # The message may not hold a private key.
        raise ValueError(f"`{name}`: expected the path of a PEM file, or its contents as bytes, got contents as text. Encode them")
    try:
        with open(value, "rb") as file:
            return file.read()
    except OSError as error:
        raise ValueError(f"`{name}`: expected a readable PEM file, got {os.fspath(value)!r}: {error.strerror}") from error


@dataclasses.dataclass(frozen=True)
class Connection:
    """Where and how to connect. The key is not part of its `repr`."""

    target: str
    tls: TlsConfig | None
    metadata: tuple[tuple[str, str], ...] = dataclasses.field(repr=False)
    options: Sequence[tuple[str, int]] = dataclasses.field(repr=False)

    def credentials(self) -> grpc.ChannelCredentials | None:
        """None: plaintext."""
        return self.tls.credentials() if self.tls else None


def connection(target: str, tls: bool | TlsConfig | None, api_key: str | None) -> Connection:
    """Checks an address (`HOST:PORT`, `http://HOST:PORT`, `https://HOST:PORT` or a target of gRPC such as `unix:PATH`) and what belongs to it."""
    address, local, scheme = _address(target)
    if scheme == "https" and tls is False:
        raise ValueError(f"`tls`: expected True or a TlsConfig for {target!r}, got False. Use http:// for plaintext")
    if scheme == "http" and tls:
        raise ValueError(f"`target`: expected https:// with `tls`, got {target!r}")
    if tls is None:
        tls = scheme == "https"
    config = TlsConfig() if tls is True else (tls or None)
    if api_key is not None:
        # None of these messages may hold the key.
        if not re.fullmatch(r"[\x21-\x7e]+", api_key):
            raise ValueError("`api_key`: expected visible ASCII characters without spaces, got others or none. Strip line ends")
        if config is None and not local:
            raise ValueError(f"`api_key`: expected TLS for a host other than this one, got plaintext to {address!r}. Set tls=True")
    options = [
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        # A retry finds a server that has come back: gRPC's own pause between connections is 1 s at first.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 5000),
        ("grpc.min_reconnect_backoff_ms", 5000),
        # A connection whose other end is gone is left within a minute, and not when TCP gives up, after a quarter of an hour.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.ping_timeout_ms", 10_000),
        # Connections of another client that failed do not delay those of this one.
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if local:
        # Neither the call nor its key goes through a proxy of the environment.
        options.append(("grpc.enable_http_proxy", 0))
    metadata = (("authorization", f"Bearer {api_key}"),) if api_key is not None else ()
    return Connection(address, config, metadata, options)


def _address(target: str) -> tuple[str, bool, str]:
    """The target for gRPC, whether it is certainly this host, and the scheme http or https where there is one."""
    found = re.match(r"(https?)://", target)
    scheme = found.group(1) if found else ""
    rest = target[found.end() :].removesuffix("/") if found else target
    if not found and re.match(r"unix(-abstract)?:", rest):
        return rest, True, ""
    if not found and re.match(r"(dns|ipv4|ipv6|xds|vsock|[a-z0-9+.-]+:/)", rest) and re.match(r"[a-z0-9+.-]+:[^0-9]", rest):
        return rest, False, ""
    parts = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@?#\[\]]+):([0-9]{1,5})", rest)
    if not parts or not 0 < int(parts.group(2)) < 65536:
        raise ValueError(f"`target`: expected HOST:PORT, http://HOST:PORT or https://HOST:PORT, got {target!r}")
    return rest, _is_loopback(parts.group(1).strip("[]")), scheme


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
