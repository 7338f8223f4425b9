# SPDX-License-Identifier: Apache-2.0
"""The learning rates of Transformers' get_scheduler: a line for each schedule, its rates before each of 30 updates."""
import torch
import transformers

CASES = [("linear", {}), ("cosine", {}), ("cosine_with_restarts", {"num_cycles": 3}),
         ("polynomial", {"power": 2.5, "lr_end": 3e-5}), ("cosine_with_min_lr", {"min_lr_rate": 0.25}),
         ("constant_with_warmup", {})]
# The same schedule with several settings: its name here is "warmup_stable_decay:DECAY:STABLE".
CASES += [(f"warmup_stable_decay:{decay}:{stable}",
           {"num_decay_steps": 9, "num_stable_steps": stable or None, "decay_type": decay, "min_lr_ratio": 0.1})
          for decay in ("linear", "cosine", "1-sqrt") for stable in (0, 6, 20)]
for label, more in CASES:
    name = label.split(":")[0]
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=3e-4)
    schedule = transformers.get_scheduler(name, optimizer, 7, 28, scheduler_specific_kwargs=more)
    rates = []
    for _ in range(30):
        rates.append(repr(schedule.get_last_lr()[0]))
        optimizer.step()
        schedule.step()
    print(label, *rates)
