"""Every script declares its arguments in its header, and the header is correct."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from leasehold.documents.store import scripts as document_scripts
from leasehold.files import scripts as file_scripts
from leasehold.valkey import scripts


def lua_files(folder):
    return {
        path.name.removesuffix(".lua"): path.read_text()
        for path in (folder.iterdir() if folder.is_dir() else ())
        if path.name.endswith(".lua")
    }


class Family:
    """The scripts of one folder, with their shared parts; parts that are not there come from the locks' scripts."""

    def __init__(self, package, declared):
        folder = resources.files(package) / "lua"
        self.files = lua_files(folder)
        self.own_parts = lua_files(folder / "shared")
        self.declared = {script.name: script for script in declared}
        self.keys = {key for script in declared for key in script.keys} - {"…"}

    def parts_of(self, name):
        """The shared parts that a script uses, in their order."""
        lines = re.findall(r"^-- Uses: (.+)$", self.files[name], re.MULTILINE)
        return [part.strip() for line in lines for part in line.split(",")]

    def text_of_part(self, part):
        return self.own_parts.get(part) or LOCKS.own_parts[part]


LOCKS = Family("leasehold.valkey", scripts.ALL)
DOCUMENTS = Family("leasehold.documents.store", document_scripts.ALL)
FILES = Family("leasehold.files", file_scripts.ALL)
FAMILIES = {"locks": LOCKS, "documents": DOCUMENTS, "files": FILES}

# "…" in a header: as many locks as there are, so the script names them in a loop.
REPEATED = {name for name, script in LOCKS.declared.items() if "…" in script.keys}

SCRIPTS = [(family, name) for family in FAMILIES for name in sorted(FAMILIES[family].files)]
PARTS = [(family, name) for family in FAMILIES for name in sorted(FAMILIES[family].own_parts)]


def each(names):
    """One test for each script, as its family, its name and its text."""
    return pytest.mark.parametrize(
        ("family", "name", "text"),
        [
            (FAMILIES[family], name, FAMILIES[family].files.get(name) or FAMILIES[family].own_parts[name])
            for family, name in names
        ],
        ids=[f"{family}-{name}" for family, name in names],
    )


every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))
every_script = each(SCRIPTS)
every_part = each(PARTS)
every_file = each([*SCRIPTS, *PARTS])
FUNCTIONS = {
    function
    for family in FAMILIES.values()
    for text in family.own_parts.values()
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


@every_family
def test_every_file_is_declared_and_every_declaration_has_a_file(family):
    assert set(family.files) == set(family.declared)


@every_family
def test_every_shared_file_is_used(family):
    used = {part for name in family.files for part in family.parts_of(name)}
    assert family.own_parts.keys() <= used <= family.own_parts.keys() | LOCKS.own_parts.keys()


def test_no_family_hides_what_the_locks_share():
    assert not DOCUMENTS.own_parts.keys() & LOCKS.own_parts.keys()


@every_script
def test_the_header_is_the_declaration(family, name, text):
    assert header(text, "KEYS") == family.declared[name].keys
    assert header(text, "ARGV") == family.declared[name].arguments


def test_one_script_takes_as_many_locks_as_there_are():
    assert sorted(REPEATED) == ["acquire_all"]


@each([(family, name) for family, name in SCRIPTS if name not in REPEATED])
def test_the_first_lines_use_the_names_of_the_header(family, name, text):
    for table in ("KEYS", "ARGV"):
        names, values = naming_line(text, table)
        assert names == header(text, table)
        assert values == tuple(f"{table}[{number}]" for number in range(1, len(names) + 1))


@each([("locks", name) for name in sorted(REPEATED)])
def test_repeated_arguments_use_the_names_of_the_header_in_a_loop(family, name, text):
    """The n-th lock has the n-th group of keys and of arguments."""
    assert code_of(text).startswith("local keys, arguments = KEYS, ARGV\n")
    for table, field in (("keys", "KEYS"), ("arguments", "ARGV")):
        *names, last = header(text, field)
        assert last == "…"
        size = len(names)
        offsets = [f" - {size - number}" if number < size else "" for number in range(1, size + 1)]
        values = ", ".join(f"{table}[{size} * number{offset}]" for offset in offsets)
        assert f"  local {', '.join(names)} = {values}\n" in text


@every_script
def test_keys_and_arguments_are_named_first_and_never_indexed_later(family, name, text):
    lines = code_of(text).strip().splitlines()
    naming = [line for line in lines if re.search(r"\b(KEYS|ARGV)\b", line)]
    assert naming == lines[: len(naming)]
    assert len(naming) <= 2


@every_part
def test_shared_functions_take_what_they_need_as_arguments(family, name, text):
    assert not re.search(r"\b(KEYS|ARGV)\b", code_of(text))


@every_script
def test_the_header_says_what_the_script_does_and_what_it_returns(family, name, text):
    lines = text.splitlines()
    assert re.match(r"-- [A-Z].+\.$", lines[0])
    assert any(line.startswith("-- Returns: ") for line in lines)


@every_file
def test_a_script_is_short_and_never_walks_the_keyspace(family, name, text):
    assert len(text.splitlines()) < 60
    called = {command.upper() for command in re.findall(r"redis\.p?call\(\s*['\"](\w+)", text)}
    assert not called & {"KEYS", "SCAN", "FLUSHALL", "FLUSHDB", "RANDOMKEY"}


@every_file
def test_every_key_that_a_script_touches_came_in_as_a_key(family, name, text):
    """A cluster finds the slot by KEYS; a key put together inside a script may live elsewhere."""
    for call in re.findall(r"redis\.p?call\((.*)", code_of(text)):
        command, *arguments = call.split(", ")
        if command.startswith(("'TIME'", "'INFO'")):
            continue
        if command == "'PUBLISH'":
            assert re.match(r"'leasehold:' \.\. [\w.]*channel$|'doc_lock:(events|notices)'$", arguments[0]), (
                call
            )
            continue
        assert re.match(rf"({'|'.join(family.keys)})\b", arguments[0]), call


@every_script
def test_a_script_is_given_every_key_that_its_shared_parts_touch(family, name, text):
    """A shared part uses the names of its script; a name that the script does not declare would be nil."""
    touched = {
        key
        for part in (text, *map(family.text_of_part, family.parts_of(name)))
        for key in re.findall(rf"redis\.p?call\('\w+', ({'|'.join(family.keys)})\b", code_of(part))
    }
    assert touched <= set(family.declared[name].keys)


@every_script
def test_shared_parts_stand_below_what_they_use(family, name, text):
    """Lua knows a local function only below its definition; above, the name is a global that is nil."""
    above = set()
    for part in (*map(family.text_of_part, family.parts_of(name)), text[text.find("-- Uses: ") :]):
        own = set(re.findall(r"^local function (\w+)", part, re.MULTILINE))
        called = set(re.findall(r"(?<![\w.:])(\w+)\(", code_of(part))) & FUNCTIONS
        assert called <= above | own
        above |= own


@every_file
def test_large_numbers_are_not_written_as_lua_writes_them(family, name, text):
    """`tostring` and `..` keep 14 digits; a fence has 16."""
    code = code_of(text)
    assert "tostring" not in code
    assert not re.search(r"\.\.\s*count|count\s*\.\.", code)


@every_script
def test_the_sent_script_has_no_comments_and_its_own_hash(family, name, text):
    import hashlib

    script = family.declared[name]
    assert b"--" not in script.source
    assert script.sha == hashlib.sha1(script.source).hexdigest().encode()
