"""The list of experiments is complete, and its files are small."""

from pathlib import Path

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
README = (EXPERIMENTS / "README.md").read_text(encoding="utf-8")


def test_every_script_is_listed():
    scripts = {path.name for path in EXPERIMENTS.glob("*.py")} - {"__init__.py"}
    assert {name for name in scripts if f"`{name}`" not in README} == set()


def test_every_result_is_listed():
    tables = ("table1", "table2", "table3", "strong")
    results = {path.name for path in (EXPERIMENTS / "results").glob("*.json") if not path.stem.startswith(tables)}
    assert {name for name in results if f"`{name}`" not in README} == set()


def test_no_file_is_larger_than_a_megabyte():
    assert [path for path in EXPERIMENTS.rglob("*") if path.is_file() and path.stat().st_size > 1_000_000] == []
