// SPDX-License-Identifier: Apache-2.0
// Weights of experts that are one tensor in Hugging Face's files (gpt-oss; src/models/gpt_oss/names.toml): [experts,
// inputs, outputs] of matrices, transposed against Hearth's, and [experts, outputs] of biases. Outputs of gate and up
// alternate: gate, up, gate, up. Released files have matrices of four bits (formats/mxfp4.h), which are not
// transposed: NAME_blocks [experts, outputs, inputs / 32, 16] and NAME_scales [experts, outputs, inputs / 32].
//
// A square matrix has the same shape either way. So the name alone says how a tensor lies, never its shape.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/load.h"
#include "convert/description.h"
#include "convert/names.h"
#include "convert/transfer.h"

namespace hearth::convert {

// Takes these tensors out of `tensors`. Returns every expert's weights under Hearth's names, as views of the file.
// Throws user_error for a tensor of another shape or type, or for blocks without scales.
std::vector<checkpoint::OutsideTensor> split_stacked(const Path& folder, const Description& description,
                                                     std::vector<checkpoint::OutsideTensor>& tensors,
                                                     Renaming& renaming, std::vector<std::string>& notes);

// The shape of such a tensor of one expert, of which `weight` is a part: the first dimension is 1.
std::vector<int64_t> stacked_shape(const std::vector<int64_t>& weight, int64_t count);
// Writes such a tensor, a few experts at a time: `parts` are the weights of all experts, gate and up in alternation.
void write_stacked(checkpoint::Reader& reader, std::span<const Transfer> parts, int64_t count,
                   ConvertProgress& progress, const std::function<void(std::span<const std::byte>)>& write);

}  // namespace hearth::convert
