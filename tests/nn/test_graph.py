import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tsadc.errors import ConfigError
from tsadc.nn import graph


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def positive(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow_knn(nodes: torch.Tensor, neighbours: int) -> torch.Tensor:
    out = torch.zeros(len(nodes), len(nodes), dtype=nodes.dtype)
    for i in range(len(nodes)):
        others = [(torch.cosine_similarity(nodes[i], nodes[j], dim=0).item(), j) for j in range(len(nodes)) if j != i]
        for similarity, j in sorted(others, reverse=True)[:neighbours]:
            out[i, j] = max(similarity, 0.0)
    return out


@given(node=st.integers(1, 7), neighbours=st.integers(1, 8), seed=st.integers(0, 1000))
def test_knn_keeps_the_most_similar_other_nodes(node, neighbours, seed):
    nodes = normal(2, node, 4, seed=seed)
    adjacency = graph.knn_adjacency(nodes, neighbours)
    for i in range(2):
        torch.testing.assert_close(adjacency[i], slow_knn(nodes[i], neighbours))


def test_knn_of_zero_vectors_has_no_edges_and_finite_gradients():
    nodes = normal(1, 5, 4)
    nodes[:, 2] = 0
    nodes.requires_grad_()
    adjacency = graph.knn_adjacency(nodes)
    assert adjacency.isfinite().all()
    assert not adjacency[:, 2].any()
    assert not adjacency[:, :, 2].any()
    adjacency.square().sum().backward()
    assert nodes.grad.abs().max() < 100


@pytest.mark.parametrize("zeta", [0.0, 0.6])
def test_attention_graph_is_the_papers_mixture(zeta):
    nodes, learner = normal(3, 5, 4), graph.AttentionGraph(4, zeta=zeta, neighbours=2).double()
    adjacency = learner(nodes)
    for b in range(3):
        knn = slow_knn(nodes[b], 2)
        query, key = nodes[b] @ learner.query.weight.T, nodes[b] @ learner.key.weight.T
        for i in range(5):
            scores = [math.exp(torch.dot(query[i], key[j]).item() / math.sqrt(4)) for j in range(5)]
            for j in range(5):
                expected = zeta * knn[i, j].item() + (1 - zeta) * scores[j] / sum(scores)
                assert adjacency[b, i, j].item() == pytest.approx(expected, rel=1e-9)


def test_a_symmetric_attention_graph_is_the_mean_with_its_transpose():
    nodes, learner = normal(2, 5, 4), graph.AttentionGraph(4).double()
    directed = learner(nodes)
    learner.symmetric = True
    torch.testing.assert_close(learner(nodes), (directed + directed.mT) / 2)


def test_attention_graph_learns_both_projections():
    learner = graph.AttentionGraph(4).double()
    learner(normal(2, 5, 4)).square().sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in learner.parameters())


def test_smoothness_is_a_loop_over_edges():
    nodes, adjacency = normal(2, 5, 3), positive(2, 5, 5)
    actual = graph.smoothness(nodes, adjacency)
    for b in range(2):
        e, a = nodes[b], adjacency[b]
        laplacian = torch.diag(a.sum(1)) - a
        assert actual[b].item() == pytest.approx(torch.trace(e.T @ laplacian @ e).item() / 25)
        differences = sum(a[i, j] * (e[i] - e[j]).square().sum() / 2 for i in range(5) for j in range(5))
        skew = sum((a[i].sum() - a[:, i].sum()) * e[i].square().sum() / 2 for i in range(5))
        assert actual[b].item() == pytest.approx((differences + skew).item() / 25)


def test_smoothness_of_a_symmetric_graph_is_the_weighted_squared_differences():
    nodes, adjacency = normal(1, 6, 3), positive(1, 6, 6)
    adjacency = adjacency + adjacency.mT
    e, a = nodes[0], adjacency[0]
    expected = sum(a[i, j] * (e[i] - e[j]).square().sum() / 2 for i in range(6) for j in range(6)) / 36
    assert graph.smoothness(nodes, adjacency).item() == pytest.approx(expected.item())
    assert graph.smoothness(torch.ones_like(nodes), adjacency).item() == pytest.approx(0, abs=1e-12)


def test_smoothness_of_an_asymmetric_graph_can_be_negative():
    nodes = torch.tensor([[[1.0], [2.0]]])
    adjacency = torch.tensor([[[0.0, 1.0], [0.0, 0.0]]])
    assert graph.smoothness(nodes, adjacency).item() == pytest.approx((1 - 2) / 4)


def test_sparsity_and_connectivity_are_loops_over_nodes():
    adjacency = positive(3, 4, 4)
    sparsity, connectivity = graph.sparsity(adjacency), graph.connectivity(adjacency)
    for b in range(3):
        rows = adjacency[b].tolist()
        assert sparsity[b].item() == pytest.approx(sum(a * a for row in rows for a in row) / 16)
        assert connectivity[b].item() == pytest.approx(-sum(math.log(sum(row)) for row in rows) / 4)


def test_connectivity_of_a_lonely_node_is_large_but_finite():
    adjacency = torch.ones(1, 4, 4)
    adjacency[0, 1] = 0
    adjacency.requires_grad_()
    value = graph.connectivity(adjacency)
    value.backward()
    assert value.item() == pytest.approx((-math.log(1e-8) - 3 * math.log(4)) / 4, rel=1e-5)
    assert adjacency.grad.isfinite().all()


def test_regulariser_weighs_each_term_by_its_own_weight():
    nodes, adjacency = normal(2, 5, 3), positive(2, 5, 5)
    terms = graph.smoothness(nodes, adjacency), graph.sparsity(adjacency), graph.connectivity(adjacency)
    for i, name in enumerate(("smooth", "sparse", "connect")):
        only = graph.GraphLossWeights(**({"smooth": 0.0, "sparse": 0.0, "connect": 0.0} | {name: 1.0}))
        torch.testing.assert_close(graph.regulariser(nodes, adjacency, only), terms[i])
    expected = terms[0] + 0.05 * terms[1] + 0.5 * terms[2]
    torch.testing.assert_close(graph.regulariser(nodes, adjacency, graph.GraphLossWeights()), expected)


def slow_gin(gin: graph.GIN, embedding: torch.Tensor, adjacency: torch.Tensor, own: bool) -> torch.Tensor:
    batch, node, _, time = embedding.shape
    for layer, (first, _, _, second) in enumerate(gin.mlps):
        last = layer == len(gin.mlps) - 1
        out = torch.empty_like(embedding)
        for b in range(batch):
            for t in range(time):
                h = embedding[b, :, :, t]
                for i in range(node):
                    if own:
                        gathered = (1 + gin.eps[layer]) * h[i] + sum(adjacency[b, i, j] * h[j] for j in range(node))
                    elif last:
                        gathered = sum(adjacency[b, i, j] * h[j] for j in range(node) if j != i)
                    else:
                        gathered = h[i]
                    inner = (first.weight[..., 0] @ gathered + first.bias).relu()
                    value = second.weight[..., 0] @ inner + second.bias
                    out[b, i, :, t] = value if last else value.relu()
        embedding = out
    return embedding


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_gin_is_a_loop_over_nodes_and_time_steps(own, layers):
    gin = graph.GIN(3, layers=layers, own=own).double()
    if gin.eps is not None:
        torch.nn.init.uniform_(gin.eps, generator=torch.Generator().manual_seed(0))
    embedding, adjacency = normal(2, 4, 3, 5), positive(2, 4, 4)
    torch.testing.assert_close(gin(embedding, adjacency), slow_gin(gin, embedding, adjacency, own))


def test_gin_takes_windows_cut_out_of_a_longer_embedding():
    gin, embedding, adjacency = graph.GIN(3).double(), normal(2, 4, 3, 10), positive(2, 4, 4)
    window = embedding[..., 3:8]
    torch.testing.assert_close(gin(window, adjacency), gin(window.clone(), adjacency))


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_without_its_own_features_a_node_never_reaches_its_own_output(layers):
    torch.manual_seed(0)
    gin = graph.GIN(8, layers=layers, own=False).double()
    embedding, adjacency = normal(1, 4, 8, 5).requires_grad_(), positive(1, 4, 4)
    out = gin(embedding, adjacency)
    for i in range(4):
        (gradient,) = torch.autograd.grad(out[0, i].sum(), embedding, retain_graph=True)
        reached = gradient[0].abs().sum((1, 2)) > 0
        assert reached.tolist() == [j != i for j in range(4)]


def test_gin_gradients_reach_every_parameter_and_are_right():
    gin = graph.GIN(2, layers=2).double()
    for parameter in gin.parameters():  # away from the kinks of ReLU, where differences and derivatives disagree
        torch.nn.init.uniform_(parameter, 0.1, 1, generator=torch.Generator().manual_seed(0))
    embedding, adjacency = positive(1, 3, 2, 2).requires_grad_(), positive(1, 3, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda *_: gin(embedding, adjacency), (embedding, adjacency, *gin.parameters()))


def test_gin_drops_features_in_training_only():
    gin, embedding, adjacency = graph.GIN(8, dropout=0.5).double(), normal(1, 4, 8, 5), positive(1, 4, 4)
    assert not torch.equal(gin(embedding, adjacency), gin(embedding, adjacency))
    gin.eval()
    assert torch.equal(gin(embedding, adjacency), gin(embedding, adjacency))


def test_settings_out_of_range_are_named():
    with pytest.raises(ConfigError, match="zeta"):
        graph.AttentionGraph(4, zeta=1.0)
    with pytest.raises(ConfigError, match="neighbour"):
        graph.AttentionGraph(4, neighbours=0)
    with pytest.raises(ConfigError, match="layer"):
        graph.GIN(4, layers=0)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(("time", "count"), [(6, 3), (7, 3), (5, 5), (4, 1)])
def test_gin_takes_a_graph_for_each_window(own, time, count):
    gin, embedding, graphs = graph.GIN(3, own=own).double(), normal(2, 4, 3, time), positive(2, count, 4, 4)
    windows = embedding.tensor_split(count, dim=-1)
    expected = [slow_gin(gin, window, graphs[:, i], own) for i, window in enumerate(windows)]
    torch.testing.assert_close(gin(embedding, graphs), torch.cat(expected, dim=-1))


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("layers", [1, 2])
def test_reading_is_the_output_read_node_by_node(own, layers):
    gin, embedding, graphs = graph.GIN(3, layers, own=own).double(), normal(2, 4, 3, 7), positive(2, 3, 4, 4)
    weight, bias = normal(4, 3, seed=2), normal(4, seed=3)
    out = gin(embedding, graphs)
    read = gin.read(embedding, graphs, weight, bias)
    for node in range(4):
        expected = (out[:, node] * weight[node][:, None]).sum(1) + bias[node]
        torch.testing.assert_close(read[:, node], expected)


def test_gradients_of_reading_are_those_of_the_output_read():
    gin, graphs = graph.GIN(3).double(), positive(2, 3, 4, 4).requires_grad_()
    tensors = (
        normal(2, 4, 3, 7).requires_grad_(),
        graphs,
        *(normal(*s, seed=5).requires_grad_() for s in ((4, 3), (4,))),
    )
    embedding, _, weight, bias = tensors
    wanted = (*tensors, *gin.parameters())
    slow = (gin(embedding, graphs) * weight[None, :, :, None]).sum(2) + bias[None, :, None]
    fast = gin.read(*tensors)
    for one, other in zip(
        torch.autograd.grad(fast.square().sum(), wanted), torch.autograd.grad(slow.square().sum(), wanted), strict=True
    ):
        torch.testing.assert_close(one, other)


@given(time=st.integers(1, 30), count=st.integers(1, 30))
def test_windows_are_those_of_tensor_split(time, count):
    x = normal(2, time)
    windows = graph.split_windows(x, min(count, time))
    for one, other in zip(windows, x.tensor_split(min(count, time), dim=-1), strict=True):
        assert torch.equal(one, other)
