"""The learning rates of Transformers' get_scheduler: a line for each schedule, its rates before each of 30 updates."""
import torch
import transformers

CASES = [("linear", {}), ("cosine", {}), ("cosine_with_restarts", {"num_cycles": 3}),
         ("polynomial", {"power": 2.5, "lr_end": 3e-5}), ("cosine_with_min_lr", {"min_lr_rate": 0.25}),
         ("constant_with_warmup", {})]
for name, more in CASES:
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=3e-4)
    schedule = transformers.get_scheduler(name, optimizer, 7, 28, scheduler_specific_kwargs=more)
    rates = []
    for _ in range(30):
        rates.append(repr(schedule.get_last_lr()[0]))
        optimizer.step()
        schedule.step()
    print(name, *rates)
