// Logits, loss and all gradients against transformers.LlamaForCausalLM with the weights carried over (float32).
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "local_weights.h"
#include "model/transformer.h"
#include "model/unit_views.h"
#include "support/environment.h"

namespace hearth::model {
namespace {

void write_bytes(const Path& path, const at::Tensor& tensor) {
  const at::Tensor whole = tensor.contiguous();
  File file = File::create(path);
  file.write(ops::bytes_of(whole));
  file.close();
}

at::Tensor read_floats(const Path& path, at::IntArrayRef shape) {
  std::string bytes = read_file(path);
  return at::from_blob(bytes.data(), shape, at::kFloat).clone();
}

double relative(const at::Tensor& ours, const at::Tensor& theirs) {
  return (ours - theirs).norm().item<double>() / theirs.norm().item<double>();
}

void equals_transformers(int64_t H, int64_t G, bool tied) {
  HEARTH_NEEDS_ORACLE();
  constexpr int64_t B = 2, S = 29;
  config::Model m;
  m.dim = 64, m.n_layers = 2, m.n_heads = H, m.n_kv_heads = G, m.hidden_dim = 96, m.enable_weight_tying = tied;
  const plan::ModelShape shape = plan::model_shape(m, 131);
  const plan::ParameterPlan plan = plan::parameter_plan(shape);
  test::LocalWeights weights(plan, DType::kFloat32, 17);
  const test::ScratchFolder folder;
  for (const plan::Parameter& p : plan.parameters) {
    // Norm weights other than one, so that a missing or doubled factor shows.
    at::Tensor w = parameter_view(weights.gather(p.unit), p);
    if (p.init == plan::Init::kOnes) w.copy_(at::linspace(0.5, 1.5, p.numel));
    write_bytes(folder / (p.name + ".bin"), w);
  }
  at::manual_seed(23);
  const at::Tensor tokens = at::randint(shape.V, {B * S}, at::kInt);
  at::Tensor labels = at::randint(shape.V, {B * S}, at::kInt);
  labels.narrow(0, 5, 7).fill_(-100);
  write_bytes(folder / "tokens.bin", tokens);
  write_bytes(folder / "labels.bin", labels);
  write_file_atomic(
      folder / "case.json",
      fmt::format(R"({{"D": {}, "L": {}, "H": {}, "G": {}, "F": {}, "V": {}, "B": {}, "S": {}, )"
                  R"("norm_eps": {}, "rope_theta": {}, "tied": {}}})",
                  shape.D, shape.L, shape.H, shape.G, shape.F, shape.V, B, S, shape.norm_eps, shape.rope_theta, tied));
  const auto result = test::run_command(test::oracle_python() + " " + test::source_path("tests/model/llama_oracle.py") +
                                        " " + folder.path().string());
  ASSERT_EQ(result.exit_code, 0) << result.output;

  const double counted = labels.ne(-100).sum().item<double>();
  Transformer model(shape, plan, B, S, DType::kFloat32, /*loss_chunk_tokens=*/16, /*training=*/true);
  const double loss = model.loss_and_gradient(weights, {tokens, labels, {}}, 1 / counted) / counted;
  EXPECT_NEAR(loss, read_floats(folder / "loss.bin", {1}).item<float>(), 1e-5);
  EXPECT_LT(relative(model.logits(weights), read_floats(folder / "logits.bin", {B * S, shape.V})), 1e-5);
  for (const plan::Parameter& p : plan.parameters) {
    const at::Tensor theirs = read_floats(folder / (p.name + ".grad.bin"), p.shape);
    EXPECT_LT(relative(parameter_view(weights.gradient(p.unit), p), theirs), 1e-5) << p.name;
  }
}

TEST(LlamaForCausalLM, EqualsOursWithAsManyKeyHeadsAsQueryHeads) { equals_transformers(4, 4, false); }
TEST(LlamaForCausalLM, EqualsOursWithGroupedQueries) { equals_transformers(8, 2, false); }
TEST(LlamaForCausalLM, EqualsOursWithTiedWeights) { equals_transformers(4, 1, true); }

}  // namespace
}  // namespace hearth::model
