// SPDX-License-Identifier: Apache-2.0
// Every operation again as plain loops, for float64 and as the reference in tests of the vector kernels. Sums are in
// double for any T. One thread, not fast. Meanings and shapes are in the operation's header.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "ops/strided.h"
#include "plan/parameters.h"

namespace hearth::ops::reference {

template <class T>
void add(HeadRows<T> h, HeadRows<const T> x, HeadRows<const T> r) {
  for (int64_t t = 0; t < h.rows; ++t) {
    for (int64_t d = 0; d < h.cols; ++d) h.row(t)[d] = x.row(t)[d] + r.row(t)[d];
  }
}

template <class T>
double norm_factor(const plan::Norm& norm, const T* weight, int64_t d) {
  return weight == nullptr ? 1 : double(weight[d]) + (plan::adds_one(norm.type) ? 1 : 0);
}

// Statistics of a row in A: `size` as in ops/norm.h, `mean` or null; `weight` null: 1.
template <class T, class A>
void norm_forward(const plan::Norm& norm, HeadRows<T> y, A* size, A* mean, HeadRows<const T> x, const T* weight) {
  for (int64_t t = 0; t < x.rows; ++t) {
    double m = 0, squares = 0;
    if (mean != nullptr) {
      for (int64_t d = 0; d < x.cols; ++d) m += double(x.row(t)[d]);
      m /= double(x.cols);
      mean[t] = A(m);
    }
    for (int64_t d = 0; d < x.cols; ++d) squares += (double(x.row(t)[d]) - m) * (double(x.row(t)[d]) - m);
    squares /= double(x.cols);
    const bool eps_outside = norm.type == plan::NormType::kRmsNormNeox;
    const double r = 1 / (eps_outside ? std::sqrt(squares) + norm.eps : std::sqrt(squares + norm.eps));
    size[t] = A(eps_outside ? std::sqrt(squares) : r);
    for (int64_t d = 0; d < x.cols; ++d) {
      y.row(t)[d] = T((double(x.row(t)[d]) - m) * r * norm_factor(norm, weight, d));
    }
  }
}

// With n = (x - m) r and g = w dy:  dweight = sum_t dy n,  dx = r (g - mean(g) - c n mean(g n)), with mean(g) only for
// norms that subtract m. dr/dx is -r^3 x / D, hence c = 1; for rmsnorm_neox it is -r^2 x / (D rms), hence c = 1 / (r
// rms).
template <class T, class A>
void norm_backward(const plan::Norm& norm, HeadRows<T> dx, A* dweight, HeadRows<const T> dy, HeadRows<const T> x,
                   const A* size, const A* mean, const T* weight, bool accumulate) {
  std::vector<double> dw(static_cast<size_t>(x.cols));
  const bool eps_outside = norm.type == plan::NormType::kRmsNormNeox;
  for (int64_t t = 0; t < x.rows; ++t) {
    const double m = mean == nullptr ? 0 : double(mean[t]);
    const double r = eps_outside ? 1 / (double(size[t]) + norm.eps) : double(size[t]);
    double dot = 0, total = 0;
    for (int64_t d = 0; d < x.cols; ++d) {
      const double n = (double(x.row(t)[d]) - m) * r, dyd = double(dy.row(t)[d]);
      const double g = dyd * norm_factor(norm, weight, d);
      dw[static_cast<size_t>(d)] += dyd * n;
      dot += g * n;
      total += g;
    }
    // The size of a row of zeros has no derivative: the gradient of |x| is 0 there, as in PyTorch.
    if (eps_outside) dot = double(size[t]) > 0 ? dot / (r * double(size[t])) : 0;
    dot /= double(x.cols);
    total = mean == nullptr ? 0 : total / double(x.cols);
    for (int64_t d = 0; d < x.cols; ++d) {
      const double n = (double(x.row(t)[d]) - m) * r;
      const double g = double(dy.row(t)[d]) * norm_factor(norm, weight, d);
      dx.row(t)[d] = T(r * (g - total - n * dot) + (accumulate ? double(dx.row(t)[d]) : 0));
    }
  }
  if (dweight == nullptr) return;
  for (int64_t d = 0; d < x.cols; ++d) dweight[d] = A(double(dweight[d]) + dw[static_cast<size_t>(d)]);
}

template <class T>
void add_bias(Matrix<T> y, const T* bias) {
  for (int64_t t = 0; t < y.rows; ++t) {
    for (int64_t n = 0; n < y.cols; ++n) y.row(t)[n] = T(double(y.row(t)[n]) + double(bias[n]));
  }
}

// A sum in A.
template <class T, class A>
void bias_gradient(A* dbias, Matrix<const T> dy) {
  for (int64_t n = 0; n < dy.cols; ++n) {
    double sum = double(dbias[n]);
    for (int64_t t = 0; t < dy.rows; ++t) sum += double(dy.row(t)[n]);
    dbias[n] = A(sum);
  }
}

// direction +1 rotates forward, -1 back. A table row: (cos, sin) pairs; with halves all cosines, then all sines.
// position(b * S + s) is the table's row for position s of sequence b.
template <class T, class Position>
void rope(HeadTensor<T> x, Matrix<const T> table, bool halves, const Position& position, double direction) {
  const int64_t half = x.K / 2;
  for (int64_t b = 0; b < x.B; ++b) {
    for (int64_t s = 0; s < x.S; ++s) {
      const T* rotation = table.row(position(b * x.S + s));
      for (int64_t n = 0; n < x.N; ++n) {
        T* head = x.at(b, s, n);
        for (int64_t i = 0; i < half; ++i) {
          const int64_t k = halves ? i : 2 * i, partner = halves ? half + i : 2 * i + 1;
          const double c = double(rotation[k]), z = direction * double(rotation[partner]);
          const double real = double(head[k]), imaginary = double(head[partner]);
          head[k] = T(real * c - imaginary * z);
          head[partner] = T(imaginary * c + real * z);
        }
      }
    }
  }
}

template <class T>
double dot(const T* a, const T* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double(a[i]) * double(b[i]);
  return sum;
}

// visible [B, S]: the keys that each query sees. lse [B, N, S] or null. given_scale 0: 1 / sqrt(K).
template <class T>
void attention_forward(HeadTensor<T> out, T* lse, HeadTensor<const T> q, HeadTensor<const T> k, HeadTensor<const T> v,
                       const VisibleKeys* visible, double given_scale = 0) {
  const double scale = given_scale > 0 ? given_scale : 1 / std::sqrt(double(q.K));
  const int64_t group = q.N / k.N;
  std::vector<double> p(static_cast<size_t>(k.S)), sum(static_cast<size_t>(q.K));
  for (int64_t b = 0; b < q.B; ++b) {
    for (int64_t h = 0; h < q.N; ++h) {
      for (int64_t i = 0; i < q.S; ++i) {
        const auto [begin, end] = visible[b * q.S + i];
        double largest = -std::numeric_limits<double>::infinity(), denominator = 0;
        for (int64_t j = begin; j < end; ++j) {
          p[static_cast<size_t>(j)] = scale * dot(q.at(b, i, h), k.at(b, j, h / group), q.K);
          largest = std::max(largest, p[static_cast<size_t>(j)]);
        }
        std::fill(sum.begin(), sum.end(), 0.0);
        for (int64_t j = begin; j < end; ++j) {
          const double e = std::exp(p[static_cast<size_t>(j)] - largest);
          denominator += e;
          for (int64_t d = 0; d < q.K; ++d) sum[static_cast<size_t>(d)] += e * double(v.at(b, j, h / group)[d]);
        }
        for (int64_t d = 0; d < q.K; ++d) out.at(b, i, h)[d] = T(sum[static_cast<size_t>(d)] / denominator);
        if (lse != nullptr) lse[(b * q.N + h) * q.S + i] = T(largest + std::log(denominator));
      }
    }
  }
}

// dq, dk, dv must be zero on entry. ds = p * (dout v^T - rowsum(dout * out)): FlashAttention-2, arXiv 2307.08691.
template <class T>
void attention_backward(HeadTensor<T> dq, HeadTensor<T> dk, HeadTensor<T> dv, HeadTensor<const T> dout,
                        HeadTensor<const T> out, const T* lse, HeadTensor<const T> q, HeadTensor<const T> k,
                        HeadTensor<const T> v, const VisibleKeys* visible, double given_scale = 0) {
  const double scale = given_scale > 0 ? given_scale : 1 / std::sqrt(double(q.K));
  const int64_t group = q.N / k.N;
  for (int64_t b = 0; b < q.B; ++b) {
    for (int64_t h = 0; h < q.N; ++h) {
      const int64_t g = h / group;
      for (int64_t i = 0; i < q.S; ++i) {
        const double delta = dot(dout.at(b, i, h), out.at(b, i, h), q.K);
        for (int64_t j = visible[b * q.S + i].begin; j < visible[b * q.S + i].end; ++j) {
          const double s = scale * dot(q.at(b, i, h), k.at(b, j, g), q.K);
          const double p = std::exp(s - double(lse[(b * q.N + h) * q.S + i]));
          const double ds = scale * p * (dot(dout.at(b, i, h), v.at(b, j, g), q.K) - delta);
          for (int64_t d = 0; d < q.K; ++d) {
            dq.at(b, i, h)[d] += T(ds * double(k.at(b, j, g)[d]));
            dk.at(b, j, g)[d] += T(ds * double(q.at(b, i, h)[d]));
            dv.at(b, j, g)[d] += T(p * double(dout.at(b, i, h)[d]));
          }
        }
      }
    }
  }
}

inline constexpr double kClampLimit = 7;  // of clamped_swiglu

// f(g) = g gate, and f'(g); ops/activation.h has the formulas.
struct Activated {
  double gate, slope;
};
inline Activated activated(plan::Activation function, double g) {
  constexpr double kPi = 3.14159265358979323846;
  switch (function) {
    case plan::Activation::kSilu: {
      const double s = 1 / (1 + std::exp(-g));
      return {s, s + g * s * (1 - s)};
    }
    case plan::Activation::kGelu: {
      const double phi = (1 + std::erf(g / std::sqrt(2.0))) / 2;
      return {phi, phi + g * std::exp(-g * g / 2) / std::sqrt(2 * kPi)};
    }
    case plan::Activation::kGeluTanh: {
      const double c = std::sqrt(2 / kPi), t = std::tanh(c * (g + 0.044715 * g * g * g));
      return {(1 + t) / 2, (1 + t) / 2 + g * (1 - t * t) / 2 * c * (1 + 3 * 0.044715 * g * g)};
    }
    case plan::Activation::kRelu2:
      break;
    case plan::Activation::kClampedSwiglu: {
      const double c = g > kClampLimit ? kClampLimit : g, s = 1 / (1 + std::exp(-1.702 * c));
      return {g > kClampLimit ? c / g * s : s, g > kClampLimit ? 0 : s + 1.702 * c * s * (1 - s)};
    }
  }
  const double positive = g <= 0 ? 0 : g;  // NaN stays NaN
  return {positive, 2 * positive};
}

// What u of a gated activation multiplies by, and its derivative.
struct UpFactor {
  double value, slope;
};
inline UpFactor up_factor(plan::Activation function, double u) {
  if (function != plan::Activation::kClampedSwiglu) return {u, 1};
  if (std::abs(u) > kClampLimit) return {std::copysign(kClampLimit, u) + 1, 0};
  return {u + 1, 1};
}

// x [T, F], or [T, 2F] with a gate.
template <class T>
void activation_forward(plan::Activation function, Matrix<T> a, Matrix<const T> x) {
  const bool gated = x.cols > a.cols;
  for (int64_t t = 0; t < a.rows; ++t) {
    for (int64_t f = 0; f < a.cols; ++f) {
      const double g = double(x.row(t)[f]), u = gated ? up_factor(function, double(x.row(t)[a.cols + f])).value : 1;
      a.row(t)[f] = T(g * activated(function, g).gate * u);  // as backward recomputes it
    }
  }
}

// a.data may be null.
template <class T>
void activation_backward(plan::Activation function, Matrix<T> dx, Matrix<const T> da, Matrix<const T> x, Matrix<T> a) {
  const int64_t F = da.cols;
  const bool gated = x.cols > F;
  for (int64_t t = 0; t < da.rows; ++t) {
    for (int64_t f = 0; f < F; ++f) {
      const double g = double(x.row(t)[f]), d = double(da.row(t)[f]);
      const UpFactor up = gated ? up_factor(function, double(x.row(t)[F + f])) : UpFactor{1, 0};
      const auto [gate, slope] = activated(function, g);
      dx.row(t)[f] = T(d * up.value * slope);
      if (gated) dx.row(t)[F + f] = T(d * g * gate * up.slope);
      if (a.data != nullptr) a.row(t)[f] = T(g * gate * up.value);
    }
  }
}

// z = log sum exp(logits) of one row; with `gradient`, overwrites it with factor * ((1 + 2 z_factor z) softmax -
// onehot).
template <class T>
double cross_entropy_row(T* logits, int64_t V, int64_t label, double factor, double z_factor, bool gradient) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t v = 0; v < V; ++v) largest = std::max(largest, double(logits[v]));
  for (int64_t v = 0; v < V; ++v) sum += std::exp(double(logits[v]) - largest);
  const double z = largest + std::log(sum);
  if (gradient) {
    for (int64_t v = 0; v < V; ++v) {
      const double softmax = std::exp(double(logits[v]) - largest) / sum;
      logits[v] = T(factor * ((1 + 2 * z_factor * z) * softmax - (v == label ? 1 : 0)));
    }
  }
  return z;
}

struct AdamWFactors {
  double decay_before;  // 1 - lr * decay, or 1
  double decay_after;   // lr * decay with AdamForm::kTransformers, or 0
  double l2, beta1, beta2, eps;
  double step_size;         // of m / denominator
  double correction2_sqrt;  // divides sqrt(v) before eps is added
  double gradient_scale;
};

// All in T, as in torch.
template <class T>
void adamw(T* parameter, const T* gradient, T* exp_avg, T* exp_avg_sq, int64_t n, const AdamWFactors& f) {
  for (int64_t i = 0; i < n; ++i) {
    const T g = gradient[i] * T(f.gradient_scale) + T(f.l2) * parameter[i];
    T p = parameter[i] * T(f.decay_before);
    exp_avg[i] += T(1 - f.beta1) * (g - exp_avg[i]);
    exp_avg_sq[i] = exp_avg_sq[i] * T(f.beta2) + T(1 - f.beta2) * g * g;
    const T denominator = std::sqrt(exp_avg_sq[i]) / T(f.correction2_sqrt) + T(f.eps);
    p -= T(f.step_size) * exp_avg[i] / denominator;
    parameter[i] = p - T(f.decay_after) * p;
  }
}

struct MuonMomentumFactors {
  double gradient_scale, one_minus_momentum;
  bool nesterov;
};

template <class T>
void muon_momentum(T* update, T* momentum, const T* gradient, int64_t n, const MuonMomentumFactors& f) {
  for (int64_t i = 0; i < n; ++i) {
    const T g = gradient[i] * T(f.gradient_scale);
    momentum[i] += T(f.one_minus_momentum) * (g - momentum[i]);
    update[i] = momentum[i] + (f.nesterov ? T(f.one_minus_momentum) * (g - momentum[i]) : T(0));
  }
}

// y = a x + b y
template <class T>
void combine(T* y, const T* x, int64_t n, double a, double b) {
  for (int64_t i = 0; i < n; ++i) y[i] = T(a) * x[i] + T(b) * y[i];
}

}  // namespace hearth::ops::reference
