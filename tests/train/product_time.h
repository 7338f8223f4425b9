// A test may let the products of a step take time. recorded_ops.h, which sees them all, is in another source.
#pragma once

#include <cstdint>
#include <functional>

namespace hearth::train {

// Called before a product or attention, in its thread, with its FLOPs. Empty: they take no time.
inline std::function<void(double flops)> spend_flops;

}  // namespace hearth::train
