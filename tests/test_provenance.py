"""The digest of the code behind a result."""

import pytest

from dwmr.provenance import code_digest

FILES = {
    "__init__.py": "import dwmr.unused",
    "trainer.py": '"""T."""\nfrom dwmr import losses\n\ndef train(x):\n    "Doc."\n    return losses.loss(x)  # y\n',
    "losses.py": "def loss(x):\n    return x + 1\n",
    "unused.py": "X = 1\n",
}


def digest(folder, **changes):
    package = folder / str(len(list(folder.iterdir()))) / "dwmr"
    package.mkdir(parents=True)
    for name, text in (FILES | {f"{name}.py": text for name, text in changes.items()}).items():
        (package / name).write_text(text)
    return code_digest(("dwmr.trainer",), package)


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"trainer": "from dwmr import losses\ndef train(x):\n    return losses.loss(\n        x\n    )\n"}, True),
        ({"unused": "X = 2\n"}, True),
        ({"losses": "def loss(x):\n    return x + 2\n"}, False),
        ({"trainer": "from dwmr import losses\ndef train(y):\n    return losses.loss(y)\n"}, False),
    ],
    ids=["comments and layout", "not imported", "imported", "itself"],
)
def test_only_the_code_that_is_used_counts(tmp_path, changes, same):
    assert (digest(tmp_path, **changes) == digest(tmp_path)) == same
