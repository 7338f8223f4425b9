# SPDX-License-Identifier: Apache-2.0
"""Prints the orders of torch.distributed.pipelining: a line for each rank, actions such as 0F1, without idle slots.

pipeline_oracle.py SCHEDULE:RANKS:STAGES_PER_RANK:MICRO_BATCHES ...

The classes compute an order from a few numbers. Stages with modules and process groups are replaced.
"""
import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

from torch.distributed.pipelining import schedules


def single_stage_order(schedule_class, ranks, micro_batches):
    """What the schedule calls on its stage. Its own table, _get_pipeline_order(), is wrong for the last rank."""
    for rank in range(ranks):
        actions = []
        stage = MagicMock(stage_index=rank)
        stage.forward_one_chunk.side_effect = lambda i, *args, **kwargs: actions.append(f"{rank}F{i}")
        stage.backward_one_chunk.side_effect = lambda i, **kwargs: actions.append(f"{rank}B{i}")
        for get_transfers in ("get_fwd_recv_ops", "get_fwd_send_ops", "get_bwd_recv_ops", "get_bwd_send_ops"):
            getattr(stage, get_transfers).return_value = []
        inputs = [()] * micro_batches
        schedule = MagicMock(_stage=stage, _num_stages=ranks, _n_microbatches=micro_batches)
        schedule._check_inputs.return_value = inputs, inputs
        schedule_class._step_microbatches(schedule)
        yield actions


def several_stages_order(schedule_class, ranks, stages_per_rank, micro_batches):
    schedules.PipelineScheduleMulti.__init__ = lambda self, *args, **kwargs: None
    schedules._check_torch_compile_compatibility = lambda *args: None
    schedule_class._prepare_schedule_with_comms = lambda self, actions: None
    schedule = object.__new__(schedule_class)
    schedule._n_microbatches = micro_batches
    schedule.__init__([SimpleNamespace(group_size=ranks, group_rank=0)] * stages_per_rank, micro_batches)
    for rank in range(ranks):
        yield [str(action) for action in schedule.pipeline_order[rank] if action is not None]


for argument in sys.argv[1:]:
    name, *numbers = argument.split(":")
    ranks, stages_per_rank, micro_batches = map(int, numbers)
    schedule_class = schedules.get_schedule_class(name)
    if issubclass(schedule_class, schedules.PipelineScheduleSingle):
        order = single_stage_order(schedule_class, ranks, micro_batches)
    else:
        order = several_stages_order(schedule_class, ranks, stages_per_rank, micro_batches)
    for actions in order:
        print(" ".join(actions))
