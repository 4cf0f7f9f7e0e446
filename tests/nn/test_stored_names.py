from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import nn

from tsadc.nn.stored_names import StoredNames


class Renamed(StoredNames):
    stored_names: ClassVar[Mapping[str, str]] = {"encoder": "old_encoder", "weight": "old_weight"}

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(2, 3), nn.Linear(3, 2, bias=False)


def test_weights_are_saved_and_loaded_under_their_stored_names() -> None:
    first, second = Renamed(), Renamed()
    state = first.state_dict()
    assert set(state) == {"old_encoder.old_weight", "old_encoder.bias", "decoder.old_weight"}
    assert torch.equal(state["old_encoder.old_weight"], first.encoder.weight)
    second.load_state_dict(state)
    for name, parameter in first.named_parameters():
        assert torch.equal(parameter, second.get_parameter(name)), name
