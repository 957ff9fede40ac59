"""The meaning of store URLs, and the errors for wrong ones."""

from __future__ import annotations

import ssl
import traceback

import pytest

import leasehold
from leasehold.errors import InvalidRequest
from leasehold.valkey.options import check_options
from leasehold.valkey.transport.cluster.slot_map import ClusterNodes
from leasehold.valkey.transport.endpoint import Endpoint
from leasehold.valkey.transport.sentinel import SentinelGroup
from leasehold.valkey.transport.store_url import parse

OPTIONS = {
    "timeout": 5,
    "data_dir": None,
    "tls": None,
    "client_name": None,
    "allow_eviction": False,
    "max_connections": None,
}
SECRET = "p@ss:w/rd?#%+"
QUOTED = "p%40ss%3Aw%2Frd%3F%23%25%2B"


@pytest.mark.parametrize("scheme", ["redis", "valkey"])
def test_a_plain_url_names_host_port_and_database(scheme):
    assert parse(f"{scheme}://example.org:7000/3") == Endpoint(host="example.org", port=7000, db=3)


@pytest.mark.parametrize("scheme", ["redis", "valkey"])
def test_what_a_plain_url_leaves_out_is_the_usual(scheme):
    assert parse(f"{scheme}://") == Endpoint(host="localhost", port=6379, db=0)
    assert parse(f"{scheme}://example.org/") == Endpoint(host="example.org")


@pytest.mark.parametrize("scheme", ["rediss", "valkeys"])
def test_a_url_with_an_s_is_encrypted_and_checks_certificates(scheme):
    endpoint = parse(f"{scheme}://example.org/1")
    assert endpoint.tls is not None
    assert endpoint.tls.verify_mode == ssl.CERT_REQUIRED
    assert endpoint.tls.check_hostname
    assert (endpoint.host, endpoint.port, endpoint.db) == ("example.org", 6379, 1)


def test_a_context_of_the_callers_own_is_used():
    context = ssl.create_default_context()
    assert parse("rediss://example.org", tls=context).tls is context


def test_certificates_are_not_checked_only_if_the_url_says_so():
    endpoint = parse("rediss://example.org?ssl_cert_reqs=none")
    assert endpoint.tls is not None
    assert endpoint.tls.verify_mode == ssl.CERT_NONE
    assert not endpoint.tls.check_hostname


def test_a_certificate_authority_of_its_own_is_read(certificates):
    endpoint = parse(
        f"rediss://example.org?ssl_ca_certs={certificates.ca_file}"
        f"&ssl_certfile={certificates.cert_file}&ssl_keyfile={certificates.key_file}"
    )
    assert endpoint.tls is not None
    assert len(endpoint.tls.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("url", "path", "db"),
    [
        ("unix:///run/valkey.sock", "/run/valkey.sock", 0),
        ("unix:///run/valkey.sock?db=4", "/run/valkey.sock", 4),
        ("unix:///run/with%20space", "/run/with space", 0),
    ],
)
def test_a_unix_url_names_a_socket(url, path, db):
    endpoint = parse(url)
    assert (endpoint.path, endpoint.db) == (path, db)
    assert str(endpoint) == f"unix://{path}"


@pytest.mark.parametrize("prefix", ["redis://", "valkey://", "rediss://", "valkeys://"])
def test_user_and_password_are_unquoted(prefix):
    endpoint = parse(f"{prefix}al%40ice:{QUOTED}@example.org")
    assert (endpoint.username, endpoint.password) == ("al@ice", SECRET)


def test_a_password_without_a_user_is_the_default_users():
    endpoint = parse(f"redis://:{QUOTED}@example.org")
    assert (endpoint.username, endpoint.password) == (None, SECRET)


def test_a_unix_url_may_have_a_password_too():
    assert parse("unix://alice:secret@/run/valkey.sock").password == "secret"


def test_an_ipv6_address_is_a_host():
    assert parse("redis://[::1]:7000/0").host == "::1"


def test_a_url_with_sentinels_names_them_their_service_and_two_logins():
    group = parse(
        f"redis+sentinel://alice:{QUOTED}@a,b:7000,[::1],a:26379/my-locks?db=3"
        f"&sentinel_username=watch&sentinel_password={QUOTED}"
    )
    assert isinstance(group, SentinelGroup)
    assert [(each.host, each.port) for each in group.sentinels] == [("a", 26379), ("b", 7000), ("::1", 26379)]
    assert {(each.username, each.password) for each in group.sentinels} == {("watch", SECRET)}
    assert group.service == group.server.service == "my-locks"
    assert (group.server.username, group.server.password, group.server.db) == ("alice", SECRET, 3)
    assert str(group) == "a:26379,b:7000,[::1]:26379/my-locks"


def test_a_url_with_sentinels_and_an_s_is_encrypted_everywhere():
    group = parse("rediss+sentinel://a,b/locks")
    assert isinstance(group, SentinelGroup)
    assert {each.tls for each in (*group.sentinels, group.server)} == {group.server.tls}
    assert group.server.tls is not None


def test_a_url_with_a_cluster_names_some_nodes_each_once_and_one_login():
    nodes = parse(f"redis+cluster://alice:{QUOTED}@a,b:7000,[::1],a:6379/0?db=0")
    assert isinstance(nodes, ClusterNodes)
    assert [(each.host, each.port) for each in nodes.seeds] == [("a", 6379), ("b", 7000), ("::1", 6379)]
    assert {(each.username, each.password, each.tls) for each in nodes.seeds} == {("alice", SECRET, None)}
    assert str(nodes) == "a:6379,b:7000,[::1]:6379"
    assert str(nodes.node_at("c", 7)) == "c:7"


def test_a_url_with_a_cluster_and_an_s_is_encrypted_everywhere():
    nodes = parse("rediss+cluster://a,b")
    assert isinstance(nodes, ClusterNodes)
    assert nodes.node_at("c", 7).tls is nodes.seeds[0].tls is nodes.seeds[1].tls is not None


def test_an_address_map_says_where_nodes_are_that_announce_another_address():
    nodes = parse("redis+cluster://a?address_map=10.0.0.1:6379=localhost:7001,[fd00::2]:6379=b,")
    assert isinstance(nodes, ClusterNodes)
    assert str(nodes.node_at("10.0.0.1", 6379)) == "localhost:7001"
    assert str(nodes.node_at("fd00::2", 6379)) == "b:6379"
    assert str(nodes.node_at("10.0.0.3", 6379)) == "10.0.0.3:6379"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis+cluster://", "names a host for each of some nodes"),
        ("redis+cluster://a,,b", "names a host for each of some nodes"),
        ("redis+cluster://a,:7000", "names a host for each of some nodes"),
        ("redis+cluster://a:0", "a number from 1 to 65535"),
        ("redis+cluster://a/3", "no databases but 0"),
        ("redis+cluster://a?db=3", "no databases but 0"),
        ("redis+cluster://a?sentinel_password=x", "unknown option 'sentinel_password'"),
        ("redis+cluster://a?address_map=b:1", "address_map=10.0.0.1:6379=localhost:7001"),
        ("redis+cluster://a?address_map=b:1=", "address_map=10.0.0.1:6379=localhost:7001"),
        ("redis+cluster://a?address_map=b:1=c:0", "a number from 1 to 65535"),
        ("redis+cluster://a?ssl_cert_reqs=none", "is not encrypted"),
        ("redis://a,b", r"several hosts need redis\+sentinel:// or redis\+cluster://"),
    ],
)
def test_a_wrong_url_with_a_cluster_says_what_is_wrong(url, message):
    with pytest.raises(InvalidRequest, match=message):
        parse(url)


@pytest.mark.parametrize(
    "url", ["redis://a", "valkeys://a:7000/2", "unix:///run/valkey.sock", "redis+sentinel://a,b/locks"]
)
@pytest.mark.parametrize(("query", "number"), [("", 0), ("?min_replicas=0", 0), ("?min_replicas=2", 2)])
def test_a_url_says_how_many_replicas_have_to_acknowledge_a_grant(url, query, number):
    assert check_options(f"{url}{query}", **OPTIONS).min_replicas == number


def test_the_embedded_server_has_no_replicas():
    assert check_options(None, **OPTIONS).min_replicas == 0


@pytest.mark.parametrize("number", ["", "-1", "+1", "1.0", "one", "1001", "9" * 30, "²", "hunter2"])
def test_a_number_of_replicas_that_is_none_is_refused(number):
    with pytest.raises(InvalidRequest, match="must be a whole number from 0 to 1000") as refused:
        parse(f"redis://alice:hunter2@example.org/0?min_replicas={number}")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://alice:{}@example.org/0",
        "rediss://alice:{}@example.org/0",
        "unix://alice:{}@/run/valkey.sock",
    ],
)
def test_a_password_never_shows(url):
    endpoint = parse(url.format("hunter2"))
    assert endpoint.password == "hunter2"
    for shown in (repr(endpoint), str(endpoint), f"{endpoint}", repr([endpoint])):
        assert "hunter2" not in shown


@pytest.mark.parametrize(
    "url",
    [
        "redis://alice:hunter2@example.org/zero",
        "redis://alice:hunter2@example.org:port/0",
        "redis://alice:hunter2@example.org:99999/0",
        "redis://alice:hunter2@example.org/0?tls=yes",
        "redis://alice:hunter2@example.org/0?ssl_ca_certs=x",
        "rediss://alice:hunter2@example.org/0?ssl_cert_reqs=maybe",
        "rediss://alice:hunter2@example.org/0?ssl_ca_certs=/does/not/exist",
        "http://alice:hunter2@example.org/0",
        "redlock://alice:hunter2@example.org/0",
        "unix://alice:hunter2@",
        "redis+sentinel://alice:hunter2@example.org",
        "redis+sentinel://example.org/locks?sentinel_password=hunter2&min=1",
        # Forgotten quotes: parts of the password are then taken for a port, a path or an option.
        "redis://alice:1/hunter2@example.org/0",
        "redis://:/hunter2@example.org/0",
        "redis://:hunter2/rest@example.org/0",
        "redis://alice:x?hunter2=1@example.org/0",
        "redis://[hunter2@example.org/0",
        "redis+sentinel://alice:1/hunter2@example.org/locks",
        "redis://alice:x,hunter2@example.org,b/0",
    ],
)
def test_a_password_never_shows_in_an_error(url):
    with pytest.raises(InvalidRequest) as wrong:
        parse(url)
    assert "hunter2" not in "".join(traceback.format_exception_only(wrong.value))
    assert "hunter2" not in str(wrong.value.__cause__)


WORKING = [
    *("redis://", "rediss://", "valkey://", "valkeys://", "unix://"),
    *("redis+sentinel://", "rediss+sentinel://", "redis+cluster://", "rediss+cluster://"),
]


@pytest.mark.parametrize("scheme", ["redlock"])
def test_a_scheme_of_later_names_those_that_work_now(scheme):
    with pytest.raises(InvalidRequest, match="not supported yet") as wrong:
        leasehold.connect(f"{scheme}://a:1,b:2/0")
    for working in WORKING:
        assert working in str(wrong.value)
    assert "embedded" in str(wrong.value)


@pytest.mark.parametrize(
    "url", ["", "localhost", "localhost:6379", "http://localhost", "memcached://x", "//x"]
)
def test_an_unknown_scheme_names_those_that_work(url):
    with pytest.raises(InvalidRequest, match="begins with one of") as wrong:
        leasehold.connect(url)
    for working in WORKING:
        assert working in str(wrong.value)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://example.org/one", "database"),
        ("redis://example.org/-1", "database"),
        ("redis://example.org/0/1", "database"),
        ("redis://example.org:port", "port"),
        ("redis://example.org:65536", "port"),
        ("redis://example.org:0", "port"),
        ("redis://[::1", "URL"),
        ("redis://a.example.org,b.example.org", "several hosts"),
        ("redis://example.org?retries=3", "unknown option"),
        ("redis://example.org?sentinel_password=x", "unknown option"),
        ("redis+sentinel://example.org", "name of the service"),
        ("redis+sentinel://example.org/", "name of the service"),
        ("redis+sentinel://example.org/a/b", "name of the service"),
        ("redis+sentinel:///locks", "names a host"),
        ("redis+sentinel://a,,b/locks", "names a host"),
        ("redis+sentinel://a,b:0/locks", "port"),
        ("redis+sentinel://a,b:port/locks", "port"),
        ("redis+sentinel://a/locks?db=one", "database"),
        ("redis+sentinel://a/locks?ssl_ca_certs=x", "not encrypted"),
        ("unix://", "path of a socket"),
        ("redis://example.org?ssl_ca_certs=x", "not encrypted"),
        ("rediss://example.org?ssl_cert_reqs=optional", "ssl_cert_reqs"),
        ("rediss://example.org?ssl_ca_certs=/does/not/exist", "TLS files"),
    ],
)
@pytest.mark.parametrize("connect", [leasehold.connect, leasehold.blocking.connect])
def test_a_wrong_url_says_what_is_wrong(connect, url, says):
    with pytest.raises(InvalidRequest, match=says):
        connect(url)


def test_tls_on_a_plain_url_is_refused_rather_than_ignored():
    with pytest.raises(InvalidRequest, match="rediss://"):
        leasehold.connect("redis://example.org", tls=ssl.create_default_context())
