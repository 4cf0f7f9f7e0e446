import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from tsadc.detectors.views.fused import Views
from tsadc.nn.blas import without_threads


def products() -> set[int]:
    """Threads of the libraries that numpy multiplies with."""
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


def test_products_run_alone_and_have_their_threads_back_afterwards() -> None:
    with threadpool_limits(2, user_api="blas"):
        assert products() == {2}
        with without_threads():
            assert products() == {1}
            with without_threads():
                assert products() == {1}
            assert products() == {1}
        assert products() == {2}


def test_detectors_fit_score_and_adapt_within(monkeypatch) -> None:
    seen: list[set[int]] = []
    for name in ("_fit", "_adapt", "_score"):
        inner = getattr(Views, name)

        def noting(self, *given, inner=inner):
            seen.append(products())
            return inner(self, *given)

        monkeypatch.setattr(Views, name, noting)
    data = np.random.default_rng(0).normal(size=(10, 16, 3))
    with threadpool_limits(2, user_api="blas"):
        detector = Views(length=16).fit(data)
        detector.decision_function(data[:3])
        detector.adapt(data)
        assert products() == {2}
    assert seen == [{1}] * 4
