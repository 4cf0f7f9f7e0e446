import numpy as np
import pytest
import torch

from tsadc.nn.operation_counter import OperationCounter


def test_products_are_counted_by_their_shapes():
    a, b = torch.randn(3, 5), torch.randn(5, 7)
    with OperationCounter() as counted:
        a @ b
        torch.baddbmm(torch.zeros(7), a.expand(2, 3, 5), b.expand(2, 5, 7))
    assert counted.products == 2 * 3 * 5 * 7 * (1 + 2)
    assert counted.calls["mm"] == counted.calls["baddbmm"] == 1
    assert counted.flops == counted.products


def test_the_backward_pass_is_counted():
    a, b = torch.randn(3, 5, requires_grad=True), torch.randn(5, 7, requires_grad=True)
    with OperationCounter() as counted:
        (a @ b).sum().backward()
    assert counted.products == 3 * 2 * 3 * 5 * 7


@pytest.mark.parametrize("size", [8, 12])
def test_transforms_are_counted_by_the_usual_formula(size):
    x = torch.randn(3, size)
    with OperationCounter() as counted:
        torch.fft.irfft(torch.fft.rfft(x), size)
    assert counted.transforms == pytest.approx(2 * 3 * 2.5 * size * np.log2(size))
    with OperationCounter() as counted:
        torch.fft.fft(x.to(torch.complex64))
    assert counted.transforms == pytest.approx(3 * 5 * size * np.log2(size))


def test_bytes_are_those_of_new_results_and_views_are_free():
    x = torch.zeros(4, 6)
    with OperationCounter() as counted:
        (x.T[1:] + 1).mul_(2)
    assert dict(counted.written) == {"add": 4 * 5 * 4}
    assert dict(counted.calls) == {"add": 1, "mul_": 1}


def test_nothing_changes():
    x = torch.randn(4, 6)
    with OperationCounter():
        found = torch.softmax(x, -1)
    assert torch.equal(found, torch.softmax(x, -1))
