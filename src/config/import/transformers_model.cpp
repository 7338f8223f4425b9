// The model of a run of Transformers: a name of the Hub, or a type.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "config/families.h"
#include "config/import/dialects.h"
#include "config/import/transformers_schedule.h"

namespace hearth::config {

std::string lower_plain(std::string_view text) {
  std::string plain;
  for (char c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c != '-' && c != '_') plain += c;
  }
  return plain;
}

namespace {

// The flavor that a name of the Hub means: "meta-llama/Meta-Llama-3.1-8B-Instruct" is llama3.1's 8B.
const Flavor* flavor_of_hub(std::string_view name) {
  const std::string plain = lower_plain(base_name(name));
  const Flavor* found = nullptr;
  size_t longest = 0;
  for (const Flavor& flavor : flavors()) {
    const std::string begin = lower_plain(flavor.model_name), size = lower_plain(flavor.name);
    // The shapes of torchtitan's own sizes are not those on the Hub.
    if (flavor.model_name == "llemma" || (flavor.model_name == "llama3" && size != "8b" && size != "70b")) continue;
    if (flavor.model_name == "llama2" && size != "7b" && size != "13b" && size != "70b") continue;
    const size_t at = plain.find(begin + size);
    if (at == std::string::npos || (at > 0 && plain.substr(0, at) != "meta") || begin.size() <= longest) continue;
    found = &flavor;
    longest = begin.size();
  }
  return found;
}

// The family of a model whose sizes the files leave to its class: model.name has the family's options.
void import_model_type(Draft& draft) {
  const auto type = draft.text("model_type");
  if (!type) return;
  const ForeignKey& from = *draft.find("model_type");
  std::vector<std::string> known;
  for (const Family& family : families()) {
    known.push_back(family.hugging_face.model_type);
    if (known.back() != *type) continue;
    Model model;
    apply(family, model);
    if (!model.name.empty()) draft.set("model.name", model.name, &from, "the options of the family, not its sizes");
    return;
  }
  draft.refuse(from, fmt::format("the families are {}", join(known)));
}

}  // namespace

void import_hf_model(Draft& draft, const HfProgram& program) {
  const ForeignKey* from = draft.find("model_name_or_path");
  const bool pretrained =
      from != nullptr && (!program.frontier || draft.flag("use_pretrained_weights").value_or(false));
  if (from == nullptr) from = draft.find("config_name");
  const auto name = from == nullptr ? std::nullopt : draft.text(from->name);
  if (!name) {
    import_model_type(draft);
    draft.note("The files do not name a model. `hearth inspect --model hf:NAME` prints the section [model] of one.");
    return;
  }
  const Flavor* flavor = flavor_of_hub(*name);
  if (flavor == nullptr) {
    draft.refuse(*from, "its shape is not known here",
                 fmt::format("`hearth inspect --model {}{}` prints the section [model], checkpoint.initial_load_path "
                             "takes the weights",
                             path_exists(*name) ? "" : "hf:", *name));
    return;
  }
  draft.set("model.name", flavor->model_name, from);
  draft.set("model.flavor", flavor->name, from);
  if (pretrained) {
    draft.set("model.rope_pairs", std::string("halves"), nullptr, "as Hugging Face's weights have it");
    const bool hub = std::count(name->begin(), name->end(), '/') == 1 && name->front() != '/' && name->front() != '.';
    const std::string path = hub ? "hf:" + *name : "checkpoints/" + foreign_name(*name);
    draft.set("checkpoint.initial_load_path", path, from,
              hub ? fmt::format("hearth fetch {}", *name) : "the folder of the model");
  } else if (program.frontier) {
    draft.note(
        "Without --use_pretrained_weights the first weights are random. Transformers' own scripts begin with "
        "those of model_name_or_path: checkpoint.initial_load_path does that.");
  }
}

}  // namespace hearth::config
