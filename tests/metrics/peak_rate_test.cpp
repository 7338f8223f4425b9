// SPDX-License-Identifier: Apache-2.0
#include "metrics/peak_rate.h"

#include <gtest/gtest.h>

#include <vector>

namespace hearth::metrics {
namespace {

TEST(PeakRate, AStepBelowTheRateIsAShareOfItAndNothingIsTimed) {
  PeakRate peak(100, []() -> double { throw std::logic_error("timed"); });
  EXPECT_DOUBLE_EQ(peak.share(25), 0.25);
  EXPECT_DOUBLE_EQ(peak.share(100), 1);
  EXPECT_DOUBLE_EQ(peak.flops_per_s(), 100);
}

TEST(PeakRate, AStepAboveTheRateTimesTheProductsAgain) {
  int times = 0;
  PeakRate peak(100, [&times] { return ++times, 200.0; });
  EXPECT_DOUBLE_EQ(peak.share(121), 121.0 / 200) << "the machine was busy at the start, and is not now";
  EXPECT_DOUBLE_EQ(peak.share(180), 0.9);
  EXPECT_EQ(times, 1);
  EXPECT_DOUBLE_EQ(peak.flops_per_s(), 200);
}

TEST(PeakRate, ASlowerTimingDoesNotLowerTheRate) {
  PeakRate peak(100, [] { return 50.0; });
  EXPECT_DOUBLE_EQ(peak.share(110), 1);
  EXPECT_DOUBLE_EQ(peak.share(55), 0.5);
}

TEST(PeakRate, WithoutATimingTheFastestStepIsThePeak) {
  PeakRate peak(100);
  EXPECT_DOUBLE_EQ(peak.share(150), 1);
  EXPECT_DOUBLE_EQ(peak.share(75), 0.5);
  EXPECT_DOUBLE_EQ(peak.share(300), 1);
  EXPECT_DOUBLE_EQ(peak.share(150), 0.5);
}

TEST(PeakRate, NoShareIsAboveOneWhateverTheTimingsSay) {
  const std::vector<double> timings{1, 500, 3, 90, 1e9};
  size_t next = 0;
  PeakRate peak(10, [&] { return timings[next++ % timings.size()]; });
  for (const double rate : {1.0, 12.0, 7.0, 13.0, 400.0, 501.0, 499.0, 502.0, 2e9, 3e9, 1.0}) {
    const double share = peak.share(rate);
    EXPECT_GT(share, 0) << rate;
    EXPECT_LE(share, 1) << rate;
    EXPECT_GE(peak.flops_per_s(), rate);
  }
}

}  // namespace
}  // namespace hearth::metrics
