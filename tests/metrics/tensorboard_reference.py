# SPDX-License-Identifier: Apache-2.0
"""FOLDER: prints what TensorBoard reads there, as JSON.

{"scalars": {TAG: [[STEP, VALUE, TIME], ...]}, "texts": {TAG: TEXT}}
"""
import json
import logging
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

logging.disable(logging.CRITICAL)  # what is purged or torn is told there
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
events.Reload()
tags = events.Tags()
json.dump({"scalars": {tag: [[e.step, e.value, e.wall_time] for e in events.Scalars(tag)] for tag in tags["scalars"]},
           "texts": {tag: events.Tensors(tag)[-1].tensor_proto.string_val[0].decode() for tag in tags["tensors"]}},
          sys.stdout)
