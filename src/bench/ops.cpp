// SPDX-License-Identifier: Apache-2.0
#include "bench/ops.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>
#include <vector>

#include "base/quantity.h"
#include "base/random.h"
#include "metrics/throughput.h"
#include "models/flops.h"
#include "ops/activation.h"
#include "ops/adamw.h"
#include "ops/attention.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/float8.h"
#include "ops/gpu/gpu.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/rope.h"
#include "ops/runtime.h"
#include "ops/step_decision.h"
#include "ops/tensor.h"
#include "plan/run_shape.h"
#include "run/compute_device.h"

namespace hearth::bench {
namespace {

std::string with_dtype(const std::string& name, DType dtype) {
  return dtype == DType::kFloat32 ? name : name + ", bfloat16";
}

// The tensors that a kernel must read and write. A tensor changed in place, or added to, is in both lists.
struct Traffic {
  std::vector<at::Tensor> read, written;

  double bytes() const {
    double sum = 0;
    for (const auto* tensors : {&read, &written})
      for (const at::Tensor& tensor : *tensors)
        if (tensor.defined()) sum += static_cast<double>(tensor.nbytes());
    return sum;
  }
};

// A kernel on a GPU finds nothing in its cache: this much is written before each call.
constexpr int64_t kColdBytes = 256 << 20;

class Bench {
 public:
  Bench(const config::BenchStepOptions& options, at::Device device) : device(device), options_(options) {
    if (!device.is_cpu()) cold_ = empty({kColdBytes / 4});
  }

  at::Tensor empty(at::IntArrayRef shape, DType dtype = DType::kFloat32) const {
    return ops::empty(shape, dtype, device);
  }
  at::Tensor zeros(at::IntArrayRef shape, DType dtype = DType::kFloat32) const {
    return ops::zeros(shape, dtype, device);
  }
  // Values of about the same magnitude as in a training: kPattern different ones, again and again.
  at::Tensor random(at::IntArrayRef shape, DType dtype = DType::kFloat32) const {
    constexpr int64_t kPattern = 1 << 16;
    std::vector<float> values(kPattern);
    const RandomKey key = random_key(0, "bench ops");
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(random_u64(key, i) % 2001) / 1000 - 1;
    const at::Tensor pattern = ops::from_float32(values, device), result = empty(shape, dtype);
    const int64_t N = result.numel(), whole = N / kPattern;
    const at::Tensor flat = result.view({N});
    ops::copy_(flat.narrow(0, 0, whole * kPattern).view({whole, kPattern}), pattern.expand({whole, kPattern}));
    ops::copy_(flat.narrow(0, whole * kPattern, N % kPattern), pattern.narrow(0, 0, N % kPattern));
    return result;
  }

  template <typename Body>
  double median_s(const Body& body) const {
    std::vector<double> times;
    for (int64_t i = 0; i < options_.warmup + options_.steps; ++i) {
      const double this_s = seconds(body);
      if (i >= options_.warmup) times.push_back(this_s);
    }
    return median(std::move(times));
  }

  template <typename Body>
  void memory(std::string name, const Traffic& traffic, const Body& body) {
    kernels.push_back({std::move(name), median_s(body), traffic.bytes(), 0});
  }
  template <typename Body>
  void arithmetic(std::string name, double flops, const Body& body) {
    kernels.push_back({std::move(name), median_s(body), 0, flops});
  }

  // Times our kernel and ATen's in alternation. Adds two lines; the first has the median of the ratio within a round.
  // On a GPU they are the same, and there is one line.
  template <typename Ours, typename Theirs>
  void beside_aten(const std::string& name, double flops, const Ours& ours, const Theirs& theirs) {
    if (!device.is_cpu()) return arithmetic(name, flops, ours);
    std::vector<double> our_s, their_s, ratios;
    for (int64_t i = 0; i < options_.warmup + options_.steps; ++i) {
      const double first_s = i % 2 == 0 ? seconds(ours) : seconds(theirs);
      const double second_s = i % 2 == 0 ? seconds(theirs) : seconds(ours);
      const double this_s = i % 2 == 0 ? first_s : second_s, that_s = i % 2 == 0 ? second_s : first_s;
      if (i < options_.warmup) continue;
      our_s.push_back(this_s);
      their_s.push_back(that_s);
      ratios.push_back(that_s / this_s);
    }
    kernels.push_back({name, median(our_s), 0, flops, median(ratios)});
    kernels.push_back({name + ", ATen", median(their_s), 0, flops});
  }

  // On a GPU the type that it trains in, with few exceptions.
  std::vector<DType> dtypes() const {
    return device.is_cpu() ? std::vector{DType::kFloat32, DType::kBFloat16} : std::vector{DType::kBFloat16};
  }

  const at::Device device;
  std::vector<KernelTiming> kernels;

 private:
  template <typename Body>
  double seconds(const Body& body) const {
    if (!device.is_cpu()) {
      ops::zero_(cold_);
      return ops::gpu_seconds(device, body);
    }
    const double start_s = metrics::monotonic_seconds();
    body();
    return metrics::monotonic_seconds() - start_s;
  }

  static double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
  }

  const config::BenchStepOptions& options_;
  at::Tensor cold_;
};

at::Tensor random_tokens(const Bench& bench, int64_t T, int64_t V) {
  std::vector<int32_t> tokens(static_cast<size_t>(T));
  const RandomKey key = random_key(1, "bench ops");
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(random_u64(key, i) % static_cast<uint64_t>(V));
  return ops::from_int32(tokens, bench.device);
}

void time_rows(Bench& bench, const plan::ModelShape& s, int64_t B, int64_t S, DType dtype) {
  const auto named = [&](const char* kernel, const char* part = "") { return with_dtype(kernel, dtype) + part; };
  const int64_t T = B * S, N = s.H + s.G;
  const at::Tensor x = bench.random({T, s.D}, dtype), y = bench.random({T, s.D}, dtype),
                   h = bench.empty({T, s.D}, dtype);
  const bool weighted = plan::has_weight(s.norm.type);
  const at::Tensor weight = weighted ? bench.random({s.D}, dtype) : at::Tensor();
  const at::Tensor dweight = weighted ? bench.zeros({s.D}) : at::Tensor();
  const at::Tensor statistics = bench.empty({plan::is_centred(s.norm.type) ? 2 : 1, T});
  bench.memory(named("norm"), {{x, weight}, {h, statistics}},
               [&] { ops::norm_forward(s.norm, h, statistics, x, weight); });
  bench.memory(named("add and norm"), {{x, h, weight}, {h, y, statistics}},
               [&] { ops::add_norm_forward(s.norm, h, y, statistics, x, h, weight); });
  bench.memory(named("norm", ", backward"), {{h, y, x, statistics, weight, dweight}, {h, dweight}},
               [&] { ops::norm_backward(s.norm, h, dweight, y, x, statistics, weight, /*accumulate=*/true); });

  const at::Tensor heads = bench.random({B, S, N, s.K}, dtype),
                   table = ops::rope_tables(S, S, s.K, s.rope, dtype, bench.device).heads_SR;
  bench.memory(named("rope"), {{heads, table}, {heads}}, [&] { ops::rope_forward(heads, table, s.rope.halves); });

  const int64_t width = s.ffn_width();
  const at::Tensor gate_up = bench.random({T, width}, dtype), dgate_up = bench.empty({T, width}, dtype);
  const at::Tensor gated = bench.empty({T, s.F()}, dtype);
  const char* name = s.gated_ffn && s.activation == plan::Activation::kSilu ? "swiglu" : "activation";
  bench.memory(named(name), {{gate_up}, {gated}}, [&] { ops::activation_forward(s.activation, gated, gate_up); });
  bench.memory(named(name, ", backward"), {{gated, gate_up}, {dgate_up}},
               [&] { ops::activation_backward(s.activation, dgate_up, gated, gate_up); });

  // A batch uses T rows of the table, so `rows` counts the traffic of their gradient, which is float32.
  const at::Tensor tokens = random_tokens(bench, T, s.V), table_VD = bench.random({s.V, s.D}, dtype);
  const at::Tensor dtable_VD = bench.zeros({s.V, s.D}), rows = bench.empty({T, s.D});
  bench.memory(named("embedding"), {{tokens, h}, {h}}, [&] { ops::embedding_forward(h, table_VD, tokens); });
  bench.memory(named("embedding", ", backward"), {{tokens, h, rows}, {rows}},
               [&] { ops::embedding_backward(dtable_VD, h, tokens); });
}

void time_loss(Bench& bench, const plan::ModelShape& s, int64_t chunk_tokens, DType dtype) {
  const at::Tensor logits = bench.random({chunk_tokens, s.V}, dtype), labels = random_tokens(bench, chunk_tokens, s.V);
  const at::Tensor sums = bench.zeros({2}, DType::kFloat64),
                   scale = ops::from_float64(std::vector<double>{1e-4}, bench.device);
  bench.memory(with_dtype("cross-entropy", dtype), {{logits, labels}, {}},
               [&] { ops::cross_entropy_forward(sums, logits, labels); });
  bench.memory(with_dtype("cross-entropy with gradient", dtype), {{logits, labels}, {logits}},
               [&] { ops::cross_entropy_forward_backward(sums, logits, labels, scale); });
}

// Weights and moments in every pair of types that training.dtype and optimizer.moments_dtype allow.
void time_update(Bench& bench, int64_t num_parameters) {
  const int64_t N = std::min<int64_t>(num_parameters, 1 << 25);
  const at::Tensor gradient = bench.random({N}), sum = bench.zeros({1}, DType::kFloat64);
  bench.memory("sum of squares", {{gradient}, {}}, [&] { ops::add_sum_of_squares(sum, gradient); });
  const auto update = [&](const std::string& name, DType weights, DType moments, bool stochastic = false,
                          std::optional<DType> copy_type = std::nullopt) {
    const at::Tensor parameter = bench.random({N}, weights);
    const at::Tensor exp_avg = bench.zeros({N}, moments), exp_avg_sq = bench.zeros({N}, moments);
    const at::Tensor decision = ops::decided(1, 1, bench.device);
    std::optional<ops::StochasticRounding> rounding;
    if (stochastic) rounding = {random_key(2, "bench ops")};
    const at::Tensor copy = copy_type ? bench.empty({N}, *copy_type) : at::Tensor();
    bench.memory(name, {{parameter, gradient, exp_avg, exp_avg_sq}, {parameter, exp_avg, exp_avg_sq, copy}},
                 [&] { ops::adamw(parameter, gradient, exp_avg, exp_avg_sq, {.lr = 1e-4}, decision, rounding, copy); });
  };
  using enum DType;
  update("adamw", kFloat32, kFloat32);
  update("adamw with a bfloat16 copy", kFloat32, kFloat32, false, kBFloat16);
  update("adamw, bfloat16 moments", kFloat32, kBFloat16);
  update("adamw, bfloat16 weights", kBFloat16, kFloat32);
  update("adamw, bfloat16 weights, stochastic", kBFloat16, kFloat32, true);
  update("adamw, bfloat16 both", kBFloat16, kBFloat16);
  update("adamw, bfloat16 both, stochastic", kBFloat16, kBFloat16, true);
}

// Casts between the flat buffers of weights. Float32 masters are rounded for computation where the optimizer does not
// write the copy (ZeRO 3, Muon). Loading a checkpoint of
// bfloat16 weights widens them to masters.
void time_casts(Bench& bench, int64_t num_parameters) {
  const int64_t N = std::min<int64_t>(num_parameters, 1 << 25);
  const at::Tensor wide = bench.random({N}), narrow = bench.empty({N}, DType::kBFloat16);
  bench.memory("cast, float32 to bfloat16", {{wide}, {narrow}}, [&] { ops::copy_(narrow, wide); });
  bench.memory("cast, bfloat16 to float32", {{narrow}, {wide}}, [&] { ops::copy_(wide, narrow); });
}

// y = x w^T and its gradients, T rows. ATen's weight gradient has the type of its factors.
void time_linear(Bench& bench, const std::string& layer, int64_t T, int64_t N, int64_t K) {
  const double flops = 2 * static_cast<double>(T) * static_cast<double>(N * K);
  for (const DType dtype : bench.dtypes()) {
    const at::Tensor x = bench.random({T, K}, dtype), w = bench.random({N, K}, dtype), y = bench.random({T, N}, dtype);
    const at::Tensor dx = bench.empty({T, K}, dtype);
    const at::Tensor dw = bench.zeros({N, K}), their_dw = bench.zeros({N, K}, dtype);
    const std::string name = with_dtype(layer, dtype);
    bench.beside_aten(
        name, flops, [&] { ops::matmul(y, x, w); }, [&] { ops::aten::matmul(y, x, w); });
    bench.beside_aten(
        name + ", input gradient", flops, [&] { ops::matmul_input_gradient(dx, y, w, /*accumulate=*/false); },
        [&] { ops::aten::matmul_input_gradient(dx, y, w, /*accumulate=*/false); });
    bench.beside_aten(
        name + ", weight gradient", flops, [&] { ops::matmul_weight_gradient(dw, y, x, /*accumulate=*/true); },
        [&] { ops::aten::matmul_weight_gradient(their_dw, y, x, /*accumulate=*/true); });
  }
}

// Conversions to float8 are a part of each product, and stand alone before them.
void time_float8(Bench& bench, const std::string& layer, int64_t T, int64_t N, int64_t K) {
  if (bench.device.is_cpu() || !ops::open_gpu().has_float8()) return;
  const DType dtype = DType::kBFloat16;
  const double flops = 2 * static_cast<double>(T) * static_cast<double>(N * K);
  const at::Tensor x = bench.random({T, K}, dtype), w = bench.random({N, K}, dtype), y = bench.random({T, N}, dtype);
  const at::Tensor dx = bench.empty({T, K}, dtype), dw = bench.zeros({N, K});
  bench.arithmetic(layer + ", float8", flops, [&] { ops::matmul_float8(y, x, w); });
  bench.arithmetic(layer + ", float8, input gradient", flops, [&] { ops::matmul_input_gradient_float8(dx, y, w); });
  const auto convert = [&](const char* name, auto conversion) {
    const ops::Float8Operand result = conversion(x);
    bench.memory(layer + ", to float8 by " + name, {{x}, {result.values, result.scale}}, [&] { conversion(x); });
  };
  convert("rows", ops::float8_rows);
  convert("columns", ops::float8_columns);
  const ops::Float8Operands both = ops::float8_rows_and_columns(x);
  bench.memory(layer + ", to float8 by both", {{x}, {both.rows.values, both.columns.values}},
               [&] { ops::float8_rows_and_columns(x); });
  if (!ops::open_gpu().has_float8_sums()) return;
  bench.arithmetic(layer + ", float8, weight gradient", flops,
                   [&] { ops::matmul_weight_gradient_float8(dw, y, x, /*accumulate=*/true); });
}

void time_attention(Bench& bench, const plan::ModelShape& s, const models::Layer& layer, int64_t B, int64_t S) {
  const int64_t reach = s.reach(layer);
  const double flops = 4 * static_cast<double>(B * s.H * S * s.K) * models::visible_keys(S, s.causal, reach);
  for (const DType dtype : bench.dtypes()) {
    const at::Tensor qkv = bench.random({B, S, s.H + 2 * s.G, s.K}, dtype), dqkv = bench.empty(qkv.sizes(), dtype);
    const at::Tensor out = bench.empty({B, S, s.H, s.K}, dtype), dout = bench.random({B, S, s.H, s.K}, dtype);
    const at::Tensor lse = bench.empty({B, s.H, S});
    const auto part = [&](const at::Tensor& packed, int64_t first, int64_t n) { return packed.narrow(2, first, n); };
    const at::Tensor q = part(qkv, 0, s.H), k = part(qkv, s.H, s.G), v = part(qkv, s.H + s.G, s.G);
    const at::Tensor dq = part(dqkv, 0, s.H), dk = part(dqkv, s.H, s.G), dv = part(dqkv, s.H + s.G, s.G);
    const ops::AttentionMask mask{.causal = s.causal, .reach = reach};
    const std::string window = layer.window > 0 ? fmt::format("attention, window {}", layer.window) : "attention";
    const std::string name = with_dtype(window, dtype);
    bench.arithmetic(name, flops, [&] { ops::attention_forward(out, lse, q, k, v, mask); });
    bench.arithmetic(name + ", backward", 2.5 * flops,
                     [&] { ops::attention_backward(dq, dk, dv, dout, out, lse, q, k, v, mask); });
  }
}

void time_queries_keys_and_values(Bench& bench, const plan::ModelShape& s, int64_t T) {
  if (!s.has_latents()) return time_linear(bench, "qkv", T, (s.H + 2 * s.G) * s.K, s.D);
  time_linear(bench, "latents", T, s.q_lora_rank + s.kv_lora_rank + s.qk_rope_head_dim, s.D);
  time_linear(bench, "q", T, s.H * s.K, s.q_lora_rank > 0 ? s.q_lora_rank : s.D);
  time_linear(bench, "kv", T, s.H * (s.qk_nope_head_dim + s.v_head_dim), s.kv_lora_rank);
}

}  // namespace

OpsTiming time_ops(const config::BenchStepOptions& options) {
  const c10::InferenceMode no_gradients;
  const config::RunConfig& config = options.config;
  const plan::ModelShape s = plan::run_shape(config, {}).model;
  const int64_t B = config.training.local_batch_size, S = config.training.seq_len;
  Bench bench(options, run::open_compute_device(config));
  OpsTiming timing;
  timing.gemm_flops = ops::measure_gemm_flops(bench.device, bench.dtypes().front());
  const at::Tensor from = bench.random({1 << 25}), to = bench.empty({1 << 25});
  timing.copy_bytes_per_s = 2 * static_cast<double>(from.nbytes()) / bench.median_s([&] { ops::copy_(to, from); });
  const int64_t chunk_tokens =
      std::min(plan::loss_chunk(config.memory.loss_chunk_tokens, s, DType::kBFloat16, !bench.device.is_cpu()), B * S);
  const int64_t num_parameters = plan::parameter_plan(s).num_parameters;
  for (const DType dtype : bench.dtypes()) {
    time_rows(bench, s, B, S, dtype);
    time_loss(bench, s, chunk_tokens, dtype);
  }
  time_update(bench, num_parameters);
  time_casts(bench, num_parameters);
  time_queries_keys_and_values(bench, s, B * S);
  time_linear(bench, "w1 and w3", B * S, s.ffn_width(), s.D);
  time_linear(bench, "w2", B * S, s.D, s.F());
  time_float8(bench, "w1 and w3", B * S, s.ffn_width(), s.D);
  time_float8(bench, "w2", B * S, s.D, s.F());
  time_linear(bench, "logits", chunk_tokens, s.V, s.D);
  std::set<int64_t> windows;
  for (const models::Layer& layer : s.layers)
    if (windows.insert(layer.window).second) time_attention(bench, s, layer, B, S);
  timing.kernels = std::move(bench.kernels);
  return timing;
}

std::string format_ops(const OpsTiming& t) {
  std::string text = fmt::format("copy         {:.1f} GB/s read and written\n", 1e-9 * t.copy_bytes_per_s);
  text += fmt::format("GEMM         {}/s\n\n", format_flops(t.gemm_flops));
  size_t width = 36;
  for (const KernelTiming& k : t.kernels) width = std::max(width, k.name.size());
  text += fmt::format("{:<{}}{:>10}{:>16}\n", "kernel", width, "ms", "rate");
  for (const KernelTiming& k : t.kernels) {
    const double rate = (k.flops > 0 ? k.flops : k.bytes) / k.median_s;
    text += fmt::format("{:<{}}{:>10.3f}{:>9.1f} {}  {:>3.0f} % of {}", k.name, width, 1e3 * k.median_s, 1e-9 * rate,
                        k.flops > 0 ? "GFLOP/s" : "GB/s   ",
                        100 * rate / (k.flops > 0 ? t.gemm_flops : t.copy_bytes_per_s), k.flops > 0 ? "GEMM" : "copy");
    text += k.times_aten > 0 ? fmt::format("  {:.2f}x ATen\n", k.times_aten) : "\n";
  }
  return text;
}

std::string ops_json(const OpsTiming& t) {
  std::string kernels;
  for (const KernelTiming& k : t.kernels) {
    kernels += fmt::format("{}{{\"name\": \"{}\", \"median_s\": {}, \"bytes\": {}, \"flops\": {}, \"times_aten\": {}}}",
                           kernels.empty() ? "" : ", ", k.name, k.median_s, k.bytes, k.flops, k.times_aten);
  }
  return fmt::format("{{\"copy_bytes_per_s\": {}, \"gemm_flops\": {}, \"kernels\": [{}]}}\n", t.copy_bytes_per_s,
                     t.gemm_flops, kernels);
}

ExitCode run_bench_ops(const config::BenchStepOptions& options) {
  const OpsTiming timing = time_ops(options);
  fmt::print("{}", options.json ? ops_json(timing) : format_ops(timing));
  std::fflush(stdout);
  return ExitCode::kDone;
}

}  // namespace hearth::bench
