# SPDX-License-Identifier: Apache-2.0
"""The names that torch gives to the state of torch.optim.Muon for one matrix, "0.weight", one a line.

usage: muon_state_names.py
"""

import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

model = torch.nn.Sequential(torch.nn.Linear(3, 2, bias=False))
muon = torch.optim.Muon(model.parameters())
model(torch.ones(1, 3)).sum().backward()
muon.step()
state = get_optimizer_state_dict(model, muon, options=StateDictOptions(flatten_optimizer_state_dict=True))
for name in sorted(state):
    if name.startswith("state."):
        print("optimizer." + name)
