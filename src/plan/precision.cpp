#include "plan/precision.h"

namespace hearth::plan {

Precision precision(const config::RunConfig& config) {
  if (config.training.dtype == DType::kFloat64) return DType::kFloat64;
  Precision p = DType::kFloat32;
  p.masters = config.training.dtype;
  p.compute = config.training.mixed_precision_param;
  p.moments = config.optimizer.moments_dtype;
  return p;
}

}  // namespace hearth::plan
