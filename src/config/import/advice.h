// Advice about keys of run files that Hearth does not have: those of torchtitan, and names that other programs have for
// keys of Hearth.
#pragma once

#include <span>
#include <string_view>

namespace hearth::config {

// Advice about `section`.`key` of torchtitan, which Hearth does not have: "remove it: why", "write ...". An empty key
// means the whole section. The result is empty if torchtitan has no such key either.
std::string_view torchtitan_advice(std::string_view section, std::string_view key);

// Advice about a value of "model.norm_type" or "model.name" that torchtitan has and Hearth does not.
std::string_view torchtitan_value_advice(std::string_view name, std::string_view value);

struct FamiliarName {
  std::string_view key;   // "learning_rate", without a section
  std::string_view ours;  // "optimizer.lr"
};

std::span<const FamiliarName> familiar_names();

// Our key; empty if the name is not in the table.
std::string_view our_name_of(std::string_view key);

}  // namespace hearth::config
