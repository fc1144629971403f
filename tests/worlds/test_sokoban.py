from collections import deque

import numpy as np
import pytest

from dwmr.seeding import rng
from dwmr.worlds.sokoban import Sokoban, make_room

UP, RIGHT, LEFT, DOWN = range(4)
LABELS = "#.o$*@+"  # wall, floor, goal, box, box on goal, agent, agent on goal


def room(*rows):
    """A room drawn in characters, with walls added below and to the right of it."""
    rows = [row.ljust(8, "#") for row in rows]
    return bytes(LABELS.index(cell) for cell in "".join(rows).ljust(64, "#"))


def drawn(state):
    """Rows of characters without the walls that `room` adds."""
    rows = ["".join(LABELS[label] for label in row).rstrip("#") + "#" for row in Sokoban().labels(state)]
    return tuple(row for row in rows if set(row) != {"#"})


def after(state, *actions):
    for action in actions:
        state = Sokoban().step(state, action)
    return state


def test_every_label_by_hand():
    state = room("########", "#.o$*@#", "########")
    assert Sokoban().labels(state)[1].tolist() == [0, 1, 2, 3, 4, 5, 0, 0]
    assert drawn(room("####", "#+.#", "#$o#")) == ("#+.#", "#$o#")


def test_the_agent_pushes_a_box_onto_the_goal_and_off_again():
    state = room("#######", "#@$o..#")
    assert drawn(after(state, RIGHT)) == ("#.@*..#",)
    assert Sokoban().solved(after(state, RIGHT))
    assert drawn(after(state, RIGHT, RIGHT)) == ("#..+$.#",)
    assert not Sokoban().solved(after(state, RIGHT, RIGHT))


@pytest.mark.parametrize("row", ["#@$#", "#@$$.#", "#@#", "#@*#"])
def test_walls_and_boxes_in_a_row_do_not_move(row):
    state = room("########", row)
    assert after(state, RIGHT) == state


def test_a_box_is_pushed_in_every_direction_and_never_pulled():
    state = room("#######", "#.....#", "#.@$..#", "#.....#")
    assert drawn(after(state, LEFT)) == ("#.....#", "#@.$..#", "#.....#")
    assert drawn(after(state, DOWN, RIGHT, UP)) == ("#..$..#", "#..@..#", "#.....#")
    assert drawn(after(state, UP, RIGHT, DOWN)) == ("#.....#", "#..@..#", "#..$..#")
    assert drawn(after(state, UP, RIGHT, RIGHT, DOWN, LEFT)) == ("#.....#", "#.$@..#", "#.....#")


@pytest.mark.parametrize("boxes", [1, 2, 3])
def test_rooms_are_closed_and_connected_and_no_box_is_on_a_goal(boxes):
    for seed in range(20):
        state = make_room(seed, boxes)
        assert state == make_room(seed, boxes)
        labels = Sokoban(boxes).labels(state)
        assert [np.isin(labels, kind).sum() for kind in ((2, 6), 3, 4, (5, 6))] == [boxes, boxes, 0, 1]
        border = np.ones((8, 8), bool)
        border[1:-1, 1:-1] = False
        assert (labels[border] == 0).all()
        assert reached(labels) == set(map(tuple, np.argwhere(labels != 0)))
    assert len({make_room(seed, boxes) for seed in range(20)}) == 20


def reached(labels):
    """Cells without walls that are connected to the first of them."""
    first = tuple(np.argwhere(labels != 0)[0])
    seen, waiting = {first}, [first]
    while waiting:
        row, col = waiting.pop()
        around = {(row - 1, col), (row, col + 1), (row, col - 1), (row + 1, col)}
        new = {cell for cell in around if labels[cell] != 0} - seen
        seen |= new
        waiting += new
    return seen


def test_tasks_end_in_the_nearest_solved_room():
    world = Sokoban()
    for number in (2000, 2001, 2002):
        task = world.task(number)
        assert world.solved(task.goal)
        seen, waiting = {task.start: 0}, deque([task.start])
        while not world.solved(waiting[0]):
            state = waiting.popleft()
            for action in range(4):
                if (next_state := world.step(state, action)) not in seen:
                    seen[next_state] = seen[state] + 1
                    waiting.append(next_state)
        assert seen[waiting[0]] == task.optimal == seen[task.goal]


def test_goals_show_under_boxes_and_the_agent():
    tiles = Sokoban.pictures
    assert tiles.shape == (7, 3, 8, 8)
    assert len({tile.tobytes() for tile in tiles}) == 7
    state = room("########", "#.o$*@#")
    image = Sokoban().render(state, rng(0, "test"))
    for col, label in enumerate(Sokoban().labels(state)[1]):
        assert np.array_equal(image[:, 8:16, 8 * col : 8 * col + 8], tiles[label])


def test_the_number_of_boxes_is_checked():
    with pytest.raises(ValueError, match="boxes must lie between 1 and 4, got 5"):
        Sokoban(5)
