"""Symbols of cells, and what can be said of a cell, on boards drawn by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dwmr
from dwmr.models.world_model import build_model
from dwmr.seeding import below, rng
from dwmr.symbolic.cells import DIRECTIONS, Atom, Layout, Symbols, all_atoms, evaluate, layout_of

LAYOUT = Layout(2, 3, 4)
SYMBOLS = Symbols(LAYOUT, (0b00, 0b01, 0b10))
EDGE = SYMBOLS.edge
BOARD = np.array([[[0, 1, 0, 2], [0, 0, 0, 0], [2, 0, 1, 0]]], np.int8)


def true_of(atom: Atom) -> list[tuple[int, int]]:
    found = evaluate([atom], BOARD, SYMBOLS)[0, :, :, 0]
    return [tuple(map(int, place)) for place in np.argwhere(found)]


@given(st.integers(0, 2**32 - 1))
def test_codes_and_patterns_are_the_same_thing(seed):
    codes = below(rng(seed, "codes"), 2, (3, 24)).astype(bool)
    assert np.array_equal(LAYOUT.codes(LAYOUT.patterns(codes)), codes)


def test_symbols_are_the_common_patterns_and_others_keep_their_bits():
    patterns = np.zeros((200, 3, 4), int)
    patterns[:, 0, 0] = 2
    patterns[0, 1, 1] = 3
    codes = LAYOUT.codes(patterns)
    symbols = Symbols.found_in(codes, LAYOUT)
    assert symbols.patterns == (0, 2)
    read = symbols.read(codes[:1])
    assert read[0].tolist() == [[1, 0, 0, 0], [0, symbols.other, 0, 0], [0, 0, 0, 0]]
    assert np.array_equal(symbols.write(read, codes[:1]), codes[:1])


def test_too_many_patterns_are_no_symbols():
    layout = Layout(5, 4, 8)
    codes = layout.codes(np.arange(32).reshape(1, 4, 8))
    assert Symbols.found_in(codes, layout) is None


def test_at_looks_a_number_of_cells_away():
    assert true_of(Atom("at", (1,), "right", 1)) == [(0, 0), (2, 1)]
    assert true_of(Atom("at", (1, EDGE), "down", 2)) == [(0, 2), *((row, col) for row in (1, 2) for col in range(4))]


def test_nearest_looks_until_something_stops_it():
    assert true_of(Atom("nearest", (1,), "right", among=(1, 2))) == [(0, 0), (2, 0), (2, 1)]
    assert true_of(Atom("nearest", (2,), "right", among=(1, 2))) == [(0, 1), (0, 2)]
    assert true_of(Atom("nearest", (EDGE,), "up", among=(1,))) == [
        (row, col) for row in range(3) for col in range(4) if not (row and col == 1)
    ]


def test_anywhere_is_said_of_the_whole_board():
    assert len(true_of(Atom("anywhere", (2,)))) == 12
    empty = evaluate([Atom("anywhere", (2,))], np.zeros((1, 3, 4), np.int8), SYMBOLS)
    assert not empty.any()


@given(st.integers(0, 2**32 - 1))
def test_every_atom_agrees_with_walking_cell_by_cell(seed):
    board = below(rng(seed, "board"), 4, (1, 3, 4)).astype(np.int8)
    atoms = all_atoms(SYMBOLS)
    found = evaluate(atoms, board, SYMBOLS)
    for index, atom in enumerate(atoms):
        for row, col in np.ndindex(3, 4):
            assert found[0, row, col, index] == walked(atom, board[0], row, col)


def walked(atom: Atom, board: np.ndarray, row: int, col: int) -> bool:
    if atom.kind == "anywhere":
        return any(int(cell) in atom.shows for cell in board.ravel())
    down, right = DIRECTIONS[atom.direction]
    for step in range(1, 9):
        y, x = row + step * down, col + step * right
        inside = 0 <= y < 3 and 0 <= x < 4
        seen = int(board[y, x]) if inside else EDGE
        if step == atom.distance or (not atom.distance and (seen in atom.among or not inside)):
            return seen in atom.shows
    raise AssertionError("walked too far")


@pytest.mark.parametrize(
    ("atom", "sign", "text"),
    [
        (Atom("at", (1, EDGE), "up", 1), True, "the cell above is 01 or outside the board"),
        (Atom("at", (1,), "left", 3), False, "the cell 3 steps to the left is not 01"),
        (Atom("nearest", (2,), "down", among=(1, 2)), True, "the nearest cell below with 01 or 10 has 10"),
        (
            Atom("nearest", (2,), "up", among=(1, 2)),
            False,
            "the nearest cell above with 01 or 10 is missing or does not have 10",
        ),
        (Atom("nearest", (1,), "right", among=(1, 2)), True, "the nearest cell to the right with 01 or 10 has 01"),
        (Atom("nearest", (EDGE,), "down", among=(1, 2)), True, "no cell below is 01 or 10"),
        (Atom("nearest", (1,), "down", among=(1,)), False, "no cell below is 01"),
        (Atom("anywhere", (2,)), False, "no cell is 10"),
    ],
)
def test_atoms_read_as_english(atom, sign, text):
    assert atom.text(SYMBOLS, sign) == text


def test_encoders_of_cells_have_a_layout():
    assert layout_of(build_model(dwmr.preset("iceslider/dwmr"), (3, 64, 64), 4, decoder=False)) == Layout(3, 8, 8)
    tiles = dwmr.preset("8puzzle/dwmr", encoder="tiles", bits=63)
    assert layout_of(build_model(tiles, (1, 88, 88), 4, decoder=False)) == Layout(7, 3, 3)
    assert layout_of(build_model(dwmr.preset("8puzzle/dwmr"), (1, 88, 88), 4, decoder=False)) is None
