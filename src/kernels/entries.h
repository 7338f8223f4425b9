// SPDX-License-Identifier: Apache-2.0
// The functions of the table, each in the .cu file of its name, with the table's types.
#pragma once

#include <type_traits>

#include "kernels/kernels.h"

namespace hearth::kernels {

template <class Member>
using FunctionOf = std::remove_pointer_t<Member>;

FunctionOf<decltype(Table::error_text)> error_text;
FunctionOf<decltype(Table::count_devices)> count_devices;
FunctionOf<decltype(Table::describe_device)> describe_device;
FunctionOf<decltype(Table::embedding_forward)> embedding_forward;
FunctionOf<decltype(Table::embedding_backward)> embedding_backward;
FunctionOf<decltype(Table::norm_forward)> norm_forward;
FunctionOf<decltype(Table::norm_backward)> norm_backward;
FunctionOf<decltype(Table::norm_backward_scratch)> norm_backward_scratch;
FunctionOf<decltype(Table::norm_part_dots)> norm_part_dots;
FunctionOf<decltype(Table::norm_part_forward)> norm_part_forward;
FunctionOf<decltype(Table::norm_part_backward)> norm_part_backward;
FunctionOf<decltype(Table::attention_forward)> attention_forward;
FunctionOf<decltype(Table::attention_backward)> attention_backward;
FunctionOf<decltype(Table::attention_scratch)> attention_scratch;
FunctionOf<decltype(Table::add_bias)> add_bias;
FunctionOf<decltype(Table::add_rows)> add_rows;
FunctionOf<decltype(Table::add_rows_scratch)> add_rows_scratch;
FunctionOf<decltype(Table::rope)> rope;
FunctionOf<decltype(Table::activation_forward)> activation_forward;
FunctionOf<decltype(Table::activation_backward)> activation_backward;
FunctionOf<decltype(Table::cross_entropy)> cross_entropy;
FunctionOf<decltype(Table::cross_entropy_statistics)> cross_entropy_statistics;
FunctionOf<decltype(Table::vocabulary_parallel_cross_entropy)> vocabulary_parallel_cross_entropy;
FunctionOf<decltype(Table::sum_of_squares)> sum_of_squares;
FunctionOf<decltype(Table::sum_of_squares_scratch)> sum_of_squares_scratch;
FunctionOf<decltype(Table::adamw)> adamw;
FunctionOf<decltype(Table::total_losses)> total_losses;
FunctionOf<decltype(Table::decide)> decide;
FunctionOf<decltype(Table::decode_attention)> decode_attention;
FunctionOf<decltype(Table::float8_rows)> float8_rows;
FunctionOf<decltype(Table::float8_columns)> float8_columns;
FunctionOf<decltype(Table::float8_rows_and_columns)> float8_rows_and_columns;

}  // namespace hearth::kernels
