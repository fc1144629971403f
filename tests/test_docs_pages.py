"""Pages of the documentation are short-winded, their links lead somewhere, their commands and options exist."""

import functools
import importlib
import re
from pathlib import Path

import pytest
from typer.main import get_command

import dwmr
from dwmr.cli import app
from dwmr.config import Config, option_names, parse_option
from dwmr.presets import PRESETS
from dwmr.worlds.registry import ENVIRONMENTS, WORLDS
from tests.documents import PAGES, ROOT, commands, read

COMMANDS = get_command(app).commands  # type: ignore[attr-defined]
PACKAGES = {folder.name for folder in (ROOT / "src" / "dwmr").iterdir() if folder.is_dir()}
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


def prose(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def slug(heading: str) -> str:
    words = re.sub(r"[`*]|\]\(.*?\)", "", heading.lower())
    return re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)}


@pytest.mark.parametrize("name", NAMES)
def test_links_and_pictures_exist(name):
    page = ROOT / name
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text(encoding="utf-8"))):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), target
        if anchor:
            assert anchor in anchors(found), target


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("CHANGELOG.md", "experiments/README.md")])
def test_paragraphs_are_short_and_tables_narrow(name):
    for paragraph in re.split(r"\n\s*\n|\n(?=[-|#>] |\d\. )", prose(read(name))):
        if paragraph.startswith("|"):
            columns = max(len(re.split(r"(?<!\\)\|", line)) - 2 for line in paragraph.splitlines())
            assert columns < 8, paragraph
        else:
            assert len(paragraph.split()) < 90, paragraph


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r"[\w/-]+\.md", read("mkdocs.yml")))
    assert listed == {str(page.relative_to(ROOT / "docs")) for page in PAGES if (ROOT / "docs") in page.parents}


def test_every_world_is_on_its_page():
    rows = [[cell.strip() for cell in line.split("|")] for line in read("docs/reference/worlds.md").splitlines()]
    listed = {row[1].strip("`"): row[2:-1] for row in rows if row[1:2] and row[1].startswith("`")}
    assert set(listed) == {name for name in WORLDS if not name.endswith("-noisy")}
    for name, (environment, images, actions, *_, sizes) in listed.items():
        world = WORLDS[name]
        assert ENVIRONMENTS[environment.strip("`").removeprefix("dwmr/")] is type(world)
        assert images == "×".join(map(str, world.image_shape))
        assert actions == str(len(world.action_names))
        assert sizes == " / ".join(f"{world.sizes[split]:,}" for split in ("train", "val", "test"))


@pytest.mark.parametrize(("page", "command"), sorted(set(commands())))
def test_commands_exist(page, command):
    _, name, *words = command.split()
    known = {option for parameter in COMMANDS[name].params for option in [*parameter.opts, *parameter.secondary_opts]}
    given = [word.partition("=")[0] for word in words if word.startswith("--")]
    assert set(given) <= known | {"--help"}
    for position, word in enumerate(words):
        if word == "--set":
            parse_option(words[position + 1].strip("…"))
    if name in ("train", "tune") and words[0] != "PRESET":
        assert words[0] in PRESETS


def test_every_command_is_in_the_reference():
    page = read("docs/reference/cli.md")
    for name in COMMANDS:
        assert f"`dwmr {name}" in page


def test_every_option_is_in_the_reference():
    page = read("docs/reference/presets-and-options.md")
    named = {name for cell in re.findall(r"`([^`]+)`", page) for name in re.findall(r"\w+", cell)}
    factors = {f"{name}_factor" for name in option_names()}
    assert set(option_names()) - factors - {"benchmark", "model"} <= named


def test_the_defaults_in_the_reference():
    page = read("docs/reference/presets-and-options.md").partition("## Structure")[2].partition("## Beyond")[0]
    rows = re.findall(r"^\| ([`\w, ;]+) \| ([`\w., -]+) \| [^|]+ \|$", page, re.MULTILINE)
    assert len(rows) > 15
    for options, defaults in rows:
        if options != "option":
            for name, value in zip(re.findall(r"\w+", options), defaults.replace("`", "").split(", "), strict=True):
                assert parse_option(f"{name}={value}")[1] == Config().flat()[name], name


def test_scripts_exist():
    for name in NAMES:
        for script, module in re.findall(r"python (?:((?:experiments|benchmarks)/\w+\.py)|-m ([\w.]+))", read(name)):
            file = ROOT / (script or f"{module.replace('.', '/')}.py")
            assert file.is_file(), f"{name}: {file}"


def test_the_names_in_the_python_reference_exist():
    page = read("docs/reference/python.md")
    for path in re.findall(r"`dwmr\.((?!envs)[\w.]+)", page):
        found = functools.reduce(getattr, path.split("."), dwmr)
        assert found is not None
    for module, names in (("planning", "`dwmr.planning` has"), ("symbolic", "`dwmr.symbolic` has")):
        listed = page.partition(names)[2].partition("(")[0]
        for name in re.findall(r"`(\w+)`", listed):
            assert hasattr(importlib.import_module(f"dwmr.{module}"), name), name


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("CHANGELOG.md", "docs/log.md")])
def test_files_of_the_repository_exist(name):
    for path in re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", read(name)):
        if path.split("/")[0] in ("src", "experiments", "benchmarks", "tests", *PACKAGES):
            assert (ROOT / path).exists() or (ROOT / "src" / "dwmr" / path).exists(), path
