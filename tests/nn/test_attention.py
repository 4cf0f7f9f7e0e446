import math

import torch

from tsadc.nn.attention import Attention, Block, waves


def test_attention_is_a_weighted_mean_head_by_head_and_then_dense_layers():
    torch.manual_seed(0)
    layer = Attention(4, 2)
    x = torch.randn(3, 5, 4)
    with torch.no_grad():
        found = layer(x)
        for sequence in range(3):
            query, key, value = layer.ask(layer.before(x[sequence])).chunk(3, -1)
            heads = []
            for part in (slice(0, 2), slice(2, 4)):
                weights = torch.softmax(query[:, part] @ key[:, part].T / math.sqrt(2), dim=-1)
                heads.append(weights @ value[:, part])
            hidden = x[sequence] + layer.answer(torch.cat(heads, -1))
            expected = hidden + layer.dense(layer.between(hidden))
            torch.testing.assert_close(found[sequence], expected, rtol=1e-4, atol=1e-5)


def test_a_block_attends_along_time_then_across_variables_and_splits():
    torch.manual_seed(0)
    block = Block(4, 2)
    x, step, side = torch.randn(2, 3, 5, 4), torch.randn(2, 8), torch.randn(3, 5, 4)
    with torch.no_grad():
        out, skip = block(x, step, side)
        hidden = x + block.at_step(step)[:, None, None]
        for one in range(2):
            along = torch.stack([block.along_time(hidden[one, k : k + 1])[0] for k in range(3)])
            across = torch.stack([block.along_variables(along[:, t][None])[0] for t in range(5)], dim=1)
            filtered, gate = (block.widen(across) + block.know(side)).chunk(2, -1)
            residual, told = block.narrow(torch.tanh(filtered) * torch.sigmoid(gate)).chunk(2, -1)
            torch.testing.assert_close(out[one], (x[one] + residual) / math.sqrt(2.0), rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(skip[one], told, rtol=1e-4, atol=1e-5)


def test_a_place_is_told_by_sines_and_cosines_from_fast_to_slow():
    found = waves(torch.tensor([0, 3]), 4)
    assert found[0].tolist() == [0.0, 0.0, 1.0, 1.0]
    expected = [math.sin(3.0), math.sin(3e-4), math.cos(3.0), math.cos(3e-4)]
    torch.testing.assert_close(found[1], torch.tensor(expected))
