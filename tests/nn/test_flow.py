import torch

from tsadc.nn.flow import Flow


def test_the_flow_says_by_how_much_it_stretches_space():
    torch.manual_seed(0)
    flow = Flow(3, 4, 8)
    start = torch.randn(5, 3)
    # Four layers turn three features by four places: at first, that is all.
    assert torch.equal(flow(start)[0], start.roll(-4, -1))
    assert torch.equal(flow(start)[1], torch.zeros(5))
    for layer in flow.layers:
        torch.nn.init.normal_(layer[-1].weight)
    for value in start:
        expected = torch.autograd.functional.jacobian(lambda v: flow(v)[0], value).det().abs().log()
        torch.testing.assert_close(flow(value)[1], expected)
