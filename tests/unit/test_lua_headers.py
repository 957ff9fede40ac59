"""Every script says in its header what it is given, and the header is true."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from leasehold.valkey import scripts

LUA = resources.files("leasehold.valkey") / "lua"
FILES = {
    path.name.removesuffix(".lua"): path.read_text() for path in LUA.iterdir() if path.name.endswith(".lua")
}
SHARED = {
    path.name.removesuffix(".lua"): path.read_text()
    for path in (LUA / "shared").iterdir()
    if path.name.endswith(".lua")
}
DECLARED = {script.name: script for script in scripts.ALL}

every_script = pytest.mark.parametrize("name", sorted(FILES))
every_file = pytest.mark.parametrize("name", sorted(FILES | SHARED))


def header(text, field):
    """The names after `-- FIELD:` in the comment at the top."""
    top = text[: text.index("\nlocal ")]
    (line,) = re.findall(rf"^-- {field}:(.*)$", top, re.MULTILINE)
    return tuple(part.strip() for part in line.split(",") if part.strip())


def naming_line(text, table):
    """The line `local a, b = KEYS[1], KEYS[2]` as names and as what they are given; empty without one."""
    match = re.search(rf"^local ([\w, ]+) = ((?:tonumber\()?{table}\[1\].*)$", text, re.MULTILINE)
    if not match:
        return (), ()
    values = tuple(re.sub(r"^tonumber\((.*)\)$", r"\1", value) for value in match[2].split(", "))
    return tuple(match[1].split(", ")), values


def code_of(text):
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))


def test_every_file_is_declared_and_every_declaration_has_a_file():
    assert set(FILES) == set(DECLARED)


def test_every_shared_file_is_used():
    used = {part for text in FILES.values() for part in re.findall(r"^-- Uses: (.+)$", text, re.MULTILINE)}
    assert {part.strip() for line in used for part in line.split(",")} == set(SHARED)


@every_script
def test_the_header_is_the_declaration(name):
    assert header(FILES[name], "KEYS") == DECLARED[name].keys
    assert header(FILES[name], "ARGV") == DECLARED[name].arguments


@every_script
def test_the_first_lines_name_what_the_header_says(name):
    for table in ("KEYS", "ARGV"):
        names, values = naming_line(FILES[name], table)
        assert names == header(FILES[name], table)
        assert values == tuple(f"{table}[{number}]" for number in range(1, len(names) + 1))


@every_script
def test_keys_and_arguments_are_named_first_and_never_indexed_later(name):
    lines = code_of(FILES[name]).strip().splitlines()
    naming = [line for line in lines if re.search(r"\b(KEYS|ARGV)\b", line)]
    assert naming == lines[: len(naming)]
    assert len(naming) <= 2


@pytest.mark.parametrize("name", sorted(SHARED))
def test_shared_functions_take_what_they_need_as_arguments(name):
    assert not re.search(r"\b(KEYS|ARGV)\b", code_of(SHARED[name]))


@every_script
def test_the_header_says_what_the_script_does_and_what_it_returns(name):
    lines = FILES[name].splitlines()
    assert re.match(r"-- [A-Z].+\.$", lines[0])
    assert any(line.startswith("-- Returns: ") for line in lines)


@every_file
def test_a_script_is_short_and_never_walks_the_keyspace(name):
    text = (FILES | SHARED)[name]
    assert len(text.splitlines()) < 60
    called = {command.upper() for command in re.findall(r"redis\.p?call\(\s*['\"](\w+)", text)}
    assert not called & {"KEYS", "SCAN", "FLUSHALL", "FLUSHDB", "RANDOMKEY"}


@every_file
def test_every_key_that_a_script_touches_came_in_as_a_key(name):
    """A cluster finds the slot by KEYS; a key put together inside a script may live elsewhere."""
    for call in re.findall(r"redis\.p?call\((.*)", code_of((FILES | SHARED)[name])):
        command, *arguments = call.split(", ")
        if command.startswith("'TIME'"):
            continue
        assert re.match(r"(lock|fence|taken|released|queue|readers)\b", arguments[0]), call


@every_file
def test_large_numbers_are_not_written_as_lua_writes_them(name):
    """`tostring` and `..` keep 14 digits; a fence has 16."""
    code = code_of((FILES | SHARED)[name])
    assert "tostring" not in code
    assert not re.search(r"\.\.\s*count|count\s*\.\.", code)


@every_script
def test_what_is_sent_to_the_server_has_no_comments_and_knows_its_own_hash(name):
    import hashlib

    script = DECLARED[name]
    assert b"--" not in script.source
    assert script.sha == hashlib.sha1(script.source).hexdigest().encode()
