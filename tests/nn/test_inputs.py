import math

import numpy as np
import pytest
import torch

from tsadc.nn.inputs import MAX_SQUASHED, masked_mean, prepare_input, squash, unsquash
from tsadc.nn.patches import SlidingWindows, cut_patches, join_patches


def test_there_and_back():
    z = torch.tensor([0.0, -2.5, 300.0, 7e4])
    torch.testing.assert_close(unsquash(squash(z)), z)
    assert squash(torch.tensor(1e30)) < 71
    assert unsquash(torch.tensor([1e9, -1e9])).tolist() == pytest.approx(
        [math.sinh(MAX_SQUASHED), -math.sinh(MAX_SQUASHED)]
    )


def test_an_observation_is_seen_squashed_and_as_0_where_nothing_was_measured():
    z = np.array([[1.0, np.nan], [np.inf, -300.0]])
    values, measured, seen = prepare_input(z)
    assert values.dtype == seen.dtype == torch.float32
    assert measured.tolist() == [[True, False], [False, True]]
    np.testing.assert_array_equal(values.numpy(), z)
    torch.testing.assert_close(seen, torch.tensor([[math.asinh(1.0), 0.0], [0.0, math.asinh(-300.0)]]))


def test_a_mean_over_what_was_measured():
    values = torch.tensor([[[1.0, 2.0], [6.0, float("nan")]], [[1.0, 1.0], [1.0, 1.0]]])
    cells = torch.tensor([[[True, False], [True, False]], [[False, False], [False, False]]])
    assert masked_mean(values, cells).tolist() == [3.5, 0.0]


@pytest.mark.parametrize(("length", "size", "stride"), [(10, 4, 4), (10, 4, 1), (8, 4, 4), (5, 9, 3), (7, 3, 2)])
def test_windows_cover_every_step_and_come_back_as_they_were(length, size, stride):
    sliding = SlidingWindows(length, size, stride)
    x = torch.randn(2, 3, length)
    windows = sliding.cut(x)
    size = min(size, length)
    assert windows.shape[:2] == (2, 3)
    assert windows.shape[3] == size
    torch.testing.assert_close(windows[:, :, 0], x[..., :size])
    torch.testing.assert_close(windows[:, :, -1], x[..., -size:])
    assert (sliding.count >= 1).all()
    torch.testing.assert_close(sliding.join(windows), x)


def test_where_windows_overlap_the_mean_counts():
    sliding = SlidingWindows(5, 3, 2)
    windows = torch.tensor([[1.0, 1.0, 1.0], [3.0, 3.0, 3.0]])
    assert sliding.join(windows).tolist() == [1, 1, 2, 3, 3]
    assert not sliding.state_dict()


@pytest.mark.parametrize(
    ("size", "hop"), [(12, 5), (12, None), (16, None), (40, 7), (60, 7), (60, None), (2, 1), (40, None)]
)
def test_pieces_are_put_back_where_they_were(size: int, hop: int | None) -> None:
    x = torch.arange(2 * 3 * 40.0).view(2, 3, 40)
    assert torch.equal(join_patches(cut_patches(x, size, hop), 40, hop), x)
    assert torch.equal(join_patches(cut_patches(x[0] > 7, size, hop), 40, hop), x[0] > 7)


def test_the_last_piece_ends_with_the_observation_and_adds_what_the_one_before_did_not_reach() -> None:
    x = torch.arange(2 * 40.0).view(2, 40)
    assert cut_patches(x, 16)[:, 0, 0].tolist() == [0, 16, 24]
    assert cut_patches(x, 16)[2, 1].tolist() == list(range(64, 80))
    assert cut_patches(x[:, :30], 12, 5)[:, 0, 0].tolist() == [0, 5, 10, 15, 18]
    marked = torch.arange(5.0)[:, None, None].expand(5, 1, 12)
    assert join_patches(marked, 30, 5)[0].tolist() == [0] * 12 + [1] * 5 + [2] * 5 + [3] * 5 + [4] * 3
