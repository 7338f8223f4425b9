#include "plan/precision.h"

namespace hearth::plan {

Precision precision(const config::RunConfig& config) {
  if (config.training.dtype == "float64") return DType::kFloat64;
  Precision p = DType::kFloat32;
  if (config.training.dtype == "bfloat16") p.masters = DType::kBFloat16;
  if (config.training.mixed_precision_param == "bfloat16") p.compute = DType::kBFloat16;
  if (config.optimizer.moments_dtype == "bfloat16") p.moments = DType::kBFloat16;
  return p;
}

}  // namespace hearth::plan
