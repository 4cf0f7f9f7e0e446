import numpy as np
import torch

from tsadc.nn.subgraphs import first, subgraphs, walk


def test_a_walk_moves_to_neighbours_and_returns():
    nearest = torch.tensor([[1, 2], [2, 3], [3, 0], [0, 1]])
    # From 0.5 up it moves: to the first neighbour below 0.75, to the second one above; below 0.5 it returns.
    chance = torch.tensor([0.6, 0.9, 0.2, 0.8, 0.7, 0.99])
    found = walk(nearest, chance.expand(4, -1), 0.5)
    assert found[0].tolist() == [1, 3, -1, 2, 3, 1]
    assert found[1].tolist() == [2, 0, -1, 3, 0, 2]
    # Without restarts it never returns by itself: the whole of 0 .. 1 chooses between the neighbours.
    assert walk(nearest, chance.expand(4, -1), 0.0)[0].tolist() == [2, -1, 1, 3, 1, 3]


def test_the_first_that_differ_make_the_subgraph():
    met = torch.tensor([[1, 1, -1, 3, 1, 2, 3], [-1, -1, 4, 4, 4, -1, 4]])
    assert first(met, 3).tolist() == [[1, 3, 2], [4, -1, -1]]
    assert first(met, 2).tolist() == [[1, 3], [4, -1]]


def test_a_subgraph_keeps_the_edges_of_its_members():
    adjacency = torch.tensor([[1.0, 0.5, 0.0], [0.5, 1.0, 0.25], [0.0, 0.25, 1.0]]).view(1, 1, 3, 3)
    inside = torch.tensor([[1, -1, 0], [2, 0, 1], [1, -1, 2]]).view(1, 1, 1, 3, 3)
    found, present = subgraphs(adjacency, inside)
    assert present[0, 0, 0].tolist() == [[True, False, True], [True] * 3, [True, False, True]]
    expected = [[2 / 3, 0, 1 / 3], [0, 0, 0], [1 / 3, 0, 2 / 3]]
    np.testing.assert_allclose(found[0, 0, 0, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(found[0, 0, 0, 1, 2], [1 / 7, 2 / 7, 4 / 7], rtol=1e-6)
