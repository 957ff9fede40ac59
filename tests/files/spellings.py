"""Trees of files, and paths whose meaning is known because of how they were made: by walking through the tree.

Nothing here knows how paths are resolved. A path is a random walk from directory to directory, through links too, that
ends at a file; what it means is the file at which it ended.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path

# Each group looks alike, and no file system that we know takes any two of different groups for the same.
NAMES = (
    ("a", "A"),
    ("b", "B"),
    ("e", "E"),
    ("é", "É"),  # also with a combining accent
    ("Ǻ", "ǻ"),  # three normal forms
    ("한",),  # Hangul falls apart into jamo
    ("2",),
    ("²",),  # a 2 in NFKC only
    ("a.", "A."),
    ("a..", "A.."),
    ("...",),
    (".a", ".A"),
    (" a", " A"),
    ("a\\b", "A\\B"),
    ("-rf", "-RF"),
)


@dataclass(eq=False)
class Node:
    """A file or a directory; `is_real` if it is there on the disk, and not only thought of."""

    name: str
    parent: Node | None
    is_directory: bool
    is_real: bool
    children: list[Node] = field(default_factory=list)
    links: list[tuple[str, Node]] = field(default_factory=list)

    @property
    def path(self) -> str:
        return "" if self.parent is None else f"{self.parent.path}/{self.name}"

    def __repr__(self) -> str:
        return self.path or "/"

    @property
    def names(self) -> list[str]:
        return [child.name for child in self.children] + [name for name, _ in self.links]


@dataclass
class Tree:
    root: Node
    directories: list[Node]
    files: list[Node]

    def build(self, where: Path) -> None:
        """Make it on the disk, in the existing directory `where`."""
        for directory in self.directories:
            if directory.is_real and directory is not self.root:
                (where / directory.path[1:]).mkdir()
        for file in self.files:
            if file.is_real:
                (where / file.path[1:]).write_text(file.path)
        for number, directory in enumerate(self.directories):
            for name, target in directory.links:
                link = where / directory.path[1:] / name
                if number % 2:
                    link.symlink_to(f"{where}{target.path}")
                else:
                    up = "../" * directory.path.count("/")
                    link.symlink_to(f"{up or './'}.{target.path}")


@st.composite
def trees(draw: st.DrawFn, *, folds_case: bool) -> Tree:
    """A small tree. In one directory no two names are alike: not even in case, if `folds_case`."""

    def free_name(directory: Node) -> str | None:
        taken = {_loose(name, folds_case=folds_case) for name in directory.names}
        free = [
            name
            for group in NAMES
            for name in (group[:1] if folds_case else group)
            if _loose(name, folds_case=folds_case) not in taken
        ]
        return draw(st.sampled_from(free)) if free else None

    root = Node("", None, is_directory=True, is_real=True)
    tree = Tree(root, [root], [])
    for _ in range(draw(st.integers(0, 4))):
        parent = draw(st.sampled_from(tree.directories))
        if name := free_name(parent):
            made = Node(
                name, parent, is_directory=True, is_real=parent.is_real and draw(st.integers(0, 3)) > 0
            )
            parent.children.append(made)
            tree.directories.append(made)
    for _ in range(draw(st.integers(1, 5))):
        parent = draw(st.sampled_from(tree.directories))
        if name := free_name(parent):
            made = Node(name, parent, is_directory=False, is_real=parent.is_real and draw(st.booleans()))
            parent.children.append(made)
            tree.files.append(made)
    for _ in range(draw(st.integers(0, 5))):
        parent = draw(st.sampled_from([each for each in tree.directories if each.is_real]))
        # Also to a missing file, but not to a missing directory: no path can lead through that.
        target = draw(st.sampled_from([*tree.files, *[each for each in tree.directories if each.is_real]]))
        if name := free_name(parent):
            parent.links.append((name, target))
    return tree


@st.composite
def spellings(draw: st.DrawFn, tree: Tree, *, folds_case: bool) -> tuple[str, Node]:
    """A path from the root, and the file that it means."""

    def spell(name: str) -> str:
        ways = [name, *(unicodedata.normalize(form, name) for form in ("NFC", "NFD"))]
        if folds_case:
            ways += [way for each in ways for way in (each.upper(), each.lower(), each.swapcase())]
        return draw(st.sampled_from(ways))

    target = draw(st.sampled_from(tree.files))
    here, path = tree.root, list[str]()
    for _ in range(draw(st.integers(0, 6))):
        step = draw(st.sampled_from(["stay", "stay", "up", "down", "down", "link"]))
        links = [(name, end) for name, end in here.links if end.is_directory]
        inner = [child for child in here.children if child.is_directory]
        if step == "stay":
            path.append(draw(st.sampled_from(["", "."])))
        elif step == "up" and here.parent is not None:
            path.append("..")
            here = here.parent
        elif step == "down" and inner:
            here = draw(st.sampled_from(inner))
            path.append(spell(here.name))
        elif step == "link" and links:
            name, here = draw(st.sampled_from(links))
            path.append(spell(name))
    way = list[Node]()
    above: Node | None = target.parent
    while above is not None:
        way.append(above)
        above = above.parent
    while here not in way:
        path.append("..")
        assert here.parent is not None
        here = here.parent
    path += [spell(each.name) for each in reversed(way[: way.index(here)])]
    assert target.parent is not None
    shortcuts = [name for name, end in target.parent.links if end is target]
    path.append(spell(draw(st.sampled_from([target.name, *shortcuts]))))
    # A path that begins with a slash is an absolute one.
    return "/".join(path if path[0] else [".", *path]), target


def _loose(name: str, *, folds_case: bool) -> str:
    plain = unicodedata.normalize("NFC", name)
    return plain.casefold() if folds_case else plain
