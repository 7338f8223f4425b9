#include "plan/precision.h"

namespace hearth::plan {

Precision precision(const config::RunConfig& config) {
  return config.training.dtype == "float64" ? DType::kFloat64 : DType::kFloat32;
}

}  // namespace hearth::plan
