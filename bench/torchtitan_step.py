# SPDX-License-Identifier: Apache-2.0
"""Times torchtitan's Llama 3 on random tokens: the same shape and the same work as `hearth bench step`.

One measurement of bench/step.py, which calls it. The model, the compilation of each block and the order of attention's
kernels are torchtitan's own. So is autocast, which its trainer takes on one device. The loss goes in chunks, as later
releases have it. The trainer's data loader, tokenizer and process groups are left out. Prints one JSON object.

    python -m pip install --no-deps --target .deps/torchtitan torchtitan==0.2.2

and --torchtitan names that folder. Without it, an installed torchtitan is taken.
"""

import importlib.metadata
import importlib.util
import os
import sys
import types

import torch

import training_loop
from attention_check import AttentionCheck, refuse

VERSION = "0.2.2"  # its modules are known here by name
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(ROOT, ".deps", "torchtitan")
INSTALL = f"python -m pip install --no-deps --target .deps/torchtitan torchtitan=={VERSION}"

EMPTY = (("config.manager", "ConfigManager"), ("components.dataloader", "BaseDataLoader"),
         ("components.validate", "BaseValidator"))


def found_in(folder):
    """The folder with the package, and its version; nothing where there is none."""
    if os.path.isdir(os.path.join(folder, "torchtitan")):
        versions = [d.version for d in importlib.metadata.distributions(path=[folder]) if d.name == "torchtitan"]
        return folder, (versions or ["unknown"])[0]
    installed = importlib.util.find_spec("torchtitan")  # imports nothing
    if installed and installed.submodule_search_locations:
        return os.path.dirname(installed.submodule_search_locations[0]), importlib.metadata.version("torchtitan")
    return None, None


def import_torchtitan(folder):
    """The classes of the model and of its settings, and the function that compiles it.

    Opening torchtitan's packages imports its command line and its data loader, and with them packages that no step
    needs. So modules of EMPTY stand in their places, and the packages on the way are opened without __init__.py.
    """
    sys.path.insert(0, folder)
    for name in ("torchtitan", "torchtitan.components", "torchtitan.protocols", "torchtitan.models.llama3"):
        package = types.ModuleType(name)
        package.__path__ = [os.path.join(folder, *name.split("."))]
        sys.modules[name] = package
    for name, class_name in EMPTY:
        module = types.ModuleType(f"torchtitan.{name}")
        setattr(module, class_name, object)
        sys.modules[module.__name__] = module
    from torchtitan.models.llama3.infra.parallelize import apply_compile
    from torchtitan.models.llama3.model.args import TransformerModelArgs
    from torchtitan.models.llama3.model.model import Transformer

    return Transformer, TransformerModelArgs, apply_compile


def made_model(classes, options):
    transformer, arguments, _ = classes
    torch.manual_seed(0)
    torch.set_flush_denormal(True)
    # Its width is int(multiplier * int(8 * dim / 3)), rounded up to multiple_of.
    multiplier = (options.hidden_dim + 0.5) / int(8 * options.dim / 3)
    settings = arguments(dim=options.dim, n_layers=options.n_layers, n_heads=options.n_heads,
                         n_kv_heads=options.n_kv_heads, vocab_size=options.vocab_size, max_seq_len=options.seq_len,
                         multiple_of=1, ffn_dim_multiplier=multiplier)
    with torch.device("meta"):
        model = transformer(settings)
    model.to_empty(device=options.device)
    with torch.no_grad():
        model.init_weights(buffer_device=torch.device(options.device))
    width = model.layers["0"].feed_forward.w1.out_features
    if width != options.hidden_dim:
        refuse(f"--hidden-dim {options.hidden_dim}: torchtitan makes {width} of it", "its width is a rounded product",
               "give another width")
    return model.train()


def trainee_of(classes, options):
    model, check = made_model(classes, options), AttentionCheck(options.n_kv_heads)
    tokens, labels = training_loop.random_tokens(options)
    parameters, head = list(model.parameters()), model.output
    classes[2](model, types.SimpleNamespace(backend=check.backend))
    model.output = None  # then the model returns the output of its last norm
    loss = training_loop.ChunkedLoss(head, options, check.backend)

    def whole_loss():
        logits = head(model(tokens)).float()
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(),
                                                 ignore_index=training_loop.IGNORED)

    program = f"torchtitan {VERSION}, compiled by block"
    return training_loop.Trainee(program, parameters, lambda: loss.backward(model, tokens, labels), whole_loss, check)


def main():
    parser = training_loop.parser(__doc__)
    parser.add_argument("--torchtitan", metavar="DIR", default=FOLDER)
    options = parser.parse_args()
    folder, version = found_in(options.torchtitan)
    if folder is None:
        refuse("torchtitan is not here", f"neither {options.torchtitan} nor this Python has it", INSTALL)
    if version != VERSION:
        refuse(f"torchtitan {version} in {folder}", f"its modules are known here as {VERSION} has them", INSTALL)
    training_loop.check_sizes(options)
    training_loop.run(trainee_of(import_torchtitan(folder), options), options)


if __name__ == "__main__":
    main()
