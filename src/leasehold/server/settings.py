"""What can be set: by flags of ``leasehold serve``, else by ``LEASEHOLD_…`` in the environment, else as it stands here."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path  # noqa: TC003 - pydantic reads it
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from limits import parse
from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from leasehold.documents.timings import Times
from leasehold.errors import InvalidRequest
from leasehold.server.http.static_files import DIRECTORY
from leasehold.valkey.embedded import default_data_dir
from leasehold.valkey.transport.endpoint import parse as parse_store_url
from leasehold.valkey.transport.endpoint import redis_url

PREFIX = "LEASEHOLD_"
OFF = "off"

Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Listed = Annotated[tuple[str, ...], NoDecode]
Rate = str


class Settings(BaseSettings):
    """Everything about one server. Checked as a whole; never changed afterwards."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        frozen=True,
        extra="forbid",
        validate_default=True,
        populate_by_name=True,
    )

    host: str = Field("127.0.0.1", description="where to listen")
    port: int = Field(8000, ge=0, le=65_535, description="where to listen; 0 for any free port")
    workers: int = Field(1, ge=1, le=64, description="processes that share the port")
    data_dir: Path = Field(
        default_factory=default_data_dir,
        description="the embedded store, the SQLite database and the secret, where they are not set otherwise",
    )
    page_dir: Path = Field(DIRECTORY, description="the built web page; default: the one that came with us")
    database_url: str = Field(
        "", repr=False, description="`sqlite:///…` or `postgresql://…`; default: SQLite in the data directory"
    )
    redis_host: str | None = Field(
        None, validation_alias="REDIS_HOST", description="with `REDIS_PORT`, the store"
    )
    redis_port: str | None = Field(None, validation_alias="REDIS_PORT", description="see `REDIS_HOST`")
    store_url: str | None = Field(
        None,
        repr=False,
        description="the store of locks; default: `REDIS_HOST`, else an embedded Valkey in the data directory",
    )
    store_timeout: Seconds = Field(
        2, validation_alias="LEASEHOLD_TIMEOUT", description="seconds to wait for each answer of the store"
    )
    allow_eviction: bool = Field(False, description="use a store that may drop held locks")

    document_ttl: Seconds = Field(45, description="seconds that an editor's lock lasts without a heartbeat")
    document_heartbeat: Seconds = Field(
        0,
        description="seconds between heartbeats, less than half the ttl; default: 10, and less with a ttl under 45",
    )
    document_idle: Seconds = Field(
        30, description="seconds without activity after which the page gives the lock back"
    )
    document_save_within: Seconds = Field(
        3, description="seconds that whoever is taken over has to save; the taker waits for that"
    )

    demo: bool = Field(False, description="make a demo team; loopback only")
    expose_docs: bool | None = Field(
        None, description="serve `/docs` and `/openapi.json`; default: only with the demo"
    )
    secret_key: SecretStr | None = Field(
        None,
        description="what tokens are signed with; default: made once, kept in the data directory",
    )
    access_token_seconds: int = Field(
        900, ge=5, le=86_400, description="how long an access token is good for"
    )
    refresh_token_days: float = Field(
        14, gt=0, le=366, allow_inf_nan=False, description="how long one stays signed in without coming back"
    )
    secure_cookies: bool | None = Field(
        None, description="mark cookies as for HTTPS only; default: unless listening on loopback"
    )
    argon2_time_cost: int = Field(2, ge=1, le=100, description="rounds of password hashing")
    argon2_memory_kib: int = Field(19_456, ge=8, le=4_194_304, description="memory of password hashing")
    argon2_parallelism: int = Field(1, ge=1, le=64, description="lanes of password hashing")

    allowed_origins: Listed = Field(
        (), description="origins whose pages may use the socket and the cookies, besides the server's own"
    )
    cors_origins: Listed = Field((), description="origins whose pages may call the API (CORS)")
    trusted_proxies: Listed = Field(
        (), description="addresses whose `X-Forwarded-For` and `-Proto` are believed"
    )

    rate_acquire: Rate = Field("300/minute", description="locks asked for and taken by force, per user")
    rate_keep: Rate = Field("3000/minute", description="heartbeats, releases and saves, per user")
    rate_sign_in: Rate = Field("120/minute", description="sign-ins and registrations, per address")
    rate_other: Rate = Field("3000/minute", description="everything else, per user")
    max_body_bytes: int = Field(65_536, ge=1024, description="of a request, but for content")
    max_content_bytes: int = Field(1_048_576, ge=1024, description="of a document's content")
    rate_content_bytes: Rate = Field(
        "268435456/10 minutes",
        description="bytes of content saved, as versions and as drafts, per user; at least a document's",
    )
    max_sockets_per_user: int = Field(50, ge=1, description="open at once, per worker")
    max_unknown_sockets: int = Field(200, ge=1, description="that are not signed in yet, per worker")
    max_rooms_per_socket: int = Field(100, ge=1, description="documents that a socket may watch")
    max_messages_per_second: float = Field(
        20,
        gt=0,
        le=10_000,
        allow_inf_nan=False,
        description="from one socket, after a burst of ten times that",
    )

    shutdown_seconds: Seconds = Field(5, description="given to requests and sockets at the end")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="what goes to stderr")
    log_format: Literal["text", "json"] = Field("text", description="as lines for people, or for programs")

    metrics_token: SecretStr | None = Field(
        None, description="whoever has it may read `/metrics`; default: nobody may, but on a port of its own"
    )
    metrics_host: str = Field("127.0.0.1", description="where `/metrics` has a port of its own")
    metrics_port: int | None = Field(
        None,
        ge=0,
        le=65_535,
        description="a port of its own for `/metrics`; 0 for any free port, default: none",
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
        # In proportion, so that a shorter ttl forgives as many lost heartbeats as the usual one.
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
            raise ValueError("a secret has 32 characters or more")
        return value

    @field_validator("metrics_token")
    @classmethod
    def _hard_to_guess(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and (len(value) < 16 or not value.get_secret_value().isascii()):
            raise ValueError("a token has 16 characters or more, of ASCII")
        return value

    @field_validator("metrics_port")
    @classmethod
    def _closed_to_others(cls, value: int | None, info: ValidationInfo) -> int | None:
        host = info.data.get("metrics_host", "127.0.0.1")
        if value is not None and not is_loopback(host) and info.data.get("metrics_token") is None:
            raise ValueError(f"on {host} others can read the metrics: set LEASEHOLD_METRICS_TOKEN as well")
        return value

    @field_validator("demo")
    @classmethod
    def _demo_at_home(cls, value: bool, info: ValidationInfo) -> bool:  # noqa: FBT001 - called by pydantic
        if value and not is_loopback(info.data.get("host", "127.0.0.1")):
            raise ValueError(
                f"everybody knows the demo's passwords, so it listens on loopback only, not on {info.data['host']}"
            )
        return value

    @field_validator("allowed_origins", "cors_origins", "trusted_proxies", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value

    @field_validator("allowed_origins", "cors_origins")
    @classmethod
    def _origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_origin(each) for each in value)

    @field_validator("rate_acquire", "rate_keep", "rate_content_bytes", "rate_sign_in", "rate_other")
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
    def _has_room_for_a_document(cls, value: str, info: ValidationInfo) -> str:
        largest = info.data.get("max_content_bytes")
        if value != OFF and largest is not None and parse(value).amount < largest:
            # Whoever waits would be refused for ever.
            raise ValueError(f"LEASEHOLD_MAX_CONTENT_BYTES allows {largest} bytes, which is more than this")
        return value

    @classmethod
    def load(cls, **flags: Any) -> Self:
        """From flags that were given (those that are not None) and the environment.

        `InvalidRequest` lists everything that is wrong, by the name of the variable.
        """
        try:
            return cls(**{name: value for name, value in flags.items() if value is not None})
        except ValidationError as error:
            raise InvalidRequest(_listed(error)) from None

    @property
    def times(self) -> Times:
        """How long document locks last."""
        return Times(
            ttl=self.document_ttl,
            heartbeat=self.document_heartbeat,
            idle=self.document_idle,
            save_within=self.document_save_within,
        )

    @property
    def has_metrics(self) -> bool:
        """Whether anybody may read metrics at all; if not, none are counted."""
        return self.metrics_port is not None or self.metrics_token is not None

    @property
    def docs_are_open(self) -> bool:
        """Whether the OpenAPI document can be read by anybody."""
        return self.demo if self.expose_docs is None else self.expose_docs

    @property
    def cookies_are_secure(self) -> bool:
        """Whether cookies are sent over HTTPS only."""
        return not is_loopback(self.host) if self.secure_cookies is None else self.secure_cookies

    @property
    def origins(self) -> frozenset[str]:
        """Whose pages may open a socket: the server's own address, and those that were allowed."""
        names = {self.host.strip("[]")}
        if is_loopback(self.host):
            names |= {"localhost", "127.0.0.1", "::1"}
        hosts = {f"[{name}]" if ":" in name else name for name in names}
        return frozenset(f"http://{host}:{self.port}" for host in hosts) | frozenset(self.allowed_origins)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``; no for names, which may mean anything, but for localhost."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def variable_of(name: str) -> str:
    """The variable that sets a field."""
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


def _listed(error: ValidationError) -> str:
    """One line for each thing that is wrong. What was given is not repeated: it may be a secret."""
    lines: list[str] = []
    for problem in error.errors(include_url=False, include_input=False, include_context=False):
        name = str(problem["loc"][0]) if problem["loc"] else ""
        variable = variable_of(name) if name in Settings.model_fields else name
        lines.append(f"{variable}: {problem['msg'].removeprefix('Value error, ')}")
    return "\n".join(["these settings are not valid", *lines])
