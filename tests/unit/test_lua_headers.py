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

# "…" in a header: as many locks as there are, so the script names them in a loop.
REPEATED = {name for name, script in DECLARED.items() if "…" in script.keys}
KEY_NAMES = {key for script in scripts.ALL for key in script.keys} - {"…"}

every_script = pytest.mark.parametrize("name", sorted(FILES))
every_file = pytest.mark.parametrize("name", sorted(FILES | SHARED))
FUNCTIONS = {
    function
    for text in SHARED.values()
    for function in re.findall(r"^local function (\w+)", text, re.MULTILINE)
}


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


def test_one_script_takes_as_many_locks_as_there_are():
    assert sorted(REPEATED) == ["acquire_all"]


@pytest.mark.parametrize("name", sorted(set(FILES) - REPEATED))
def test_the_first_lines_name_what_the_header_says(name):
    for table in ("KEYS", "ARGV"):
        names, values = naming_line(FILES[name], table)
        assert names == header(FILES[name], table)
        assert values == tuple(f"{table}[{number}]" for number in range(1, len(names) + 1))


@pytest.mark.parametrize("name", sorted(REPEATED))
def test_what_repeats_is_named_in_a_loop_as_the_header_says(name):
    """The n-th lock has the n-th group of keys and of arguments."""
    assert code_of(FILES[name]).startswith("local keys, arguments = KEYS, ARGV\n")
    for table, field in (("keys", "KEYS"), ("arguments", "ARGV")):
        *names, last = header(FILES[name], field)
        assert last == "…"
        size = len(names)
        offsets = [f" - {size - number}" if number < size else "" for number in range(1, size + 1)]
        values = ", ".join(f"{table}[{size} * number{offset}]" for offset in offsets)
        assert f"  local {', '.join(names)} = {values}\n" in FILES[name]


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
        if command == "'PUBLISH'":
            assert re.match(r"'leasehold:' \.\. [\w.]*channel$", arguments[0]), call
            continue
        assert re.match(rf"({'|'.join(KEY_NAMES)})\b", arguments[0]), call


@every_script
def test_a_script_is_given_every_key_that_its_shared_parts_touch(name):
    """A shared part names keys as its script does; one that the script was not given would be nil there."""
    parts = [
        part
        for line in re.findall(r"^-- Uses: (.+)$", FILES[name], re.MULTILINE)
        for part in line.split(", ")
    ]
    touched = {
        key
        for text in (FILES[name], *(SHARED[part] for part in parts))
        for key in re.findall(rf"redis\.p?call\('\w+', ({'|'.join(KEY_NAMES)})\b", code_of(text))
    }
    assert touched <= set(DECLARED[name].keys)


@every_script
def test_shared_parts_stand_below_what_they_use(name):
    """Lua knows a local function only below its definition; above, the name is a global that is nil."""
    parts = [
        part
        for line in re.findall(r"^-- Uses: (.+)$", FILES[name], re.MULTILINE)
        for part in line.split(", ")
    ]
    above = set()
    for text in (*(SHARED[part] for part in parts), FILES[name][FILES[name].find("-- Uses: ") :]):
        own = set(re.findall(r"^local function (\w+)", text, re.MULTILINE))
        called = set(re.findall(r"(?<![\w.:])(\w+)\(", code_of(text))) & FUNCTIONS
        assert called <= above | own
        above |= own


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
