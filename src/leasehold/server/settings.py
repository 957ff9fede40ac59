"""The settings of the server: flags of ``leasehold serve``, else ``LEASEHOLD_…`` variables, else the defaults here."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from limits import parse
from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from leasehold.documents.timings import Times
from leasehold.errors import InvalidRequest
from leasehold.valkey.embedded import default_data_dir
from leasehold.valkey.transport.store_url import parse as parse_store_url
from leasehold.valkey.transport.store_url import redis_url

PREFIX = "LEASEHOLD_"
OFF = "off"
PAGE_DIRECTORY = Path(__file__).with_name("page")
"""The build of the web page: `make web` writes it, the wheel contains it."""

Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Listed = Annotated[tuple[str, ...], NoDecode]


class Settings(BaseSettings):
    """The settings of one server: validated together, and immutable."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        frozen=True,
        extra="forbid",
        validate_default=True,
        populate_by_name=True,
    )

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8000, ge=0, le=65_535, description="port to listen on; 0 for any free one")
    workers: int = Field(1, ge=1, le=64, description="processes that share the port")
    data_dir: Path = Field(
        default_factory=default_data_dir,
        description="directory of the embedded store, the SQLite database and the secret, unless set otherwise",
    )
    page_dir: Path = Field(PAGE_DIRECTORY, description="the built web page; default: the included one")
    database_url: str = Field(
        "", repr=False, description="`sqlite:///…` or `postgresql://…`; default: SQLite in the data directory"
    )
    redis_host: str | None = Field(
        None, validation_alias="REDIS_HOST", description="with `REDIS_PORT`: the lock store"
    )
    redis_port: str | None = Field(None, validation_alias="REDIS_PORT", description="see `REDIS_HOST`")
    store_url: str | None = Field(
        None,
        repr=False,
        description="the lock store; default: `REDIS_HOST`, else an embedded Valkey in the data directory",
    )
    store_timeout: Seconds = Field(
        2, validation_alias="LEASEHOLD_TIMEOUT", description="seconds to wait for each reply of the store"
    )
    allow_eviction: bool = Field(False, description="accept a store that may evict held locks")

    document_ttl: Seconds = Field(45, description="seconds that an editor's lock lasts without a heartbeat")
    document_heartbeat: Seconds = Field(
        0,
        description="seconds between heartbeats, less than half the ttl; default: 10, and less with a ttl under 45",
    )
    document_idle: Seconds = Field(
        30, description="seconds without activity after which the page releases the lock"
    )
    document_save_within: Seconds = Field(
        3, description="seconds that an editor has to save when the lock is taken by force"
    )

    demo: bool = Field(False, description="create a demo team; loopback only")
    expose_docs: bool | None = Field(
        None, description="serve `/docs` and `/openapi.json`; default: only with the demo"
    )
    secret_key: SecretStr | None = Field(
        None,
        description="secret that signs tokens; default: created once in the data directory",
    )
    access_token_seconds: int = Field(
        900, ge=5, le=86_400, description="seconds that an access token is valid"
    )
    refresh_token_days: float = Field(
        14, gt=0, le=366, allow_inf_nan=False, description="days that a login lasts without use"
    )
    login_days: float = Field(
        90,
        gt=0,
        le=3660,
        allow_inf_nan=False,
        description="days that a login lasts, however often it is used",
    )
    registration: bool = Field(True, description="users can create accounts by themselves")
    secure_cookies: bool | None = Field(
        None, description="restrict cookies to HTTPS; default: unless listening on loopback"
    )
    argon2_time_cost: int = Field(2, ge=1, le=100, description="rounds of password hashing")
    argon2_memory_kib: int = Field(19_456, ge=8, le=4_194_304, description="memory of password hashing")
    argon2_parallelism: int = Field(1, ge=1, le=64, description="lanes of password hashing")

    allowed_origins: Listed = Field(
        (), description="origins whose pages may use the socket and the cookies, besides the server's own"
    )
    cors_origins: Listed = Field((), description="origins whose pages may call the API (CORS)")
    trusted_proxies: Listed = Field(
        (), description="addresses whose `X-Forwarded-For` and `-Proto` are trusted"
    )
    allowed_hosts: Listed = Field(
        (),
        description="names in addresses of this server (`Host`), besides IP addresses, localhost and the hosts of "
        "`allowed_origins`; `*` for any; default: any, but none when listening on loopback",
    )

    rate_acquire: str = Field("300/minute", description="acquires and force-takes, per user")
    rate_keep: str = Field("3000/minute", description="heartbeats, releases and saves, per user")
    rate_sign_in: str = Field("120/minute", description="logins and registrations, per address")
    rate_wrong_passwords: str = Field(
        "10/10 minutes",
        description="wrong passwords, per account; browsers that have signed in to it have a limit of their own",
    )
    rate_add_member: str = Field("60/hour", description="members added to applications, per user")
    rate_other: str = Field("3000/minute", description="everything else, per user")
    max_body_bytes: int = Field(65_536, ge=1024, description="size of a request without content")
    max_content_bytes: int = Field(1_048_576, ge=1024, description="size of a document's content")
    rate_content_bytes: str = Field(
        "268435456/10 minutes",
        description="bytes of content saved as versions and drafts, per user; at least the size of a document",
    )
    max_documents_per_owner: int = Field(10_000, ge=1, description="documents that a user has created")
    max_bytes_per_owner: int = Field(
        10_737_418_240, ge=1024, description="bytes of versions and drafts in the documents of one owner"
    )
    max_sockets_per_user: int = Field(50, ge=1, description="open sockets per user and worker")
    max_unknown_sockets: int = Field(
        200, ge=1, description="sockets that are not authenticated yet, per worker"
    )
    max_unknown_sockets_per_address: int = Field(
        50, ge=1, description="sockets that are not authenticated yet, per address and worker"
    )
    max_connections: int = Field(
        4096, ge=1, description="connections per worker; fewer where the system limits open files"
    )
    max_connections_per_address: int = Field(
        256, ge=1, description="connections per address and worker, without sockets and trusted proxies"
    )
    request_seconds: Seconds = Field(
        10,
        description="seconds for the head of a request; in that time 4 KiB a second of its body must arrive, and of "
        "its response be read",
    )
    max_rooms_per_socket: int = Field(100, ge=1, description="documents that one socket may watch")
    max_messages_per_second: float = Field(
        20,
        gt=0,
        le=10_000,
        allow_inf_nan=False,
        description="messages from one socket, after a burst of ten times that",
    )

    shutdown_seconds: Seconds = Field(5, description="seconds for requests and sockets to finish at shutdown")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="lowest level that is logged to stderr"
    )
    log_format: Literal["text", "json"] = Field("text", description="lines for people, or JSON for programs")

    metrics_token: SecretStr | None = Field(
        None, description="token to read `/metrics`; default: only on a separate port"
    )
    metrics_host: str = Field("127.0.0.1", description="address of the separate port for `/metrics`")
    metrics_port: int | None = Field(
        None,
        ge=0,
        le=65_535,
        description="separate port for `/metrics`; 0 for any free one, default: none",
    )

    @field_validator("data_dir", "page_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("database_url")
    @classmethod
    def _known_database(cls, value: str, info: ValidationInfo) -> str:
        if not value and "data_dir" in info.data:
            return f"sqlite:///{info.data['data_dir'] / 'documents.sqlite'}"
        if not value.startswith(("sqlite:", "sqlite+", "postgresql:", "postgresql+", "postgres:")):
            raise ValueError("a database URL begins with sqlite:/// or postgresql://")
        return value

    @field_validator("store_url")
    @classmethod
    def _known_store(cls, value: str | None, info: ValidationInfo) -> str | None:
        value = value or redis_url(info.data.get("redis_host"), info.data.get("redis_port"))
        if value is not None:
            parse_store_url(value)
        return value

    @field_validator("document_heartbeat", mode="before")
    @classmethod
    def _heartbeat(cls, value: Any, info: ValidationInfo) -> Any:
        # In proportion, so that a shorter ttl survives as many lost heartbeats as the default one.
        return value or min(10, info.data.get("document_ttl", 45) / 4.5)

    @field_validator("document_heartbeat")
    @classmethod
    def _twice_in_a_ttl(cls, value: float, info: ValidationInfo) -> float:
        ttl = info.data.get("document_ttl")
        if ttl is not None and ttl <= 2 * value:
            raise ValueError(
                f"the ttl must be above twice the heartbeat: LEASEHOLD_DOCUMENT_TTL is {ttl:g} s, "
                f"which is not above twice {value:g} s"
            )
        return value

    @field_validator("secret_key")
    @classmethod
    def _long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value) < 32:
            raise ValueError("a secret needs at least 32 characters")
        return value

    @field_validator("metrics_token")
    @classmethod
    def _hard_to_guess(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and (len(value) < 16 or not value.get_secret_value().isascii()):
            raise ValueError("a token needs at least 16 ASCII characters")
        return value

    @field_validator("metrics_port")
    @classmethod
    def _token_unless_loopback(cls, value: int | None, info: ValidationInfo) -> int | None:
        host = info.data.get("metrics_host", "127.0.0.1")
        if value is not None and not is_loopback(host) and info.data.get("metrics_token") is None:
            raise ValueError(f"other hosts can read the metrics on {host}: set LEASEHOLD_METRICS_TOKEN too")
        return value

    @field_validator("demo")
    @classmethod
    def _demo_on_loopback(cls, value: bool, info: ValidationInfo) -> bool:  # noqa: FBT001 - called by pydantic
        if value and not is_loopback(info.data.get("host", "127.0.0.1")):
            raise ValueError(
                f"the demo's passwords are public, so it listens on loopback only, not on {info.data['host']}"
            )
        return value

    @field_validator("allowed_origins", "cors_origins", "trusted_proxies", "allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value

    @field_validator("allowed_origins", "cors_origins")
    @classmethod
    def _origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_origin(each) for each in value)

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_host(each) for each in value)

    @field_validator(
        "rate_acquire",
        "rate_keep",
        "rate_content_bytes",
        "rate_sign_in",
        "rate_wrong_passwords",
        "rate_add_member",
        "rate_other",
    )
    @classmethod
    def _rate(cls, value: str) -> str:
        if value != OFF:
            try:
                parse(value)
            except ValueError:
                raise ValueError(f"a rate is written as 60/minute, or {OFF}") from None
        return value

    @field_validator("rate_content_bytes")
    @classmethod
    def _fits_a_document(cls, value: str, info: ValidationInfo) -> str:
        largest = info.data.get("max_content_bytes")
        if value != OFF and largest is not None and parse(value).amount < largest:
            # A save above the limit would be refused however long the client waits.
            raise ValueError(f"this must be at least LEASEHOLD_MAX_CONTENT_BYTES, which is {largest}")
        return value

    @classmethod
    def load(cls, **flags: Any) -> Self:
        """Settings from the flags that are not None and the environment.

        `InvalidRequest` lists every invalid setting by the name of its variable.
        """
        try:
            return cls(**{name: value for name, value in flags.items() if value is not None})
        except ValidationError as error:
            raise InvalidRequest(_listed(error)) from None

    @property
    def times(self) -> Times:
        """The timings of document locks."""
        return Times(
            ttl=self.document_ttl,
            heartbeat=self.document_heartbeat,
            idle=self.document_idle,
            save_within=self.document_save_within,
        )

    @property
    def has_metrics(self) -> bool:
        """True if metrics can be read; otherwise none are counted."""
        return self.metrics_port is not None or self.metrics_token is not None

    @property
    def docs_are_open(self) -> bool:
        """True if the OpenAPI document is public."""
        return self.demo if self.expose_docs is None else self.expose_docs

    @property
    def cookies_are_secure(self) -> bool:
        """True if cookies are sent over HTTPS only."""
        return not is_loopback(self.host) if self.secure_cookies is None else self.secure_cookies

    @property
    def hosts(self) -> frozenset[str] | None:
        """The names that this server may have in a URL, besides IP addresses and localhost; None for any."""
        if "*" in self.allowed_hosts or not (self.allowed_hosts or is_loopback(self.host)):
            return None
        of_origins = (urlsplit(each).hostname or "" for each in self.allowed_origins)
        return frozenset({*self.allowed_hosts, *of_origins, self.host.lower()})

    @property
    def origins(self) -> frozenset[str]:
        """The origins that may open a socket: the server's own, and the allowed ones."""
        names = {self.host.strip("[]")}
        if is_loopback(self.host):
            names |= {"localhost", "127.0.0.1", "::1"}
        hosts = {f"[{name}]" if ":" in name else name for name in names}
        return frozenset(f"http://{host}:{self.port}" for host in hosts) | frozenset(self.allowed_origins)


def is_loopback(host: str) -> bool:
    """True if only this machine can reach ``host``. False for names except localhost, because they may resolve anywhere."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def variable_of(name: str) -> str:
    """The environment variable of a field."""
    alias = Settings.model_fields[name].validation_alias
    return alias if isinstance(alias, str) else f"{PREFIX}{name.upper()}"


def _origin(value: str) -> str:
    parts = urlsplit(value.rstrip("/"))
    if (
        parts.scheme not in {"http", "https"}
        or not parts.hostname
        or value.rstrip("/") != f"{parts.scheme}://{parts.netloc}"
    ):
        raise ValueError(f"an origin is written as https://docs.example.com, not {value!r}")
    return f"{parts.scheme}://{parts.netloc}".lower()


def _host(value: str) -> str:
    if value != "*" and (not value or urlsplit(f"//{value}").hostname != value.lower()):
        raise ValueError(f"a host is written as docs.example.com, without a port, not {value!r}")
    return value.lower()


# Where pydantic's own words are those of a parser.
_PLAIN = {
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "bool_parsing": "must be true or false",
}


def _listed(error: ValidationError) -> str:
    """One line for each invalid setting. The value is not repeated: it may be a secret."""
    lines: list[str] = []
    for problem in error.errors(include_url=False, include_input=False, include_context=False):
        name = str(problem["loc"][0]) if problem["loc"] else ""
        variable = variable_of(name) if name in Settings.model_fields else name
        plain = _PLAIN.get(problem["type"]) or problem["msg"].removeprefix("Value error, ")
        lines.append(f"{variable}: {plain.replace('Input should be', 'must be')}")
    return "\n".join(["these settings are not valid", *lines])
