import numpy as np
import pandas as pd
import pytest

from tsadc.detectors import find
from tsadc.detectors.refit import Refit, refit
from tsadc.io.memory import as_series
from tsadc.show.refit_page import render


def noise(seed: int) -> pd.DataFrame:
    values = np.random.default_rng(seed).standard_normal((3000, 2))
    return pd.DataFrame(values, columns=["a", "b"], index=pd.date_range("2026-01-01", periods=3000, freq="1min"))


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
@pytest.mark.parametrize(("objections", "kind"), [([], "verdict calm"), (["it flags more"], "verdict")])
def test_the_verdict_is_calm_if_the_new_model_may_replace_the_old_one(monkeypatch, objections, kind):
    detector = find("robust-z")(length=50).fit({"pump": noise(0)})
    done = refit(detector, as_series({"pump": noise(1)}))
    monkeypatch.setattr(Refit, "objections", lambda self: objections)
    text = render(done, title="Refit", verdict="Said.", about={})
    assert f'<p class="{kind}"><strong>Said.</strong></p>' in text
    assert text.count('class="axis"') == 1  # below the strip of the new model
