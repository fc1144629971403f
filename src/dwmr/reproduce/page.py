"""Where tables are written: their own files beside the runs, and the page of the documentation that shows them all."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from dwmr.errors import InputError
from dwmr.files import atomic_write_json, atomic_write_text
from dwmr.reproduce.catalog import find_table, table_names
from dwmr.reproduce.cells import Table
from dwmr.reproduce.plots import save_plot
from dwmr.reproduce.render import latex, markdown
from dwmr.reproduce.runs import Results, files_of, read_repaired, read_table

log = logging.getLogger("dwmr")


def write_table(table: Table, out: Path) -> Results:
    """Bring a table's files up to date with the stored runs: JSON, Markdown, LaTeX and a plot."""
    results = read_table(out, table)
    files = files_of(table, results, read_repaired(out, table))
    if not files:
        return results
    plot = out / f"{table.name}.svg"
    try:
        save_plot(table, results, plot)
    except InputError as error:
        log.info("no plot of %s: %s", table.name, error)
    for name, content in files.items():
        atomic_write_json(out / name, content)
    atomic_write_text(out / f"{table.name}.tex", latex(table, results))
    atomic_write_text(out / f"{table.name}.md", f"# {table.title}\n\n{markdown(table, results, plot.name)}")
    return results


def write_page(page: Path, out: Path) -> None:
    """Bring the page up to date: what stands between the marks of each table is replaced."""
    if not page.is_file():
        raise InputError(f"{page} does not exist; name the page to bring up to date")
    atomic_write_text(page, filled_page(page.read_text(encoding="utf-8"), page.parent, out))


def filled_page(text: str, folder: Path, out: Path) -> str:
    """The text of a page that lies in ``folder``, with every table it has marks for made from the runs in ``out``."""
    marked = [name for name in table_names() if _marks(name)[0] in text]
    if not marked:
        raise InputError(f"the page has no marks such as {_marks(table_names()[0])[0]!r}")
    for name in marked:
        begin, end = _marks(name)
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise InputError(f"the page has the mark {begin!r} but no {end!r} after it")
        table = find_table(name)
        plot = Path(os.path.relpath(out / f"{name}.svg", folder)).as_posix()
        text = f"{before}{begin}\n{markdown(table, read_table(out, table), plot)}{end}{after}"
    return text


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}: made by dwmr reproduce results -->", f"<!-- end of {name} -->"
