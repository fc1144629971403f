"""Imports point left along the pipeline only, without cycles, and a module's name says which one it is."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import dwmr

PACKAGE = Path(dwmr.__file__).parent
# What a module may import stands before it; a name stands for the package or the module with everything in it.
ORDER = [
    {"errors", "version"},
    {"config", "files", "progress", "seeding", "provenance"},
    {"presets"},
    {"worlds"},
    {"envs"},
    {"data"},
    {"ops", "plotting"},
    {"models"},
    {"training"},
    {"evaluation"},
    {"planning", "symbolic"},
    {"report", "tuning"},
    {"__init__"},
    {"cli"},
    {"__main__"},
]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}


@cache
def modules() -> dict[str, Path]:
    files = {path.relative_to(PACKAGE).with_suffix(""): path for path in PACKAGE.rglob("*.py")}
    return {".".join(("dwmr", *name.parts)).removesuffix(".__init__"): path for name, path in files.items()}


@cache
def imports(module: str) -> frozenset[str]:
    """The modules of the package that a module imports, inside functions too, but not for type checking alone."""
    found = set()
    tree = ast.parse(modules()[module].read_text(encoding="utf-8"))
    tree.body = [
        node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{module} has a relative import"
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & modules().keys()) or {node.module}
    return frozenset(found & modules().keys() - {module})


def part_of(module: str) -> str:
    return [*module.split("."), "__init__"][1]


def test_every_module_has_its_place():
    assert {part_of(module) for module in modules()} <= RANK.keys()


def test_no_import_points_against_the_pipeline():
    wrong = [
        f"{module} imports {other}"
        for module in modules()
        for other in imports(module)
        if part_of(other) != part_of(module) and RANK[part_of(other)] >= RANK[part_of(module)]
    ]
    assert not wrong


def test_there_is_no_import_cycle():
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " → ".join((*path[path.index(module) :], module))
        if module not in done:
            for other in imports(module):
                visit(other, (*path, module))
            done.add(module)

    for module in modules():
        visit(module, ())


def test_no_two_modules_have_the_same_name():
    names = Counter(path.stem for path in modules().values() if path.stem != "__init__")
    assert [name for name, count in names.items() if count > 1] == []
