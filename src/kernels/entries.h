// SPDX-License-Identifier: Apache-2.0
// The functions of the table, each in the .cu file of its name, with the table's types.
#pragma once

#include <type_traits>

#include "kernels/kernels.h"

namespace hearth::kernels {

template <class Member>
using Entry = std::remove_pointer_t<Member>;

Entry<decltype(Table::error_text)> error_text;
Entry<decltype(Table::count_devices)> count_devices;
Entry<decltype(Table::describe_device)> describe_device;
Entry<decltype(Table::embedding_forward)> embedding_forward;
Entry<decltype(Table::embedding_backward)> embedding_backward;
Entry<decltype(Table::norm_forward)> norm_forward;
Entry<decltype(Table::norm_backward)> norm_backward;
Entry<decltype(Table::norm_backward_scratch)> norm_backward_scratch;
Entry<decltype(Table::norm_part_dots)> norm_part_dots;
Entry<decltype(Table::norm_part_forward)> norm_part_forward;
Entry<decltype(Table::norm_part_backward)> norm_part_backward;
Entry<decltype(Table::attention_forward)> attention_forward;
Entry<decltype(Table::attention_backward)> attention_backward;
Entry<decltype(Table::attention_scratch)> attention_scratch;
Entry<decltype(Table::add_bias)> add_bias;
Entry<decltype(Table::add_rows)> add_rows;
Entry<decltype(Table::add_rows_scratch)> add_rows_scratch;
Entry<decltype(Table::rope)> rope;
Entry<decltype(Table::swiglu_forward)> swiglu_forward;
Entry<decltype(Table::swiglu_backward)> swiglu_backward;
Entry<decltype(Table::cross_entropy)> cross_entropy;
Entry<decltype(Table::cross_entropy_statistics)> cross_entropy_statistics;
Entry<decltype(Table::vocabulary_parallel_cross_entropy)> vocabulary_parallel_cross_entropy;
Entry<decltype(Table::sum_of_squares)> sum_of_squares;
Entry<decltype(Table::sum_of_squares_scratch)> sum_of_squares_scratch;
Entry<decltype(Table::adamw)> adamw;
Entry<decltype(Table::total_losses)> total_losses;
Entry<decltype(Table::decide)> decide;
Entry<decltype(Table::decode_attention)> decode_attention;
Entry<decltype(Table::float8_rows)> float8_rows;
Entry<decltype(Table::float8_columns)> float8_columns;

}  // namespace hearth::kernels
